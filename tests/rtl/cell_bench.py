"""One cell, all its inputs random in every cycle, against a model that knows only the contract."""

import random

import cocotb
from cocotb.triggers import ReadOnly, RisingEdge

from oracle.cell import Loading, Operands, Slots, added, sums_const
from rtl.ports import Ports
from rtl.units import make_cell

CYCLES = 1500


def drive(ports, shape, slot, offer):
    """All inputs of one cycle."""
    ports.set("control", {"direction": slot.direction, "swap": offer.swap})
    ports.set("load", offer.const(shape))
    ports.set("south", slot.south.const(shape))
    ports.set("west", slot.west.const(shape))
    ports.set("psum_west", sums_const(slot.before[0], shape))
    ports.set("psum_south", sums_const(slot.before[1], shape))


def same(ports, name, const):
    return ports.get(name) == ports.members[name].shape.const(const)


def check_hops(ports, shape, slot, offer):
    """What leaves one cycle after it came: control, the slot's vector, words for other cells."""
    control = ports.get("control_east")
    assert (control.direction, control.swap) == (slot.north, offer.swap)
    name = "east" if slot.north else "north"
    assert same(ports, name, slot.vector.const(shape)), f"vector to {name}"
    assert ports.get("load_north").valid == (offer.valid and offer.row > 0)
    if offer.valid and offer.row:
        assert same(ports, "load_north", offer.passed_on(shape)), "word to the north"


@cocotb.test(timeout_time=100, timeout_unit="us")
@cocotb.parametrize(p_valid=[1.0, 0.6])
async def matches_model(dut, p_valid):
    unit = make_cell()
    shape = unit.shape
    ports = Ports(dut, unit)
    await ports.start()
    operands = Operands(random, shape)
    loading, slots = Loading(operands, p_valid), Slots(operands, 1 << (unit.psum_bits - 2))
    history, compared = [], {True: 0, False: 0}
    for cycle in range(CYCLES):
        slot, offer = slots.cycle(), loading.cycle()
        drive(ports, shape, slot, offer)
        history.append((slot, offer, slot.times(offer.stationary, shape)))
        await ReadOnly()
        if cycle:
            check_hops(ports, shape, *history[cycle - 1][:2])
        slot, _, these = history[cycle - 1 - shape.stages] if cycle > shape.stages else [None] * 3
        if these:
            want = added(history[cycle - 1][0].before[slot.north], these)
            assert same(ports, "psum", sums_const(want, shape)), f"{cycle=} {slot.north=} {want}"
            compared[slot.north] += 1
        await RisingEdge(dut.clk)
    assert min(compared.values()) > CYCLES // 10, compared
