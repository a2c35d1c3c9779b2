"""Puts faults into the generated Verilog of a small machine and counts those that a check notices.

    python scripts/mutation.py

Prints a line per fault and the score; exit 1 if one survives. The faults and the check are in
tests/support/mutants.py; ``make test`` runs them too.
"""

import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "tests"))

from diastole.backend import cached_product
from support import mutants


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        planted = mutants.plant(cached_product(mutants.CONFIG), Path(folder) / "product")
        if not mutants.survives(planted, 0):
            print("the check fails without a fault", file=sys.stderr)
            return 1
        alive = []
        for name, number in mutants.NUMBERS.items():
            began = time.perf_counter()
            if mutants.survives(planted, number):
                alive.append(name)
            verdict = "SURVIVES" if name in alive else "noticed"
            print(f"{name:45} {verdict:9} {time.perf_counter() - began:5.1f} s", flush=True)
    print(f"{len(mutants.FAULTS) - len(alive)} of {len(mutants.FAULTS)} faults noticed")
    return int(bool(alive))


if __name__ == "__main__":
    sys.exit(main())
