"""Cycles of a systolic array, and the machines of the paper."""

from dataclasses import replace

import pytest

from diastole_sim.perf.orders.systolic import LARGE, SMALL


def stepped(side, contraction):
    """The cycle in which the last sum has left one pass, stepped: the operands of element (i, j)
    meet i + j cycles after those of (0, 0), and a column of sums takes ``side`` cycles to leave."""
    last = max(
        i + j + step for i in range(side) for j in range(side) for step in range(contraction)
    )
    return last + 1 + side


@pytest.mark.parametrize("side, contraction", [(1, 1), (3, 5), (4, 1), (5, 9)])
def test_a_pass(side, contraction):
    machine = replace(SMALL, side=side)
    assert machine.array_cycles(side, side, contraction) == stepped(side, contraction)


def test_passes_follow_each_other():
    machine = replace(SMALL, side=4)
    assert machine.passes(9, 4) == 3
    assert machine.array_cycles(9, 4, 20, chunks=2) == 3 * (20 + 2 * 10)


def test_the_machines_of_the_paper():
    assert (SMALL.side, SMALL.scratchpad_bytes, SMALL.batch) == (45, 2**20, 4)
    assert SMALL.bytes_per_cycle == 22
    assert (LARGE.side, LARGE.scratchpad_bytes, LARGE.batch) == (128, 8 * 2**20, 8)
    assert LARGE.bytes_per_cycle == pytest.approx(150 / 1.05)
