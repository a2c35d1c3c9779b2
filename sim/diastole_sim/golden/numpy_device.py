"""Compute the results of the whole machine, without a clock: the golden device."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import prod

from diastole_sim.device.conversion import Conversion
from diastole_sim.device.interface import Floats, ProductResult
from diastole_sim.device.operand_shapes import require_contractions, require_storage
from diastole_sim.device.products import Batch, Products
from diastole_sim.device.tensor_scales import TensorScales
from diastole_sim.golden.convert import Quantised, quantise, quantise_stack
from diastole_sim.golden.matrix_product import stack_product
from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.operations import Operation
from diastole_sim.spec.require import require_int

BATCH_ELEMENTS = 1 << 15
"""Most elements of a stack that are processed at once, so that they stay in a near cache."""


class NumpyDevice(Products[Quantised]):
    """Implement a :class:`diastole_sim.device.interface.DeviceProtocol` in numpy, bit-exact to
    generated hardware.

    ``numerics``: parameters that decide the bits of results. ``seed``: 32 bits, for every
    stochastic rounding.
    """

    total_cycles: int | None = None
    """Cycles of the device: None, since the device has no clock."""

    def __init__(self, numerics: Numerics, seed: int = 0):
        self.numerics = numerics
        self.seed = require_int("seed", seed, 0, 2**32 - 1)
        self._scales = TensorScales(numerics)

    def _convert(self, array: Floats, request: Conversion) -> Quantised:
        """Convert a matrix; see :func:`diastole_sim.golden.convert.quantise`. The conversion takes
        no time, so ``overlap`` changes nothing."""
        scaled = replace(request, scale=self._scales.choose(request))
        converted = quantise(array, scaled, self.numerics, seed=self.seed)
        self._scales.remember(request, converted.amax)
        return converted

    def upload(self, tensor: Quantised) -> Quantised:
        """Return a tensor that was converted before as an operand: the tensor itself. ValueError if
        the storage of the tensor differs from the device's storage of the class."""
        self._check_stored("the tensor", tensor)
        return tensor

    def _device_tensor(self, operand: object) -> Quantised | None:
        return operand if isinstance(operand, Quantised) else None

    def _check_stored(self, name: str, operand: Quantised) -> None:
        storage = self.numerics.tensor_class(operand.tensor_class)
        if storage.format.planes and operand.width in self.numerics.widths:
            storage = self.numerics.converted_class(operand.tensor_class, operand.width)
        require_storage(name, operand.storage, operand.block, storage, self.numerics.block)

    def _tags_over_time(self) -> bool:
        return self.numerics.source == "delayed"

    def _check_sizes(self, operation: Operation, sizes: Mapping[str, int]) -> None:
        require_contractions(operation.products, sizes, self.numerics)

    def _multiply(
        self,
        operation: Operation,
        operands: Mapping[str, Quantised],
        sizes: Mapping[str, int],
        converted: Sequence[Quantised],
    ) -> ProductResult:
        each = {name: [tensor] for name, tensor in operands.items()}
        (result,) = self._multiply_each(operation, each, [operands])
        return result

    def _convert_batch(self, arrays: Floats, requests: Sequence[Conversion]) -> list[Quantised]:
        if self.numerics.source == "delayed":  # a scale may depend on the tensor before
            return list(super()._convert_batch(arrays, requests))
        scale = self._scales.choose(requests[0])
        scaled = [replace(each, scale=scale) for each in requests]
        tensors: list[Quantised] = []
        for part in pieces(len(arrays), arrays[0].size):
            tensors += quantise_stack(arrays[part], scaled[part], self.numerics, seed=self.seed)
        return tensors

    def _multiply_batch(
        self, operation: Operation, batch: Batch[Quantised], sizes: Mapping[str, int]
    ) -> list[ProductResult]:
        results: list[ProductResult] = []
        for part in pieces(
            batch.count, max(prod(pair) for pair in combinations(sizes.values(), 2))
        ):
            products = [batch.operands(index) for index in range(batch.count)[part]]
            each = {
                name: tensors if len(tensors) == 1 else [operands[name] for operands in products]
                for name, tensors in batch.tensors.items()
            }
            results += self._multiply_each(operation, each, products)
        return results

    def _multiply_each(
        self,
        operation: Operation,
        tensors: Mapping[str, Sequence[Quantised]],
        operands: Sequence[Mapping[str, Quantised]],
    ) -> list[ProductResult]:
        """Return the results for each entry of ``operands``. ``tensors``: the operands by name; a
        list of one if all entries share the tensor."""
        results = {
            product.result.name: stack_product(product, tensors, self.numerics)
            for product in operation.products
        }
        multiplied: list[ProductResult] = []
        for index, named in enumerate(operands):
            # A list of results has one entry if all products share both factors.
            single = {name: each[min(index, len(each) - 1)] for name, each in results.items()}
            multiplied.append(
                ProductResult(
                    op=operation.name,
                    values={name: result.values for name, result in single.items()},
                    operands=named,
                    exact=all(result.exact for result in single.values()),
                    overflow=any(result.overflow for result in single.values()),
                )
            )
        return multiplied


def pieces(count: int, elements: int) -> Iterator[slice]:
    """Yield the parts of a stack of ``count`` matrices that are processed at once. ``elements``:
    most elements of a matrix."""
    length = max(1, BATCH_ELEMENTS // elements)
    for first in range(0, count, length):
        yield slice(first, first + length)
