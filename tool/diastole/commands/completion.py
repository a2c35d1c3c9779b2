"""`diastole completion`: print a script for your shell to complete commands, options and files."""

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path

from diastole.commands.arguments import Commands
from diastole.console import say

SHELLS = {
    "bash": 'eval "$(diastole completion bash)" in ~/.bashrc',
    "zsh": 'eval "$(diastole completion zsh)" in ~/.zshrc, behind compinit',
    "tcsh": "diastole completion tcsh, its output in ~/.tcshrc",
}
"""Supported shells, with the line that loads the script."""


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "completion",
        help="complete commands in your shell",
        description=__doc__,
        epilog=f"example: {SHELLS['bash']}",
        allow_abbrev=False,
    )
    parser.add_argument("shell", choices=tuple(SHELLS), help="; ".join(SHELLS.values()))
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    import shtab

    parser: argparse.ArgumentParser = arguments.whole_parser
    for action in _actions(parser):
        if action.type is Path:
            setattr(action, "complete", shtab.FILE)  # noqa: B010 - an attribute of shtab's
    say(shtab.complete(parser, arguments.shell))
    return 0


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield every argument of a parser and of the parser's commands."""
    for action in parser._actions:  # pyright: ignore[reportPrivateUsage] - argparse has no other
        yield action
        commands: Iterable[object] = getattr(action.choices, "values", tuple)()
        for command in commands:
            assert isinstance(command, argparse.ArgumentParser)
            yield from _actions(command)
