# amaranth: UnusedElaboratable=no
"""Which units of a tile the scale for 4 fits better, against sums of what single elements say."""

import pytest

from diastole_hw.convert.trial import TRIAL_CYCLES
from diastole_hw.convert.trials import Trials
from support.bench import design, run
from support.tiles import joined, machine
from unit.hw.convert.test_trial import bits_of, codes_of, number, worse

SCALE = 138


@pytest.mark.parametrize("rows, cols", [(5, 32), (1, 7), (16, 3)])
def test_a_tile_of_vectors(rows, cols, rng):
    """Rows and columns of 16, each with scales of its own; ``done`` comes when all is known."""
    numerics, data_width = machine("two scales")
    dut = design(Trials, numerics=numerics, data_width=data_width)
    lanes = dut.geometry.lanes
    values = [[bits_of(number(rng.randrange(120, 136) << 23 | rng.getrandbits(23)))
               for _ in range(cols)] for _ in range(rows)]  # fmt: skip

    def unit(places):
        """(codes of both scales, whether that for 4 is better) of a vector's elements."""
        bits = [values[r][c] for r, c in places]
        six, four = codes_of(max(map(number, bits)), SCALE)
        return six << 8 | four, sum(worse(each, six, four, SCALE) for each in bits) < 0

    along = {(r, run_): unit([(r, c) for c in range(16 * run_, min(cols, 16 * run_ + 16))])
             for r in range(rows) for run_ in range(-(-cols // 16))}  # fmt: skip
    down = {c: unit([(r, c) for r in range(rows)]) for c in range(cols)}
    words = [(r, w) for r in range(rows) for w in range(-(-cols // lanes))]

    async def main(ctx):
        ctx.set(dut.scale, SCALE)
        for row, word in words:
            here = range(word * lanes, word * lanes + lanes)
            ctx.set(dut.word.add, 1)
            ctx.set(dut.word.at.row, row)
            ctx.set(dut.word.at.word, word)
            ctx.set(dut.word.row_end, here[-1] + 1 >= cols)
            ctx.set(dut.word.last_row, row + 1 == rows)
            ctx.set(dut.values, joined([values[row][c] if c < cols else 0 for c in here], 32))
            ctx.set(dut.measured, [along[row, word * lanes // 16][0]] * lanes)
            ctx.set(dut.measured_t, [down[c][0] if c < cols else 0 for c in here])
            await ctx.tick()
        ctx.set(dut.word.add, 0)
        for _ in range(TRIAL_CYCLES + 1):
            assert not ctx.get(dut.done)
            await ctx.tick()
        assert ctx.get(dut.done)
        for row, word in words:
            ctx.set(dut.read_en, 1)
            ctx.set(dut.read_at.row, row)
            ctx.set(dut.read_at.word, word)
            await ctx.tick()
            assert ctx.get(dut.row_value) == along[row, word * lanes // 16][1], (row, word)
            columns = ctx.get(dut.column_values)
            for n in range(lanes):
                if word * lanes + n < cols:
                    assert columns[n] == down[word * lanes + n][1], (row, word, n)

    run(dut, main)
