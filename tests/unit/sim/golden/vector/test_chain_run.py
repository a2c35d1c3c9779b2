"""Chains against the judge, at once and block after block; their mathematics in float64."""

import numpy as np
import pytest

from diastole_sim.golden.vector.arithmetic import FLOAT64
from diastole_sim.golden.vector.chain_run import ChainRun, run_blocks, run_chain
from diastole_sim.golden.vector.order import Order
from diastole_sim.spec.micro import Instruction, MicroOp, Source, When
from diastole_sim.spec.stream_table import Descriptor, Kind, Walk
from support.golden_scenes import golden_chain, judged_outputs, patterns
from support.random_programs import random_scene
from support.texts import exactly

SIDES = (1, 2, 4, 8, 16)
WALKS = ("rows", "columns", "tiles")
NO_CONSTANTS = np.zeros(256, np.float32)
WHOLE_LINES = "a vector of rows or columns must be written by whole lines"


def panel(address):
    """A stream in the panel, a block for each row of blocks."""
    return Descriptor(kind=Kind.PANEL, address=address, aux=1)


def same(chain, other, result, expected):
    """Both ways of running a chain leave the same."""
    assert np.array_equal(chain.panel.view(np.uint32), other.panel.view(np.uint32))
    assert result.values.keys() == expected.values.keys()
    for number, values in result.values.items():
        assert patterns(values) == patterns(expected.values[number]), f"output {number}"
    assert result.not_finite == expected.not_finite


@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize("block", SIDES)
@pytest.mark.sampled(2)
def test_random_programs_are_as_judged(block, walk, rng):
    for _ in range(4 if block == 16 else 12):
        undefined, draws = (rng.random() < 0.5 for _ in range(2))
        scene = random_scene(rng, block, walk=walk, undefined=undefined, draws=draws)
        judged = scene.judged()
        for run in (run_chain, run_blocks):
            chain = golden_chain(scene)
            result = run(chain)
            text = f"{run.__name__} of {scene}"
            assert patterns(chain.panel) == judged.panel, text
            found = {number: patterns(values) for number, values in result.values.items()}
            assert found == judged_outputs(scene, judged), text
            assert result.not_finite == judged.not_finite, text


@pytest.mark.parametrize("block", [2, 8])
def test_long_chains_are_the_same_at_once_and_block_after_block(block, rng):
    for _ in range(6):
        size = rng.randrange(5 * block, 9 * block), rng.randrange(5 * block, 9 * block)
        scene = random_scene(rng, block, size=size, length=rng.randrange(8, 33), undefined=True)
        chain, other = golden_chain(scene), golden_chain(scene)
        same(chain, other, run_chain(chain), run_blocks(other))


def test_panels_whose_blocks_straddle_are_written_block_after_block(np_rng):
    order = Order.of_walk(Walk(rows=7, cols=3, block=4))
    program = (
        Instruction(op=MicroOp.ADD, a=Source.S0, c=Source.ONE, o=0),
        Instruction(op=MicroOp.MOV, a=Source.S1, o=1),
    )
    inputs = {0: panel(0), 1: panel(2)}
    before = np_rng.normal(size=(12, 4)).astype(np.float32)
    panels = [before.copy(), before.copy()]
    chains = [
        ChainRun(
            program=program,
            order=order,
            inputs=inputs,
            outputs={0: panel(3), 1: panel(4)},
            panel=each,
            constants=NO_CONSTANTS,
        )
        for each in panels
    ]
    same(*chains, run_chain(chains[0]), run_blocks(chains[1]))
    written = before.copy()
    for i in range(2):
        written[3 + 4 * i : 7 + 4 * i] = written[4 * i : 4 * i + 4] + np.float32(1)
        written[4 + 4 * i : 8 + 4 * i] = written[2 + 4 * i : 6 + 4 * i].copy()
    assert np.array_equal(panels[0], written)


@pytest.mark.parametrize("run", [run_chain, run_blocks])
def test_parts_of_the_panel_change_places(run, np_rng):
    before = np_rng.normal(size=(16, 4)).astype(np.float32)
    chain = ChainRun(
        program=(
            Instruction(op=MicroOp.MOV, a=Source.S0, d=0),
            Instruction(op=MicroOp.MOV, a=Source.S1, o=0),
            Instruction(op=MicroOp.MOV, a=0, o=1),
        ),
        order=Order.of_walk(Walk(rows=7, cols=3, block=4)),
        inputs={0: panel(0), 1: panel(8)},
        outputs={0: panel(0), 1: panel(8)},
        panel=before.copy(),
        constants=NO_CONSTANTS,
    )
    run(chain)
    assert np.array_equal(chain.panel, np.concatenate([before[8:], before[:8]]))


@pytest.mark.parametrize("by_columns", [False, True], ids=["rows", "columns"])
def test_sums_over_lines(by_columns, np_rng):
    x = np_rng.normal(size=(21, 13)).astype(np.float32)
    x[4, 2] = np.nan
    walk = Walk(rows=21, cols=13, block=4, by_columns=by_columns)
    turn = "turn_rows" if by_columns else "turn_lanes"
    summed = Instruction(op=MicroOp.ADD, a=Source.S0, c=1, d=1, fresh=1, keep=1)
    last = {"when": When.LAST, "op": MicroOp.ADD}
    program = (
        summed,
        Instruction(**last, a=1, c=1, d=1, **{turn: 2}),
        Instruction(**last, a=1, c=1, d=1, **{turn: 1}, o=3),
    )
    chain = ChainRun(
        program=program,
        order=Order.of_walk(walk),
        inputs={0: x},
        outputs={3: Descriptor(kind=Kind.COLUMN if by_columns else Kind.ROW)},
        panel=np.zeros((0, 4), np.float32),
        constants=NO_CONSTANTS,
    )
    result = run_chain(chain)
    lines = x.T if by_columns else x
    expected = [_sum_of_line(line) for line in lines]
    assert patterns(result.values[3]) == patterns(np.array(expected))
    assert result.not_finite == {3}


def _sum_of_line(line):
    """Sum of a line for B = 4: lanes ascending, then pairs at distance 2, then 1."""
    lanes = [np.float32(0)] * 4
    for place, value in enumerate(line):
        lanes[place % 4] = np.float32(lanes[place % 4] + value)
    pairs = [lanes[0] + lanes[2], lanes[1] + lanes[3]]
    return np.float32(pairs[0] + pairs[1])


def test_vectors_need_whole_lines():
    walk = Walk(rows=3, cols=4, block=2)
    lines = [[(0, 0)], [(1, 0)], [(0, 1)], [(1, 1)]]
    with pytest.raises(ValueError, match=exactly(WHOLE_LINES)):
        ChainRun(
            program=(Instruction(op=MicroOp.MOV, a=Source.ONE, o=0),),
            order=Order.of_lines(walk, lines),
            inputs={},
            outputs={0: Descriptor(kind=Kind.ROW)},
            panel=np.zeros((0, 2), np.float32),
            constants=NO_CONSTANTS,
        )


def test_float64_is_mathematics(np_rng):
    x = np_rng.normal(size=(5, 11)) * 10.0 ** np_rng.integers(-5, 5, size=(5, 11))
    x[0, :4] = 1.0, 0.75, 1.5, 2.0**-40
    x = np.abs(x)
    ln2 = np.full(256, np.log(2))
    program = (
        Instruction(op=MicroOp.MOV, a=Source.S0, d=0),
        Instruction(op=MicroOp.LGE, a=0, d=1),
        Instruction(op=MicroOp.LGM, a=0, d=2),
        Instruction(op=MicroOp.LGG, a=0, d=3),
        Instruction(op=MicroOp.MUL, a=2, b=3, d=2),
        Instruction(op=MicroOp.MAD, a=1, b=Source.CONSTANT, c=2, o=0),
        Instruction(op=MicroOp.RSQ, a=0, d=4),
        Instruction(op=MicroOp.RCP, a=4, d=4),
        Instruction(op=MicroOp.MOV, a=4, o=1),
        Instruction(op=MicroOp.MOV, a=0, d=5),
        Instruction(op=MicroOp.MUL, a=0, b=Source.ONE, negate_a=1, d=5),
        Instruction(op=MicroOp.EXP, a=5, d=5),
        Instruction(op=MicroOp.MOV, a=5, o=2),
    )
    whole = Descriptor(kind=Kind.F32)
    chain = ChainRun(
        program=program,
        order=Order.of_walk(Walk(rows=5, cols=11, block=4)),
        inputs={0: x},
        outputs=dict.fromkeys(range(3), whole),
        panel=np.zeros((0, 4)),
        constants=ln2,
        arithmetic=FLOAT64,
    )
    found = run_chain(chain).values
    for number, expected in enumerate((np.log(x), np.sqrt(x), np.exp(-x))):
        assert found[number].dtype == np.float64
        np.testing.assert_allclose(found[number], expected, rtol=1e-14, atol=1e-15)


def test_float64_at_the_ends():
    values = np.array([0.0, -0.0, np.inf, -np.inf, -1.0, np.nan, 5e-324])
    expected = {
        MicroOp.RCP: [np.inf, -np.inf, 0, 0, -1, np.nan, np.inf],
        MicroOp.RSQ: [np.inf, np.inf, 0, np.nan, np.nan, np.nan, 1 / np.sqrt(5e-324)],
        MicroOp.LGE: [-np.inf, -np.inf, np.inf, np.nan, np.nan, np.nan, -1074],
        MicroOp.LGM: [0, 0, 0, np.nan, np.nan, np.nan, 0],
        MicroOp.LGG: [1, 1, 1, np.nan, np.nan, np.nan, 1],
        MicroOp.EXP: [1, 1, np.inf, 0, np.exp(-1), np.nan, 1],
    }
    for op, ends in expected.items():
        np.testing.assert_array_equal(FLOAT64.operations[op](values), ends, err_msg=op.name)
    order = FLOAT64.operations[MicroOp.MAX], FLOAT64.operations[MicroOp.MIN]
    nan, one = np.array(np.nan), np.array(1.0)
    assert all(np.isnan(op(*pair)) for op in order for pair in ((nan, one), (one, nan)))
    bits = FLOAT64.stores(Kind.MASK, np.array([0.0, -0.0, 5e-324, np.nan]))
    assert bits.tolist() == [0, 0, 1, 1]
