"""What stored elements, and those inside the array, stand for, in units of their group's top
binade: by IEEE 754, OCP and the definition of block floating point, not by our own description."""

from fractions import Fraction

# Exponent and fraction bits, and the highest exponent field of a number.
MINIFLOATS = {
    "fp8_e4m3": (4, 3, 15),
    "fp8_e5m2": (5, 2, 30),
    "mxfp8_e4m3": (4, 3, 15),
    "mxfp8_e5m2": (5, 2, 30),
    "mxfp6_e3m2": (3, 2, 7),
    "mxfp6_e2m3": (2, 3, 3),
    "mxfp4_e2m1": (2, 1, 3),
    "nvfp4": (2, 1, 3),
    "e3m4": (3, 4, 7),
    "bf16": (8, 7, 254),
}
INTEGERS = {f"bfp{bits}": bits for bits in range(1, 9)} | {"mxint8": 7}
NAN, INF = "nan", "inf"


def stored_value(name: str, code: int) -> Fraction | str:
    """The magnitude of a stored code, or ``NAN`` or ``INF``."""
    if name in INTEGERS:
        return Fraction(code, 2 ** (INTEGERS[name] - 1))
    _, fraction_bits, top = MINIFLOATS[name]
    field, fraction = code >> fraction_bits, code % 2**fraction_bits
    if name.endswith("fp8_e4m3") and code == 0x7F:
        return NAN
    if field > top:
        return NAN if fraction else INF
    below = Fraction(fraction, 2**fraction_bits)
    return (1 + below) * Fraction(2) ** (field - top) if field else below * Fraction(2) ** (1 - top)


def largest(name: str) -> Fraction:
    bits = INTEGERS.get(name) or sum(MINIFLOATS[name][:2])
    values = (stored_value(name, code) for code in reversed(range(2**bits)))
    return next(value for value in values if not isinstance(value, str))


def precision(name: str) -> int:
    return INTEGERS.get(name) or MINIFLOATS[name][1] + 1


def depth(name: str) -> int:
    """Binades below the top one in which there are numbers of full precision."""
    return 0 if name in INTEGERS else MINIFLOATS[name][2] - 1


def exponent_drop(name: str, value: Fraction) -> int:
    """d of an element that is not zero: its own exponent below the top one, at most D."""
    own = 0
    while value < 1 and own < depth(name):
        value, own = value * 2, own + 1
    return own


def widest(names) -> tuple[int, int]:
    """Bits of a significand, and of a depth, of what holds elements of all these formats."""
    return max(map(precision, names)), max(map(depth, names)).bit_length()


def array_element(name: str, names, code: int, sign: int, poison: bool = False) -> int:
    """An element inside an array for the formats ``names``: sig from bit 0, d, sign."""
    value = stored_value(name, code)
    if isinstance(value, str):
        value = largest(name) if value == INF and not poison else Fraction(0)
    sig_bits, depth_bits = widest(names)
    own = exponent_drop(name, value) if value else 0
    shift = sig_bits if depth_bits else precision(name)  # at the top, or at the bottom
    sig = value * 2 ** (own + shift - 1)
    assert sig.denominator == 1
    assert sig < 2**sig_bits
    return int(sig) | own << sig_bits | sign << sig_bits + depth_bits
