"""Objects that a block closes, also after an error."""

import pytest

from diastole_sim.host.closing import Closing


class Counted(Closing):
    closed = 0

    def close(self):
        self.closed += 1


def test_the_end_of_a_block_closes():
    with Counted() as held:
        assert held.closed == 0
    assert held.closed == 1


def test_an_error_closes_and_passes_on():
    counted = Counted()
    with pytest.raises(ValueError, match=r"^why$"), counted:
        raise ValueError("why")
    assert counted.closed == 1
