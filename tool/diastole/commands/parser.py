"""The parser of every command: mistakes take one line, and mistyped names have their nearest."""

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from diastole.console import say
from diastole.errors import BadInput
from diastole.nearest import meant
from diastole_sim.spec.require import shown


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, like every other mistake, instead of the usage first."""

    def error(self, message: str) -> NoReturn:
        raise BadInput(f"{message} (see {self.prog} --help)")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print help and version as every result is: argparse is silent where that fails."""
        if message:
            say(message.rstrip("\n"))

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride] - its overloads
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """As of argparse, but what a command does not know is an error of the command's own, which
        can say what it does know."""
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            option = next((word for word in rest if word.startswith("-")), "")
            near = meant(option.partition("=")[0], self._option_string_actions)
            self.error(f"unrecognized arguments: {' '.join(rest)}{near}")
        return found, rest

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuses what is no choice, in the same words in every Python."""
        if action.choices is None or value in action.choices:
            return
        names = [str(each) for each in action.choices]
        of_commands = isinstance(action.choices, dict)  # by name, those of `add_subparsers`
        raise argparse.ArgumentError(
            None if of_commands else action,
            f"must be one of {'the commands ' if of_commands else ''}{', '.join(names)}, "
            f"not {shown(str(value))}{meant(str(value), names)}",
        )
