"""The number behind another, and the last part, against addition."""

from itertools import product

import pytest

from diastole_hw.successor import is_last, is_successor
from support.pipelines import Function, check_pipeline


def check(said, number, before, cases):
    """Cases (number, what it is compared with, whether that is so)."""
    inputs = {"number": number, "before": before}
    unit = Function(inputs, {"o": 1}, lambda m, one, other: said(one, other))
    pipelined = [({"number": a, "before": b}, {"o": want}) for a, b, want in cases]
    check_pipeline(unit, pipelined, 0)


@pytest.mark.parametrize("number, before", [(1, 1), (3, 3), (4, 3), (2, 4), (5, 5)])
def test_every_pair(number, before):
    """Numbers of any widths; nothing follows the largest of as many bits, and 0 follows nothing."""
    pairs = product(range(1 << number), range(1 << before))
    check(is_successor, number, before, [(one, b, one == b + 1) for one, b in pairs])


@pytest.mark.parametrize("log", range(4))
def test_every_part(log):
    bits, cases = 6, []
    for extent in range(1, 1 << bits):
        last = (extent - 1) >> log
        cases += [(part, extent, part == last) for part in range(last + 1)]
    check(lambda number, extent: is_last(number, extent, log), bits - log, bits, cases)
