"""Puts faults into the generated Verilog of small machines and counts those that a check notices.

    python scripts/mutation.py [MACHINE ...]

Prints every fault that is placed by hand, every random one that survives, and the shares. Exit 1
if one placed by hand survives, if fewer than 95 % of a machine's live random faults are noticed, or
if nobody has argued why one of them is not. Live are those that are not proved, and of which it is
not argued (tests/mutation/survivors.txt), that they change nothing.
The machines, the faults and the check are in tests/mutation; ``make test`` runs a sample.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))  # before this file, `mutation` too

from diastole.backend import cached_product
from diastole.cli import exit_code
from mutation import check
from mutation.equal import Prover
from mutation.plant import plant, read
from mutation.planted import MACHINES, Machine
from mutation.run import SURVIVES, Trial
from mutation.survivors import said_equal
from mutation.tally import Tally
from support.tools_path import offer_tools


def run(machine: Machine, folder: Path) -> bool:
    """Whether all is as it must be."""
    began = time.monotonic()
    product = cached_product(machine.config)
    _, _, sources = read(product)
    by_hand = [fault.placed(sources) for fault in machine.faults]
    faults = [*by_hand, *machine.drawn(sources)]
    planted = plant(product, faults, folder)
    prover = Prover(product, folder.with_name("proofs")) if machine.random else None

    def prove(number: int) -> bool:
        name = faults[number - 1].name
        tried = prover is not None and number > len(by_hand) and not said_equal(machine.name, name)
        return tried and prover.equal(faults[number - 1], f"f{number}")

    trial = Trial(planted, check.record(planted, machine.scenes), prove)
    (unchanged,) = trial.run([0])
    if unchanged.verdict != SURVIVES:
        print(f"the check fails without a fault: {unchanged.why}", file=sys.stderr)
        return False
    tally = Tally(machine.name)
    for seen in trial.run(range(1, len(faults) + 1)):
        judge = tally.by_hand if seen.number <= len(by_hand) else tally.random
        judge(faults[seen.number - 1], seen)
    good = tally.enough()
    print(f"{machine.name}: {time.monotonic() - began:.0f} s", flush=True)
    return good


def main(names: list[str]) -> int:
    machines = {machine.name: machine for machine in MACHINES}
    offer_tools()
    good = True
    for machine in (machines[name] for name in names or machines):
        print(f"{machine.name}:", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            good &= run(machine, Path(folder) / "product")
    return int(not good)


def read_arguments() -> argparse.Namespace:
    names = [machine.name for machine in MACHINES]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    about = f"of {', '.join(names)} (default: all)"
    parser.add_argument("machines", nargs="*", metavar="MACHINE", help=about)
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.machines) - set(names)):
        parser.error(f"no machine {', '.join(unknown)}; there are {', '.join(names)}")
    return arguments


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(read_arguments().machines)))
