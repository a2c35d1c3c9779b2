"""The two scales of NVFP4's rule four-over-six: squares of errors in exact fractions."""

from fractions import Fraction

ELEMENTS = [Fraction(n, 2) for n in (0, 1, 2, 3, 4, 6, 8, 12)]
"""Of E2M1, by their codes: OCP MX v1.0, table 5."""
SCALES = [
    Fraction(code & 7, 8) * Fraction(2) ** -6
    if code < 8
    else (1 + Fraction(code & 7, 8)) * Fraction(2) ** ((code >> 3) - 7)
    for code in range(127)
]
"""Of E4M3, without NaN: OCP OFP8 r1.0."""


def number(bits):
    """The magnitude of a binary32, 0 of what is no normal number."""
    field = bits >> 23 & 0xFF
    if field in (0, 255):
        return Fraction(0)
    return Fraction(bits & 0x7F_FFFF | 1 << 23) * Fraction(2) ** (field - 150)


def nearest(values, wanted):
    """The code of the value nearest to ``wanted``, even where two are; the last one beyond."""
    return min(range(len(values)), key=lambda code: (abs(values[code] - wanted), code & 1))


def worse(bits, six, four, scale):
    """By how much the squared error grows, in the unit of the hardware."""
    tensor = Fraction(2) ** (scale - 138)
    unit = Fraction(2) ** (max(six >> 3, 1) - 7 - 3 - 1) * tensor
    value = Fraction(int(number(bits) / unit * 2**24), 2**24)
    errors = []
    for code in (four, six):
        steps = [element * SCALES[code] * tensor / unit for element in ELEMENTS]
        errors.append((value - steps[nearest(steps, value)]) ** 2)
    return int((errors[0] - errors[1]) * 2**24)
