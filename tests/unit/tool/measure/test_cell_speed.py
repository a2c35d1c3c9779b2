# amaranth: UnusedElaboratable=no
"""Speed of the cell: what is asked of it, and a small one by real synthesis."""

import pytest

from diastole.measure import cell_speed
from diastole.measure.area import BareCell, Mapper
from diastole.measure.cell_speed import Speed, figures, speed
from diastole.synth.path_delay import Longest


def test_figures(monkeypatch):
    slow, fast = (
        Speed(per_mac=size, longest=Longest(logic=ns, whole=2 * ns, path=()))
        for size, ns in ((480.1, 2.51), (480.0, 2.5))
    )
    for full, met in ((slow, False), (fast, True)):
        known = {"none": slow, "products": slow, "full": full}
        monkeypatch.setattr(cell_speed, "speed", lambda _, name, __, known=known: known[name])
        found = list(figures(Mapper.find()))
        assert [each.met for each in found] == [None] * 6 + [met, met, None]
        assert found[-1].measured == ("200" if met else "199")


def test_registers_make_a_small_cell_faster():
    """Of one multiplier."""
    mapper = Mapper.find()
    cell = BareCell(block=1, mantissa=2, fraction=6, side=1)
    none, full = (speed(cell, name, mapper) for name in ("none", "full"))
    assert 0 < full.longest.logic < none.longest.logic < 10
    assert full.per_mac > none.per_mac > 50
    for each in (none, full):
        assert each.longest.whole > each.longest.logic
        assert each.mhz == pytest.approx(1000 / each.longest.logic)
