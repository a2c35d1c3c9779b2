"""Numbers of other kinds, against plain Python."""

from diastole_hw.vector.float.narrow import (
    bf16_of,
    byte_of,
    counts_as_zero,
    from_integer,
    from_label,
    not_finite,
    rounds_to_infinity,
)
from support.pipelines import Function, check_pipeline
from support.vector_streams import LABELS, SPECIALS, bits_of, float_of


def narrow():
    """All of them, side by side."""
    kinds = {
        "bf16": (16, lambda m, x: bf16_of(m, x, "a")),
        "u8": (8, lambda m, x: byte_of(m, x, "a")),
        "zero": (1, lambda m, x: counts_as_zero(x)),
        "odd": (1, lambda m, x: not_finite(x)),
        "grows": (1, lambda m, x: rounds_to_infinity(x)),
        "label": (32, lambda m, x: from_label(m, x, "label")),
        "byte": (32, lambda m, x: from_integer(m, x[:8], "byte")),
    }
    outputs = {name: bits for name, (bits, _) in kinds.items()}
    each = [function for _, function in kinds.values()]
    return Function({"number": 32}, outputs, lambda m, number: [f(m, number) for f in each])


def every_kind(rng):
    """Every sign and exponent, with fractions at the edges of what is rounded; special ones."""
    yield from SPECIALS
    for top in range(512):
        for _ in range(12):
            high, low = rng.choice((0, 127, rng.getrandbits(7))), rng.choice(LOW)
            yield top << 23 | high << 16 | (rng.getrandbits(16) if low is None else low)
    for half in range(1024):  # numbers that are half-way between bytes, and those beside them
        middle = bits_of(half / 2)
        yield from (middle, max(middle - 1, 0), middle + 1)


LOW = (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF, None)


def test_to_narrow_kinds(rng):
    cases = []
    for bits in every_kind(rng):
        number = float_of(bits)
        exponent, nan = bits >> 23 & 255, number != number
        byte = 0 if nan else round(min(max(number, 0.0), 255.0))
        whole, rest = divmod(bits, 2**16)
        half = whole + (rest > 2**15 or (rest == 2**15 and whole % 2))
        half = 0x7FC0 if nan else bits >> 31 << 15 if exponent == 0 else half
        want = {"zero": exponent == 0, "odd": exponent == 255, "u8": byte, "bf16": half}
        want |= {"grows": half & 0x7FFF == 0x7F80} if exponent != 255 else {}
        cases.append(({"number": bits}, want))
    check_pipeline(narrow(), cases, 0)


def test_from_integers(rng):
    labels = [*range(256), *LABELS, *(1 << k for k in range(32))]
    labels += [rng.getrandbits(rng.randrange(1, 33)) for _ in range(2000)]
    cases = []
    for label in labels:
        want = {"label": bits_of(label if label <= 2**24 else -1), "byte": bits_of(label % 256)}
        cases.append(({"number": label}, want))
    check_pipeline(narrow(), cases, 0)
