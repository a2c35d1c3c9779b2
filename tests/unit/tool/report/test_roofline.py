"""The roofline: its limits, names and places."""

import pytest

from diastole.config.presets import PRODUCTS_ONLY
from diastole.files.layers import NamedLayer
from diastole.layers.layer_costs import layer_costs
from diastole.report.roofline import write_roofline

NANO = PRODUCTS_ONLY["nano"]


@pytest.fixture
def costs():
    layers = [
        NamedLayer(name="a $large$ one", m=64, k=48, n=40, repeats=3),
        NamedLayer(name="small", m=9, k=9, n=9),
    ]
    return layer_costs(NANO, layers, ("forward", "backward", "convert"), 20)


@pytest.mark.parametrize("kind, begins", [(".png", b"\x89PNG"), (".svg", b"<?xml")])
def test_picture(costs, tmp_path, kind, begins):
    pytest.importorskip("matplotlib")
    path = tmp_path / f"roof{kind}"
    write_roofline(costs, path, "a $machine$ and layers")
    assert path.read_bytes().startswith(begins)


@pytest.mark.parametrize(
    "clock, texts",
    [
        # 256 multipliers of two operations, and 16 bytes a cycle in each direction.
        (None, ["all multipliers: 512 operations per cycle", "read and write: 32 B/cycle",
                "read or write: 16 B/cycle", "operations per cycle"]),
        (500, ["all multipliers: 0.256 TOPS", "read and write: 16 GB/s", "read or write: 8 GB/s",
               "TOPS"]),
    ],
)  # fmt: skip
def test_what_is_written(costs, tmp_path, monkeypatch, clock, texts):
    """Figures of the slopes and of the roof, the names of layers, and ticks as plain numbers."""
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    kept = []
    made = Figure.subplots
    monkeypatch.setattr(Figure, "subplots", lambda self: kept.append(made(self)) or kept[-1])
    write_roofline(costs, tmp_path / "roof.png", "title", clock)
    (axes,) = kept
    found = [text.get_text() for text in axes.texts]
    assert set(texts[:3]) <= set(found)
    assert axes.get_ylabel() == texts[3]
    assert {"a $large$ one", "small"} <= set(found)
    for axis in (axes.xaxis, axes.yaxis):
        (low, high), places = axis.get_view_interval(), axis.get_majorticklocs()
        shown = [place for place in places if low <= place <= high]
        assert len(shown) >= 3
        for place in shown:
            text = axis.get_major_formatter()(place, 0)
            assert float(text.replace(",", "")) == pytest.approx(place, rel=0.01)
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    table = {cost.what for cost in costs if cost.product is not None}
    assert set(legend) == table == {"forward", "fused"}, "the table has the words of the legend"
    roof = max(line.get_ydata().max() for line in axes.lines if len(line.get_ydata()) == 3)
    assert all(y <= roof for spots in axes.collections for _, y in spots.get_offsets())
