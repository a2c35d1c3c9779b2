"""Seconds of estimates, of few layers on few machines."""

from diastole.config.presets import PRODUCTS_ONLY
from diastole.layers.sweep import every_choice
from diastole.measure import estimating
from diastole.measure.estimating import (
    LAYERS,
    MOST_SECONDS,
    SERVED,
    SWEPT,
    drawn_layers,
    figures,
)


def test_figures(monkeypatch):
    """Layers and machines are counted in the names, all phases are asked for."""
    asked = []

    def costs(config, layers, phases, latency, mapped):
        asked.append((config.name, len(layers), phases))
        return []

    monkeypatch.setattr(estimating, "layer_costs", costs)
    *known, many = figures(("array.rows=1,2",), count=3)
    assert [each.what for each in known] == [
        *(f"estimate of {name} on nano, seconds" for name in MOST_SECONDS),
        f"estimate of {SERVED} on server, seconds",
    ]
    presets = [*["nano"] * len(MOST_SECONDS), "server"]
    assert [config for config, *_ in asked] == [PRODUCTS_ONLY[name].name for name in presets]
    assert {phases for *_, phases in asked[:-1]} == {("forward", "backward")}
    assert asked[-1][1:] == (6, ("forward", "dx", "dw"))
    assert min(layers for _, layers, _ in asked) > 1
    assert many.what == "estimate of 3 layers, 2 machines, seconds"
    assert many.asked == "at most 180"
    assert float(many.measured) < 600


def test_what_is_swept():
    """100 machines; layers of different sizes, the same in every run."""
    assert len(every_choice(SWEPT)) == 100
    layers = drawn_layers(LAYERS)
    assert layers == drawn_layers(LAYERS)
    assert len({(each.m, each.k, each.n) for each in layers}) == LAYERS
