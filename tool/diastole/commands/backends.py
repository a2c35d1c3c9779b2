"""Read the options of `run` and `train` for the backend."""

import argparse
from dataclasses import fields

from diastole.console import warn
from diastole.execution import Execution
from diastole.files.atomic import check_writable


def execution_of(arguments: argparse.Namespace) -> Execution:
    """Return the requested execution, and warn of options that change nothing. BadInput as for
    :class:`Execution`, and for waves that cannot be written."""
    options = vars(arguments)
    names = (each.name for each in fields(Execution))
    execution = Execution(**{name: options[name] for name in names if name in options})
    if execution.trace is not None:
        check_writable(execution.trace)
    for name in ("stalls", "latency"):
        if options.get(name) is not None and execution.backend in WITHOUT_EFFECT:
            warn(
                f"--{name} changes nothing with --backend {WITHOUT_EFFECT[execution.backend][name]}"
            )
    if execution.backend == "golden" and options.get("verify"):
        warn("--verify with --backend golden compares the golden model with itself")
    return execution


WITHOUT_EFFECT = {
    "golden": {
        "stalls": "golden, which has no clock",
        "latency": "golden, which has no memory",
    },
    "board": dict.fromkeys(("stalls", "latency"), "board, which has fixed hardware"),
}
"""Reasons why options change nothing, by backend and option."""
