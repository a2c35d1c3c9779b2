"""Places and routes a machine on an ECP5, and runs the tests that need nextpnr.

    python scripts/route.py [FOLDER] [--preset pico | nano] [--plain] [--require]

build/pnr, an environment of their own, gets Yosys and nextpnr once, as for the ULX3S; FOLDER
(build/route) gets the report of the machine without its vector unit, and with the keys that make it
fast: `pico` from four seeds, half an hour, `nano` from three, some hours. Says these keys, and the
clock beside what is asked; exit 1 if a test fails, or with ``--require`` if the clock is missed.
``--plain``: without these keys, as the preset is; of that clock nothing is asked.
"""

import argparse
import json
import os
import sys
from pathlib import Path

from environments import ROOT, environment
from ulx3s import PINNED, TOOLS

from diastole.cli import exit_code
from diastole.cli import main as diastole
from diastole.config.clock import CLOCK_KEYS, as_overrides
from diastole.errors import CheckFailed
from diastole_sim.system import children

TARGET_MHZ = {"pico": 85, "nano": 75}
SEEDS = {"pico": 4, "nano": 3}
"""How many: clocks differ between them."""
PLACER = "static"
"""Placed by heap, `pico` has a third more wire, and `nano` has not been routed."""
PLAIN = ("vector.enable=false",)
KEYS = (*PLAIN, *as_overrides(CLOCK_KEYS))
TESTS = "tests/unit/tool/synth/test_route.py"


def main(folder: Path, preset: str, *, plain: bool, require: bool) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    tools = environment(TOOLS, PINNED)
    os.environ["PATH"] = os.pathsep.join([str(tools), os.environ.get("PATH", os.defpath)])
    tests = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", TESTS]
    if children.call(tests, cwd=ROOT):
        raise CheckFailed(f"{TESTS} failed")
    report = folder / f"{preset}{'_plain' if plain else ''}.json"
    keys, target = (PLAIN, None) if plain else (KEYS, TARGET_MHZ[preset])
    requirement = "nothing is asked" if target is None else f"{target} MHz are asked"
    print(preset, "with", ", ".join(keys), f"({requirement}):", flush=True)
    machine = ["--preset", preset, *(part for key in keys for part in ("--set", key))]
    routed = ["--target", "ecp5", "--pnr", "--placer", PLACER]
    routed += ["--times", str(SEEDS[preset])]
    routed += [] if target is None else ["--freq", str(target)]
    report.unlink(missing_ok=True)
    code = diastole(["synth", *machine, *routed, "--out", str(report)])
    missed = report.exists() and not json.loads(report.read_text())["routed"]["met"]
    return 0 if missed and not require else code


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path("build/route"))
    parser.add_argument("--preset", choices=TARGET_MHZ, default="pico", help="(default: pico)")
    parser.add_argument("--plain", action="store_true", help="as the preset is, without the keys")
    parser.add_argument("--require", action="store_true", help="exit 1 if the clock is missed")
    arguments = parser.parse_args()
    options = {"plain": arguments.plain, "require": arguments.require}
    sys.exit(exit_code(lambda: main(arguments.folder.absolute(), arguments.preset, **options)))
