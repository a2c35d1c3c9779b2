"""Executes the notebooks of docs/tutorials and renews their stored outputs.

    python scripts/notebooks.py [--check] [NOTEBOOK ...]

Without NOTEBOOK takes all of them. --check writes nothing, and ends with 1 if a notebook prints
another text than its stored output.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from diastole.cli import exit_code
from diastole.console import say
from diastole.errors import CheckFailed
from support import notebooks


def main(paths: list[Path], *, check: bool) -> int:
    wrong: list[str] = []
    for path in paths:
        stored = notebooks.read(path)
        fresh = notebooks.executed(stored)
        changes = list(notebooks.differences(stored, fresh))
        if check:
            wrong += [f"{path.name}, {each}" for each in changes]
        else:
            notebooks.write(path, fresh)
            say(f"renewed {path.name}: {len(changes)} outputs differ from before")
    if wrong:
        raise CheckFailed(
            "\n".join([*wrong, "python scripts/notebooks.py renews the stored outputs"])
        )
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    parser.add_argument("paths", type=Path, nargs="*", metavar="NOTEBOOK")
    arguments = parser.parse_args()
    sys.exit(exit_code(lambda: main(arguments.paths or notebooks.NOTEBOOKS, check=arguments.check)))
