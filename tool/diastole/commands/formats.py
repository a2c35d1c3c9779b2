"""`diastole formats`: list the number formats, or compare them on your own tensors."""

import argparse
from dataclasses import asdict
from pathlib import Path

from diastole.commands import trials
from diastole.commands.arguments import Commands, add_json, one_of
from diastole.console import print_json, say, say_next
from diastole.errors import BadInput
from diastole.files.outputs import check_picture
from diastole.layers import cell_areas
from diastole.report import format_table
from diastole.trials.choices import parse_choices
from diastole_sim.spec.formats import FORMAT_NAMES
from diastole_sim.spec.numerics import BLOCK_SIDES


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "formats",
        help="list the number formats, or try them on your tensors",
        description=__doc__,
        epilog="example: diastole formats --data a.npz --formats bfp4,mxfp8_e4m3 --block 8",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--formats",
        metavar="A,B,...",
        default=",".join(FORMAT_NAMES),
        help="formats to show, with commas between the names (default: every name)",
    )
    parser.add_argument(
        "--block",
        metavar="B",
        type=one_of(*BLOCK_SIDES),
        choices=BLOCK_SIDES,
        default=8,
        help="side of a block, as in array.block (default: 8)",
    )
    trials.add_arguments(parser)
    add_json(parser)
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    options = trials.option_values(arguments)
    kind = arguments.rounding_kind
    choices = parse_choices(arguments.formats, options, arguments.block, kind)
    _check_picture(arguments)
    if arguments.data is None:
        return show(choices.names, arguments.block, arguments.json)
    return trials.try_on(arguments, choices)


def show(names: list[str], block: int, as_json: bool) -> int:
    """Print the table of formats, and the combinations that a machine accepts."""
    records = [format_table.record(name, block) for name in names]
    if as_json:
        print_json(
            {
                "block": block,
                "formats": records,
                "combinations": [asdict(each) for each in format_table.COMBINATIONS],
                "area_command": cell_areas.areas()["command"],
            }
        )
        return 0
    for line in (
        *format_table.table(records),
        "",
        *format_table.legend(block),
        "",
        *format_table.combinations(),
    ):
        say(line)
    say_next("diastole formats --data a.npz ranks them on your own tensors X, W and dY")
    return 0


def _check_picture(arguments: argparse.Namespace) -> None:
    """Refuse a picture that cannot be made, before any work."""
    path: Path | None = arguments.out
    if path is None:
        return
    if arguments.data is None:
        raise BadInput("--out needs --data: the picture shows your tensors")
    check_picture("--out", path)
