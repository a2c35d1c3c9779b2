"""Run the exact products of the golden device in torch.

If the golden model decides that no bit is lost before the last rounding, the sums of a product are
a float64 product of the stored numbers, in any order of addition. Any library and any processor
then give equal sums. Every tensor is decoded once for all products that read the tensor, and
multiplied on any device of torch. On a CPU, the product is in float32 if every sum has at most 24
bits. Numpy does everything else: conversions, products that lose bits, stacks, tensors of several
planes, and tensors with NaN or Inf, if NaN and Inf poison results.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import torch

from diastole.devices import Formats, GoldenDevice
from diastole_sim.device.interface import ProductResult
from diastole_sim.golden import numpy_device as golden
from diastole_sim.golden.convert import Quantised
from diastole_sim.golden.copies import Copy
from diastole_sim.golden.matrix_product import (
    FAR,
    MIN_NORMAL,
    ProductParameters,
    fits,
    is_one_product,
)
from diastole_sim.golden.operand_rows import Bounds, Integers, decoded_codes, power_of_two
from diastole_sim.spec.formats import SIGNIFICAND_FRACTION, Format
from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.operations import MatrixProduct, Operation
from diastole_sim.spec.scales import stored_parts

if TYPE_CHECKING:
    from diastole.config.keys import Config

FLOAT32_BITS = 24
MIN_EXPONENT, MAX_EXPONENT = -126, 127
"""Smallest and largest exponent of normal numbers in binary32."""


class TorchGoldenDevice(GoldenDevice):
    """Numpy model of a machine, bit for bit, with exact products in torch.

    ``device``: torch device of the exact products, or the name of a torch device. The remaining
    arguments are the arguments of :class:`diastole.GoldenDevice`. ``exact_in_torch``: number of
    products that ran in torch. RuntimeError, raised by torch, if the torch device does not exist.
    """

    def __init__(
        self,
        machine: "Path | str | Config | Numerics | None" = None,
        seed: int = 0,
        *,
        formats: Formats | None = None,
        overrides: Sequence[str] = (),
        device: Any = "cpu",
    ):
        super().__init__(machine, seed, formats=formats, overrides=overrides)
        self._start(device)

    @classmethod
    def like(cls, device: golden.NumpyDevice) -> "TorchGoldenDevice":
        """Return a device on the CPU with the numerics of ``device``. The two devices share the
        history of scales."""
        twin = cls.__new__(cls)
        for name, value in vars(device).items():
            setattr(twin, name, value)
        twin._start("cpu")
        return twin

    def _start(self, device: Any) -> None:
        self.torch_device = torch.device(device)
        torch.empty(0, device=self.torch_device)
        self.exact_in_torch = 0
        self._decoded: WeakKeyDictionary[Quantised, dict[int, Decoded]] = WeakKeyDictionary()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without decoded tensors, because tensors can be decoded again."""
        return self.__dict__ | {"_decoded": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
        self._decoded = WeakKeyDictionary()

    def _multiply_each(
        self,
        operation: Operation,
        tensors: Mapping[str, Sequence[Quantised]],
        operands: Sequence[Mapping[str, Quantised]],
    ) -> list[ProductResult]:
        if len(operands) == 1 and all(self._is_plain(one) for one in operands[0].values()):
            values: dict[str, Any] = {}
            for product in operation.products:
                result = self._product(product, operands[0])
                if result is None:
                    for one in operands[0].values():
                        self._decoded.pop(one, None)
                    break
                values[product.result.name] = result
            else:
                self.exact_in_torch += len(values)
                return [
                    ProductResult(
                        op=operation.name,
                        values={name: each.cpu().numpy() for name, each in values.items()},
                        operands=operands[0],
                        exact=True,
                        overflow=any(bool(each.isinf().any()) for each in values.values()),
                    )
                ]
        return super()._multiply_each(operation, tensors, operands)

    def _is_plain(self, tensor: Quantised) -> bool:
        """Return whether the stored numbers describe the whole tensor: a single plane, and no NaN
        or Inf that poisons results."""
        poison = self.numerics.special == "poison"
        special = poison and (tensor.nan or tensor.inf or tensor.saturated > 0)
        return tensor.storage.format.plane_count == 1 and not special

    def _product(self, product: MatrixProduct, operands: Mapping[str, Quantised]) -> Any:
        """Return the product of two tensors in float32; None if a bit may be lost before the last
        rounding."""
        (first, a), (second, b) = (
            self._side(operands[tensor.name], product.copy(tensor)) for tensor in product.factors
        )
        classes = [operands[tensor.name].tensor_class for tensor in product.factors]
        trees = ProductParameters.of(classes[0], classes[1], self.numerics)
        # An accumulator of floats adds chunks of the contraction: the result is no single sum.
        if trees.accumulator is not None or not is_one_product(a, b, trees):
            return None
        factors = first.values, second.values
        if are_singles(first, second) and fits(a, b, FLOAT32_BITS) and has_singles():
            with torch.autocast(self.torch_device.type, enabled=False):
                return factors[0] @ factors[1].T + 0.0  # makes every zero +0
        return round_doubles(factors[0].double() @ factors[1].double().T)

    def _side(self, tensor: Quantised, number: int) -> "tuple[Decoded, Bounds]":
        """Return a factor as a product reads the factor, with rows along the contraction, and the
        bounds."""
        two = tensor.storage.two_copies
        stored = self._decoded.setdefault(tensor, {})
        place = number if two else 0
        if place not in stored:
            stored[place] = decode(tensor, place, self.torch_device)
        read = stored[place].read(transposed=number == 1 and not two, length=tensor.shape[number])
        return read, read.bounds


@dataclass(frozen=True, kw_only=True, eq=False)
class Decoded:
    """Decoded copy of a tensor.

    ``values``: padded elements as a torch tensor, in float32 if float32 holds every element well
    above the subnormals, else in float64. ``depth``: largest d of a nonzero element, 0 without
    nonzero elements. ``deficits``: largest deficit of the rows, and largest deficit of the columns,
    0 if no product reads along the columns. ``exponents``: exponents of two powers of two.
    Magnitudes of nonzero numbers are whole multiples of the first power, at least the first power,
    and below the second power.
    """

    values: Any
    depth: int
    deficits: tuple[int, int]
    exponents: tuple[int, int]
    format: Format

    def read(self, *, transposed: bool, length: int) -> "Decoded":
        """Return the copy with rows along a contraction: ``length`` rows, without padding rows."""
        if not transposed:
            return replace(self, values=self.values[:length])
        return replace(self, values=self.values.T[:length], deficits=self.deficits[::-1])

    @property
    def bounds(self) -> Bounds:
        """Bounds of the rows. ``reach`` is an upper limit."""
        return Bounds(
            deficits=self.deficits[0],
            extents=self.depth + self.format.precision,
            reach=self.depth + self.deficits[0],
            contraction=self.values.shape[1],
            format=self.format,
        )


def are_singles(a: Decoded, b: Decoded) -> bool:
    """Return whether the two operands are in float32 and no sum of products leaves the normal
    numbers of float32."""
    lowest, highest = (sum(pair) for pair in zip(a.exponents, b.exponents, strict=True))
    singles = a.values.dtype == b.values.dtype == torch.float32
    longest = a.values.shape[1].bit_length()
    return singles and lowest >= MIN_EXPONENT and highest + longest <= MAX_EXPONENT


def has_singles() -> bool:
    """Return whether torch multiplies float32 exactly as float32. Settings of torch may select
    shorter numbers."""
    try:
        return torch.get_float32_matmul_precision() == "highest"
    except RuntimeError:  # the precision was set by torch's newer names
        return False


def decode(tensor: Quantised, number: int, where: Any) -> Decoded:
    """Return a stored copy, decoded on a device of torch.

    A group that is not a number and an element that is not a number count as zeros. An infinite
    element counts as the largest element of the group. :mod:`diastole_sim.golden.operand_rows`
    decodes with equal rules.
    """
    kind, stored = tensor.storage.format, tensor.copies[number]
    nonzero = (stored.exponents != 0) & (stored.exponents != kind.nan_byte)
    exponents, significands = stored_parts(stored.exponents, kind, tensor.tensor_exponent)
    unit = exponents + 1 - kind.precision - SIGNIFICAND_FRACTION * kind.two_level
    scales = power_of_two(unit) * significands if kind.two_level else power_of_two(unit)
    scales = np.where(nonzero, scales, 0.0)
    places = unit[nonzero]
    lowest = int(places.min(initial=MAX_EXPONENT)) - kind.depth
    highest = int(places.max(initial=MIN_EXPONENT)) + kind.precision + 4 * kind.two_level
    narrow = where.type == "cpu" and kind.depth < MAX_EXPONENT
    narrow = narrow and lowest >= MIN_EXPONENT and highest <= MAX_EXPONENT

    # Decode the codes by tables, and multiply by the scales of the groups.
    values, depths = _tables(kind, where, torch.float32 if narrow else torch.float64)
    codes = torch.from_numpy(stored.codes.astype(np.int32).ravel()).to(where)
    elements = values.index_select(0, codes).view(stored.codes.shape)
    groups = torch.from_numpy(scales).to(where, values.dtype)
    elements = elements * _spread(groups, stored, tensor)
    depth = 0
    if kind.depth:
        present = depths.index_select(0, codes).view(stored.codes.shape)
        depth = int(torch.where(elements != 0, present, 0).max())
    return Decoded(
        values=elements,
        depth=depth,
        deficits=_deficits(stored, exponents, nonzero, tensor),
        exponents=(lowest, highest),
        format=kind,
    )


@cache
def _tables(kind: Format, where: Any, numbers: Any) -> tuple[Any, Any]:
    """Return the elements and the depths d of all codes."""
    decoded = decoded_codes(kind, False)
    elements, depths = (
        torch.from_numpy(np.ascontiguousarray(each)).to(where)
        for each in (decoded.elements, decoded.depths)
    )
    return elements.to(numbers), depths


def _spread(scales: Any, stored: Copy, tensor: Quantised) -> Any:
    """Return the scale of every element, repeated from the scales of the groups."""
    rows, columns = stored.codes.shape
    high = rows // scales.shape[0]
    wide = tensor.storage.grouping.size if tensor.storage.two_copies else tensor.block
    if high > 1:
        scales = scales.repeat_interleave(high, 0)
    if wide > 1:
        scales = scales.repeat_interleave(wide, 1)
    return scales[:, :columns]


def _deficits(
    stored: Copy, exponents: Integers, nonzero: Any, tensor: Quantised
) -> tuple[int, int]:
    """Return the largest distance of a group's exponent below the maximum of the row, and below the
    maximum of the column."""
    kind, scale = tensor.storage.format, tensor.tensor_exponent

    def largest(maxima: Any) -> int:
        of_lines, _ = stored_parts(maxima, kind, scale)
        return int(((of_lines - exponents) * nonzero).max())

    along_columns = 0 if tensor.storage.two_copies else largest(stored.col_max[None, :])
    return largest(stored.row_max[:, None]), along_columns


def round_doubles(sums: Any) -> Any:
    """Round to float32 as :func:`diastole_sim.golden.matrix_product.round_sums` does: to nearest,
    ties to even. A result below 2^-126 after rounding with unbounded exponent is +0, and every zero
    is +0."""
    values = sums.float() + 0.0  # makes every zero +0
    small = values.abs() < 2 * MIN_NORMAL
    if bool((small & (sums != 0)).any()):  # binary32 has fewer bits for subnormals
        larger = (sums * 2.0**FAR).float()
        larger = torch.where(larger.abs() < MIN_NORMAL * 2.0**FAR, 0.0, larger) * 2.0**-FAR
        values = torch.where(small, larger, values)
    return values
