"""Tensors of the user: read from an .npz file, checked for consistency, written back whole.

An operand X is an array of floats, or the stored form of a number format. The stored form has
element codes and scales, one set per quantised copy (``X_codes_k``, ``X_scales_k``, ...), as
:mod:`diastole_sim.codes.standard` defines.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from diastole.errors import BadInput
from diastole.files import atomic
from diastole.files.archive import Archive, Unreadable
from diastole_sim.codes.codes import from_codes, suffixes
from diastole_sim.codes.standard import Codes, Form, exponent_of, problems
from diastole_sim.golden.convert import Quantised
from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.operations import CLASSES, OPERANDS, OPERATIONS

Floats = NDArray[np.float32]
Array = NDArray[Any]
Operand = Floats | Quantised

AXES = {tensor.name: tuple(axis.upper() for axis in tensor.axes) for tensor in OPERANDS}
"""Names of the rows and columns of every operand in Y = X W."""


@dataclass(frozen=True)
class Sizes:
    """M, K and N of a product, in elements."""

    m: int
    k: int
    n: int

    def axis(self, name: str) -> int:
        return {"M": self.m, "K": self.k, "N": self.n}[name]

    def macs(self, op: str) -> int:
        """Return the multiplications of the unpadded product, or of both products for
        ``backward``."""
        return self.m * self.k * self.n * len(OPERATIONS[op].products)


@dataclass(frozen=True)
class FileTensors:
    """Operands of a product as the user gave them, by name.

    - ``tensors``: float32, or stored tensors.
    - ``scales``: exponents of the tensors' scales, for ``convert``.
    - ``notes``: remarks about values that were read differently than written.
    """

    tensors: dict[str, Operand] = field(default_factory=dict)
    scales: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def read_tensors(path: Path, op: str, numerics: Numerics, *, codes: bool = False) -> FileTensors:
    """Return the operands of ``op``, with their scales if scale.source is `host`.

    With ``codes`` an operand may be given as codes. Raises :class:`BadInput` if the file is no
    .npz, or with a line for each array that is absent or wrong.
    """
    file = _Operands(path)
    tensors = FileTensors()
    for name in OPERATIONS[op].operand_names:
        if codes and file.has_codes(name):
            _read_codes(file, name, numerics, tensors)
        else:
            _read_floats(file, name, tensors)
        _read_scale(file, name, numerics, tensors)
    if file.problems:
        raise BadInput(*file.problems)
    return tensors


class _Operands(Archive):
    """Operands by name. Mistakes of the arrays are collected in ``problems``."""

    def __init__(self, path: Path):
        super().__init__(path)
        self.problems: list[str] = []

    def problem(self, text: str) -> None:
        line = f"{self.path}: {text}"
        if line not in self.problems:  # a problem of both copies is reported once
            self.problems.append(line)

    def has_codes(self, name: str) -> bool:
        """Return whether the file has an operand as codes."""
        prefixes = f"{name}_codes", f"{name}_codes_"
        return any(n == prefixes[0] or n.startswith(prefixes[1]) for n in self.names)

    def get(self, name: str) -> Array | None:
        """Return the array, or None after adding a problem."""
        if name not in self.names:
            near = next((each for each in self.names if each.lower() == name.lower()), None)
            rename = "" if near is None else f": rename {near} to {name}"
            self.problem(
                f"has no array {name}; the arrays of the file are "
                f"{', '.join(self.names) or 'none'}{rename}"
            )
            return None
        try:
            return self.read(name)
        except Unreadable as reason:
            self.problem(f"the array {name} cannot be read: {reason}")
            return None

    def optional(self, name: str) -> Array | None:
        return self.get(name) if name in self.names else None


def _read_floats(file: _Operands, name: str, tensors: FileTensors) -> None:
    array = file.get(name)
    if array is None:
        return
    problem = unusable(name, array.dtype, array.shape)
    if problem:
        file.problem(problem)
        return
    with np.errstate(over="ignore"):  # too large values become Inf, with a warning
        tensors.tensors[name] = np.ascontiguousarray(array, dtype=np.float32)
    if array.dtype != np.float32:
        tensors.notes.append(f"{name} was converted from {array.dtype} to float32")


def _read_scale(file: _Operands, name: str, numerics: Numerics, tensors: FileTensors) -> None:
    """Read the scalar X_scale, a power of two, as the exponent for a conversion."""
    key, storage = f"{name}_scale", numerics.tensor_class(CLASSES[name])
    if key not in file.names or isinstance(tensors.tensors.get(name), Quantised):
        return
    if not (storage.has_tensor_scale and numerics.source == "host"):
        tensors.notes.append(
            f"{key} is not used: {name} is {storage.format.name} in groups {storage.grouping}, and "
            f"scale.source is {numerics.source}"
        )
        return
    scale = file.get(key)
    if scale is None:
        return
    low, high = Form.of(storage).unit_exponents
    exponent = exponent_of(scale)
    if exponent is None or not low <= exponent <= high:
        shown = f"{scale.dtype} of shape {scale.shape}" if scale.size != 1 else f"{scale.item()!r}"
        file.problem(f"{key} must be a power of two in 2^{low}..2^{high}, not {shown}")
        return
    tensors.scales[name] = exponent + storage.format.unit_exponent


def _read_codes(file: _Operands, name: str, numerics: Numerics, tensors: FileTensors) -> None:
    """Read an operand from codes: X_format, X_tensor_scale and, for each copy, codes and scales."""
    before = len(file.problems)
    if name in file.names:
        file.problem(f"{name} and the codes of {name} exclude each other: keep one")
    tensor_class = CLASSES[name]
    storage = numerics.tensor_class(tensor_class)
    form = Form.of(storage)
    _check_form(file, name, form)
    scale = file.optional(f"{name}_tensor_scale")
    copies: list[Codes] = []
    for axis, suffix in zip((1, 0), suffixes(tensor_class, storage), strict=False):
        codes = file.get(f"{name}_codes{suffix}")
        if codes is None:
            continue
        scales = file.optional(f"{name}_scales{suffix}")
        mistakes = list(problems(form, codes, scales, scale, axis, _labels(name, suffix)))
        for problem in mistakes:
            file.problem(problem)
        if not mistakes:
            unit = None if scale is None else float(scale.item())
            copies.append(
                Codes(form=form, codes=codes, scales=scales, tensor_scale=unit, axis=axis)
            )
    if len(file.problems) > before:
        return
    try:
        tensors.tensors[name] = from_codes(copies, tensor_class, numerics)
    except ValueError as error:
        file.problem(f"{name}: {error}")
    clamped = sum(codes.clamped for codes in copies)
    if clamped:
        tensors.notes.append(f"{name}_codes: {clamped} elements of -128 were taken as -127")


def _labels(name: str, suffix: str) -> Callable[[str], str]:
    return lambda part: f"{name}_{part}" + ("" if part == "tensor_scale" else suffix)


def _check_form(file: _Operands, name: str, form: Form) -> None:
    written = file.get(f"{name}_format")
    if written is None:
        return
    text = str(written) if written.dtype.kind == "U" and written.ndim == 0 else repr(written.dtype)
    if text != str(form):
        file.problem(f'{name}_format must be "{form}", as the configuration has it, not "{text}"')


def check_sizes(op: str, tensors: Mapping[str, Operand], numerics: Numerics) -> Sizes:
    """Return M, K and N. The tensors must agree in the sizes, and the machine must support the
    length of all contractions.

    Raises :class:`BadInput` with a line for each fault.
    """
    seen: dict[str, tuple[str, int]] = {}
    problems: list[str] = []
    for name, tensor in tensors.items():
        for axis, size in zip(AXES[name], tensor.shape, strict=True):
            first, expected = seen.setdefault(axis, (name, size))
            if size != expected:
                problems.append(
                    f"{axis} is {expected} in {first} {_shape(tensors[first])} "
                    f"but {size} in {name} {_shape(tensor)}"
                )
    if problems:
        raise BadInput(*problems)
    sizes = Sizes(*(seen[axis][1] for axis in "MKN"))
    for product in OPERATIONS[op].products:
        result, axis = product.result.name, product.contraction.upper()
        blocks = -(-sizes.axis(axis) // numerics.block)
        if blocks > 2**numerics.headroom:
            problems.append(
                f"the contraction of {result} over {axis} = {sizes.axis(axis)} must be at most "
                f"2^accumulator.headroom = {2**numerics.headroom} blocks of {numerics.block}, "
                f"not {blocks}"
            )
    if problems:
        raise BadInput(*problems)
    return sizes


def check_codes(tensors: Mapping[str, Operand], numerics: Numerics) -> None:
    """Raise :class:`BadInput` with a line for each tensor with elements without a code."""
    problems: list[str] = []
    if numerics.chooses_widths:
        raise BadInput(
            "--codes works only for formats with a single width, not for fast: leave --codes out"
        )
    for name, tensor in tensors.items():
        form = Form.of(numerics.tensor_class(CLASSES[name]))
        if isinstance(tensor, Quantised) or numerics.special == "flag" or form.has_nan:
            continue
        count = tensor.size - int(np.count_nonzero(np.isfinite(tensor)))
        if count:
            problems.append(
                f"{name} holds NaN or Inf ({count} of {tensor.size} elements), for which {form} "
                'has no code: give finite numbers, leave --codes out, or set special to "flag"'
            )
    if problems:
        raise BadInput(*problems)


_LARGEST = (
    "which become the largest magnitude of the group (0 in a group of zeros with a scale "
    "of its own)"
)
BECOMES: dict[str, dict[str, str]] = {
    "flag": {"NaN": "which become +0", "Inf": _LARGEST},
    "poison": dict.fromkeys(("NaN", "Inf"), "which turn every dependent result into NaN"),
}
"""Treatment of NaN and Inf, by ``special``."""


def warnings(tensors: Mapping[str, Operand], special: str) -> list[str]:
    """Return a line for each tensor with NaN or Inf, with the treatment of the elements."""
    lines: list[str] = []
    for name, tensor in tensors.items():
        values = tensor.values() if isinstance(tensor, Quantised) else tensor
        for kind, places in (("NaN", np.isnan(values)), ("Inf", np.isinf(values))):
            count = int(np.count_nonzero(places))
            if count:
                lines.append(
                    f"{name} holds {kind} ({count} of {values.size} elements), "
                    f"{BECOMES[special][kind]}"
                )
    return lines


def write(path: Path, tensors: Mapping[str, Array]) -> None:
    """Write an .npz file, completely or not at all."""

    def save(file: BinaryIO) -> None:
        np.savez(file, **tensors)  # pyright: ignore[reportArgumentType] # none is `allow_pickle`

    atomic.replace(path, save)


def unusable(name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> str | None:
    """Return why an array of this type and shape is no operand, with the requirement. None for an
    operand."""
    if dtype.kind not in "fiub":
        kind = "Python objects" if dtype.hasobject else str(dtype)
        return f"{name} must hold real numbers, not {kind}"
    if len(shape) != 2:
        return f"{name} must have 2 dimensions, not {len(shape)}; the shape is {shape}"
    if 0 in shape:
        return f"{name} must not have an empty axis; the shape is {shape}"
    return None


def _shape(tensor: Operand) -> str:
    return f"({tensor.shape[0]} x {tensor.shape[1]})"
