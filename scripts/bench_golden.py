"""Times the golden model on one core: conversions and products of 512 x 512 x 512, by format.

    python scripts/bench_golden.py

Prints seconds, the best of three; asserts nothing. ``wide`` data has exponents so far apart that
every block sum must be shifted alone, the slowest case. Then milliseconds of 32 products of
64 x 64 x 64, conversions included: one call for each, and one for the stack of them.
"""

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"  # read by numpy when it is first imported

import argparse  # noqa: E402
import sys  # noqa: E402

from diastole.cli import exit_code  # noqa: E402
from diastole.console import say  # noqa: E402
from diastole.measure.golden_speed import (  # noqa: E402
    CASES,
    HEADING,
    STACK_HEADING,
    data,
    lines,
    stack_line,
)

BLOCK = 8
"""Side of the blocks of what is stacked."""


def main() -> int:
    arrays = data()
    say(HEADING)
    for case in CASES:
        for line in lines(case, arrays):
            say(line)
    say(STACK_HEADING)
    for case in CASES:
        if case.block == BLOCK:
            say(stack_line(case))
    return 0


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    sys.exit(exit_code(main))
