"""Several machines share a product: the bits of one machine, and each works on its part alone."""

import numpy as np
import pytest

from diastole_sim.golden.sharing import share
from diastole_sim.spec.operations import OPERATIONS
from support import products as p

SIZES = (45, 37, 50)
PARTED = [("forward", "m"), ("forward", "n"), ("dx", "k"), ("dw", "n"), ("backward", "k")]


@pytest.fixture(scope="module")
def data():
    return p.tensors(np.random.default_rng(8), SIZES, "wide")


@pytest.mark.parametrize("op, axis", PARTED)
def test_machines_of_different_shapes(op, axis, devices, goldens, data):
    """1 x 1, 3 x 2 and 2 x 4 cells, the last behind two ports, one of them with stalls."""
    machines = [devices("pico", 3), devices("wide"), devices("ports")]
    golden = goldens("pico")
    operands = p.convert(golden, data)
    named = {name: operands[name] for name in OPERATIONS[op].operand_names}
    shared = share(machines, op, named, axis)
    whole = p.multiply(golden, op, operands)
    for name, values in whole.values.items():
        assert shared.values[name].tobytes() == values.tobytes()
    assert (shared.exact, shared.overflow) == (whole.exact, whole.overflow)
    assert all(part.counters.cycles > 0 for part in shared.parts)
