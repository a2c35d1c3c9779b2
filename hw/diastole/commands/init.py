"""`diastole init`: writes a commented configuration to start from."""

import argparse
from pathlib import Path

from diastole import atomic
from diastole.config_file import to_toml
from diastole.console import say
from diastole.errors import BadInput
from diastole.presets import PRESETS


def add_parser(commands) -> None:
    parser = commands.add_parser(
        "init", help="write a commented configuration", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="the file to write")
    parser.add_argument(
        "--preset", choices=tuple(PRESETS), default="nano", help="where to start (default: nano)"
    )
    parser.add_argument("--force", action="store_true", help="overwrite FILE if it exists")
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    path = arguments.file
    if path.is_dir():
        raise BadInput(f"{path}: is a directory")
    text = to_toml(PRESETS[arguments.preset])
    if arguments.force:
        atomic.replace(path, lambda file: file.write(text.encode()))
    else:
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            raise BadInput(f"{path}: exists; --force overwrites it") from None
    say(f"wrote {path} (preset {arguments.preset})")
    return 0
