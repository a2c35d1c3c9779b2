"""Mixtures on tensors: every product as a machine computes it, and where it is worst."""

import math

import numpy as np
import pytest

from diastole.errors import BadInput
from diastole.trials.mixtures import Settings, make_mixtures
from diastole.trials.trial import WorstPlace, check_products, class_of, run_trials
from diastole_sim.codes.survey import survey
from diastole_sim.golden.numpy_device import NumpyDevice

OUTLIERS = (3, 12, 25, 34, 47, 62)
"""Channels of X, each in a square of 8 x 8 of its own."""


def mixtures(*names, **settings):
    wanted = [(*name.split("/"),) * (1 if "/" in name else 3) for name in names]
    return make_mixtures(wanted, Settings(**{"block": 8} | settings))[0]


def silent(done, every):
    """Says nothing."""


@pytest.fixture
def tensors(rng):
    random = np.random.default_rng(rng.randrange(2**32))
    shapes = {"X": (24, 40), "W": (40, 16), "dY": (24, 16)}
    return {name: random.standard_normal(s).astype(np.float32) for name, s in shapes.items()}


def noise(exact, values):
    """Signal to noise of the whole, and of every row, in other words than the code's."""
    error = exact - values.astype(np.float64)
    lengths = [np.hypot.reduce(each, axis=1) for each in (exact, error)]
    rows = [20 * math.log10(a / b) for a, b in zip(*lengths, strict=True)]
    whole = math.hypot(*exact.ravel()) / math.hypot(*error.ravel())
    return 20 * math.log10(whole), rows


@pytest.mark.parametrize("name", ["bfp4", "mxfp8_e4m3", "nvfp4", "bfp3/bfp5/fp8_e5m2"])
def test_products_are_those_of_a_device(tensors, name):
    (mixture,) = mixtures(name, rounding={"dy": "stochastic-c"})
    (found,) = run_trials([mixture], tensors, silent)
    device = NumpyDevice(mixture.numerics)
    x, w, dy = tensors.values()
    both = device.backward(x, w, dy)
    values = {"Y": device.forward(x, w).y, "dX": both.dx, "dW": both.dw}
    x, w, dy = (each.astype(np.float64) for each in (x, w, dy))
    exact = {"Y": x @ w, "dX": dy @ w.T, "dW": x.T @ dy}
    assert list(found.products) == list(exact)
    for name, quality in found.products.items():
        whole, rows = noise(exact[name], values[name])
        _, columns = noise(exact[name].T, values[name].T)
        assert quality.snr_db == pytest.approx(whole, abs=1e-9)
        for place, every in ((quality.row, rows), (quality.column, columns)):
            assert (place.index, place.snr_db) == (
                every.index(min(every)),
                pytest.approx(min(every), abs=1e-9),
            )


def test_the_whole_hides_channels_that_are_lost(rng):
    """Six outliers: bfp6 in squares has more dB of X than MXFP8, and so has its dW as a whole; but
    the channels that share a square with an outlier are lost in dW, and in MXFP8 none is."""
    random = np.random.default_rng(rng.randrange(2**32))
    shapes = {"X": (256, 64), "W": (64, 64), "dY": (256, 64)}
    given = {name: random.standard_normal(s).astype(np.float32) for name, s in shapes.items()}
    given["X"][:, OUTLIERS] *= 100
    squares, vectors = run_trials(
        mixtures("bfp6", "mxfp8_e4m3", rounding={"dy": "nearest"}), given, silent
    )
    assert squares.surveys["X"].snr_db > vectors.surveys["X"].snr_db
    dw, other = squares.products["dW"], vectors.products["dW"]
    assert dw.snr_db > other.snr_db
    assert dw.row.snr_db < 5
    assert dw.row.index not in OUTLIERS
    assert dw.row.index // 8 in {channel // 8 for channel in OUTLIERS}
    assert other.row.snr_db > 20
    assert squares.worst == WorstPlace(product="dW", axis="row", place=dw.row)
    assert not squares.reaches(20)


def test_what_is_reached(tensors):
    (found,) = run_trials(mixtures("bfp4"), tensors, silent)
    least = min(
        place.snr_db for each in found.products.values() for place in (each.row, each.column)
    )
    assert found.worst.place.snr_db == least
    assert (found.reaches(least), found.reaches(np.nextafter(least, 99))) == (True, False)


def test_exact_products_reach_anything():
    ones = np.ones((8, 8), dtype=np.float32)
    (found,) = run_trials(mixtures("bfp4"), {"X": ones, "W": ones}, silent)
    assert (found.worst, found.reaches(1e9)) == (None, True)
    assert list(found.products) == ["Y"]


def test_every_matrix_is_surveyed_where_formats_are_alike(tensors):
    alone, mixed = run_trials(
        mixtures("bfp4", "bfp4/bfp4/bf16"), tensors | {"other": tensors["X"]}, silent
    )
    assert list(alone.surveys) == ["X", "W", "dY", "other"]
    assert alone.surveys["other"] == alone.surveys["X"] == survey(tensors["X"], "bfp4", block=8)
    assert mixed.surveys == {}


def test_small_names_are_the_same_operands(tensors):
    x, w, dy = tensors.values()
    (found,) = run_trials(mixtures("nvfp4"), {"x": x, "w": w, "DY": dy}, silent)
    (same,) = run_trials(mixtures("nvfp4"), tensors, silent)
    assert found.products == same.products


@pytest.mark.parametrize(
    "name, bits, both",
    [
        ("bfp4", 4 + 1 + 8 / 64, 4 + 1 + 8 / 64),
        ("mxfp4_e2m1", 4.25, 8.5),
        # X and dY have 960 and 384 elements, W 640, of which one in 256 has a scale of 8 bits.
        ("nvfp4", (1344 * 4.5 + 640 * 4.125) / 1984, (1344 * 9 + 640 * 4.125) / 1984),
        (
            "bfp4/bfp4/mxint8",
            (1600 * 5.125 + 384 * 8.25) / 1984,
            (1600 * 5.125 + 384 * 16.5) / 1984,
        ),
    ],
)
def test_bits(tensors, name, bits, both):
    (found,) = run_trials(mixtures(name), tensors, silent)
    assert (found.bits, found.bits_both) == (pytest.approx(bits), pytest.approx(both))


def test_how_far_it_is(tensors):
    said = []
    names = ("bfp1", "bfp2", "bfp3")
    found = run_trials(mixtures(*names), tensors, lambda *each: said.append(each))
    assert said == [(1, 3), (2, 3), (3, 3)]
    assert [each.mixture.name for each in found] == list(names)


@pytest.mark.parametrize("name", ["X", "x", "dY", "DY", "w", "Q.k_proj", "xx"])
def test_class_of_a_name(name):
    expected = {"X": "x", "x": "x", "dY": "dy", "DY": "dy", "w": "w"}
    assert class_of(name) == expected.get(name, "x")


@pytest.mark.parametrize(
    "shapes, problems",
    [
        ({"X": (2, 3), "W": (3, 4), "dY": (2, 4)}, []),
        ({"X": (2, 3), "W": (5, 4)}, ["K is 3 in X (2 x 3) but 5 in W (5 x 4)"]),
        (
            {"X": (2, 3), "W": (5, 4), "dY": (6, 7)},
            [
                "K is 3 in X (2 x 3) but 5 in W (5 x 4)",
                "N is 4 in W (5 x 4) but 7 in dY (6 x 7)",
                "M is 2 in X (2 x 3) but 6 in dY (6 x 7)",
            ],
        ),
        (
            {"X": (16385, 1), "dY": (16385, 1)},
            [
                (
                    "the contraction of dW over M = 16385 must be at most 2^accumulator.headroom = "
                    "16384 blocks of 1, not 16385"
                )
            ],
        ),
    ],
)
def test_shapes_that_fit(shapes, problems):
    given = {name: np.zeros(shape, dtype=np.float32) for name, shape in shapes.items()}
    (mixture,) = mixtures("bfp4", block=1)
    if not problems:
        check_products("a.npz", given, mixture)
        return
    with pytest.raises(BadInput) as caught:
        check_products("a.npz", given, mixture)
    assert list(caught.value.problems) == [f"a.npz: {problem}" for problem in problems]
