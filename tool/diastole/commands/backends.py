"""What `run` and `train` check of their backend before they begin."""

import argparse
from typing import Any

from diastole.console import warn
from diastole.errors import BadInput
from diastole.files.atomic import check_writable
from diastole_sim.machines.verilator.simulation import WAVES

SUFFIXES = tuple(f".{name}" for name in WAVES)


HARDWARE = ("stalls", "latency", "trace", "trace_depth", "port", "baud")
"""Options of hardware, simulated or not."""
NO_WAVES = {"golden": "the golden model has no waves", "board": "a board records none"}


def hardware_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """As :func:`diastole.backend.make_device` takes them."""
    return {name: getattr(arguments, name) for name in HARDWARE}


def check_execution(arguments: argparse.Namespace) -> None:
    """Refuses ``--trace`` without waves and a board without its port, and warns of options that
    change nothing."""
    _check_board(arguments)
    if arguments.trace is not None:
        if arguments.backend in NO_WAVES:
            raise BadInput(f"--trace needs --backend rtl: {NO_WAVES[arguments.backend]}")
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


def _check_board(arguments: argparse.Namespace) -> None:
    if arguments.backend == "board":
        if arguments.port is None:
            raise BadInput("--backend board needs --port, where the board is, such as /dev/ttyUSB0")
        for name in ("stalls", "latency"):
            if getattr(arguments, name) is not None:
                warn(f"--{name} changes nothing with --backend board, which is as it is")
        return
    for name in ("port", "baud"):
        if getattr(arguments, name) is not None:
            raise BadInput(f"--{name} is of --backend board, not of {arguments.backend}")
