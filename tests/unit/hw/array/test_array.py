# amaranth: UnusedElaboratable=no
"""The bare array against sums of fractions: every use, mixed slot by slot, passes back to back.

Ports that a slot does not use, and slots that are empty, carry noise; words are loaded while the
pass before streams, in any order.
"""

from dataclasses import dataclass

import pytest

from diastole.array.array import Array
from oracle.cell import Operands, multiply
from support.bench import run


@dataclass
class Slot:
    """``kind`` "east", "north" or "empty"; a vector for every port, used or not."""

    kind: str
    direction: int
    south: list
    west: list
    swap: bool = False


@dataclass
class Pass:
    """Held blocks by row and column of cells, first slot, and the slot of each word's loading."""

    blocks: list
    start: int
    words: dict  # slot: (row, index)


def make(rows, cols, block, widths, fraction, **options):
    south, west, held = widths
    return Array(
        rows=rows,
        cols=cols,
        block=block,
        south_bits=south,
        west_bits=west,
        held_bits=held,
        sum_bits=max(south, west) + held + 1 + (block - 1).bit_length(),
        fraction=fraction,
        **options,
    )


def plan_passes(dut, operands, rng, lengths):
    """Passes of ``lengths`` slots, each loaded in the slots of its predecessor."""
    words = [(row, index) for row in range(dut.rows) for index in range(dut.block)]
    passes, start, swapped = [], len(words) + 1, 0
    for length in lengths:
        free = range(swapped, start - 1)  # from the swap before to the slot before its own swap
        slots = sorted(rng.sample(free, len(words)))
        rng.shuffle(words)
        blocks = [[operands.held() for _ in range(dut.cols)] for _ in range(dut.rows)]
        passes.append(Pass(blocks, start, dict(zip(slots, words, strict=True))))
        swapped, start = start - 1, start + length
    return passes, start


def plan_slots(dut, operands, rng, passes, total, p_empty):
    swaps = {each.start - 1 for each in passes}
    slots = []
    for number in range(total):
        empty = number < passes[0].start or rng.random() < p_empty
        direction = rng.getrandbits(1)
        kind = "empty" if empty else ("north" if direction and dut.in_place else "east")
        # An empty slot's vectors have nonzero 0; the direction that is not used has anything.
        quiet = False if empty else None
        south = [operands.vector(dut.south_bits, quiet) for _ in range(dut.cols)]
        west = [operands.vector(dut.west_bits, quiet) for _ in range(dut.rows)]
        slots.append(Slot(kind, direction, south, west, number in swaps))
    return slots


def expected(dut, slot, blocks):
    """{port: (B sums, inexact)} of the side that the slot's sums leave."""
    north = slot.kind == "north"
    vectors = slot.west if north else slot.south
    result = {}
    for port in range(dut.cols if north else dut.rows):
        sums, inexact = [0] * dut.block, False
        for k, vector in enumerate(vectors):
            block = blocks[k][port] if north else blocks[port][k]
            added, flag = multiply(vector, block, north, dut.fraction, dut.sum_bits)
            sums = [a + b for a, b in zip(sums, added, strict=True)]
            inexact |= flag
        result[port] = (sums, inexact)
    return result


class Driver:
    """Sets every port to what the skew says of it, in one cycle."""

    def __init__(self, dut, slots, passes, operands):
        self.dut, self.slots, self.operands = dut, slots, operands
        self.words = {slot: (p, *word) for p in passes for slot, word in p.words.items()}

    def drive(self, ctx, cycle):
        dut = self.dut
        for c in range(dut.cols):
            slot = self._slot(cycle - c)
            if slot:
                ctx.set(dut.south[c], slot.south[c].const(dut.south_bits))
            ctx.set(dut.load[c], self._word(cycle - c, c))
        for r in range(dut.rows):
            slot = self._slot(cycle - r)
            if not slot:
                continue
            control = {"direction": slot.direction, "swap": int(slot.swap)}
            ctx.set(dut.control[r], control)
            if dut.in_place:
                ctx.set(dut.west[r], slot.west[r].const(dut.west_bits))

    def _slot(self, number):
        return self.slots[number] if 0 <= number < len(self.slots) else None

    def _word(self, number, c):
        if number in self.words:
            each, row, index = self.words[number]
            return each.blocks[row][c].const(self.dut.held_bits, row, index)
        noise = self.operands.held().const(self.dut.held_bits, 0, 0)
        return noise | {"valid": 0}


def check(dut, rng, lengths, p_empty):
    operands = Operands(
        rng,
        block=dut.block,
        held_bits=dut.held_bits,
        sum_bits=dut.sum_bits,
        fraction=dut.fraction,
    )
    passes, total = plan_passes(dut, operands, rng, lengths)
    slots = plan_slots(dut, operands, rng, passes, total, p_empty)
    driver = Driver(dut, slots, passes, operands)
    latest = total + max(dut.rows, dut.cols) * 2 + 4
    wanted = {}  # (side, port, cycle): slot number, sums, inexact
    for number, slot in enumerate(slots):
        if slot.kind == "empty":
            continue
        blocks = [each for each in passes if each.start <= number][-1].blocks
        latency = dut.north_latency if slot.kind == "north" else dut.east_latency
        for port, result in expected(dut, slot, blocks).items():
            wanted[slot.kind, port, number + latency + port] = (number, *result)
    sides = {"east": dut.east} | ({"north": dut.north} if dut.in_place else {})
    compared = 0

    async def bench(ctx):
        nonlocal compared
        for cycle in range(latest):
            driver.drive(ctx, cycle)
            for kind, ports in sides.items():
                for port, output in enumerate(ports):
                    if (kind, port, cycle) not in wanted:
                        continue
                    number, sums, inexact = wanted[kind, port, cycle]
                    got = ctx.get(output)
                    found = [got.sums[k] for k in range(dut.block)]
                    where = f"slot {number}, {kind} port {port}"
                    assert found == sums, f"{where}: {found}, not {sums}"
                    assert got.inexact == inexact, f"{where}: inexact is {got.inexact}"
                    compared += 1
            await ctx.tick()

    run(dut, bench)
    assert compared == len(wanted) > 0


@pytest.mark.parametrize("registered", [False, True], ids=["short", "product_registers"])
@pytest.mark.parametrize("in_place", [True, False], ids=["in_place", "edge"])
@pytest.mark.parametrize("rows, cols", [(1, 1), (2, 2), (3, 2), (4, 1), (1, 3)])
@pytest.mark.parametrize(
    "block, widths, fraction", [(1, (4, 4, 4), 6), (2, (3, 5, 4), 18), (4, (2, 3, 7), 9)], ids=str
)
def test_sums_of_mixed_slots(rows, cols, block, widths, fraction, in_place, registered, rng):
    options = {"in_place": in_place, "product_registers": registered}
    dut = make(rows, cols, block, widths, fraction, **options)
    least = rows * block
    check(dut, rng, [least, least, least + 5, least, least], 0.15)


def test_full_size(rng):
    check(make(2, 2, 8, (4, 4, 4), 18), rng, [16, 16], 0.1)


def test_shortest_passes_without_a_bubble(rng):
    """R * B slots each: a word of the next pass arrives together with every swap."""
    check(make(2, 2, 4, (4, 4, 4), 18), rng, [8] * 6, 0.0)


@pytest.mark.parametrize("rows, cols", [(1, 1), (2, 2), (3, 2), (4, 1), (1, 3), (5, 2)])
@pytest.mark.parametrize("stages", [1, 2])
def test_stated_latencies_and_widths(rows, cols, stages):
    dut = make(rows, cols, 8, (4, 4, 4), 18, product_registers=stages == 2)
    assert (dut.east_latency, dut.north_latency) == (cols + stages, rows + stages)
    assert dut.psum_bits == 30 + (max(rows, cols) - 1).bit_length()
    assert dut.deficit_bits == 5


@pytest.mark.parametrize(
    "change, message",
    [
        ({"rows": 0}, "rows must be an integer in 1..64, not 0"),
        ({"cols": 65}, "cols must be an integer in 1..64, not 65"),
        ({"block": 64}, "block must be one of 1, 2, 4, 8, 16, 32, not 64"),
        ({"sum_bits": 4}, "sum_bits must be an integer in 5..22, not 4"),
        ({"fraction": 33}, "fraction must be an integer in 0..32, not 33"),
    ],
)
def test_bad_parameters(change, message):
    good = {"rows": 2, "cols": 2, "block": 8, "south_bits": 4, "west_bits": 4, "held_bits": 4}
    with pytest.raises(ValueError) as caught:
        Array(**good | {"sum_bits": 12, "fraction": 18} | change)
    assert str(caught.value) == message
