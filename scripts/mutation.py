"""Puts faults into the generated Verilog of small machines and counts those that a check notices.

    python scripts/mutation.py [MACHINE ...]

Prints a line per fault and the score; exit 1 if one survives. The machines, their faults and the
check are in tests/support/mutants.py; ``make test`` runs some of them too.
"""

import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "tests"))

from diastole.backend import cached_product
from support import mutants


def run(machine: mutants.Machine, folder: Path) -> list[str] | None:
    """Names of the faults that survive; None if the check fails without one."""
    planted = mutants.plant(machine, cached_product(machine.config), folder)
    if not mutants.survives(planted, 0):
        return None
    alive = []
    for name, number in machine.numbers.items():
        began = time.perf_counter()
        if mutants.survives(planted, number):
            alive.append(name)
        verdict = "SURVIVES" if name in alive else "noticed"
        print(f"{name:45} {verdict:9} {time.perf_counter() - began:5.1f} s", flush=True)
    return alive


def main(names: list[str]) -> int:
    known = {machine.config.name: machine for machine in mutants.MACHINES}
    if unknown := set(names) - set(known):
        print(f"no machine {', '.join(sorted(unknown))}: {', '.join(known)}", file=sys.stderr)
        return 2
    total, survivors = 0, 0
    for machine in (known[name] for name in names or known):
        print(f"{machine.config.name}:", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            alive = run(machine, Path(folder) / "product")
        if alive is None:
            print("the check fails without a fault", file=sys.stderr)
            return 1
        total += len(machine.faults)
        survivors += len(alive)
    print(f"{total - survivors} of {total} faults noticed")
    return int(bool(survivors))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
