"""A serial line, bit by bit, by counting cycles."""


def bits_of(octet):
    return [0, *(octet >> n & 1 for n in range(8)), 1]


async def drive_bits(ctx, rx, bits, cycles):
    """``cycles``: of each bit."""
    for bit, length in zip(bits, cycles, strict=True):
        ctx.set(rx, bit)
        for _ in range(length):
            await ctx.tick()


async def drive_octets(ctx, rx, octets, divisor):
    for octet in octets:
        await drive_bits(ctx, rx, bits_of(octet), [divisor] * 10)


async def watch_levels(ctx, tx, levels):
    async for _, _, level in ctx.tick().sample(tx):
        levels.append(level)


def decoded_levels(levels, divisor):
    """Octets, every level of every bit looked at."""
    found, place = [], 0
    while True:
        try:
            place = levels.index(0, place)
        except ValueError:
            return found
        bits = [levels[place + n * divisor : place + (n + 1) * divisor] for n in range(10)]
        assert all(len(set(bit)) == 1 for bit in bits), "a bit changes in its middle"
        assert bits[9][0] == 1, "no stop bit"
        found.append(sum(bits[n + 1][0] << n for n in range(8)))
        place += 10 * divisor
