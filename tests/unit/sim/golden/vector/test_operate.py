"""One instruction on blocks: the order of turns, signs, neutral elements and padding."""

import numpy as np
import pytest

from diastole_sim.golden.vector.arithmetic import BINARY32
from diastole_sim.golden.vector.operate import SourceValues, operate
from diastole_sim.golden.vector.order import Order
from diastole_sim.spec.micro import Instruction, MicroOp, Source
from diastole_sim.spec.stream_table import Walk

C = np.arange(1, 17, dtype=np.float32).reshape(1, 4, 4)
TWICE = {"op": MicroOp.ADD, "a": Source.ZERO, "c": 0}
SAME = np.zeros(1, np.bool_)


def result(first=SAME, inside=None, c=C, **fields):
    operands = {"a": np.float32(0), "c": c}
    return operate(Instruction(**TWICE | fields), operands, BINARY32, first=first, inside=inside)


@pytest.mark.parametrize("turn", [1, 2])
def test_turns(turn):
    places = np.arange(4) ^ 1 << turn - 1
    assert np.array_equal(result(turn_lanes=turn), C[:, :, places])
    assert np.array_equal(result(turn_rows=turn), C[:, places])
    both = result(turn_lanes=turn, turn_rows=3 - turn)
    assert np.array_equal(both, C[:, np.arange(4) ^ 1 << 2 - turn][:, :, places])


def test_c_is_turned_then_negated_then_fresh_then_kept():
    c = np.stack([C[0], C[0]])
    first = np.array([True, False])
    inside = np.ones((2, 4, 4), np.bool_)
    inside[:, 3] = False
    a = np.full((2, 4, 4), 100, np.float32)
    each = Instruction(
        op=MicroOp.ADD, a=Source.S0, c=0, turn_lanes=1, negate_c=1, fresh=1, keep=1, d=0
    )
    found = operate(each, {"a": a, "c": c}, BINARY32, first=first, inside=inside)
    seen = np.stack([np.zeros((4, 4)), -C[0][:, [1, 0, 3, 2]]])
    assert np.array_equal(found[:, :3], 100 + seen[:, :3])
    assert np.array_equal(found[:, 3], seen[:, 3])


@pytest.mark.parametrize(
    "op, neutral",
    [(MicroOp.ADD, 0), (MicroOp.MAX, -np.inf), (MicroOp.MIN, np.inf), (MicroOp.GT, -np.inf)],
)
def test_what_is_fresh_and_padding_is_the_neutral_element(op, neutral):
    outside = np.zeros((1, 4, 4), np.bool_)
    found = result(first=~SAME, inside=outside, op=op, fresh=1, keep=1)
    assert np.array_equal(found, np.full((1, 4, 4), neutral, np.float32))


def test_padding_keeps_every_bit_of_c():
    nan = np.full((1, 4, 4), 0x7F800001, np.uint32).view(np.float32)
    outside = np.zeros((1, 4, 4), np.bool_)
    kept = result(c=nan, inside=outside, keep=1, negate_c=1)
    assert (kept.view(np.uint32) == 0x7F800001).all()


def test_sources():
    order = Order.of_walk(Walk(rows=5, cols=6, block=4))
    stream = np.arange(len(order) * 16, dtype=np.float32).reshape(-1, 4, 4)
    constants = np.arange(256, dtype=np.float32)
    sources = SourceValues(
        order=order, arithmetic=BINARY32, streams={2: stream}, constants=constants
    )
    last = slice(3, 4)
    shape = 1, 4, 4

    def read(source, k=0):
        return np.broadcast_to(sources.read(source, k, last), shape)[0]

    assert (read(Source.CONSTANT, 77) == 77).all()
    assert (read(Source.ZERO) == 0).all()
    assert (read(Source.ONE) == 1).all()
    assert np.array_equal(read(Source.COLUMN), np.tile([4, 5, 6, 7], (4, 1)))
    assert np.array_equal(read(Source.ROW), np.tile([[4], [5], [6], [7]], (1, 4)))
    inside = np.zeros((4, 4))
    inside[0, :2] = 1
    assert np.array_equal(read(Source.INSIDE), inside)
    assert np.array_equal(read(Source.S2), stream[3])
    for source in Source:
        if source not in (Source.S0, Source.S1, Source.S3):
            assert sources.read(source, 0, last).dtype == np.float32, source.name
