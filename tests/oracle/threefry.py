"""Threefry-2x32-20 and the draws of a tensor's elements, one at a time."""

MASK = 0xFFFFFFFF


def threefry2x32(key, counter):
    """Salmon et al., SC'11, written out round by round: 32-bit words, (k0, k1), (c0, c1)."""
    k = [key[0], key[1], 0x1BD11BDA ^ key[0] ^ key[1]]
    a, b = (counter[0] + k[0]) & MASK, (counter[1] + k[1]) & MASK
    for injection in range(1, 6):
        for rotation in ((13, 15, 26, 6), (17, 29, 16, 24))[(injection - 1) % 2]:
            a = (a + b) & MASK
            b = int(f"{b:032b}"[rotation:] + f"{b:032b}"[:rotation], 2) ^ a
        a = (a + k[injection % 3]) & MASK
        b = (b + k[(injection + 1) % 3] + injection) & MASK
    return a, b


def draw(*, seed, tag, step, index, bits, second=False):
    """The ``bits`` random bits of element ``index`` of a tensor: of the 16 that are the element's
    the most significant; for its second copy those that follow 8 others, where they are so few,
    and else the first ones under a tag of its own."""
    skipped = 0
    if second and bits <= 8:
        skipped = 8
    elif second:
        tag = (tag + 0x80000000) % 2**32
    low, high = threefry2x32((seed, tag), ((index // 4) & MASK, step))
    number = (low + (high << 32)) // 2 ** (16 * (index % 4)) % 2**16
    digits = f"{number:016b}"
    return int(digits[skipped : skipped + bits], 2)
