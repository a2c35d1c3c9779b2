"""Matrix products of stored tensors: exact ones, and aligned accumulation block by block.

Everything is a Python integer or a fraction. An operand has its rows along the contraction, and a
product is A B^T. Of a format only its bits and the kinds of its specials and scales are taken;
what the codes mean is said here again, from the standards' side: a minifloat has its own exponent,
and d is how far it is below that of the format's largest number.
"""

import struct
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import gmpy2

from oracle.float_sums import float_sum


def transpose(rows):
    return [list(column) for column in zip(*rows, strict=True)]


def binary32(value):
    """Round a fraction once: (float, overflow); +0 if below 2^-126 after rounding to 24 bits."""
    wide = gmpy2.context(precision=24, round=gmpy2.RoundToNearest)
    with wide:
        rounded = gmpy2.mpfr(gmpy2.mpq(value.numerator, value.denominator))
    exact = Fraction(*rounded.as_integer_ratio())
    if abs(exact) < Fraction(2) ** -126:
        return 0.0, False
    if abs(exact) >= Fraction(2) ** 128:
        return float("inf") if exact > 0 else float("-inf"), True
    return float(exact), False


def binary32_bits(total, scale):
    """(bits, overflow) of ``total`` * 2^``scale``, rounded as by :func:`binary32`."""
    value, overflow = binary32(Fraction(total) * Fraction(2) ** scale)
    return struct.unpack("<I", struct.pack("<f", value))[0], overflow


# Elements and scales.


@dataclass(frozen=True)
class Kind:
    """A format: bits of exponent and fraction, ``none``, ``nan`` or ``ieee`` specials, the kind of
    scale."""

    exponent_bits: int
    fraction_bits: int
    specials: str
    scale: str

    @classmethod
    def of(cls, described):
        """Of anything that has these four."""
        names = ("exponent_bits", "fraction_bits", "specials", "scale")
        return cls(*(getattr(described, name) for name in names))

    @property
    def precision(self):
        return self.fraction_bits + (self.exponent_bits > 0)

    @cached_property
    def elements(self):
        """By stored element: (signed significand, d), or ``"nan"``, ``"inf"``, ``"-inf"``."""
        bits = self.exponent_bits + self.fraction_bits
        return [self._element(code % 2**bits, code >> bits) for code in range(2 ** (bits + 1))]

    def _element(self, code, sign):
        field, fraction = divmod(code, 2**self.fraction_bits)
        ones, top = 2**self.exponent_bits - 1, 2**self.fraction_bits - 1
        if self.exponent_bits == 0:
            return (-code if sign else code), 0
        if self.specials == "nan" and (field, fraction) == (ones, top):
            return "nan"
        if self.specials == "ieee" and field == ones:
            return "nan" if fraction else "-inf" if sign else "inf"
        significand = fraction if field == 0 else 2**self.fraction_bits + fraction
        highest = ones - (self.specials == "ieee")
        return (-significand if sign else significand), highest - max(field, 1)

    @property
    def largest(self):
        """The significand of the largest number."""
        return max(e[0] for e in self.elements if not isinstance(e, str) and (e[1] == 0))

    def scale_exponent(self, byte):
        """What deficits are differences of."""
        return max(byte // 8, 1) if self.scale == "e4m3" else byte

    def scale_significand(self, byte):
        """In eighths."""
        if self.scale != "e4m3":
            return 8
        return byte % 8 if byte < 8 else 8 + byte % 8

    def top_exponent(self, byte, tensor_exponent):
        """Exponent e of the top binade of a group, an NVFP4 scale's significand apart: E2M1 has its
        largest binade at 4, and E4M3 a bias of 7."""
        if self.scale == "e4m3":
            return self.scale_exponent(byte) - 7 + tensor_exponent + 2
        return byte - 127

    @property
    def nan_byte(self):
        return 0x7F if self.scale == "e4m3" else 0xFF


# Operands.


@dataclass(frozen=True)
class Operand:
    """Rows along the contraction, padded to whole blocks: stored elements, the stored scale of each
    one's group, and the largest stored scale of each row; NVFP4's T."""

    codes: list
    scales: list
    maxima: list
    kind: Kind
    tensor_exponent: int | None = None

    def element(self, row, place, poison=False):
        """(signed significand, d) as it counts in a sum; the group is not looked at."""
        found = self.kind.elements[self.codes[row][place]]
        if not isinstance(found, str):
            return found
        if poison or found == "nan":
            return 0, 0
        return (self.kind.largest if found == "inf" else -self.kind.largest), 0

    def counts(self, row, place):
        """Whether the element's group is neither of zeros nor a NaN."""
        return self.scales[row][place] not in (0, self.kind.nan_byte)

    def is_poison(self, row):
        return any(scale == self.kind.nan_byte for scale in self.scales[row]) or any(
            isinstance(self.kind.elements[code], str) for code in self.codes[row]
        )

    def value(self, row, place):
        """The number that an element stands for, NaN and Inf as :meth:`element` has them."""
        if not self.counts(row, place):
            return Fraction(0)
        significand, d = self.element(row, place)
        byte = self.scales[row][place]
        e = self.kind.top_exponent(byte, self.tensor_exponent)
        scale = Fraction(self.kind.scale_significand(byte), 8)
        return significand * scale * Fraction(2) ** (e - d - self.kind.precision + 1)


def read(tensor, number):
    """The operand that a product reads as copy ``number`` of a stored tensor: contracting the
    tensor's columns (0) or rows (1). Takes numpy arrays for lists."""
    kind, grouping, block = Kind.of(tensor.storage.format), tensor.storage.grouping, tensor.block
    if grouping.kind == "vector":
        copy = tensor.copies[number]
        down, along, turned = 1, grouping.size, False
    else:
        (copy,) = tensor.copies
        down, along, turned = block, block, number == 1
    codes, scales = copy.codes.tolist(), copy.exponents.tolist()
    per_element = [
        [scales[row // down][column // along] for column in range(len(codes[0]))]
        for row in range(len(codes))
    ]
    stored = (copy.col_max if turned else copy.row_max).tolist()
    maxima = [maximum for maximum in stored for _ in range(down)]
    if turned:
        codes, per_element = transpose(codes), transpose(per_element)
    return Operand(codes, per_element, maxima, kind, tensor.tensor_exponent)


# Products.


def exact_product(a, b, *, poison=False):
    """A B^T of two operands' values, as fractions; None where the result is NaN."""
    first, second = (
        [[side.value(row, c) for c in range(len(side.codes[0]))] for row in range(len(side.codes))]
        for side in (a, b)
    )
    spoilt = [
        {row for row in range(len(side.codes)) if poison and side.is_poison(row)} for side in (a, b)
    ]
    return [
        [
            None
            if t in spoilt[0] or lane in spoilt[1]
            else sum(x * y for x, y in zip(row, other, strict=True))
            for lane, other in enumerate(second)
        ]
        for t, row in enumerate(first)
    ]


def rounded(numerator, shift):
    """numerator / 2^shift to the nearest integer, ties away from zero."""
    magnitude = (2 * abs(numerator) + 2**shift) // 2 ** (shift + 1)
    return -magnitude if numerator < 0 else magnitude


def _shifted(block_sum, d, fraction):
    """(s << F) >> d to nearest, ties upward."""
    return (2 * block_sum * 2**fraction + 2**d) // 2 ** (d + 1)


def _block_sum(a, b, t, lane, places, product_bits, poison):
    """Sum of the block's products as they enter the tree, times the scales' significands."""
    up = product_bits - a.kind.precision - b.kind.precision
    total = 0
    for place in places:
        sig_a, d_a = a.element(t, place, poison)
        sig_b, d_b = b.element(lane, place, poison)
        total += rounded(sig_a * sig_b * 2**up, d_a + d_b)
    if a.kind.scale == "e4m3":
        total *= a.kind.scale_significand(a.scales[t][places[0]])
        total *= b.kind.scale_significand(b.scales[lane][places[0]])
    return total


def _deficit(side, row, place):
    kind = side.kind
    return kind.scale_exponent(side.maxima[row]) - kind.scale_exponent(side.scales[row][place])


def _extent(side, places, poison):
    """The largest d + p of an element that is not zero, in one block of the contraction."""
    found = [
        side.element(row, place, poison)
        for row in range(len(side.codes))
        for place in places
        if side.counts(row, place)
    ]
    return max((d + side.kind.precision for significand, d in found if significand), default=0)


def accumulated(terms, block, floats):
    """(sum, whether nothing was lost) of the blocks' integers; ``floats``: None, or what has a
    ``mantissa`` and a ``chunk``."""
    if floats is None:
        return sum(terms), True
    return float_sum(terms, in_chunk=floats.chunk // block, mantissa=floats.mantissa)


def aligned_product(a, b, *, block, fraction, product_bits, poison=False, floats=None):
    """A B^T as the array computes it: (fractions before the last rounding, exact).

    An entry is None where the result is NaN. Rows of padding are computed too.
    """
    exact = True
    blocks = [range(k, k + block) for k in range(0, len(a.codes[0]), block)]
    for places in blocks:
        extents = [_extent(side, places, poison) for side in (a, b)]
        exact = exact and (0 in extents or sum(extents) <= product_bits)
    result = []
    for t in range(len(a.codes)):
        result.append([])
        for lane in range(len(b.codes)):
            terms = []
            for places in blocks:
                first = places[0]
                terms.append(0)
                if not (a.counts(t, first) and b.counts(lane, first)):
                    continue
                d = _deficit(a, t, first) + _deficit(b, lane, first)
                exact = exact and d <= fraction
                block_sum = _block_sum(a, b, t, lane, places, product_bits, poison)
                terms[-1] = _shifted(block_sum, d, fraction)
            total, no_loss = accumulated(terms, block, floats)
            exact = exact and no_loss
            bound = sum(
                side.kind.top_exponent(side.maxima[row], side.tensor_exponent)
                for side, row in ((a, t), (b, lane))
            )
            bound -= 6 if a.kind.scale == "e4m3" else 0
            value = total * Fraction(2) ** (bound - fraction - (product_bits - 2))
            poisoned = poison and (a.is_poison(t) or b.is_poison(lane))
            result[-1].append(None if poisoned else value)
    return result, exact


# Operands in planes.


def plane(operand, number, count):
    """Plane ``number`` of ``count`` of an operand, two bits of every magnitude and its sign: as an
    operand of its own."""
    bits = 2 * count
    below = 2 * (count - 1 - number)

    def chunk(code):
        sign, magnitude = divmod(code, 2**bits)
        return 4 * sign + magnitude // 2**below % 4

    codes = [[chunk(code) for code in row] for row in operand.codes]
    kind = Kind(0, 2, operand.kind.specials, operand.kind.scale)
    return Operand(codes, operand.scales, operand.maxima, kind)


def plane_product(a, b, counts, *, block, fraction, floats=None):
    """A B^T of operands in ``counts`` planes, as the array computes it: (fractions before the last
    rounding, exact)."""
    exact = True
    result = [[Fraction(0)] * len(b.codes) for _ in a.codes]
    parts = [
        [plane(side, number, count) for number in range(count)]
        for side, count in zip((a, b), counts, strict=True)
    ]
    last = 2 * (counts[0] - 1) + 2 * (counts[1] - 1)
    for t in range(len(a.codes)):
        for lane in range(len(b.codes)):
            terms = []
            for first in range(0, len(a.codes[0]), block):
                terms.append(0)
                if not (a.counts(t, first) and b.counts(lane, first)):
                    continue
                d = _deficit(a, t, first) + _deficit(b, lane, first)
                exact = exact and d + last <= fraction
                places = range(first, first + block)
                for i, high in enumerate(parts[0]):
                    for j, low in enumerate(parts[1]):
                        block_sum = _block_sum(high, low, t, lane, places, 4, False)
                        terms[-1] += _shifted(block_sum, d + 2 * i + 2 * j, fraction)
            total, no_loss = accumulated(terms, block, floats)
            exact = exact and no_loss
            bound = a.maxima[t] + b.maxima[lane] - 2 * 127
            result[t][lane] = total * Fraction(2) ** (bound - fraction - 2)
    return result, exact
