"""The script that trains in every format: its runs, its means, its table."""

import argparse
import importlib.util
import json
from pathlib import Path

import pytest

from diastole.errors import BadInput
from diastole.presets import PRESETS
from diastole_sim.formats import FORMAT_NAMES

PATH = Path(__file__).parents[3] / "scripts/accuracy_formats.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("accuracy_formats", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def one_process(script, monkeypatch):
    """Runs of no cost, in this process; their accuracy is 0.9 less a tenth of the seed."""

    class Pool:
        def __init__(self, workers):
            assert workers == 2

        def __enter__(self):
            return self

        def __exit__(self, *_): ...
        def imap(self, function, jobs):
            return map(function, jobs)

    def train(job):
        name, _, seed, steps = job
        measured = {"accuracy": 0.9 - seed / 10, "float_accuracy": 0.95, "saturated": seed}
        return {"format": name, "seed": seed, "steps": steps or 300} | measured

    monkeypatch.setattr(script.multiprocessing, "Pool", Pool)
    monkeypatch.setattr(script, "train", train)


def test_numerics_are_those_of_nano(script):
    assert script.numerics("bfp4") == PRESETS["nano"].numerics
    nvfp4 = script.numerics("nvfp4").to_dict()
    assert {nvfp4[name]["format"] for name in ("x", "w", "dy")} == {"nvfp4"}
    assert nvfp4["dy"]["rounding"] == "stochastic-b"


def test_numerics_in_other_groups(script):
    found = script.numerics("bfp4", "1x16").to_dict()
    assert {found[name]["grouping"] for name in ("x", "w", "dy")} == {"1x16"}
    assert script.numerics("bfp4").to_dict()["x"]["grouping"] == "8x8"


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_numerics_of_every_name(script, name):
    assert script.numerics(name).accumulator_bits <= 63


def test_a_run(script):
    run = script.train(("mxfp8_e4m3", None, 1, 2))
    assert (run["format"], run["seed"], run["steps"]) == ("mxfp8_e4m3", 1, 2)
    assert 0 < run["accuracy"] < 1 and 0 < run["float_accuracy"] < 1
    assert run == script.train(("mxfp8_e4m3", None, 1, 2)) | {"seconds": run["seconds"]}


def test_means_and_the_table(script, one_process, capsys, tmp_path):
    out = tmp_path / "accuracy.json"
    arguments = script.read_arguments(
        ["--formats", "bfp4,nvfp4", "--steps", "7", "--out", f"{out}"]
    )
    assert script.main(arguments) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines() == [
        "format  accuracy  float32  difference  worst seed",
        "bfp4      80.00%   95.00%      -15.00      70.00%",
        "nvfp4     80.00%   95.00%      -15.00      70.00%",
    ]
    lines = captured.err.splitlines()
    assert lines[-1] == "diastole: nvfp4, seed 2: 70.00% (6 of 6)" and len(lines) == 6
    found = json.loads(out.read_text())
    assert (found["task"], found["seeds"], found["steps"]) == ("digits", [0, 1, 2], 7)
    assert [run["format"] for run in found["runs"]] == ["bfp4"] * 3 + ["nvfp4"] * 3
    assert found["formats"][0] == {
        "format": "bfp4",
        "accuracy": pytest.approx(0.8),
        "float_accuracy": pytest.approx(0.95),
        "worst": pytest.approx(0.7),
        "saturated": 1,
    }


def test_every_format_and_its_own_steps_by_default(script):
    expected = argparse.Namespace(steps=None, formats=",".join(FORMAT_NAMES), block=None, out=None)
    assert script.read_arguments([]) == expected


def test_bad_arguments_before_any_work(script, tmp_path):
    with pytest.raises(BadInput, match='not "fp7"$'):
        script.main(script.read_arguments(["--formats", "fp7"]))
    target = tmp_path / "no" / "a.json"
    with pytest.raises(BadInput, match="there is no folder"):
        script.main(script.read_arguments(["--out", f"{target}"]))
