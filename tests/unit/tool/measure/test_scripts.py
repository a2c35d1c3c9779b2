"""The command lines in ``scripts/``: thin, and with the exit codes of all others."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[4] / "scripts"
THIN = (
    "accuracy_formats area bench bench_formats bench_geometry bench_golden draws igo model "
    "mutation demo package route tables torch_tests"
).split()


def run(name, *arguments):
    return subprocess.run(
        [sys.executable, SCRIPTS / f"{name}.py", *map(str, arguments)],
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("name", THIN)
def test_one_screen(name):
    lines = (SCRIPTS / f"{name}.py").read_text().splitlines()
    assert len(lines) <= 90


@pytest.mark.parametrize(
    "arguments, code, words",
    [
        (["bench", "b.json", "nothing"], 2, "error: no measurement nothing: utilisation, "),
        (["draws", "d.json", "x"], 2, "error: no measurement x: area, machine, bias, accuracy"),
        (["bench_formats", "nothing"], 2, "error: no row 'nothing'; known: 'bfp1', "),
        (["area", "--block", 3], 2, "error: block must be "),
        (["model", "--rows", 0], 2, "error: rows must be an integer in 1.."),
        (
            ["igo", "--bytes", 3],
            2,
            "error: argument --bytes: must be one of 1, 2, 4, not 3",
        ),
        (["igo", "--several", 1], 2, "--several: must be an integer in 2..64, not 1"),
        (["accuracy_formats", "--formats", "fp7"], 2, 'not "fp7"'),
        (["accuracy_formats", "--block", "9x9"], 2, "error: configuration: block.x must be "),
        (["accuracy_formats", "--out", "no/a.json"], 2, "error: no/a.json: there is no folder no"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else "",
)
@pytest.mark.sampled(3)
def test_mistakes(arguments, code, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(*arguments)
    assert done.returncode == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["bench_golden", "demo", "mutation", "package"])
@pytest.mark.sampled(3)
def test_help_runs_nothing(name, tmp_path, monkeypatch):
    """Of those that would work for long without arguments, or take any for a folder."""
    monkeypatch.chdir(tmp_path)
    done = run(name, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: {name}.py")
    assert not list(tmp_path.iterdir())


def test_bench_formats_lists_its_rows():
    done = run("bench_formats", "--list")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "bfp1"


def test_model():
    done = run("model", "--size", 64)
    assert (done.returncode, done.stderr) == (0, "")
    assert "fused" in done.stdout
    assert "loads not hidden" in done.stdout


def test_igo():
    only = ["--machine", "large", "--network", "NCF", "--network", "DLRM"]
    done = run("igo", *only)
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        done.stdout.splitlines()[0] == "large: time over square; bytes: element 4, result 4, sum 4"
    )
    done = run("igo", *only, "--sum-bytes", 2, "--several", 2, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    (machine,) = found["machines"]
    assert machine["bytes"] == {"element": 4, "result": 4, "sum": 2}
    assert list(machine["time_over"]["square"]) == ["NCF", "DLRM", "mean"]
    assert list(machine["several"]) == ["2"]


def test_area_of_a_small_cell():
    """Smaller than asked in total, far larger per MAC."""
    sizes = ["--block", 1, "--mantissa", 1, "--fraction", 0, "--side", 1]
    done = run("area", *sizes, "--json", "--limit", 1)
    assert (done.returncode, done.stderr) == (1, "")
    found = json.loads(done.stdout)
    assert (found["block"], found["side"]) == (1, 1)
    areas = found["area_per_mac_nand2"]
    assert areas["edge"] < areas["in_place"] < areas["in_place, product registers"]
