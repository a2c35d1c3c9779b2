"""The trainings that must end in one hash: which they are, and that another hash shows."""

from contextlib import contextmanager

import pytest

from diastole.config.presets import PRODUCTS_ONLY
from diastole.measure.geometry import (
    CELLS,
    FORMATS,
    bfp4_everywhere,
    figures,
    hashes,
    six_formats,
)
from diastole_sim.golden.device import GoldenDevice


@contextmanager
def golden(config, stalls):
    yield GoldenDevice(config.numerics)


@contextmanager
def wrong_with_stalls(config, stalls):
    yield GoldenDevice(config.numerics, seed=int(config.array.rows == 3 and stalls == 2))


def test_bfp4_everywhere():
    ((label, (configs, stalls, steps)),) = bfp4_everywhere(7)
    assert (label, stalls, steps) == ("bfp4", (1, 2), 7)
    arrays = {(c.array.rows, c.array.cols, c.array.transpose) for c in configs}
    assert arrays == {(*cell, how) for cell in CELLS for how in ("in_place", "edge")}
    assert len({config.numerics for config in configs}) == 1
    assert len({config.name for config in configs}) == len(configs) == 8


def test_six_formats():
    found = dict(six_formats(5))
    assert list(found) == list(FORMATS)
    for label, (configs, stalls, steps) in found.items():
        assert (stalls, steps, len(configs)) == ((None, 1), 5, 3)
        (numerics,) = {config.numerics for config in configs}
        assert {numerics.tensor_class(name).format.name for name in ("x", "w", "dy")} == {
            FORMATS[label][0]
        }
    assert str(found["bfp4 1x16"][0][0].numerics.x.grouping) == "1x16"


def test_hashes_of_every_run():
    configs = [PRODUCTS_ONLY["pico"], PRODUCTS_ONLY["pico"].model_copy(update={"name": "second"})]
    found = dict(hashes((configs, (None, 3), 1), golden))
    assert list(found) == [
        "golden",
        "diastole_pico, stalls None",
        "diastole_pico, stalls 3",
        "second, stalls None",
        "second, stalls 3",
    ]
    (sha256,) = set(found.values())
    assert len(sha256) == 64


@pytest.mark.parametrize("make, count", [(golden, 1), (wrong_with_stalls, 2)])
def test_one_hash_is_asked(make, count):
    (found,) = figures(make, steps=1)
    assert (found.what, found.asked) == ("hashes of 17 trainings on 4 arrays", "1")
    assert found.measured.startswith(f"{count}: ")
    assert found.met is (count == 1)
