"""Widths that change with the steps: thresholds, decisions, held-out samples, passes."""

from dataclasses import dataclass

import pytest

from diastole_sim.golden.improvement import Improvement
from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics
from diastole_sim.spec.operations import OPERATIONS
from diastole_sim.train import run_task
from diastole_sim.train.precision import HIGH, LOW, Precision, Widths
from support.host_perceptron import digits_by_host

ALL = CLASS_NAMES


@dataclass
class Seen:
    """A converted tensor, as far as the host looks at it."""

    improvement: Improvement | None


def seen(num, den=1 << 16):
    return Seen(Improvement(num=num, den=den))


def widths(kind="fast", steps=300, layers=2, classes=ALL, **options):
    precision = Precision(kind=kind, classes=classes, **options)
    return Widths(precision=precision, steps=steps, layers=layers)


@pytest.mark.parametrize(
    "step, layer, wanted",
    [(0, 0, 39322), (300, 0, 19661), (0, 2, 19661), (150, 1, 19661), (0, 1, 29491), (299, 2, 66)],
)
def test_thresholds(step, layer, wanted):
    """.6 - .3 i/I - .3 l/L in units of 2^-16, worked out by hand."""
    precision = Precision(kind="fast", classes=ALL)
    assert precision.threshold(step, 300, layer, 2) == wanted


def test_a_threshold_is_never_negative_and_ties_go_to_even():
    low = Precision(kind="fast", classes=ALL, alpha=0.1, beta=0.3)
    assert low.threshold(200, 300, 0, 2) == 0
    half = Precision(kind="fast", classes=ALL, alpha=2.5 * 2**-16, beta=0)
    assert half.threshold(0, 300, 0, 2) == 2


def test_the_first_is_wide_and_then_the_last_conversion_decides():
    run = widths()
    assert run.choose("x", 0, 0) == HIGH
    run.see("x", 0, 0, seen(39322))  # equal to the threshold: not above
    assert run.choose("x", 0, 1) == LOW
    run.see("x", 0, 0, seen(39323))
    assert run.choose("x", 0, 2) == HIGH
    assert run.choose("w", 0, 2) == HIGH  # another tag
    assert run.choose("x", 1, 2) == HIGH
    run.see("x", 0, 3, seen(0, 0))  # of zeros
    assert run.choose("x", 0, 4) == LOW
    assert run.log() == {"layer0.W": "4", "layer0.X": "4242", "layer1.X": "4"}


def test_later_steps_and_layers_ask_for_less():
    run = widths()
    run.see("dy", 1, 0, seen(29492))
    assert run.choose("dy", 1, 1) == HIGH
    run.see("dy", 0, 0, seen(29492))
    assert run.choose("dy", 0, 1) == LOW


def test_held_out_samples_take_what_holds_and_decide_nothing():
    run = widths()
    run.see("x", 0, 5, seen(0))
    assert run.choose("x", 2, 5) == LOW
    assert run.choose("x", 3, 5) == HIGH
    run.see("x", 2, 5, seen(1 << 16))
    assert run.choose("x", 0, 6) == LOW
    run.count(OPERATIONS["forward"], {"X": 2, "W": 2}, {"m": 1, "n": 1, "k": 1}, 2)
    assert (run.log(), run.products) == ({"layer0.X": "2"}, {})


@pytest.mark.parametrize(
    "kind, options, wanted",
    [("low", {}, [2, 2, 2]), ("high", {}, [4, 4, 4]), ("low-to-high", {"switch": 2}, [2, 2, 4])],
)
def test_fixed_precisions(kind, options, wanted):
    run = widths(kind, **options)
    found = []
    for step in range(3):
        found.append(run.choose("dy", 1, step))
        run.see("dy", 1, step, seen(0))
    assert found == wanted


def test_a_class_of_one_width_has_nothing_to_choose():
    run = widths(classes=("x",))
    assert run.choose("w", 0, 0) is None
    run.see("w", 0, 0, Seen(None))
    assert run.log() == {}


def test_passes():
    """By MACs: forward 4 x 2 bits in 2 passes; dX of 2 x 2 in 1 and dW of 4 x 2 in 2, over 12."""
    run = widths()
    run.count(OPERATIONS["forward"], {"X": 4, "W": 2}, {"m": 1, "n": 2, "k": 3}, 0)
    run.count(OPERATIONS["backward"], {"X": 4, "W": 2, "dY": 2}, {"m": 2, "n": 2, "k": 3}, 1)
    assert run.mean_passes == (6 * 2 + 12 * 1 + 12 * 2) / 30
    assert run.shares == {"1": 1 / 3, "2": 2 / 3}
    run.count(OPERATIONS["dw"], {"X": 8, "dY": None}, {"m": 1, "n": 1, "k": 1}, 1)
    assert run.products == {1: 1, 2: 2, 4: 1}
    assert (widths().mean_passes, widths().shares) == (1.0, {})


def numerics(name):
    classes = {
        each: {"format": name, "rounding": "nearest" if each != "dy" else "stochastic-b"}
        for each in CLASS_NAMES
    }
    sizes = {"block": 8, "random_bits": 8, "fraction": 22, "headroom": 14}
    return Numerics.from_dict(classes | sizes)


def train(name, precision, **options):
    device = NumpyDevice(numerics(name), seed=3)
    return run_task(
        digits_by_host(), device, backend="golden", steps=6, seed=3, precision=precision, **options
    )


@pytest.mark.parametrize("kind, name", [("low", "bfp2"), ("high", "bfp4")])
def test_one_width_is_that_format(kind, name):
    """Where sums are exact, as they are here, to the last bit of the weights."""
    fast = train("fast", Precision(kind=kind, classes=ALL))
    plain = train(name, None)
    assert fast.inexact_products == plain.inexact_products == 0
    assert fast.weights_sha256 == plain.weights_sha256
    assert fast.mean_passes == {"low": 1, "high": 4}[kind]
    assert (plain.precision, plain.mean_passes, plain.widths) == (None, None, None)


def test_a_run_by_the_monitor():
    """Two devices agree on it; the log has every conversion of training."""
    reference = NumpyDevice(numerics("fast"), seed=3)
    result = train("fast", Precision(kind="fast", classes=ALL), reference=reference)
    assert result.verified
    assert set(result.widths) == {f"layer{n}.{t}" for n in range(2) for t in ("X", "W", "dY")}
    assert all(len(log) == 6 and log[0] == "4" for log in result.widths.values())
    assert {"2", "4"} == set("".join(result.widths.values()))
    assert sum(result.pass_shares.values()) == pytest.approx(1)
    assert 1 < result.mean_passes < 4
    assert result.to_json()["widths"] == result.widths
