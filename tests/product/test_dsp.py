"""Cells that multiply in DSP blocks, in Verilator: the bits of all others."""

import pytest

from support import products as p
from support.sweep import sweep

MACHINES = ["quick", sweep("dsp25"), sweep("dsp")]


@pytest.mark.parametrize("kind", ["plain", "wide", "special", "ties"])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (31, 33, 17)], ids=str)
@pytest.mark.parametrize("name", MACHINES)
def test_dsp_blocks_have_the_bits(name, sizes, kind, devices, goldens, np_rng):
    data = p.tensors(np_rng, sizes, kind)
    p.check_against_golden(devices(name), goldens(name), data)


def test_products_of_a_block():
    """Three of four lanes and one, or two and two."""
    shapes = {name: config.plan.shape for name, config in p.DSP_MACHINES.items()}
    assert {name: shape.block for name, shape in shapes.items()} == {"dsp25": 4, "dsp": 4}
    assert {name: shape.products_per_dsp for name, shape in shapes.items()} == {
        "dsp25": 3,
        "dsp": 2,
    }
