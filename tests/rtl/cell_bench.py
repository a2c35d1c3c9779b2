"""One cell, all its inputs random in every cycle, against a model that knows only the contract."""

import random

import cocotb
from cocotb.triggers import ReadOnly, RisingEdge

from oracle.cell import Block, Operands, multiply
from rtl.ports import Ports
from rtl.units import make_cell

CYCLES = 1500


class Inputs:
    """What every input of the cell has in one cycle."""

    def __init__(self, unit, operands, cycle, p_valid):
        self.north = random.getrandbits(1)
        self.swap = int(random.random() < 0.15)
        self.vectors = [operands.vector(unit.south_bits), operands.vector(unit.west_bits)]
        top = 1 << (unit.psum_bits - 2)  # room for one block sum
        self.psums = [
            {
                "sums": [random.randrange(-top, top) for _ in range(unit.block)],
                "inexact": int(random.random() < 0.2),
            }
            for _ in range(2)
        ]
        self.word, self.index = operands.held(), random.randrange(unit.block)
        self.row, self.valid = random.choice((0, 0, 1, 3)), int(random.random() < p_valid)
        if cycle < unit.block:  # one whole block, that there be something to multiply
            self.row, self.index, self.valid = 0, cycle, 1

    def drive(self, ports, unit):
        word = self.word.const(unit.held_bits, self.row, self.index)
        ports.set("control", {"direction": self.north, "swap": self.swap})
        ports.set("south", self.vectors[0].const(unit.south_bits))
        ports.set("west", self.vectors[1].const(unit.west_bits))
        ports.set("load", word | {"valid": self.valid})
        ports.set("psum_west", self.psums[0])
        ports.set("psum_south", self.psums[1])


class Shadow:
    """The block that is being loaded, and the active one; None until all its rows were written."""

    def __init__(self, block):
        self.rows, self.fields, self.active = [None] * block, None, None

    def step(self, inputs):
        if inputs.swap:
            self.active = Block(list(self.rows), *self.fields) if all(self.rows) else None
        if inputs.valid and inputs.row == 0:
            self.rows[inputs.index] = inputs.word.rows[inputs.index]
            self.fields = (inputs.word.east, inputs.word.north, inputs.word.nonzero)


def check_hops(ports, unit, past):
    """What leaves one cycle after it came: control, the slot's vector, words for other cells."""
    control, word = ports.get("control_east"), ports.get("load_north")
    assert (control.direction, control.swap) == (past.north, past.swap)
    name, bits = ("east", unit.west_bits) if past.north else ("north", unit.south_bits)
    want = past.vectors[past.north].const(bits)
    assert ports.get(name) == ports.members[name].shape.const(want), f"vector to {name}"
    assert word.valid == (past.valid and past.row > 0)
    if word.valid:
        want = past.word.const(unit.held_bits, past.row - 1, past.index)
        assert word == ports.members["load_north"].shape.const(want), "word to the north"


@cocotb.test(timeout_time=100, timeout_unit="us")
@cocotb.parametrize(p_valid=[1.0, 0.6])
async def matches_model(dut, p_valid):
    unit = make_cell()
    ports = Ports(dut, unit)
    await ports.start()
    fraction, sum_bits = unit.fraction, unit.sum_bits
    operands = Operands(
        random, block=unit.block, held_bits=unit.held_bits, sum_bits=sum_bits, fraction=fraction
    )
    shadow, history, compared = Shadow(unit.block), [], 0
    for cycle in range(CYCLES):
        inputs = Inputs(unit, operands, cycle, p_valid)
        inputs.drive(ports, unit)
        vector, held = inputs.vectors[inputs.north], shadow.active
        added = held and multiply(vector, held, inputs.north, fraction, sum_bits)
        history.append((inputs, added))
        await ReadOnly()
        if cycle:
            check_hops(ports, unit, history[cycle - 1][0])
        slot, added = history[cycle - 1 - unit.stages] if cycle > unit.stages else (None, None)
        if added:
            came = history[cycle - 1][0].psums[slot.north]
            got = ports.get("psum")
            want = [a + b for a, b in zip(came["sums"], added[0], strict=True)]
            assert list(got.sums) == want, f"{cycle=} north={slot.north}"
            assert got.inexact == (came["inexact"] or added[1]), f"{cycle=}"
            compared += 1
        shadow.step(inputs)
        await RisingEdge(dut.clk)
    assert compared > CYCLES // 2
