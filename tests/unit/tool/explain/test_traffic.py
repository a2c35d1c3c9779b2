"""Beats of a bus in waves: when each was taken, and of which address; stories of machines are in
tests/product/test_explain.py."""

from diastole.config.presets import PRODUCTS_ONLY
from diastole.explain.shown_run import DATAPATH
from diastole.explain.traffic import ShownTraffic, owner
from diastole.explain.waves import Waves

PLAN = PRODUCTS_ONLY["pico"].plan
BEAT = PLAN.beat_bytes


def traffic(cycles, **signals):
    """Waves of a machine with these signals, which writes nothing into its scratchpads."""
    values = {f"m_axi_{name}": each for name, each in signals.items()}
    values |= {f"{DATAPATH}{name}": [0] * cycles for name in ("write", "write_en")}
    return ShownTraffic(Waves(cycles, values), PLAN, accepted=[])


def test_beats_have_the_addresses_that_were_asked_for():
    """Two bursts, of three beats and of one; a beat counts when both sides are ready."""
    found = traffic(
        9,
        arvalid=[1, 1, 0, 1, 0, 0, 0, 0, 0],
        arready=[0, 1, 1, 1, 1, 1, 1, 1, 1],
        araddr=[64, 64, 0, 256, 0, 0, 0, 0, 0],
        arlen=[2, 2, 0, 0, 0, 0, 0, 0, 0],
        rvalid=[0, 0, 1, 1, 1, 0, 1, 1, 0],
        rready=[1, 1, 1, 0, 1, 1, 1, 1, 1],
    ).beats("m_axi_", "ar", "r", 0, 9)
    assert list(found) == [(2, 64), (4, 64 + BEAT), (6, 64 + 2 * BEAT), (7, 256)]


def test_whose_an_address_is():
    bases = {"X": 1000, "W": 3000}
    assert [owner(bases, at) for at in (8, 1000, 2999, 3000, 9000)] == ["c", "X", "X", "W", "W"]
