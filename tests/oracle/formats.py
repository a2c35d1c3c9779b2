"""Every number format from its published definition: tables of values, fractions, comparisons.

An element is looked up, never computed: ``Element.values[code]`` is the magnitude of a code at a
scale of 1, as the specifications list them, and rounding is a place between two neighbours of that
list, ``code + nu``, rounded to an integer. Tensors are lists of lists of Python floats, each exact
in binary32.
"""

import bisect
import math
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from types import SimpleNamespace

from oracle.binary32 import exponent_of, finite, is_negative
from oracle.draws import element_draw
from oracle.rounding import round_fraction

NAN_BYTE, NAN_SCALE_CODE = 255, 0x7F
NVFP4_REACH = 448 * 6
"""Largest E4M3 scale times largest E2M1 element."""
TWO_SCALES, TWO_SCALES_REACH = "four-over-six", 256 * 6
"""Here the largest scale that is to be taken is as much as can still be half as large again."""

# exponent bits, fraction bits, bias, reserved codes, where the scales are, precision
_ELEMENTS = {
    "fp8_e4m3": (4, 3, 7, "nan", "power"),
    "fp8_e5m2": (5, 2, 15, "ieee", "power"),
    "bf16": (8, 7, 127, "ieee", "one"),
    "mxfp8_e4m3": (4, 3, 7, "nan", "e8m0"),
    "mxfp8_e5m2": (5, 2, 15, "ieee", "e8m0"),
    "mxfp6_e3m2": (3, 2, 3, "none", "e8m0"),
    "mxfp6_e2m3": (2, 3, 1, "none", "e8m0"),
    "mxfp4_e2m1": (2, 1, 1, "none", "e8m0"),
    "nvfp4": (2, 1, 1, "none", "e4m3"),
    "e2m5": (2, 5, 1, "none", "power"),
    "e3m4": (3, 4, 3, "none", "power"),
    "e5m1": (5, 1, 15, "none", "power"),
}
_FIXED_POINT = {f"bfp{m}": (m, "exponent") for m in range(1, 9)} | {"mxint8": (7, "e8m0")}
NAMES = (*_FIXED_POINT, *_ELEMENTS)


@dataclass(frozen=True)
class Element:
    """An element's values, ascending by magnitude code, and what its codes above them mean."""

    values: tuple
    bits: int  # of a magnitude code
    precision: int
    largest_exponent: int  # emax: exponent of the largest value
    smallest_exponent: int  # of the smallest normal value
    infinity: int | None
    nan: int | None
    beyond: int | None  # the code of what is too large, where that is no number
    signed_zero: bool
    scale: str

    @property
    def top(self):
        return len(self.values) - 1


@cache
def element(name):
    """The format called ``name``; what a code means is written out here, once more."""
    if name in _FIXED_POINT:
        m, scale = _FIXED_POINT[name]
        values = tuple(Fraction(code, 2 ** (m - 1)) for code in range(2**m))
        return Element(values, m, m, 0, 0, None, None, None, False, scale)
    if name not in _ELEMENTS:  # any other e<E>m<M>, by the rule for all of them
        exponent_bits, fraction_bits = map(int, re.fullmatch(r"e(\d)m(\d)", name).groups())
        bias, reserved, scale = 2 ** (exponent_bits - 1) - 1, "none", "power"
    else:
        exponent_bits, fraction_bits, bias, reserved, scale = _ELEMENTS[name]
    codes = 2 ** (exponent_bits + fraction_bits)
    unreserved = {"none": codes, "nan": codes - 1, "ieee": codes - 2**fraction_bits}[reserved]
    values = []
    for code in range(unreserved):
        field, fraction = divmod(code, 2**fraction_bits)
        mantissa = Fraction(fraction, 2**fraction_bits) + (field > 0)
        values.append(mantissa * Fraction(2) ** (max(field, 1) - bias))
    quiet = {"none": None, "nan": codes - 1, "ieee": codes - 2 ** (fraction_bits - 1)}[reserved]
    infinity = unreserved if reserved == "ieee" else None
    return Element(
        values=tuple(values),
        bits=exponent_bits + fraction_bits,
        precision=fraction_bits + 1,
        largest_exponent=exponent_of(values[-1]),
        smallest_exponent=1 - bias,
        infinity=infinity,
        nan=quiet,
        beyond=quiet if infinity is None else infinity,
        signed_zero=True,
        scale=scale,
    )


# Rounding.


def round_to_code(chosen, magnitude, rule="nearest", random=0, bits=1):
    """The code of a magnitude at a scale of 1, or ``top + 1`` for whatever is too large."""
    values = chosen.values
    code = bisect.bisect_right(values, magnitude) - 1
    if code == chosen.top:
        step = values[-1] - values[-2]
        if magnitude >= values[-1] + step:
            return chosen.top + 1
    else:
        step = values[code + 1] - values[code]
    place = code + (magnitude - values[code]) / step
    return round_fraction(rule, place, random, bits)


def _code_of(chosen, value):
    code = bisect.bisect_left(chosen.values, value)
    assert chosen.values[code] == value
    return code


def deficit(chosen, code):
    """d of a finite code that is not zero: binades below the top one, subnormals with the last."""
    exponent = max(exponent_of(chosen.values[code]), chosen.smallest_exponent)
    return max(chosen.largest_exponent - exponent, 0)


def decode(chosen, stored):
    """A stored element at a scale of 1: a fraction, or the float inf, -inf or nan."""
    code, negative = stored % 2**chosen.bits, stored >> chosen.bits
    if code <= chosen.top:
        return -chosen.values[code] if negative else chosen.values[code]
    if code == chosen.infinity:
        return -math.inf if negative else math.inf
    return math.nan


# Scales.


def top_binade(chosen, rule, largest):
    """e of a group with a largest magnitude that is not zero, before any limit."""
    if rule == "fixed":
        return chosen.largest_exponent
    if rule == "floor":
        return exponent_of(largest)
    if rule == "even":
        ulp = Fraction(2) ** (exponent_of(largest) - chosen.precision + 1)
        return exponent_of(round_fraction("nearest", largest / ulp, 0, 1) * ulp)
    reach = {"ceil": Fraction(1), "rceil": chosen.values[-1]}[rule]
    exponent = exponent_of(largest / reach)
    exponent += largest > reach * Fraction(2) ** exponent
    return exponent + (chosen.largest_exponent if rule == "rceil" else 0)


def limited(chosen, exponent):
    """e kept to what a stored byte holds; None where it is too small for E8M0."""
    lowest = -126 + (chosen.largest_exponent if chosen.scale == "e8m0" else 0)
    return None if exponent < lowest else min(exponent, 127)


def tensor_exponent(rule, largest):
    """NVFP4's T: smallest with largest <= 2688 * 2^T, or 1536 * 2^T where a group's largest may
    become 4, so that a scale may be half as large again; no more than a command's byte holds."""
    reach = TWO_SCALES_REACH if rule == TWO_SCALES else NVFP4_REACH
    exponent = exponent_of(largest / reach)
    return min(exponent + (largest > reach * Fraction(2) ** exponent), 255 - 138)


def scale_code(rule, ratio):
    """E4M3 code of an NVFP4 group's scale, from what it should be, / 2^T."""
    scales = element("fp8_e4m3")
    if rule in ("nearest", TWO_SCALES):
        return min(round_to_code(scales, ratio), scales.top)
    assert rule == "up"
    return min(bisect.bisect_left(scales.values, ratio), scales.top)


@dataclass(frozen=True)
class Scale:
    """What a group's elements are divided by, and its stored byte; ``unit`` None: all zeros."""

    unit: Fraction | None
    byte: int


NOTHING = Scale(None, 0)


def _squared_error(chosen, numbers, scale):
    """Of elements rounded to nearest; those of ``NOTHING`` are zeros."""
    total = Fraction(0)
    for number in numbers:
        stored = Fraction(0)
        if scale.unit:
            code = min(round_to_code(chosen, number / scale.unit), chosen.top)
            stored = chosen.values[code] * scale.unit
        total += (number - stored) ** 2
    return total


def _two_level(rule, wanted, exponent):
    """The scale nearest to ``wanted``, or by the rule the next above."""
    code = scale_code(rule, wanted / Fraction(2) ** exponent)
    value = element("fp8_e4m3").values[code] * Fraction(2) ** exponent
    return Scale(value, code) if code else NOTHING


def _scale(chosen, rule, largest, given, numbers=()):
    if chosen.scale == "e4m3":
        if not largest:
            return NOTHING
        six, four = (_two_level(rule, largest / becomes, given) for becomes in (6, 4))
        if rule != TWO_SCALES:
            return six
        return min(six, four, key=lambda scale: _squared_error(chosen, numbers, scale))
    exponent = given
    if exponent is None:
        exponent = limited(chosen, top_binade(chosen, rule, largest)) if largest else None
    if exponent is None:
        return NOTHING
    return Scale(Fraction(2) ** (exponent - chosen.largest_exponent), exponent + 127)


# Groups.


def _parts(height, width, kind, size, block):
    """The groups of a tensor: the places of each, and where its byte is stored.

    A tensor with one scale keeps its bytes by blocks; squares larger than a block repeat theirs.
    """
    if kind == "vector":
        return [
            ([(i, j) for j in range(start, min(start + size, width))], [(i, start // size)])
            for i in range(height)
            for start in range(0, width, size)
        ]
    side = block if kind == "tensor" else size
    parts = []
    for top in range(0, height, side):
        for left in range(0, width, side):
            rows = range(top, min(top + side, height))
            columns = range(left, min(left + side, width))
            cells = {(i // block, j // block) for i in rows for j in columns}
            parts.append(([(i, j) for i in rows for j in columns], cells))
    return parts


def _largest(numbers):
    return max((abs(finite(v)) for v in numbers if math.isfinite(v)), default=Fraction(0))


def _zeros(height, width):
    return [[0] * width for _ in range(height)]


class _Copy:
    """One quantised copy in the making; ``rows`` in the orientation in which it is stored."""

    def __init__(self, rows, origins, options, second=False):
        self.rows, self.origins, self.options = rows, origins, options
        self.second = second
        self.chosen = element(options.name)
        height, width, block = len(rows), len(rows[0]), options.block
        high, wide = -(-height // block), -(-width // block)
        vector = options.kind == "vector"
        shape = (high * block, -(-wide * block // options.size)) if vector else (high, wide)
        self.codes = _zeros(high * block, wide * block)
        self.exponents, self.folds = _zeros(*shape), _zeros(*shape)
        self.values = _zeros(height, width)
        self.saturated = self.underflowed = 0
        for places, cells in _parts(height, width, options.kind, options.size, block):
            self._group(places, cells)
        self.row_max = [max(map(self._counted, row)) for row in self.exponents]
        columns = [] if vector else zip(*self.exponents, strict=True)
        self.col_max = [max(map(self._counted, column)) for column in columns]

    def _counted(self, byte):
        return 0 if byte == self._nan_byte() else byte

    def _nan_byte(self):
        return NAN_SCALE_CODE if self.chosen.scale == "e4m3" else NAN_BYTE

    def _group(self, places, cells):
        numbers = [self.rows[i][j] for i, j in places]
        special = not all(map(math.isfinite, numbers))
        if self.options.special == "poison" and self.chosen.nan is None and special:
            self._store(cells, self._nan_byte(), 0)
            for i, j in places:
                self.values[i][j] = math.nan
            return
        infinite = self.options.special == "flag" and any(map(math.isinf, numbers))
        counted = [abs(finite(number)) for number in numbers if math.isfinite(number)]
        scale = self._scale_of(_largest(numbers), infinite, counted)
        codes = {(i, j): self._code(i, j, scale) for i, j in places}
        fold = self._fold(codes) if self.options.folded else 0
        unit = scale.unit
        if fold is None:
            fold, scale = 0, NOTHING
        elif fold:
            unit, scale = unit / 2**fold, Scale(unit / 2**fold, scale.byte - fold)
        self._store(cells, scale.byte, fold)
        for (i, j), (code, sign) in codes.items():
            if fold and 0 < code <= self.chosen.top:
                code = _code_of(self.chosen, self.chosen.values[code] * 2**fold)
            self.codes[i][j] = code | sign << self.chosen.bits
            number = decode(self.chosen, self.codes[i][j])
            if unit is not None and isinstance(number, Fraction):
                number *= unit
            self.values[i][j] = number

    def _scale_of(self, largest, infinite, numbers):
        """Of a group; with one scale for the tensor, of a block, which may be one of zeros: then an
        Inf that becomes an element counts as one."""
        options = self.options
        if options.kind == "tensor":
            return options.tensor_scale if largest or infinite else NOTHING
        return _scale(self.chosen, options.scale_rule, largest, options.tensor_scale, numbers)

    def _store(self, cells, byte, fold):
        for row, column in cells:
            self.exponents[row][column], self.folds[row][column] = byte, fold

    def _code(self, i, j, scale):
        """(code, sign) of an element, counted."""
        chosen, number = self.chosen, self.rows[i][j]
        negative = int(is_negative(number))
        poison = self.options.special == "poison"
        if math.isnan(number):
            return (chosen.nan, negative) if poison else (0, 0)
        if math.isinf(number) and poison:
            return chosen.beyond, negative
        if math.isinf(number):
            code = 0 if scale.unit is None else chosen.top
        else:
            code = self._finite_code(i, j, abs(finite(number)), scale.unit)
        return code, negative if code or chosen.signed_zero else 0

    def _finite_code(self, i, j, magnitude, unit):
        options, code = self.options, 0
        if unit is not None:
            row, column = self.origins[i][j]
            number = self.rows[i][j]
            random = element_draw(
                number, row=row, column=column, second=self.second, **options.draws
            )
            code = round_to_code(self.chosen, magnitude / unit, options.rule, random, options.bits)
        self.underflowed += magnitude != 0 and code == 0
        if code <= self.chosen.top:
            return code
        self.saturated += 1
        if options.overflow == "specification" and options.special == "poison":
            return self.chosen.beyond
        return self.chosen.top

    def _fold(self, codes):
        """dmin of a block, None if it has no element that counts; a finite number that is stored as
        Inf or NaN counts as the largest.

        All ones is no number in E4M3: where the largest element would become it, one less.
        """
        top = self.chosen.top
        counted = [
            min(code, top)
            for (i, j), (code, _) in codes.items()
            if 0 < code <= top or (code and math.isfinite(self.rows[i][j]))
        ]
        if not counted:
            return None
        fold = min(deficit(self.chosen, code) for code in counted)
        largest = self.chosen.values[max(counted)]
        return fold - (largest * 2**fold > self.chosen.values[-1])


def transpose(rows):
    return [list(column) for column in zip(*rows, strict=True)]


def quantise(
    rows,
    *,
    name,
    kind,
    size,
    block,
    scale_rule,
    rule="nearest",
    bits=8,
    drawn="counter",
    lfsr_bits=24,
    seed=0,
    tag=0,
    step=0,
    overflow="saturate",
    special="flag",
    folded=False,
    scale=None,
):
    """Convert a tensor: ``copies`` (codes, exponents, folds, maxima, ``values`` in the stored
    orientation), ``tensor_exponent``, ``amax`` (a fraction), sticky flags and counters.

    ``scale``: e, or T, instead of one from the data. ``folded``: whether stored exponents are
    counted from the largest element that is there.
    """
    chosen, flat = element(name), [value for row in rows for value in row]
    amax = _largest(flat)
    exponent = scale
    if exponent is None and amax:
        if chosen.scale == "e4m3":
            exponent = tensor_exponent(scale_rule, amax)
        elif kind == "tensor":
            exponent = limited(chosen, top_binade(chosen, scale_rule, amax))
    of_tensor = exponent
    if kind == "tensor":  # without a number it is 1
        known = chosen.largest_exponent if exponent is None else exponent
        of_tensor = _scale(chosen, scale_rule, amax, known)
    options = SimpleNamespace(
        name=name,
        kind=kind,
        size=size,
        block=block,
        scale_rule=scale_rule,
        rule=rule,
        bits=bits,
        draws={
            "columns": len(rows[0]),
            "drawn": drawn,
            "lfsr_bits": lfsr_bits,
            "bits": bits,
            "seed": seed,
            "tag": tag,
            "step": step,
        },
        overflow=overflow,
        special=special,
        folded=folded,
        tensor_scale=of_tensor,
    )
    origins = [[(i, j) for j in range(len(row))] for i, row in enumerate(rows)]
    copies = [_Copy(rows, origins, options)]
    if kind == "vector":
        copies.append(_Copy(transpose(rows), transpose(origins), options, second=True))
    saturated = sum(copy.saturated for copy in copies)
    counts = None  # what a finite number counts as that is too large
    if overflow == "specification":
        counts = "nan" if chosen.beyond == chosen.nan else "inf"
    return SimpleNamespace(
        copies=copies,
        tensor_exponent=None if chosen.scale == "one" else exponent,
        amax=amax,
        nan=any(map(math.isnan, flat)) or (counts == "nan" and saturated > 0),
        inf=any(map(math.isinf, flat)) or (counts == "inf" and saturated > 0),
        saturated=saturated,
        underflowed=sum(copy.underflowed for copy in copies),
    )


# What a stored image holds.


def group_value(name, byte, exponent=None):
    """The scale that a stored byte stands for: a fraction, None for zeros, nan for no number.

    ``exponent``: T of NVFP4.
    """
    chosen = element(name)
    if chosen.scale == "e4m3":
        if byte == NAN_SCALE_CODE:
            return math.nan
        scale = element("fp8_e4m3").values[byte] * Fraction(2) ** exponent
        return scale or None
    if byte == NAN_BYTE:
        return math.nan
    return Fraction(2) ** (byte - 127 - chosen.largest_exponent) if byte else None
