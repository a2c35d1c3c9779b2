"""``import diastole``: what it hands out, and that it takes no time before it is asked."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import diastole
import diastole_sim

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"
HANDED_OUT = {
    "Config": "diastole.config.keys",
    "Device": "diastole.devices",
    "GoldenDevice": "diastole.devices",
    "RoundedWarning": "diastole_sim.device.arrays",
    "dequantise": "diastole_sim.codes.api",
    "quantise": "diastole_sim.codes.api",
    "load_config": "diastole.config.file",
}


def fresh(code):
    """What ``code`` prints in a process of its own, as JSON."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("name, home", HANDED_OUT.items())
def test_hands_out(name, home):
    assert getattr(diastole, name) is getattr(sys.modules[home], name)
    assert getattr(diastole, name).__module__ == home


def test_formats_and_version():
    assert diastole.formats is sys.modules["diastole_sim.spec.formats"]
    assert diastole.formats.parse_format("nvfp4").name == "nvfp4"
    assert diastole.__version__ == PROJECT["version"]


def test_all_of_it_is_named():
    assert sorted(diastole.__all__) == sorted([*HANDED_OUT, "formats", "__version__"])
    assert set(diastole.__all__) <= set(dir(diastole))
    with pytest.raises(AttributeError, match="module 'diastole' has no attribute 'quantize'"):
        _ = diastole.quantize


def test_the_example_of_the_docstring():
    found = diastole.quantise(np.array([[1.0, -3.0, 0.3, 8.0]], np.float32), "mxfp4_e2m1")
    assert found.values().tolist() == [[1, -3, 0, 8]]


def test_the_package_of_formats_hands_out_the_same():
    from diastole_sim import Codes, quantise

    assert quantise is diastole.quantise
    assert set(diastole_sim.__all__) <= set(dir(diastole_sim))
    assert isinstance(quantise(np.ones((2, 2), np.float32), "bfp4"), Codes)


HEAVY = "amaranth numpy pydantic matplotlib diastole_hw diastole_sim".split()


@pytest.mark.parametrize(
    "code, loaded",
    [
        ("import diastole", []),
        ("import diastole; diastole.__version__", []),
        ("import diastole; diastole.quantise", ["numpy", "diastole_sim"]),
        ("import diastole; diastole.Config", ["numpy", "pydantic", "diastole_hw", "diastole_sim"]),
        ("import diastole; diastole.GoldenDevice", ["numpy", "diastole_sim"]),
        ("import diastole; diastole.Device", ["numpy", "diastole_sim"]),
        ("import diastole.cli", ["numpy", "pydantic", "diastole_hw", "diastole_sim"]),
    ],
)
def test_imports_what_it_needs_alone(code, loaded):
    asked = f"{code}\nimport json, sys\nprint(json.dumps([n for n in {HEAVY} if n in sys.modules]))"
    assert sorted(fresh(asked)) == sorted(loaded)


def test_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "diastole", "--version"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        f"diastole {PROJECT['version']}\n",
        "",
    )
    done = subprocess.run([sys.executable, "-m", "diastole"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: diastole ")


def test_extras_are_named_for_users():
    extras = PROJECT["optional-dependencies"]
    named = "sim train board report compare tensorboard cluster fpga torch dev"
    assert list(extras) == named.split()
    assert "diastole[sim,train,board,report,tensorboard,compare,cluster]" in extras["dev"]


def test_every_python_that_is_named_is_taken_and_tested():
    """From the least one on, without a gap."""
    classifiers = [each.rpartition(" :: ") for each in PROJECT["classifiers"]]
    minors = [int(name.removeprefix("3.")) for _, _, name in classifiers if name[:2] == "3."]
    assert minors == list(range(minors[0], minors[-1] + 1))
    assert PROJECT["requires-python"] == f">=3.{minors[0]}"
    assert f"python: {json.dumps([f'3.{minor}' for minor in minors])}" in WORKFLOW.read_text()


def test_the_workflow_calls_what_must_be_green():
    """The same commands of make, in the same order."""
    must = re.findall(r"^make \w+$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert must == ["make lint", "make test"]
    assert re.findall(r"- run: (make .*)", WORKFLOW.read_text()) == must
