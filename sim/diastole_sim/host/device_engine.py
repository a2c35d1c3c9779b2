"""Let hardware without a vector unit convert and multiply for a golden machine."""

from collections import Counter
from collections.abc import Mapping

from diastole_sim.device.conversion import Conversion
from diastole_sim.device.interface import Floats
from diastole_sim.golden.convert import Quantised
from diastole_sim.golden.golden_machine import ALL_CYCLES, PRODUCT_CYCLES
from diastole_sim.golden.matrix_product import ResultTensor
from diastole_sim.host.host_device import HostDevice
from diastole_sim.spec.operations import OPERATIONS, MatrixProduct


class DeviceEngine:
    """Conversions and products on a device, an :class:`diastole_sim.golden.golden_machine.Engine`.

    Every tensor goes to the device and comes back, so the golden machine has all numbers. Errors
    are those of :class:`HostDevice`.
    """

    def __init__(self, device: HostDevice):
        self.device = device
        self._product_cycles = 0

    def convert(self, values: Floats, request: Conversion) -> Quantised:
        """Return the converted tensor, as the hardware wrote the tensor."""
        return self.device.convert_at(values, request).read()

    def multiply(self, product: MatrixProduct, operands: Mapping[str, Quantised]) -> ResultTensor:
        """Return the product of the hardware."""
        operation = next(each for each in OPERATIONS.values() if each.products == (product,))
        uploaded = [self.device.upload(operands[name]) for name in operation.operand_names]
        (result,) = self.device.multiply_together([(operation.name, uploaded)])
        if result.counters is not None:
            self._product_cycles += result.counters.cycles
        values = result.values[product.result.name]
        return ResultTensor(values=values, exact=result.exact, overflow=result.overflow)

    def cycles(self) -> Counter[str]:
        """Return the cycles of all products, and of all work of the device, so far."""
        total = self.device.total_cycles or 0
        return Counter({PRODUCT_CYCLES: self._product_cycles, ALL_CYCLES: total})
