"""A device as the engine of a golden machine: what goes to the device, and what comes back."""

from types import SimpleNamespace

import numpy as np
import pytest

from diastole_sim.device.conversion import Conversion
from diastole_sim.golden.convert import quantise
from diastole_sim.golden.golden_machine import ALL_CYCLES, PRODUCT_CYCLES
from diastole_sim.golden.matrix_product import matrix_product
from diastole_sim.host.device_engine import DeviceEngine
from diastole_sim.spec.operations import OPERATIONS
from support.numerics import make_numerics

NUMERICS = make_numerics(block=4)


class Device:
    """Converts and multiplies by the golden code, and notes the calls."""

    def __init__(self):
        self.calls, self.total_cycles = [], None

    def convert_at(self, values, request):
        self.calls.append(("convert", request))
        return quantise(values, request, NUMERICS, seed=3)

    def upload(self, tensor):
        self.calls.append(("upload", tensor.tensor_class))
        return tensor

    def multiply_together(self, products):
        ((name, operands),) = products
        self.calls.append((name, len(operands)))
        operation = OPERATIONS[name]
        (product,) = operation.products
        named = dict(zip(operation.operand_names, operands, strict=True))
        result = matrix_product(product, named, NUMERICS)
        values = {product.result.name: result.values}
        self.total_cycles = 100 + (self.total_cycles or 0)
        counters = SimpleNamespace(cycles=30)
        return [SimpleNamespace(values=values, exact=False, overflow=True, counters=counters)]


def test_a_conversion_keeps_its_request(np_rng):
    device, request = Device(), Conversion("x", tag=9, step=2)
    values = np_rng.normal(size=(5, 7)).astype(np.float32)
    found = DeviceEngine(device).convert(values, request)
    assert device.calls == [("convert", request)]
    np.testing.assert_array_equal(
        found.values(), quantise(values, request, NUMERICS, seed=3).values()
    )


@pytest.mark.parametrize("name", ["forward", "dx", "dw"])
def test_a_product_names_its_operation(name, np_rng):
    """Operands in the order of the operation, and the flags of the device."""
    shapes = {"X": (5, 6), "W": (6, 7), "dY": (5, 7)}
    operation = OPERATIONS[name]
    operands = {
        tensor.name: quantise(
            np_rng.normal(size=shapes[tensor.name]).astype(np.float32),
            Conversion(tensor.tensor_class),
            NUMERICS,
            seed=0,
        )
        for tensor in operation.products[0].factors
    }
    device = Device()
    (product,) = operation.products
    found = DeviceEngine(device).multiply(product, operands)
    assert device.calls[-1] == (name, 2)
    assert (found.exact, found.overflow) == (False, True)
    expected = matrix_product(product, operands, NUMERICS)
    np.testing.assert_array_equal(found.values, expected.values)


def test_cycles_of_products_and_of_all_work(np_rng):
    device = Device()
    engine = DeviceEngine(device)
    assert engine.cycles() == {PRODUCT_CYCLES: 0, ALL_CYCLES: 0}
    operands = {
        name: quantise(np.ones(shape, np.float32), Conversion(name.lower()), NUMERICS, seed=0)
        for name, shape in {"X": (5, 6), "W": (6, 7)}.items()
    }
    (product,) = OPERATIONS["forward"].products
    for _ in range(2):
        engine.multiply(product, operands)
    assert engine.cycles() == {PRODUCT_CYCLES: 60, ALL_CYCLES: 200}
