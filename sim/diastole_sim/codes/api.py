"""Convert numpy arrays to any number format and back, without a machine.

::

    >>> import numpy as np
    >>> from diastole_sim import dequantise, quantise
    >>> q = quantise(np.array([[1.0, -3.0, 0.3, 8.0]], np.float32), "mxfp4_e2m1")
    >>> q.codes, q.scales
    (array([[ 1, 11,  0,  6]], dtype=uint8), array([[128]], dtype=uint8))
    >>> q.values()
    array([[ 1., -3.,  0.,  8.]], dtype=float32)
    >>> dequantise(q.codes, q.scales, "mxfp4_e2m1")
    array([[ 1., -3.,  0.,  8.]], dtype=float32)

The arithmetic is the converter's: results equal the operands of a machine in this format, bit for
bit.
"""

import numpy as np

from diastole_sim.codes.codes import to_codes
from diastole_sim.codes.standard import Array, Codes, Form, exponent_of
from diastole_sim.device.arrays import as_float32
from diastole_sim.device.conversion import Conversion
from diastole_sim.device.interface import Floats, Numbers
from diastole_sim.golden.convert import Quantised
from diastole_sim.golden.convert import quantise as convert
from diastole_sim.spec.formats import Grouping, parse_format, parse_grouping
from diastole_sim.spec.lfsr import DEFAULT_LFSR_BITS
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics
from diastole_sim.spec.require import require_int
from diastole_sim.spec.rounding import default_random_bits

DEFAULT_BLOCK = 8
"""Default side of the squares of block floating point."""


def quantise(
    array: Numbers,
    format: str,
    *,
    grouping: str | None = None,
    axis: int = -1,
    scale: str | None = None,
    tensor_scale: float | None = None,
    rounding: str = "nearest",
    overflow: str = "saturate",
    special: str = "flag",
    random_bits: int | None = None,
    rounding_kind: str = "counter",
    lfsr_bits: int = DEFAULT_LFSR_BITS,
    seed: int = 0,
    tag: int = 0,
    step: int = 0,
) -> Codes:
    """Round an array to a number format.

    The same arguments give the same numbers in every call, by stochastic roundings too: the random
    bits of an element are a function of ``seed``, ``tag``, ``step`` and the element's place.
    Another ``step`` gives new random bits::

        >>> numbers = np.array([[8.0, 0.3, 0.3, 0.3, 0.3]], np.float32)
        >>> for step in (0, 1, 0):
        ...     print(quantise(numbers, "mxfp4_e2m1", rounding="stochastic-b", step=step).values())
        [[8. 0. 0. 0. 1.]]
        [[8. 0. 0. 1. 1.]]
        [[8. 0. 0. 0. 1.]]

    Parameters
    ----------
    array : array of numbers
        Integers, floats of any size (bfloat16 and related types of ml_dtypes too) or booleans (0
        and 1), of numpy, torch or anything with ``__array__`` or ``__dlpack__``. The array is
        converted to float32, with a :class:`diastole_sim.device.arrays.RoundedWarning` if the
        conversion rounds. Masked arrays are refused. Two axes if groups are squares, else any
        number of axes; not empty.
    format : str
        ``bfp1`` to ``bfp8``, ``fp8_e4m3``, ``fp8_e5m2``, ``bf16``, ``mxint8``, ``mxfp8_e4m3``,
        ``mxfp8_e5m2``, ``mxfp6_e3m2``, ``mxfp6_e2m3``, ``mxfp4_e2m1``, ``nvfp4``, ``e<E>m<M>``.
    grouping : str
        Elements that share a scale: ``"8x8"`` (squares), ``"1x32"`` (vectors), ``"tensor"``.
        Default: bfp 8x8, fp8, bf16 and e<E>m<M> tensor, mx 1x32, nvfp4 1x16.
    axis : int
        Axis along which vectors run; without meaning for squares and tensors.
    scale : str
        Rule for a scale from the largest magnitude of its elements: ``floor`` (default of bfp),
        ``even``, ``ceil``, ``rceil`` (default of fp8, mx and e<E>m<M>); nvfp4: ``nearest``
        (default of nvfp4), ``up``, or ``four-over-six``, the better of two scales by squared error;
        bf16: none.
    tensor_scale : float
        Scale of a tensor with one scale, and of nvfp4: a power of two, instead of the scale that
        follows from the data.
    rounding : str
        ``nearest`` (ties to even), ``stochastic-a``, ``stochastic-b``, ``stochastic-c``, with
        ``random_bits`` for each element.
    random_bits : int
        1 to 16, 24 of ``lfsr``, 12 of ``data``; 3 of ``lfsr3``, its default; else 8.
    rounding_kind : str
        Source of random bits, as ``rounding.kind`` of a machine: ``counter``, ``lfsr`` (of
        ``lfsr_bits``, 3 to 24), ``lfsr3``, ``data``: the element's own low bits, whatever ``seed``,
        ``tag`` and ``step`` are.
    overflow : str
        Treatment of a number that is too large: ``saturate``, the largest element; or
        ``specification``, in OFP8 and bfloat16 alone: their Inf or NaN, stored as ``special``
        says.
    special : str
        Treatment of NaN and Inf: 0 and the largest element (``flag``), or NaN and Inf themselves
        (``poison``; the whole group is NaN if the format has no code). ``poison`` refuses NaN and
        Inf if neither a code nor the scale of a group can mark them: e<E>m<M> in groups
        ``tensor``.
    seed, tag, step : int
        Arguments of the random bits, 32 bits each. As in a machine, the tag names a tensor and the
        step a step of training.

    Returns
    -------
    Codes
        ``.codes``, ``.scales``, ``.tensor_scale`` as in :mod:`diastole_sim.codes.standard`, and
        ``.values()``, the float32 numbers of the codes. A number beyond float32 is Inf, for example
        if a scale of nvfp4 was rounded up beside the largest float32.

    ValueError if a parameter has no accepted value, or if parameters do not go together.
    """
    wide = as_float32("array", array).array
    form = Form(format=parse_format(format), grouping=_grouping(format, grouping))
    if wide.size == 0 or wide.ndim == 0:
        raise ValueError(
            f"array must have at least one axis, and no axis of length 0; the shape is {wide.shape}"
        )
    if form.grouping.kind == "square" and wide.ndim != 2:
        raise ValueError(f"array must have 2 dimensions for {form}, not {wide.ndim}")
    require_int("axis", axis, -wide.ndim, wide.ndim - 1)
    for name, value in (("seed", seed), ("tag", tag), ("step", step)):
        require_int(name, value, 0, 2**32 - 1)
    draws: dict[str, int | str] = {
        "random_bits": default_random_bits(rounding_kind) if random_bits is None else random_bits,
        "rounding_kind": rounding_kind,
        "lfsr_bits": lfsr_bits,
    }
    numerics = _numerics(form, scale, rounding, overflow, special, draws)
    if special == "poison" and not form.has_nan and not np.isfinite(wide).all():
        raise ValueError(
            f'array must be finite for {form} where special is "poison", because {form} '
            'cannot store NaN and Inf; special = "flag" accepts NaN and Inf'
        )
    place = axis % wide.ndim
    second = form.grouping.kind == "vector" and wide.ndim == 2 and place == 0
    matrix = wide if second else _flat(wide, place, form)
    request = Conversion("x", tag=tag, step=step, scale=_exponent(form, tensor_scale))
    converted = convert(np.ascontiguousarray(matrix), request, numerics, seed=seed)
    return _codes(converted, wide.shape, place, second)


def dequantise(
    codes: Array,
    scales: Array | None,
    format: str,
    *,
    grouping: str | None = None,
    axis: int = -1,
    tensor_scale: float | None = None,
) -> Floats:
    """Return the float32 numbers of codes and scales from any source.

    Parameters as in :func:`quantise`, codes and scales as in its result. ``scales``: None if the
    tensor has a single scale. ValueError if arguments do not go together, or are not values of the
    format; the message says what is accepted.
    """
    form = Form(format=parse_format(format), grouping=_grouping(format, grouping))
    for name, array in (("codes", codes), ("scales", scales)):
        if isinstance(array, np.ma.MaskedArray):
            raise ValueError(f"{name} must be a plain array, not a masked array")
    return Codes(
        form=form,
        codes=np.asarray(codes),
        scales=None if scales is None else np.asarray(scales),
        tensor_scale=tensor_scale,
        axis=axis,
    ).values()


def _grouping(format: str, text: str | None) -> Grouping:
    if text is None:
        return parse_format(format).default_grouping(DEFAULT_BLOCK, "x")
    return parse_grouping(text)


def _numerics(
    form: Form,
    scale: str | None,
    rounding: str,
    overflow: str,
    special: str,
    draws: dict[str, int | str],
) -> Numerics:
    """Return the numerics of a machine with the converter of the arguments. Parameters behind the
    converter have any value."""
    if overflow == "specification" and form.format.must_saturate is not None:
        raise ValueError(f"overflow must be saturate, not {overflow}: {form.format.must_saturate}")
    chosen = {
        "format": form.format.name,
        "grouping": str(form.grouping),
        "scale": scale,
        "rounding": rounding,
        "overflow": overflow,
    }
    return Numerics.from_dict(
        dict.fromkeys(CLASS_NAMES, chosen)
        | {"block": min(DEFAULT_BLOCK, form.grouping.size or DEFAULT_BLOCK)}
        | {"fraction": 0, "headroom": 1, "special": special, **draws}
    )


def _exponent(form: Form, tensor_scale: float | None) -> int | None:
    if tensor_scale is None:
        return None
    exponent, (low, high) = exponent_of(tensor_scale), form.unit_exponents
    if not form.has_tensor_scale or form.format.scale == "one":
        raise ValueError(
            f"tensor_scale must be left out: {form} takes no tensor scale from the caller"
        )
    if exponent is None or not low <= exponent <= high:
        raise ValueError(
            f"tensor_scale must be a power of two in 2^{low}..2^{high} for {form}, "
            f"not {tensor_scale!r}"
        )
    return exponent + form.format.unit_exponent


def _flat(array: Floats, axis: int, form: Form) -> Floats:
    """Return a matrix whose groups run along the rows."""
    if form.grouping.kind == "vector":
        array = np.moveaxis(array, axis, -1)
    return array.reshape(-1, array.shape[-1])


def _codes(converted: Quantised, shape: tuple[int, ...], axis: int, second: bool) -> Codes:
    """Return the codes of one copy, as an array in the given shape."""
    copy_codes = to_codes(converted)[1 if second else 0]
    if len(shape) == 2 and (second or copy_codes.form.grouping.kind != "vector" or axis == 1):
        return copy_codes
    if copy_codes.form.grouping.kind != "vector":
        codes, scales = copy_codes.codes.reshape(shape), None
    else:
        lengths = [length for place, length in enumerate(shape) if place != axis]
        assert copy_codes.scales is not None
        codes, scales = (
            np.ascontiguousarray(np.moveaxis(part.reshape(*lengths, part.shape[1]), -1, axis))
            for part in (copy_codes.codes, copy_codes.scales)
        )
    return Codes(
        form=copy_codes.form,
        codes=codes,
        scales=scales,
        tensor_scale=copy_codes.tensor_scale,
        axis=axis,
    )
