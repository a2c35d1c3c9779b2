"""Places and routes `pico` on an ECP5, and runs the tests that need nextpnr.

    python scripts/route.py [FOLDER] [--require]

build/pnr, an environment of their own, gets Yosys and nextpnr once, as for the ULX3S; FOLDER
(build/route) gets the report of `pico` without its vector unit, and with the keys that make it
fast, from four seeds. Half an hour. Says these keys, and its clock beside what is asked; exit 1 if
a test fails, or with ``--require`` if the clock is missed.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from ulx3s import ROOT, environment

from diastole.cli import exit_code
from diastole.cli import main as diastole
from diastole.errors import CheckFailed

ASKED_MHZ = 85
SEEDS = 4
"""From 0 on: clocks differ by a tenth between them."""
KEYS = ("vector.enable=false", "cell.pipeline=full", "memory.output_register=true")
TESTS = "tests/unit/tool/synth/test_route.py"


def main(folder: Path, *, require: bool) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["PATH"] = os.pathsep.join([str(environment()), os.environ.get("PATH", os.defpath)])
    tests = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", TESTS]
    if subprocess.run(tests, cwd=ROOT).returncode:
        raise CheckFailed(f"{TESTS} failed")
    report = str(folder / "pico.json")
    asked = ["--freq", str(ASKED_MHZ)] if require else []
    print("pico with", ", ".join(KEYS), f"({ASKED_MHZ} MHz are asked):", flush=True)
    machine = ["--preset", "pico", *(part for key in KEYS for part in ("--set", key))]
    routed = ["--target", "ecp5", "--pnr", "--times", str(SEEDS), *asked]
    return diastole(["synth", *machine, *routed, "--out", report])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path("build/route"))
    parser.add_argument("--require", action="store_true", help="exit 1 if the clock is missed")
    given = parser.parse_args()
    sys.exit(exit_code(lambda: main(given.folder.absolute(), require=given.require)))
