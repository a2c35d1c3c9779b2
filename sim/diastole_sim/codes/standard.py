"""Represent tensors as number formats define them: element codes and scales, for exchange of data.

The codes and scales follow the format alone, not the machine. :mod:`diastole_sim.codes.codes`
converts between the stored form of a machine and these codes.

An element code has the sign as its highest bit, then the exponent field, then the fraction, in the
low bits of a ``uint8`` (``uint16`` for more than 8 bits). MXINT8 is a two's complement byte. Every
group has a scale:

===========  =================================================================================
bfpM         e + 127 as ``uint8``, e the exponent of an element's highest bit; 255 is NaN
mx...        E8M0: S + 127 as ``uint8``, for a scale of 2^S; 255 is NaN
nvfp4        E4M3 as ``uint8``, 0 to 126; 127 is NaN; the tensor's scale multiplies it
others       S + 127 as ``int16``, since S may lie below -127; 255 is NaN
===========  =================================================================================

A tensor with a single scale has no scales of groups. It has ``tensor_scale``, a power of two, which
is 1 for bf16. NVFP4 has scales of groups and ``tensor_scale``.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diastole_sim.device.interface import Floats
from diastole_sim.golden.magnitudes import (
    decode_magnitudes,
    is_inf,
    is_nan,
    is_negative,
    magnitudes,
)
from diastole_sim.spec.formats import (
    EXPONENT_BIAS,
    NAN_EXPONENT,
    SCALE_FORMAT,
    SIGNIFICAND_FRACTION,
    Format,
    Grouping,
    parse_format,
    parse_grouping,
)
from diastole_sim.spec.numerics import TensorClass
from diastole_sim.spec.require import require_choice, require_int
from diastole_sim.spec.scales import stored_parts

Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]
Array = NDArray[Any]

MIN_EXPONENT = -126
"""Smallest exponent of a stored group."""


@dataclass(frozen=True, kw_only=True)
class Form:
    """Meaning of codes: a format, and the grouping of elements that share a scale. ValueError if
    the format does not take the grouping."""

    format: Format
    grouping: Grouping

    def __post_init__(self) -> None:
        if self.format.planes:
            name = self.format.name
            raise ValueError(
                f"format must have a single width, unlike {name}; choose bfp2 or bfp4, whose "
                f"codes {name} stores"
            )
        require_choice(f"grouping of {self.format.name}", self.grouping.kind, self.format.groupings)

    def __str__(self) -> str:
        return f"{self.format.name} {self.grouping}"

    @classmethod
    def of(cls, storage: TensorClass) -> "Form":
        """Return the form of a class of tensors."""
        return cls(format=storage.format, grouping=storage.grouping)

    @classmethod
    def parse(cls, text: str) -> "Form":
        """Return the form in a text of ``str``: ``"mxfp8_e4m3 1x32"``, ``"fp8_e5m2 tensor"``."""
        name, _, grouping = text.partition(" ")
        return cls(format=parse_format(name), grouping=parse_grouping(grouping))

    @property
    def code_type(self) -> type[np.unsignedinteger[Any]]:
        return np.uint8 if self.format.element_bits <= 8 else np.uint16

    @property
    def has_scales(self) -> bool:
        """True if groups have scales of their own."""
        return self.grouping.kind != "tensor"

    @property
    def has_tensor_scale(self) -> bool:
        return not self.has_scales or self.format.two_level

    @property
    def scale_type(self) -> type[np.integer[Any]]:
        return np.int16 if self.format.scale == "power" else np.uint8

    @property
    def scale_range(self) -> tuple[int, int]:
        """Smallest and largest scale that is a number."""
        if self.format.two_level:
            return 0, SCALE_FORMAT.max_code
        return 0 if self.zero_is_none else MIN_EXPONENT - self._offset, NAN_EXPONENT - 1

    @property
    def zero_is_none(self) -> bool:
        """True if a scale 0 always belongs to a group of zeros. In E8M0 a 0 stands for 2^-127,
        which is below the scales of a machine."""
        return self.format.scale in ("exponent", "e8m0")

    @property
    def nan_scale(self) -> int:
        return self.format.nan_byte

    @property
    def has_nan(self) -> bool:
        """True if an element can be NaN, by the element's code or by the group's scale."""
        return self.format.nan_code is not None or self.has_scales

    @property
    def unit_exponents(self) -> tuple[int, int]:
        """Smallest and largest log2 of a tensor's scale."""
        if self.format.scale == "one":
            return 0, 0
        low, high = self.format.tensor_exponents
        return low - self.format.unit_exponent, high - self.format.unit_exponent

    @property
    def _offset(self) -> int:
        """Offset between a scale and the exponent of the group's top binade."""
        return self.format.top_exponent - EXPONENT_BIAS

    def scales_of(self, e: Integers) -> Integers:
        """Return the scales of groups from the exponents of their top binades; not for NVFP4."""
        return e - self._offset

    def exponents_of(self, scales: Array) -> Integers:
        """Return the exponents of the top binades of groups from scales: the inverse of
        :meth:`scales_of`."""
        return scales.astype(np.int64) + self._offset

    def scale_shape(self, shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
        """Return the shape of the scales of an array of codes. Vectors run along ``axis``."""
        size = self.grouping.size
        return tuple(
            -(-length // size) if self.grouping.kind == "square" or place == axis else length
            for place, length in enumerate(shape)
        )

    def spread(self, groups: Array, shape: tuple[int, ...], axis: int) -> Array:
        """Return a value per element of an array of ``shape`` from a value per group. Vectors run
        along ``axis``."""
        if not self.has_scales:
            return np.broadcast_to(groups, shape)
        for place in range(len(shape)):
            if self.grouping.kind == "square" or place == axis:
                groups = groups.repeat(self.grouping.size, axis=place)
        return groups[tuple(slice(length) for length in shape)]


@dataclass(frozen=True, kw_only=True, eq=False)
class Codes:
    """Array of element codes with scales, as described at the top of the module.

    ``codes``: codes in the array's shape, with two axes if groups are squares, else any number of
    axes. ``scales``: one entry per group, in the array's orientation: along ``axis`` for vectors,
    along both axes for squares. The last group may be incomplete. None if the tensor has a single
    scale. ``tensor_scale``: a power of two, None for a format without one (optional for bf16).
    ValueError if the values do not go together, or are not values of the format.
    """

    form: Form
    codes: Array
    scales: Array | None = None
    tensor_scale: float | None = None
    axis: int = -1

    def __post_init__(self) -> None:
        axes = max(1, self.codes.ndim)
        object.__setattr__(self, "axis", require_int("axis", self.axis, -axes, axes - 1) % axes)
        for problem in problems(self.form, self.codes, self.scales, self.tensor_scale, self.axis):
            raise ValueError(problem)
        if self.form.format.scale == "one" and self.tensor_scale is None:
            object.__setattr__(self, "tensor_scale", 1.0)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.codes.shape

    def values(self) -> Floats:
        """Return the numbers of the codes. A number outside binary32 is Inf or 0, every other
        number exact.

        An element is NaN if its code or its scale is NaN.
        """
        kind, codes, groups = self.form.format, self.elements(), self.groups()
        e, significand, nan = (
            self.form.spread(each, self.shape, self.axis)
            for each in (groups.e, groups.significand, groups.nan)
        )
        sig, d = decode_magnitudes(codes, kind)
        ulp = e - d - (kind.precision - 1) - SIGNIFICAND_FRACTION
        values = np.ldexp((sig * significand).astype(np.float64), ulp.astype(np.int32))
        values[is_inf(codes, kind)] = np.inf
        values[is_nan(codes, kind) | nan] = np.nan
        np.negative(values, out=values, where=is_negative(codes, kind))
        with np.errstate(over="ignore"):
            return values.astype(np.float32)

    @property
    def clamped(self) -> int:
        """Number of MXINT8 elements of -128, which are read as -127."""
        return int((self.codes == 0x80).sum()) if is_twos_complement(self.form.format) else 0

    @property
    def unit_exponent(self) -> int:
        """log2 of the tensor's scale, which must be present."""
        exponent = exponent_of(self.tensor_scale)
        assert exponent is not None
        return exponent

    def elements(self) -> NDArray[np.uint16]:
        """Return the codes as memory has them, but not folded: a magnitude code with the sign on
        top, and no sign of zeros if the format has one zero only."""
        kind, codes = self.form.format, self.codes.astype(np.uint16)
        if is_twos_complement(kind):
            magnitude = np.abs(self.codes.view(np.int8).astype(np.int16))
            codes = np.minimum(magnitude, kind.max_code).astype(np.uint16) | (
                codes & np.uint16(0x80)
            )
        if not kind.signed_zero:
            codes[magnitudes(codes, kind) == 0] = 0
        return codes

    def groups(self) -> "Groups":
        """Return the meaning of the scales. A tensor with a single scale is a single group, with as
        many axes as the tensor."""
        form, kind = self.form, self.form.format
        if self.scales is None:
            single = (1,) * len(self.shape)
            e = np.full(single, self.unit_exponent + kind.top_exponent, np.int64)
            none = np.zeros(single, dtype=np.bool_)
            return Groups.of(e, nan=none, zero=none)
        nan, zero = self.scales == form.nan_scale, self.scales == 0
        if kind.two_level:
            e, significand = stored_parts(self.scales, kind, self.unit_exponent)
            return Groups(e=e, significand=significand, nan=nan, zero=zero)
        return Groups.of(form.exponents_of(self.scales), nan=nan, zero=zero & form.zero_is_none)


@dataclass(frozen=True, kw_only=True, eq=False)
class Groups:
    """Scales of groups. ``e``: exponent of the group's top binade. ``significand``: significand of
    the scale, in eighths. ``nan``: the scale is NaN. ``zero``: the scale marks a group of zeros."""

    e: Integers
    significand: Integers
    nan: Mask
    zero: Mask

    @classmethod
    def of(cls, e: Integers, nan: Mask, zero: Mask) -> "Groups":
        """Return groups whose scales are powers of two."""
        ones = np.full_like(e, 1 << SIGNIFICAND_FRACTION)
        return cls(e=e, significand=ones, nan=nan, zero=zero)


def is_twos_complement(kind: Format) -> bool:
    """Return whether elements are integers without a separate sign bit, as in MXINT8."""
    return kind.scale == "e8m0" and not kind.exponent_bits


def problems(
    form: Form,
    codes: Array,
    scales: Array | None,
    tensor_scale: object,
    axis: int,
    label: Callable[[str], str] = str,
) -> Iterator[str]:
    """Yield a line for each reason why :class:`Codes` cannot be made of the arguments. ``label``
    turns the names of fields into words of the message."""
    kind, square, named = form.format, form.grouping.kind == "square", label("codes")
    if codes.dtype != form.code_type:
        yield f"{named} must be {np.dtype(form.code_type)} for {form}, not {codes.dtype}"
        return
    if codes.size == 0 or codes.ndim == 0 or (square and codes.ndim != 2):
        expected = (
            "2 axes, none of length 0" if square else ("at least one axis, and no axis of length 0")
        )
        yield f"{named} must have {expected}; the shape is {codes.shape}"
        return
    largest = int(codes.max())
    if largest >> kind.element_bits:
        accepted = f"codes of {kind.name}, 0..{2**kind.element_bits - 1}"
        yield f"{named} must hold {accepted}, not {largest}"
    yield from _tensor_scale_problems(form, tensor_scale, label("tensor_scale"))
    yield from _scale_problems(form, codes, scales, axis, label("scales"))


def _tensor_scale_problems(form: Form, scale: object, named: str) -> Iterator[str]:
    if not form.has_tensor_scale:
        if scale is not None:
            yield f"{named} must be left out: {form} has no scale of the whole tensor"
        return
    if scale is None and form.format.scale == "one":
        return
    low, high = form.unit_exponents
    exponent = exponent_of(scale)
    if exponent is None or not low <= exponent <= high:
        accepted = "1" if low == high else f"a power of two in 2^{low}..2^{high}"
        actual = "absent" if scale is None else str(scale)
        yield f"{named} must be {accepted} for {form}, not {actual}"


def _scale_problems(
    form: Form, codes: Array, scales: Array | None, axis: int, named: str
) -> Iterator[str]:
    if not form.has_scales:
        if scales is not None:
            yield f"{named} must be left out: {form} has no scales of groups"
        return
    shape, (low, high) = form.scale_shape(codes.shape, axis), form.scale_range
    if scales is None or scales.dtype != form.scale_type or scales.shape != shape:
        actual = "absent" if scales is None else f"{scales.dtype} of shape {scales.shape}"
        expected = f"{np.dtype(form.scale_type)} of shape {shape}"
        yield f"{named} must be {expected} for {form}, not {actual}"
        return
    wrong = (scales != form.nan_scale) & ((scales < low) | (scales > high))
    if wrong.any():
        accepted = f"in {low}..{high}, or {form.nan_scale} for NaN"
        yield f"{named} must be {accepted}, not {int(scales[wrong][0])}"
    elif form.zero_is_none:
        finite = _nonzero(form.format, codes)
        count = int((finite & form.spread(scales == 0, codes.shape, axis)).sum())
        if count:
            yield (
                f"{named} must not be 0 in a group with nonzero elements; {count} nonzero "
                "elements have the scale 0"
            )


def _nonzero(kind: Format, codes: Array) -> Mask:
    """Return whether elements are finite and not zero."""
    low = (1 << kind.magnitude_bits) - 1
    if is_twos_complement(kind):
        return codes != 0
    return ((codes & low) != 0) & ((codes & low) <= kind.max_code)


def exponent_of(scale: object) -> int | None:
    """Return log2 of a power of two: a number of any type or an array of one number. None for any
    different value."""
    array = np.asarray(scale)
    if array.size != 1 or array.dtype.kind not in "fiu":
        return None
    mantissa, exponent = np.frexp(np.float64(array.reshape(())))
    return int(exponent) - 1 if mantissa == 0.5 else None
