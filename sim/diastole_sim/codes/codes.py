"""Convert between the stored form of a device and the codes and scales of formats, for exchange.

Memory and machine keep elements as magnitude codes, which are folded if products have a window (see
:mod:`diastole_sim.golden.magnitudes`). Other programs use the codes of formats. No conversion
changes a value.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from diastole_sim.codes.standard import (
    MIN_EXPONENT,
    Array,
    Codes,
    Form,
    Integers,
    is_twos_complement,
)
from diastole_sim.golden.convert import Quantised
from diastole_sim.golden.copies import Copy
from diastole_sim.golden.magnitudes import (
    fold,
    is_inf,
    is_negative,
    magnitudes,
    smallest_depth,
    unfold,
)
from diastole_sim.golden.partition import Partition
from diastole_sim.spec.formats import EXPONENT_BIAS, MAX_EXPONENT, Format
from diastole_sim.spec.numerics import Numerics, TensorClass
from diastole_sim.spec.operations import OPERAND_BY_CLASS


def suffixes(tensor_class: str, storage: TensorClass) -> tuple[str, ...]:
    """Return the suffixes of names of a tensor's copies: ``("",)``, or for example ``("_k",
    "_m")``."""
    if not storage.two_copies:
        return ("",)
    return tuple(f"_{axis}" for axis in OPERAND_BY_CLASS[tensor_class].copy_names)


# From a device.


def to_codes(tensor: Quantised, standard: Quantised | None = None) -> tuple[Codes, ...]:
    """Return every copy with the codes and scales of its format, in the tensor's orientation.

    ``standard``: tensor with the scales to use if ``tensor`` was read from a machine and has folded
    exponents only: the golden model's conversion, or the uploaded tensor. ValueError if a value has
    no code under these scales, which means that the machine is wrong. ValueError also if a block is
    not a number and neither a code nor a group's scale can say so (``Form.has_nan``).
    """
    standard = tensor if standard is None else standard
    form = Form.of(tensor.storage)
    if tensor.tensor_exponent != standard.tensor_exponent:
        raise ValueError(
            f"the scale of the tensor has the exponent {tensor.tensor_exponent}, not "
            f"{standard.tensor_exponent}"
        )
    for copy in () if form.has_nan else tensor.copies:
        if (copy.exponents == form.format.nan_byte).any():
            raise ValueError(f"{form} cannot store NaN and Inf, neither in elements nor in scales")
    matrices: list[Codes] = []
    for copy, expected in zip(tensor.copies, standard.copies, strict=True):
        codes = _codes(copy, expected, form, tensor.block)
        scales = _scales(expected, form, tensor.block) if form.has_scales else None
        if copy.transposed:
            codes, scales = codes.T, None if scales is None else scales.T
        matrices.append(
            Codes(
                form=form,
                codes=np.ascontiguousarray(codes),
                scales=None if scales is None else np.ascontiguousarray(scales),
                tensor_scale=_tensor_scale(tensor.tensor_exponent, form),
                axis=0 if copy.transposed else 1,
            )
        )
    return tuple(matrices)


def _tensor_scale(exponent: int | None, form: Form) -> float | None:
    if exponent is None:  # bf16 has the scale 1
        return 1.0 if form.has_tensor_scale else None
    return 2.0 ** (exponent - form.format.unit_exponent)


def _codes(copy: Copy, standard: Copy, form: Form, block: int) -> Array:
    """Return the elements under the scales of ``standard``, in stored order."""
    kind, (rows, columns) = form.format, copy.shape
    stored = standard.exponents.astype(np.int64) + standard.folds
    by = np.where(standard.exponents == 0, -1, stored - copy.exponents)
    if kind.two_level:
        by = np.where(standard.exponents == copy.exponents, 0, -1)
    by = Partition.cells(form.grouping, block).spread(by)[:rows, :columns]
    codes = copy.codes[:rows, :columns]
    code, sign = _unfold_codes(magnitudes(codes, kind), by, kind), is_negative(codes, kind)
    if is_twos_complement(kind):
        return np.where(sign, -code, code).astype(np.int8).view(np.uint8)
    return (code | sign.astype(np.int64) << kind.magnitude_bits).astype(form.code_type)


def _unfold_codes(code: Integers, by: Integers, kind: Format) -> Integers:
    """Return codes unfolded by ``by``. ValueError if a value has no code in a group whose exponent
    is higher by ``by``."""
    finite = (code != 0) & (code <= kind.max_code)
    by = np.where(finite, by, 0)
    plain = unfold(code, np.maximum(by, 0), kind)
    wrong = fold(plain, by, kind) != code
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise ValueError(
            f"{int(wrong.sum())} stored elements have no code in {kind.name} under the "
            f"scales of the tensor; the first is at [{row}, {column}]"
        )
    return plain


def _scales(copy: Copy, form: Form, block: int) -> Array:
    """Return the scales of a copy, one per group, in stored order."""
    kind, cells = form.format, Partition.cells(form.grouping, block)
    stored = copy.exponents.astype(np.int64)
    if not kind.two_level:
        zero, nan = stored == 0, stored == kind.nan_byte
        stored = form.scales_of(stored + copy.folds - EXPONENT_BIAS)
        stored[zero] = form.scale_range[0]
        stored[nan] = form.nan_scale
    step = form.grouping.size // cells.columns
    return stored[: -(-copy.shape[0] // cells.rows) : step, ::step].astype(form.scale_type)


# To a device.


def from_codes(copies: Sequence[Codes], tensor_class: str, numerics: Numerics) -> Quantised:
    """Return the tensor of some copies, as a device with ``numerics`` stores the tensor.

    ``copies``: matrices, in the order of the copies. No element is rounded. If ``special`` is
    ``flag``, a group whose scale is NaN becomes a group of zeros. ValueError if the matrices are
    not copies of the class, or if an element is beyond the range of a machine.
    """
    storage = numerics.tensor_class(tensor_class)
    _require_copies(copies, storage)
    kind = storage.format
    values = np.abs(np.concatenate([codes.values().reshape(-1) for codes in copies]))
    bits = np.where(np.isfinite(values), values, np.float32(0)).view(np.uint32)
    exponent = None
    if storage.has_tensor_scale:
        exponent = copies[0].unit_exponent + kind.unit_exponent
    rows, columns = copies[0].shape
    return Quantised(
        shape=(rows, columns),
        tensor_class=tensor_class,
        storage=storage,
        block=numerics.block,
        copies=tuple(_stored(codes, tensor_class, numerics) for codes in copies),
        tensor_exponent=exponent,
        amax=int(np.where(bits >> 23 == 0, 0, bits).max()),
        nan=bool(np.isnan(values).any()),
        inf=any(bool(is_inf(codes.elements(), kind).any()) for codes in copies),
        saturated=0,
        underflowed=0,
    )


def _require_copies(copies: Sequence[Codes], storage: TensorClass) -> None:
    form, count = Form.of(storage), 1 + storage.two_copies
    if len(copies) != count:
        raise ValueError(f"a tensor of {form} must have {count} copies, not {len(copies)}")
    for axis, codes in zip((1, 0), copies, strict=False):
        if codes.codes.ndim != 2:
            raise ValueError(
                f"a copy must be a matrix of {form}, not an array of {codes.codes.ndim} dimensions"
            )
        if codes.form != form or (count > 1 and codes.axis != axis):
            expected, got = (
                f"of {each}" + (f" along axis {place}" if count > 1 else "")
                for each, place in ((form, axis), (codes.form, codes.axis))
            )
            raise ValueError(f"a copy must be a matrix {expected}, not {got}")
        if codes.shape != copies[0].shape or codes.tensor_scale != copies[0].tensor_scale:
            raise ValueError(
                "both copies of a tensor must have the same shape and the same tensor scale"
            )


def _stored(copy: Codes, tensor_class: str, numerics: Numerics) -> Copy:
    """Return a copy in blocks, with groups folded as in the machine."""
    form, kind, block = copy.form, copy.form.format, numerics.block
    transposed = form.grouping.kind == "vector" and copy.axis == 0
    codes, scales, groups = _as_stored(copy, transposed)
    partition, (rows, columns) = Partition.groups(form.grouping, block), codes.shape
    whole = rows + -rows % max(partition.rows, block), columns + -columns % partition.columns
    codes, counts = _pad(codes, whole), (whole[0] // partition.rows, whole[1] // partition.columns)
    e, nan, zero = (_per_group(each, form, counts) for each in groups)

    code, sign = magnitudes(codes, kind), codes & (1 << kind.magnitude_bits)
    sign[partition.spread(nan)] = 0
    code[partition.spread(nan)] = 0
    if kind.two_level:
        assert scales is not None
        code[partition.spread(zero)] = 0
        by, stored = np.zeros_like(e), _pad(scales, counts).astype(np.int64)
    else:
        present = (smallest_depth(code, kind) <= kind.depth) | (
            is_inf(code, kind) & (numerics.special == "flag")  # the largest element of the group
        )
        zero = zero | ~partition.reduce(np.logical_or, present)
        by = np.where(zero, 0, _folds(code, e, partition, kind, numerics.folds(tensor_class)))
        stored = np.where(zero, 0, e + EXPONENT_BIAS - by)
    stored[nan] = kind.nan_byte if numerics.special == "poison" else 0
    code = fold(code, partition.spread(by), kind)

    high, wide = rows + -rows % block, columns + -columns % block
    exponents, folds = (_per_cell(each, form, block, (high, wide)) for each in (stored, by))
    numbers = np.where(exponents == kind.nan_byte, np.uint8(0), exponents)
    vectors = form.grouping.kind == "vector"
    return Copy(
        transposed=transposed,
        shape=(rows, columns),
        codes=(code | sign).astype(np.uint16)[:high, :wide],
        exponents=exponents,
        row_max=numbers.max(axis=1),
        col_max=np.zeros(0, np.uint8) if vectors else numbers.max(axis=0),
        folds=folds,
    )


def _as_stored(
    copy: Codes, transposed: bool
) -> tuple[NDArray[np.uint16], Array | None, tuple[Array, Array, Array]]:
    """Return elements, scales, and for each group e, a mask of NaN and a mask of zeros, in stored
    order."""
    groups, codes, scales = copy.groups(), copy.elements(), copy.scales
    parts = groups.e, groups.nan, groups.zero
    if not transposed:
        return codes, scales, parts
    e, nan, zero = (part.T for part in parts)
    return np.ascontiguousarray(codes.T), None if scales is None else scales.T, (e, nan, zero)


def _per_cell(groups: Integers, form: Form, block: int, padded: tuple[int, int]) -> Array:
    """Return the stored bytes of a copy. A square larger than a block repeats its byte."""
    cells = Partition.cells(form.grouping, block)
    repeat = Partition.groups(form.grouping, block).over(cells)
    rows, columns = padded[0] // cells.rows, -(-padded[1] // cells.columns)
    return repeat.spread(groups.astype(np.uint8))[:rows, :columns]


def _folds(
    code: Integers, e: Integers, partition: Partition, kind: Format, window: bool
) -> Integers:
    """Return the fold of each group, which lowers the group's exponent: the largest possible fold
    if products have a window, else the smallest fold for a stored exponent in range."""
    can = partition.reduce(np.minimum, smallest_depth(code, kind))
    needed = np.maximum(e - MAX_EXPONENT, 0)
    present = can <= kind.depth
    if (present & (can < needed)).any():
        largest = kind.max_significand / 2 ** (kind.precision - 1)
        raise ValueError(
            f"elements of {kind.name} must be at most {largest} * 2^{MAX_EXPONENT} in a machine"
        )
    folds = np.where(present & window, can, needed)
    return np.clip(folds, needed, np.maximum(e - MIN_EXPONENT, 0))


def _per_group(parts: Array, form: Form, counts: tuple[int, int]) -> Array:
    """Return a value for each separately folded group. With a single scale for the tensor, every
    block is folded separately."""
    if form.has_scales:
        return _pad(parts, counts)
    return np.broadcast_to(parts, counts).copy()


def _pad(array: Array, shape: tuple[int, int]) -> Array:
    """Add zeros behind the last row and column."""
    return np.pad(array, [(0, want - have) for want, have in zip(shape, array.shape, strict=True)])
