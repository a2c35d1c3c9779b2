"""`diastole check`: says everything that is wrong with a configuration, at once."""

import argparse

from diastole.commands.arguments import add_config, read_config
from diastole.console import say


def add_parser(commands) -> None:
    parser = commands.add_parser(
        "check", help="check a configuration", description=__doc__, allow_abbrev=False
    )
    add_config(parser)
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    config = read_config(arguments)
    array = config.array
    say(
        f"{arguments.file}: good: {config.name}, {array.rows} x {array.cols} cells with blocks of "
        f"{array.block} x {array.block}, {config.macs} multipliers, "
        f"accumulators of {config.numerics.accumulator_bits} bits"
    )
    return 0
