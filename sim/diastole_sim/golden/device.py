"""The golden device: the whole machine's results, without its clock."""

from collections.abc import Mapping, Sequence

from diastole_sim.device.interface import Floats, ProductResult
from diastole_sim.device.operands import require_contractions, require_storage
from diastole_sim.device.products import Products
from diastole_sim.device.scales import TensorScales
from diastole_sim.golden.convert import Quantised, quantise
from diastole_sim.golden.product import matrix_product
from diastole_sim.spec.check import require_int
from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.operations import Operation


class GoldenDevice(Products[Quantised]):
    """A :class:`diastole_sim.device.interface.DeviceProtocol` in numpy, bit-exact to generated
    hardware.

    ``numerics``: what decides the bits. ``seed``: 32 bits, of every stochastic rounding.
    """

    total_cycles: int | None = None
    """It has no clock."""

    def __init__(self, numerics: Numerics, seed: int = 0):
        self.numerics = numerics
        self.seed = require_int("seed", seed, 0, 2**32 - 1)
        self._scales = TensorScales(numerics)

    def _convert(
        self,
        array: Floats,
        tensor_class: str,
        *,
        tag: int,
        step: int,
        scale: int | None,
        beside: bool,
    ) -> Quantised:
        """See :func:`diastole_sim.golden.convert.quantise`. It takes no time here, so ``beside``
        changes nothing."""
        converted = quantise(
            array,
            tensor_class,
            self.numerics,
            seed=self.seed,
            tag=tag,
            step=step,
            scale=self._scales.choose(tensor_class, tag, scale),
        )
        self._scales.remember(tensor_class, tag, converted.amax)
        return converted

    def upload(self, tensor: Quantised) -> Quantised:
        """A tensor that was converted before, as an operand: itself. ValueError if it is not stored
        as this device stores its class."""
        self._check_stored("the tensor", tensor)
        return tensor

    def _own(self, operand: object) -> Quantised | None:
        return operand if isinstance(operand, Quantised) else None

    def _check_stored(self, name: str, operand: Quantised) -> None:
        own = self.numerics.tensor_class(operand.tensor_class)
        require_storage(name, operand.chosen, operand.block, own, self.numerics.block)

    def _names_over_time(self) -> bool:
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
        results = {
            product.result.name: matrix_product(product, operands, self.numerics)
            for product in operation.products
        }
        return ProductResult(
            op=operation.name,
            values={name: result.values for name, result in results.items()},
            operands=operands,
            exact=all(result.exact for result in results.values()),
            overflow=any(result.overflow for result in results.values()),
        )
