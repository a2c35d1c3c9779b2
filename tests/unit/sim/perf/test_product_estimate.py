"""A whole command of one chunk, every cycle of it worked out on paper."""

import pytest

from diastole_sim.perf.modelled_machine import Memory
from diastole_sim.perf.product_estimate import estimate
from support.modelled import modelled

SIZES = {"rows": 2, "cols": 2, "block": 8, "element_bits": (5, 5, 5), "data_width": 64}


def machine(**changes):
    return modelled(**SIZES | {"memory": Memory()} | changes)


def test_one_chunk():
    """Set up in 6, room in 7. Two beats of maxima, two rows of two blocks of W and of X: none of
    their 44 beats waits, and the last vectors are written in 62. The swap is in 80, the last slot
    in 96; 16 rows of 8 beats leave from 114 to 242, and that is the end."""
    found = estimate(machine(), "forward", 16, 16, 16)
    assert found.cycles == 242
    assert found.slots == 16
    assert found.idle == {"load": 80, "accumulator": 0, "short": 0, "tail": 146}
    assert (found.read_beats, found.write_beats) == (2 + 4 * 11, 16 * 8)
    assert (found.read_bytes, found.write_bytes) == (8 * 46, 8 * 128)
    assert not found.fused
    assert found.macs == 16**3
    assert found.utilisation == pytest.approx(4096 / (242 * 256))


def test_a_response_is_waited_for():
    found = estimate(machine(memory=Memory(response_cycles=9)), "forward", 16, 16, 16)
    assert (found.cycles, found.idle["tail"]) == (242 + 9, 146 + 9)


def test_beats_of_unequal_sizes():
    """8 x 8 x 32: four rows of one block of W, and one row of four blocks of X."""
    found = estimate(machine(), "forward", 8, 8, 32)
    assert (found.read_beats, found.write_beats) == (2 + 4 * 6 + (1 + 4 * 5), 8 * 4)


def test_a_backward_pass_of_both_gradients():
    found = estimate(machine(), "backward", 16, 16, 16)
    assert (found.fused, found.op, found.macs) == (True, "backward", 2 * 16**3)
    # One chunk, both directions: 16 slots each.
    assert found.slots == 32
    assert found.read_beats == 4 + 3 * 2 * 11
    assert found.write_beats == 16 * 8 + 2 * 2 * 8 * 4


def test_a_backward_pass_in_two_products():
    edge = machine(in_place=False)
    parts = [estimate(edge, op, 16, 24, 8) for op in ("dx", "dw")]
    both = estimate(edge, "backward", 16, 24, 8)
    assert not both.fused
    for name in ("cycles", "slots", "read_beats", "write_beats"):
        assert getattr(both, name) == sum(getattr(part, name) for part in parts), name
    assert both.idle == {cause: sum(part.idle[cause] for part in parts) for cause in both.idle}
    assert both.macs == sum(part.macs for part in parts)
    assert both.idle.keys() == {"load", "accumulator", "short", "tail"}
