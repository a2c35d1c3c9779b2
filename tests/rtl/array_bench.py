"""The bare array against sums of fractions: both uses, mixed slot by slot, passes back to back.

Ports that a slot does not use, and slots that are empty, carry noise; words are loaded while the
pass before streams, in any order.
"""

import random
from dataclasses import dataclass

import cocotb
from cocotb.triggers import ReadOnly, RisingEdge

from oracle.cell import Operands, multiply
from rtl.ports import Ports
from rtl.units import make_array


@dataclass
class Slot:
    """``kind`` "east", "north" or "empty"; a vector for every port, used or not."""

    kind: str
    direction: int
    south: list
    west: list
    swap: bool


@dataclass
class Pass:
    """Held blocks by row and column of cells, first slot, and the slot of each word's loading."""

    blocks: list
    start: int
    words: dict  # slot: (row, index)


def plan_passes(unit, operands, lengths):
    """Passes of ``lengths`` slots, each loaded in the slots of its predecessor; and the end."""
    words = [(row, index) for row in range(unit.rows) for index in range(unit.block)]
    passes, start, swapped = [], len(words) + 1, 0
    for length in lengths:
        # From the swap before to the slot before its own swap.
        slots = sorted(random.sample(range(swapped, start - 1), len(words)))
        random.shuffle(words)
        blocks = [[operands.held() for _ in range(unit.cols)] for _ in range(unit.rows)]
        passes.append(Pass(blocks, start, dict(zip(slots, words, strict=True))))
        swapped, start = start - 1, start + length
    return passes, start


def plan_slots(unit, operands, passes, total, p_empty):
    swaps = {each.start - 1 for each in passes}
    slots = []
    for number in range(total):
        empty = number < passes[0].start or random.random() < p_empty
        direction = random.getrandbits(1)
        kind = "empty" if empty else ("east", "north")[direction]
        nonzero = False if empty else None  # None: random
        south = [operands.vector(unit.south_bits, nonzero) for _ in range(unit.cols)]
        west = [operands.vector(unit.west_bits, nonzero) for _ in range(unit.rows)]
        slots.append(Slot(kind, direction, south, west, number in swaps))
    return slots


def expected(unit, slots, passes):
    """Port and cycle to what leaves there: number of the slot, B sums, inexact."""
    wanted = {}
    for number, slot in enumerate(slots):
        if slot.kind == "empty":
            continue
        north = slot.kind == "north"
        blocks = [each for each in passes if each.start <= number][-1].blocks
        latency = unit.north_latency if north else unit.east_latency
        for port in range(unit.cols if north else unit.rows):
            sums, inexact = [0] * unit.block, False
            for k, vector in enumerate(slot.west if north else slot.south):
                block = blocks[k][port] if north else blocks[port][k]
                added, flag = multiply(vector, block, north, unit.fraction, unit.sum_bits)
                sums = [a + b for a, b in zip(sums, added, strict=True)]
                inexact |= flag
            wanted[f"{slot.kind}__{port}", number + latency + port] = (number, sums, inexact)
    return wanted


def drive(ports, unit, operands, slots, words, cycle):
    """Set every port to what the skew says of it, in one cycle."""
    for c in range(unit.cols):
        number = cycle - c
        if 0 <= number < len(slots):
            ports.set(f"south__{c}", slots[number].south[c].const(unit.south_bits))
        word = operands.held().const(unit.held_bits, 0, 0) | {"valid": 0}
        if number in words:
            each, row, index = words[number]
            word = each.blocks[row][c].const(unit.held_bits, row, index)
        ports.set(f"load__{c}", word)
    for r in range(unit.rows):
        number = cycle - r
        if 0 <= number < len(slots):
            slot = slots[number]
            control = {"direction": slot.direction, "swap": int(slot.swap)}
            ports.set(f"control__{r}", control)
            ports.set(f"west__{r}", slot.west[r].const(unit.west_bits))


@cocotb.test(timeout_time=100, timeout_unit="us")
@cocotb.parametrize(p_empty=[0.0, 0.3])
async def matches_model(dut, p_empty):
    unit = make_array()
    ports = Ports(dut, unit)
    await ports.start()
    operands = Operands(
        random,
        block=unit.block,
        held_bits=unit.held_bits,
        sum_bits=unit.sum_bits,
        fraction=unit.fraction,
    )
    least = unit.rows * unit.block
    lengths = [random.choice((least, least, least + 5)) for _ in range(60)]
    passes, total = plan_passes(unit, operands, lengths)
    words = {slot: (each, *word) for each in passes for slot, word in each.words.items()}
    slots = plan_slots(unit, operands, passes, total, p_empty)
    wanted, compared = expected(unit, slots, passes), 0
    outputs = [f"east__{r}" for r in range(unit.rows)] + [f"north__{c}" for c in range(unit.cols)]
    for cycle in range(total + 2 * (unit.rows + unit.cols)):
        drive(ports, unit, operands, slots, words, cycle)
        await ReadOnly()
        for name in outputs:
            if (name, cycle) in wanted:
                number, sums, inexact = wanted[name, cycle]
                got = ports.get(name)
                assert list(got.sums) == sums, f"slot {number} at {name}"
                assert got.inexact == inexact, f"inexact of slot {number} at {name}"
                compared += 1
        await RisingEdge(dut.clk)
    assert compared == len(wanted) > 0
