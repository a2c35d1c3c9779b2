"""Commands in memory, for benches of the unit that fetches them."""

from support.bench import always, get, put


class Host:
    """Serves a fetch unit's requests from an array of commands at ``base``; a background bench."""

    def __init__(self, dut, commands, base, willing=always):
        self.dut, self.base, self.willing = dut, base, willing
        self.memory = b"".join(command.encode() for command in commands)
        self.requests = []

    async def serve(self, ctx):
        dut, size = self.dut, self.dut.limits.data_width // 8
        while True:
            request = await get(ctx, dut.read.requests, willing=self.willing)
            self.requests.append((request.addr, request.beats))
            at = request.addr - self.base
            words = self.memory[at : at + request.beats * size]
            beats = [words[n : n + size] for n in range(0, len(words), size)]
            values = (int.from_bytes(beat, "little") for beat in beats)
            await put(ctx, dut.read.beats, values, willing=self.willing)


async def pulse(ctx, signal, value=1):
    ctx.set(signal, value)
    await ctx.tick()
    ctx.set(signal, 0)
