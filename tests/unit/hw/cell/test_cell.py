# amaranth: UnusedElaboratable=no
"""One cell, all its inputs random in every cycle, against a model that knows only the contract."""

import pytest

from diastole.cell.cell import Cell
from oracle.cell import Block, Operands, multiply
from support.bench import run

WIDTHS = [(4, 4, 4), (3, 5, 4), (8, 2, 5)]  # south, west, held
SHAPES = [(block, F, widths) for block, F in ((1, 0), (2, 4), (4, 18)) for widths in WIDTHS]
GOOD = {
    "rows": 2,
    "block": 8,
    "south_bits": 4,
    "west_bits": 4,
    "held_bits": 4,
    "sum_bits": 12,
    "psum_bits": 31,
    "fraction": 18,
}


def make(block, widths, fraction, **options):
    south, west, held = widths
    sum_bits = max(south, west) + held + 1 + (block - 1).bit_length()
    return Cell(
        rows=4,
        block=block,
        south_bits=south,
        west_bits=west,
        held_bits=held,
        sum_bits=sum_bits,
        psum_bits=sum_bits + fraction + 2,
        fraction=fraction,
        **options,
    )


class Inputs:
    """What every input of the cell has in one cycle."""

    def __init__(self, dut, rng, operands, cycle):
        self.direction = rng.getrandbits(1)
        self.swap = rng.random() < 0.15
        self.vectors = [operands.vector(dut.south_bits), operands.vector(dut.west_bits)]
        self.psums, self.flags = [], []
        for _ in range(2):
            top = 1 << (dut.psum_bits - 2)  # room for one block sum
            self.psums.append([rng.randrange(-top, top) for _ in range(dut.block)])
            self.flags.append(int(rng.random() < 0.2))
        self.word = operands.held()
        self.row, self.index = rng.choice((0, 0, 1, 3)), rng.randrange(dut.block)
        self.valid = rng.random() < 0.8
        if cycle < dut.block:  # one whole block, that there be something to multiply
            self.row, self.index, self.valid = 0, cycle, True

    def word_const(self, bits):
        return self.word.const(bits, self.row, self.index) | {"valid": int(self.valid)}

    def drive(self, ctx, dut):
        ctx.set(dut.control, {"direction": self.direction, "swap": int(self.swap)})
        ctx.set(dut.south, self.vectors[0].const(dut.south_bits))
        ctx.set(dut.load, self.word_const(dut.held_bits))
        ctx.set(dut.psum_west, {"sums": self.psums[0], "inexact": self.flags[0]})
        if dut.in_place:
            ctx.set(dut.west, self.vectors[1].const(dut.west_bits))
            ctx.set(dut.psum_south, {"sums": self.psums[1], "inexact": self.flags[1]})


class Model:
    """Shadow and active block, cycle by cycle; a block counts once all its rows were written."""

    def __init__(self, side):
        self.rows, self.fields, self.active = [None] * side, None, None

    def step(self, inputs):
        if inputs.swap and all(self.rows):
            self.active = Block(list(self.rows), *self.fields)
        elif inputs.swap:
            self.active = None
        if inputs.valid and inputs.row == 0:
            self.rows[inputs.index] = inputs.word.rows[inputs.index]
            self.fields = (inputs.word.east, inputs.word.north, inputs.word.nonzero)


def same_vector(view, vector, bits):
    const = vector.const(bits)
    return (
        [view.elements[k] for k in range(len(const["elements"]))] == const["elements"]
        and view.deficit == const["deficit"]
        and view.nonzero == const["nonzero"]
    )


def check_hops(ctx, dut, past):
    """What leaves one cycle after it came: control, the slot's vector, words for other cells."""
    north = past.direction if dut.in_place else 0
    if dut.in_place:
        assert ctx.get(dut.control_east.direction) == past.direction
    assert ctx.get(dut.control_east.swap) == past.swap
    if north:
        assert same_vector(ctx.get(dut.east), past.vectors[1], dut.west_bits), "west to east"
    else:
        assert same_vector(ctx.get(dut.north), past.vectors[0], dut.south_bits), "south to north"
    word = ctx.get(dut.load_north)
    assert word.valid == (past.valid and past.row > 0)
    if word.valid:
        want = past.word.const(dut.held_bits, past.row - 1, past.index)
        assert (word.row, word.index) == (want["row"], want["index"])
        assert [word.elements[k] for k in range(dut.block)] == want["elements"]
        assert (word.deficit_east, word.nonzero) == (want["deficit_east"], want["nonzero"])
        assert not dut.in_place or word.deficit_north == want["deficit_north"]


@pytest.mark.parametrize("registered", [False, True], ids=["short", "product_registers"])
@pytest.mark.parametrize("in_place", [True, False], ids=["in_place", "edge"])
@pytest.mark.parametrize("block, fraction, widths", [*SHAPES, (8, 18, (3, 5, 4))], ids=str)
def test_every_cycle_against_the_model(block, fraction, widths, in_place, registered, rng):
    dut = make(block, widths, fraction, in_place=in_place, product_registers=registered)
    operands = Operands(
        rng, block=block, held_bits=widths[2], sum_bits=dut.sum_bits, fraction=fraction
    )
    model, history, multiplied = Model(block), [], []
    compared = [0]

    async def bench(ctx):
        for cycle in range(80 if block == 8 else 150):
            inputs = Inputs(dut, rng, operands, cycle)
            inputs.drive(ctx, dut)
            north = inputs.direction if in_place else 0
            held = model.active
            multiplied.append(
                held and multiply(inputs.vectors[north], held, north, fraction, dut.sum_bits)
            )
            history.append(inputs)
            if cycle:
                check_hops(ctx, dut, history[cycle - 1])
            slot = cycle - 1 - dut.stages
            if slot >= 0 and multiplied[slot] is not None:
                north = history[slot].direction if in_place else 0
                added, inexact = multiplied[slot]
                came = history[slot + dut.stages]
                want = [a + b for a, b in zip(came.psums[north], added, strict=True)]
                got = ctx.get(dut.psum)
                assert [got.sums[k] for k in range(block)] == want, f"{cycle=} {north=}"
                assert got.inexact == (came.flags[north] or inexact), f"{cycle=}"
                compared[0] += 1
            model.step(inputs)
            await ctx.tick()

    run(dut, bench)
    assert compared[0] > 15


@pytest.mark.parametrize(
    "change, message",
    [
        ({"rows": 65}, "rows must be an integer in 1..64, not 65"),
        ({"block": 6}, "block must be one of 1, 2, 4, 8, 16, 32, not 6"),
        ({"south_bits": 9}, "south_bits must be an integer in 2..8, not 9"),
        ({"west_bits": 1}, "west_bits must be an integer in 2..8, not 1"),
        ({"held_bits": 0}, "held_bits must be an integer in 2..8, not 0"),
        ({"sum_bits": 23}, "sum_bits must be an integer in 5..22, not 23"),
        ({"fraction": -1}, "fraction must be an integer in 0..32, not -1"),
        ({"psum_bits": 29}, "psum_bits must be an integer in 30..63, not 29"),
    ],
)
def test_bad_parameters(change, message):
    with pytest.raises(ValueError) as caught:
        Cell(**GOOD | change)
    assert str(caught.value) == message
