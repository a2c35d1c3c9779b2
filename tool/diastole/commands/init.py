"""`diastole init`: write a commented configuration to start from."""

import argparse
import shlex
from pathlib import Path

from diastole.commands.arguments import Commands, read_preset
from diastole.config.file import from_document, to_toml
from diastole.config.numbers import NUMBERS
from diastole.config.presets import PRESET_NAMES
from diastole.console import say, say_next
from diastole.errors import BadInput
from diastole.files import atomic
from diastole.files.outputs import check_folder, check_output


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "init",
        help="write a commented configuration",
        description=__doc__,
        epilog="example: diastole init my.toml --preset edge",
        allow_abbrev=False,
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="TOML file to write")
    parser.add_argument(
        "--preset",
        choices=PRESET_NAMES,
        default="nano",
        help="configuration to start from: a ready machine, or the machine of a board "
        "(default: nano)",
    )
    parser.add_argument(
        "--numbers",
        choices=tuple(NUMBERS),
        help="published number formats instead of bfp4 of the preset",
    )
    parser.add_argument("--force", action="store_true", help="overwrite FILE if it exists")
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    path = arguments.file
    if path.is_dir():
        raise BadInput(f"{path}: is a directory")
    check_folder(path)
    check_output("FILE", path, (".toml",))
    config, source = read_preset(arguments.preset), f"preset {arguments.preset}"
    if arguments.numbers:
        config = from_document(config.to_dict(), [f"numbers={arguments.numbers}"])
        source += f", numbers {arguments.numbers}"
    text = to_toml(config).encode()
    try:
        (atomic.replace if arguments.force else atomic.create)(path, lambda file: file.write(text))
    except FileExistsError:
        raise BadInput(f"{path}: the file exists; --force overwrites the file") from None
    say(f"wrote {path} ({source})")
    say_next(f"edit the file, then diastole check {shlex.quote(str(path))}")
    return 0
