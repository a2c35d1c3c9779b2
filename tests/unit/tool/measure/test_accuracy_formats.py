"""Trainings in every format: their runs, their means, their table."""

import pytest

from diastole.config.presets import PRODUCTS_ONLY
from diastole.errors import BadInput
from diastole.measure import accuracy_formats
from diastole.measure.accuracy_formats import (
    accuracy_record,
    jobs,
    mean_of_seeds,
    mean_table,
    numerics,
    train_all,
    train_job,
)
from diastole_sim.spec.formats import FORMAT_NAMES


@pytest.fixture
def one_process(monkeypatch):
    """Runs of no cost, in this process; their accuracy is 0.9 less a tenth of the seed."""

    class Pool:
        def __init__(self, workers):
            assert workers == 2

        def __enter__(self):
            return self

        def __exit__(self, *_): ...
        def imap(self, function, jobs):
            return map(function, jobs)

    def train_job(job):
        name, _, seed, steps = job
        measured = {"accuracy": 0.9 - seed / 10, "float_accuracy": 0.95, "saturated": seed}
        return {"format": name, "seed": seed, "steps": steps or 300} | measured

    monkeypatch.setattr(accuracy_formats.multiprocessing, "Pool", Pool)
    monkeypatch.setattr(accuracy_formats, "train_job", train_job)


def test_numerics_are_those_of_nano():
    assert numerics("bfp4") == PRODUCTS_ONLY["nano"].numerics
    nvfp4 = numerics("nvfp4").to_dict()
    assert {nvfp4[name]["format"] for name in ("x", "w", "dy")} == {"nvfp4"}
    assert nvfp4["dy"]["rounding"] == "stochastic-b"


def test_numerics_in_other_groups():
    found = numerics("bfp4", "1x16").to_dict()
    assert {found[name]["grouping"] for name in ("x", "w", "dy")} == {"1x16"}
    assert numerics("bfp4").to_dict()["x"]["grouping"] == "8x8"


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_numerics_of_every_name(name):
    assert numerics(name).accumulator_bits <= 63


def test_a_run():
    run = train_job(("mxfp8_e4m3", None, 1, 2))
    assert (run["format"], run["seed"], run["steps"]) == ("mxfp8_e4m3", 1, 2)
    assert 0 < run["accuracy"] < 1
    assert 0 < run["float_accuracy"] < 1
    assert run == train_job(("mxfp8_e4m3", None, 1, 2)) | {"seconds": run["seconds"]}


def test_jobs():
    assert jobs(["bfp4", "nvfp4"], None, 7) == [
        (name, None, seed, 7) for name in ("bfp4", "nvfp4") for seed in (0, 1, 2)
    ]


def test_groups_that_a_format_does_not_take_before_any_work():
    with pytest.raises(BadInput, match=r"where format\.x is bf16"):
        jobs(["bfp4", "bf16"], "1x16", None)


def test_means_and_the_table(one_process):
    runs = list(train_all(jobs(["bfp4", "nvfp4"], None, 7)))
    assert mean_table(mean_of_seeds(runs)) == [
        "format  accuracy  float32  difference  worst seed",
        "bfp4      80.00%   95.00%      -15.00      70.00%",
        "nvfp4     80.00%   95.00%      -15.00      70.00%",
    ]
    found = accuracy_record(runs)
    assert (found["task"], found["seeds"], found["steps"]) == ("digits", (0, 1, 2), 7)
    assert [run["format"] for run in found["runs"]] == ["bfp4"] * 3 + ["nvfp4"] * 3
    assert found["formats"][0] == {
        "format": "bfp4",
        "accuracy": pytest.approx(0.8),
        "float_accuracy": pytest.approx(0.95),
        "worst": pytest.approx(0.7),
        "saturated": 1,
    }
