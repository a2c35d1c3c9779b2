"""`diastole formats`: lists the number formats, or says what they make of your own tensors."""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from diastole import install
from diastole.commands.arguments import Commands, add_json
from diastole.config.file import accepted, likely_format
from diastole.console import note, print_json, say, warn
from diastole.errors import BadInput
from diastole.files import atomic, tensors
from diastole.files.matrices import read_matrices
from diastole.report import format_table, survey_table
from diastole_sim.codes.survey import survey
from diastole_sim.spec.formats import FORMAT_NAMES, parse_format
from diastole_sim.spec.numerics import BLOCK_SIDES, CLASS_NAMES

PICTURES = (".png", ".svg")


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "formats",
        help="list the number formats, or try them on your tensors",
        description=__doc__,
        epilog="example: diastole formats --data a.npz --formats bfp4,mxfp8_e4m3 --block 8",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--data",
        metavar="A.npz",
        type=Path,
        help="matrices of floats to try the formats on; X, W and dY get the groups of their class, "
        "others those of X",
    )
    parser.add_argument(
        "--formats",
        metavar="A,B,...",
        default=",".join(FORMAT_NAMES),
        help="the formats to show (default: every name)",
    )
    parser.add_argument(
        "--block",
        metavar="B",
        type=int,
        choices=BLOCK_SIDES,
        default=8,
        help="side of a block, as array.block (default: 8)",
    )
    parser.add_argument(
        "--out", metavar="PICTURE", type=Path, help="with --data: a picture to write, .png or .svg"
    )
    add_json(parser)
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    names = parse_names(arguments.formats)
    _check_picture(arguments)
    if arguments.data is None:
        return show(names, arguments.block, arguments.json)
    return try_on(arguments, names)


def show(names: list[str], block: int, as_json: bool) -> int:
    """The table of formats, and what goes together."""
    records = [format_table.record(name, block) for name in names]
    if as_json:
        print_json(
            {
                "block": block,
                "formats": records,
                "combinations": [asdict(each) for each in format_table.COMBINATIONS],
                "area_command": format_table.areas()["command"],
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
    return 0


def try_on(arguments: argparse.Namespace, names: list[str]) -> int:
    """Every format on every matrix of the user's."""
    matrices, notes = read_matrices(arguments.data)
    for text in notes:
        note(text)
    for text in tensors.warnings(matrices, "flag"):
        warn(text)
    surveys = {
        name: [
            survey(matrix, each, block=arguments.block, tensor_class=class_of(name))
            for each in names
        ]
        for name, matrix in matrices.items()
    }
    if arguments.out is not None:
        title = f"{arguments.data.name}, blocks of {arguments.block} x {arguments.block}"
        survey_table.write_picture(surveys, arguments.out, title)
    shapes = {name: matrix.shape for name, matrix in matrices.items()}
    if arguments.json:
        print_json(_record(arguments, surveys, shapes))
        return 0
    for name, each in surveys.items():
        for line in (*survey_table.tensor_table(name, shapes[name], each), ""):
            say(line)
    for line in survey_table.LEGEND:
        say(line)
    if arguments.out is not None:
        say(f"wrote {arguments.out}")
    return 0


def class_of(name: str) -> str:
    """The class of a tensor by its name; ``x`` for names that say nothing."""
    return name.lower() if name.lower() in CLASS_NAMES else "x"


def _record(
    arguments: argparse.Namespace,
    surveys: survey_table.Surveys,
    shapes: dict[str, tuple[int, ...]],
) -> dict[str, Any]:
    return {
        "data": str(arguments.data),
        "block": arguments.block,
        "tensors": [
            {
                "name": name,
                "class": class_of(name),
                "shape": list(shapes[name]),
                "formats": [asdict(survey) for survey in each],
            }
            for name, each in surveys.items()
        ],
    }


def parse_names(text: str) -> list[str]:
    """The formats of "a,b", each once; :class:`BadInput` with a line for each unknown one."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",")))
    problems: list[str] = []
    for name in names:
        try:
            parse_format(name)
        except ValueError:
            problem = f'--formats must each be {accepted("format.x")}, not "{name}"'
            problems.append(problem + likely_format(name))
    if problems:
        raise BadInput(*problems)
    return names


def _check_picture(arguments: argparse.Namespace) -> None:
    """Refuses, before any work, a picture that cannot be made."""
    if arguments.out is None:
        return
    if arguments.data is None:
        raise BadInput("--out needs --data: the picture is of your tensors")
    if arguments.out.suffix.lower() not in PICTURES:
        raise BadInput(f"--out must end in {' or '.join(PICTURES)}, not {arguments.out}")
    atomic.check_writable(arguments.out)
    install.require(*(tool for tool in install.OPTIONAL if tool.name == "matplotlib"))
