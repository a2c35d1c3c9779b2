"""The picture of a comparison: points where both numbers are known."""

import xml.etree.ElementTree as ElementTree

import pytest

from diastole.compare.costs import Cost
from diastole.compare.summary import ComparedConfig
from diastole.report.compare_picture import write_comparison

pytest.importorskip("matplotlib")


REFERENCE = ComparedConfig(name="float32", settings={}, runs={0: {"loss": 0.9}, 1: {"loss": 1.0}})
OTHER = ComparedConfig(name="float32 adam", settings={}, runs={0: {"loss": 1.1}, 1: {"loss": 1.2}})


def compared(name, losses, area, reference=REFERENCE):
    cost = Cost(
        area_per_mac_nand2=area,
        bits_per_element=4.0,
        elements=1,
        passes=2.0,
        macs=1,
        cycles_per_step=1,
    )
    runs = {seed: {"loss": loss} for seed, loss in enumerate(losses)}
    return ComparedConfig(name=name, settings={}, runs=runs, reference=reference, cost=cost)


def test_points_of_what_is_known(tmp_path):
    several = [
        compared("first", [1.0, 1.1], 100.0),
        compared("no area", [1.0, 1.1], None),
        compared("no loss", [None, 1.1], 100.0),
        compared("one seed $x$", [1.2], 50.0, OTHER),
    ]
    path = tmp_path / "a.svg"
    write_comparison(several, path, "digits, 3 steps")
    comments = path.read_text()
    ElementTree.fromstring(comments)
    shown = {name: comments.count(f"<!-- {name} -->") for name in ("first", "no area", "no loss")}
    assert shown == {"first": 2, "no area": 1, "no loss": 0}
    assert "digits, 3 steps" in comments
    assert comments.count("<!-- float32 -->") == comments.count("<!-- float32 adam -->") == 2


def test_as_png(tmp_path):
    path = tmp_path / "a.png"
    write_comparison([compared("a", [1.0, 1.1], 100.0)], path, "title")
    assert path.read_bytes()[:4] == b"\x89PNG"
