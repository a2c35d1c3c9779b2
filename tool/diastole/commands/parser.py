"""Parse the arguments of every command, and report mistakes in one line, with a likely name."""

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from diastole.console import say
from diastole.errors import BadInput
from diastole.nearest import suggestion
from diastole_sim.spec.require import excerpt


class Parser(argparse.ArgumentParser):
    """Argument parser that reports a mistake in one line, without the usage, as for all
    mistakes."""

    def error(self, message: str) -> NoReturn:
        if group := re.fullmatch("one of the arguments (.*) is required", message):
            message = f"{' or '.join(group[1].split())} must be given"
        raise BadInput(f"{message} (see {self.prog} --help)")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print help and version as results. argparse itself ignores a failed write."""
        if message:
            say(message.rstrip("\n"))

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride] - its overloads
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse as argparse does. An unknown argument is an error of the command, which can name
        the nearest known argument."""
        result, rest = super().parse_known_args(args, namespace)
        if rest:
            option = next((word for word in rest if word.startswith("-")), "")
            near = suggestion(option.partition("=")[0], self._option_string_actions)
            self.error(f"the command does not accept {' '.join(rest)}{near}")
        return result, rest

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a value that is no choice, with equal words in every Python."""
        if action.choices is None or value in action.choices:
            return
        names = [str(each) for each in action.choices]
        of_commands = isinstance(action.choices, dict)  # choices of `add_subparsers`
        raise argparse.ArgumentError(
            None if of_commands else action,
            f"{'COMMAND ' if of_commands else ''}must be one of {', '.join(names)}, "
            f"not {excerpt(str(value))}{suggestion(str(value), names)}",
        )
