"""A user's own script, checked as users check theirs: the packages tell what their names are."""

import re
import subprocess
import sys
import sysconfig
import venv

from support.sources import PACKAGES

SCRIPT = """\
from typing import assert_type

import numpy as np
from numpy.typing import NDArray

import diastole
import diastole_sim
from diastole_hw.plan.plan import Plan
from diastole_sim.codes.standard import Codes
from diastole_sim.spec.numerics import Numerics

ones = np.ones((8, 8), np.float32)
config = diastole.Config(name="mine")
assert_type(config.array.block, int)
assert_type(config.plan, Plan)
assert_type(config.numerics, Numerics)
codes = diastole.quantise(ones, "mxfp8_e4m3")
assert_type(codes, Codes)
assert_type(codes.values(), NDArray[np.float32])
values = diastole_sim.dequantise(codes.codes, codes.scales, "mxfp8_e4m3")
assert_type(values, NDArray[np.float32])
device = diastole.GoldenDevice(config.numerics)
assert_type(device.forward(ones, ones).y, NDArray[np.float32])
other = diastole.GoldenDevice(formats={"x": "bfp4", "dy": "fp8_e5m2"}, seed=3)
stack = other.convert_stack(ones.astype(np.float64), "w")
assert_type(other.forward([[1, 2.5]], stack, tags=(0, 1)).exact, bool)
assert_type(diastole.load_config("my.toml").numerics, Numerics)
with diastole.Device("product", seed=1) as machine:
    assert_type(machine.backward(ones, ones, ones).dx, NDArray[np.float32])

diastole.quantise(ones, 8)  # arg-type
diastole.Config(nane="mine")  # call-arg
config.plan.multipliers  # attr-defined
device.forward(ones)  # call-arg
other.forward(ones, None)  # arg-type
"""


def test_a_users_script_is_checked_against_the_packages(tmp_path):
    """Neither more nor fewer mistakes than the script says, under mypy's strict rules."""
    venv.create(tmp_path / "venv", symlinks=True)
    paths = {"base": str(tmp_path / "venv"), "platbase": str(tmp_path / "venv")}
    packages = sysconfig.get_path("purelib", "venv", vars=paths)
    folders = [*(each.parent for each in PACKAGES.values()), sysconfig.get_path("purelib")]
    (tmp_path / packages / "here.pth").write_text("".join(f"{folder}\n" for folder in folders))
    (tmp_path / "script.py").write_text(SCRIPT)
    python = tmp_path / "venv" / "bin" / "python"
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "script.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    found = re.findall(r"^script\.py:(\d+): error: .*\[(.*)\]$", done.stdout, re.MULTILINE)
    expected = [
        (str(number), line.partition("  # ")[2])
        for number, line in enumerate(SCRIPT.splitlines(), 1)
        if "  # " in line
    ]
    assert found == expected, done.stdout + done.stderr
