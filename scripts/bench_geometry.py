"""Trains one network on arrays of every geometry: all must end in the same bits.

    python scripts/bench_geometry.py [STEPS] [--formats]

Arrays of 1 x 1, 2 x 2, 3 x 2 and 4 x 1 cells with B = 4, transposing in place and at the edge, each
with two seeds of stalls, and the golden model. With ``--formats``: 1 x 1, 2 x 2 and 3 x 2 cells of
six formats, with and without stalls, 12 steps. Prints a line per run; exit 1 if two hashes of the
same numbers differ.
"""

import argparse
import sys

from diastole.cli import exit_code
from diastole.console import say
from diastole.measure import geometry


def main(arguments: argparse.Namespace) -> int:
    if arguments.formats:
        wanted = geometry.six_formats(arguments.steps or geometry.FORMAT_STEPS)
    else:
        wanted = geometry.bfp4_everywhere(arguments.steps or geometry.STEPS)
    failed = False
    for label, runs in wanted:
        found = set()
        for run, sha256 in geometry.hashes(runs):
            found.add(sha256)
            say(f"{run:36} {sha256}")
        say(f"{label}: {len(found)} result{'s' * (len(found) > 1)}")
        failed |= len(found) > 1
    return int(failed)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("steps", type=int, nargs="?")
    parser.add_argument("--formats", action="store_true", help="six formats instead of bfp4")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(read_arguments())))
