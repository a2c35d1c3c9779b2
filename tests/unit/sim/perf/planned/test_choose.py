"""The nest that a host would choose."""

from dataclasses import replace

import pytest

from diastole_sim.perf import ModelledMachine
from diastole_sim.perf.planned import PlannedMachine, forecast
from diastole_sim.perf.planned.choose import SLACK, best, chosen, fitting

NANO = PlannedMachine.after(
    ModelledMachine(rows=2, cols=2, block=8, element_bits=(5, 5, 5), data_width=64), data_width=128
)


def test_fewest_bytes_among_the_fastest():
    one = best(NANO, "forward", 64, 64, 64)
    cycles = one.cycles
    found = [
        replace(one, cycles=cycles, read_bytes=300, nest="fastest"),
        replace(one, cycles=cycles * 1.006, read_bytes=200, nest="near"),
        replace(one, cycles=cycles * 1.02, read_bytes=100, nest="slow"),
    ]
    assert chosen(found).nest == "near"


@pytest.mark.parametrize("sizes", [(64, 64, 64), (40, 200, 90), (7, 300, 64), (300, 9, 33)])
@pytest.mark.parametrize("op", ["forward", "dx", "dw"])
def test_the_shortlist_has_it(op, sizes):
    """Within 1 % of the best of all nests, though not all are tried."""
    every = [forecast(NANO, op, *sizes, nest) for nest in fitting(NANO, op, *sizes)]
    fastest = min(each.cycles for each in every)
    assert best(NANO, op, *sizes).cycles <= SLACK * 1.01 * fastest


def test_what_fits():
    nests = list(fitting(NANO, "forward", 512, 512, 512))
    assert len({str(nest) for nest in nests}) == len(nests) > 50
    assert {nest.outer for nest in nests} == {"t", "l"}
    assert all(nest.keep_b for nest in nests if nest.outer == "l")
    for nest in fitting(NANO, "backward", 512, 512, 64):
        assert nest.fused
        assert nest.keep_b
    assert not list(fitting(NANO, "backward", 1024, 1024, 64)), "dY does not fit"
