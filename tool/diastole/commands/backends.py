"""What `run` and `train` check of their backend before they begin."""

import argparse

from diastole.console import warn
from diastole.errors import BadInput
from diastole.files.atomic import check_writable
from diastole_sim.rtl.build import WAVES

SUFFIXES = tuple(f".{name}" for name in WAVES)


def check_execution(arguments: argparse.Namespace) -> None:
    """Refuses ``--trace`` without hardware, and warns of options that change nothing."""
    if arguments.trace is not None:
        if arguments.backend == "golden":
            raise BadInput("--trace needs --backend rtl: the golden model has no waves")
        if arguments.trace.suffix.lower() not in SUFFIXES:
            raise BadInput(f"--trace must end in {' or '.join(SUFFIXES)}, not {arguments.trace}")
        check_writable(arguments.trace)
    elif arguments.trace_depth is not None:
        raise BadInput("--trace-depth needs --trace, the file of the waves")
    if arguments.backend == "golden":
        if arguments.stalls is not None:
            warn("--stalls changes nothing with --backend golden, which has no clock")
        if arguments.latency is not None:
            warn("--latency changes nothing with --backend golden, which has no memory")
        if arguments.verify:
            warn("--verify with --backend golden compares the golden model with itself")
