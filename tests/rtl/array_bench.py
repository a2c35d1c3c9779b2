"""The bare array against sums of fractions: both uses, mixed slot by slot, passes back to back.

Ports that a slot does not use, and slots that are empty, carry noise; words are loaded while the
pass before streams, in any order that has a block's first word first.
"""

import random

import cocotb
from cocotb.triggers import ReadOnly, RisingEdge

from oracle.array import Passes
from oracle.cell import sums_const
from rtl.ports import Ports
from rtl.units import make_array


def drive(ports, unit, passes, cycle):
    """Set every port to what the skew says of it, in one cycle."""
    for c in range(unit.cols):
        ports.set(f"load__{c}", passes.word(cycle - c, c))
        slot = passes.slot(cycle - c)
        if slot:
            ports.set(f"south__{c}", slot.south[c].const(unit.shape))
    for r in range(unit.rows):
        slot = passes.slot(cycle - r)
        if slot:
            ports.set(f"control__{r}", {"direction": slot.direction, "swap": int(slot.swap)})
            ports.set(f"west__{r}", slot.west[r].const(unit.shape))


@cocotb.test(timeout_time=100, timeout_unit="us")
@cocotb.parametrize(p_empty=[0.0, 0.3])
async def matches_model(dut, p_empty):
    unit = make_array()
    ports = Ports(dut, unit)
    await ports.start()
    least = unit.rows * unit.block
    lengths = [random.choice((least, least, least + 5)) for _ in range(60)]
    passes = Passes(random, unit.shape, unit.cols, lengths, p_empty)
    wanted = passes.wanted({"east": unit.east_latency, "north": unit.north_latency})
    outputs = [("east", r) for r in range(unit.rows)] + [("north", c) for c in range(unit.cols)]
    compared = 0
    for cycle in range(passes.total + 2 * (unit.rows + unit.cols)):
        drive(ports, unit, passes, cycle)
        await ReadOnly()
        for side, port in outputs:
            if (side, port, cycle) in wanted:
                number, sums = wanted[side, port, cycle]
                name = f"{side}__{port}"
                want = ports.members[name].shape.const(sums_const(sums, unit.shape))
                assert ports.get(name) == want, f"slot {number} at {name}: not {sums}"
                compared += 1
        await RisingEdge(dut.clk)
    assert compared == len(wanted) > 0
