"""Sizes of memories: those that the datapath has when it is built."""

import pytest
from amaranth.hdl import Fragment

from diastole_hw.execute.datapath import Datapath
from diastole_hw.memory.memory_sizes import rams_of, scratchpad_bits, sum_bits
from support.products import MACHINES
from support.sweep import sweep


@pytest.mark.parametrize(
    "name",
    [
        *("pico", "turning", "nvfp4", "floats_odd"),
        *(sweep(name) for name in ("mixed", "ports", "mxfp8_e4m3", "floats")),
    ],
)
def test_they_are_those_of_the_datapath(name):
    plan = MACHINES[name].plan
    rams = list(rams_of(Fragment.get(Datapath(plan), None)))
    sums = [ram for ram in rams if ram.depth == plan.tile_sums]
    others = sum(ram.width * ram.depth for ram in rams)
    assert sums
    assert scratchpad_bits(plan) + sum_bits(plan) == others
    assert scratchpad_bits(plan) > 0 < sum_bits(plan)
