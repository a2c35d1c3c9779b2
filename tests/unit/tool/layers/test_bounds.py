"""Where cycles go, and what bounds the work."""

import pytest

from diastole.config.presets import PRODUCTS_ONLY
from diastole.files.layers import NamedLayer
from diastole.layers.bounds import (
    MEANINGS,
    added_shares,
    bound_of,
    cycles_by_cause,
    percents,
    shares_of,
)
from diastole.layers.layer_costs import layer_costs
from diastole_sim.perf.conversion_estimate import ConversionEstimate


def test_loading_on_server():
    """Of dX of 2048 x 4096 x 12288 the loader is busy all the time: every other cycle but those of
    the multipliers is a wait for blocks on their way into scratchpads."""
    layer = NamedLayer(name="ffn", m=2048, k=4096, n=12288)
    (cost,) = layer_costs(PRODUCTS_ONLY["server"], [layer], ("dx",), 20)
    assert cost.cycles > 7_000_000
    assert cost.bound == "loading"
    assert sum(cost.shares.values()) == pytest.approx(1)
    assert cost.shares["multipliers"] == pytest.approx(cost.utilisation)
    assert cost.shares["multipliers"] + cost.shares["loading"] > 0.999
    assert cost.estimate.filled > 0.99 * cost.estimate.cycles


@pytest.mark.parametrize("phase", ["forward", "dx", "dw", "backward", "convert"])
@pytest.mark.parametrize("preset", ["pico", "edge"])
def test_all_cycles_have_a_name(preset, phase):
    layers = [NamedLayer(name="a", m=65, k=30, n=77), NamedLayer(name="b", m=3, k=900, n=2)]
    for cost in layer_costs(PRODUCTS_ONLY[preset], layers, (phase,), 20):
        parts = cycles_by_cause(cost.estimate)
        assert sum(parts.values()) == pytest.approx(cost.estimate.cycles)
        assert min(parts.values()) > 0
        assert parts.keys() <= MEANINGS.keys()


@pytest.mark.parametrize(
    "words, reads, writes, parts",
    [
        (900, 500, 100, {"converter": 900, "latency": 100}),
        (400, 700, 10, {"converter": 400, "reading": 300, "latency": 300}),
        (3, 10, 900, {"converter": 3, "writing": 897, "latency": 100}),
        (1000, 5, 5, {"converter": 1000}),
    ],
)
def test_conversions(words, reads, writes, parts):
    found = ConversionEstimate(
        tensor_class="x", rows=9, cols=9, beat_bytes=8, cycles=1000, words=words,
        read_beats=reads, write_beats=writes,
    )  # fmt: skip
    assert cycles_by_cause(found) == parts


@pytest.mark.parametrize(
    "shares, bound",
    [
        ({"multipliers": 0.9, "reading": 0.1}, "multipliers"),
        ({"multipliers": 0.89, "reading": 0.05, "end": 0.06}, "end"),
        ({"converter": 0.6, "latency": 0.4}, "converter"),
        ({"multipliers": 1.0}, "multipliers"),
    ],
)
def test_the_bound(shares, bound):
    assert bound_of(shares) == bound


def test_shares_of_repeats():
    """Three times 4 cycles and once 8."""
    cycles = added_shares([(3, {"multipliers": 3, "end": 1}), (1, {"shape": 8.0})])
    assert cycles == {"multipliers": 9, "end": 3, "shape": 8}
    assert shares_of(cycles) == {"multipliers": 0.45, "shape": 0.4, "end": 0.15}


@pytest.mark.parametrize(
    "shares, found",
    [
        ({"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}, {"a": 33.4, "b": 33.3, "c": 33.3}),
        ({"a": 0.99996, "b": 0.00004}, {"a": 100.0, "b": 0.0}),
        ({"a": 0.5, "b": 0.2496, "c": 0.2504}, {"a": 50.0, "b": 25.0, "c": 25.0}),
    ],
)
def test_percents_add_up(shares, found):
    assert percents(shares) == found


def test_percents_of_anything_add_up(rng):
    for _ in range(100):
        parts = {str(number): rng.random() ** 3 for number in range(rng.randint(1, 9))}
        whole = sum(parts.values())
        found = percents({name: part / whole for name, part in parts.items()})
        assert sum(found.values()) == pytest.approx(100, abs=1e-9)
        for name, part in parts.items():
            assert found[name] == pytest.approx(100 * part / whole, abs=0.1)
