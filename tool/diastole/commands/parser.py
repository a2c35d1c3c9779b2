"""Parse the arguments of every command, and report mistakes in one line, with a likely name."""

import argparse
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from diastole.config.presets import PRESET_NAMES
from diastole.console import say
from diastole.errors import BadInput
from diastole.nearest import suggestion
from diastole_sim.spec.require import excerpt

FILE, PRESET = "file", "--preset"
FEW = 3
"""Commands that a message names; a longer list helps nobody."""
USUAL_NAMES = {
    "--lr": "--rate", "--learning-rate": "--rate", "--epoch": "--epochs", "--optim": "--optimizer",
    "--batch-size": "--batch", "--wd": "--weight-decay", "--lr-scheduler": "--schedule",
}  # fmt: skip
"""Options of Diastole by the names that other tools use."""


class Parser(argparse.ArgumentParser):
    """Argument parser that reports a mistake in one line, without the usage, as for all
    mistakes."""

    words: Sequence[str] = ()
    """Words of the command line that are parsed."""
    takers: Mapping[str, Sequence[str]] = {}
    """Names of the commands that take an option, by option."""
    axes: Callable[[], Sequence[str]] | None = None
    """Function that returns the names of all options that --over varies."""

    def share_options(self) -> None:
        """Tell all commands which command takes which option. Call once, with all commands."""
        takers: dict[str, list[str]] = {}
        commands = list(self._leaves())
        for command in commands:
            for option in command._option_string_actions:
                takers.setdefault(option, []).append(command.prog)
        for command in commands:
            command.takers = takers

    def _leaves(self) -> Iterator["Parser"]:
        """Yield the parsers of all commands without commands of their own."""
        if self._subparsers is None:
            yield self
        for action in self._actions:
            of_commands = isinstance(action.choices, dict)  # choices of `add_subparsers`
            commands: Any = action.choices if of_commands else {}
            for command in commands.values():
                yield from command._leaves()

    def error(self, message: str) -> NoReturn:
        unknown = self._unknown_options()
        if re.match("(the following|one of the) arguments .*required", message) and unknown:
            message = self._not_accepted(unknown)
        raise BadInput(f"{self.wording(message)} (see {self.prog} --help)")

    def wording(self, message: str) -> str:
        """Return a message of argparse in the words of all messages."""
        if group := re.fullmatch("one of the arguments (.*) is required", message):
            return f"{' or '.join(group[1].split())} must be given"
        if missing := re.fullmatch("the following arguments are required: (.*)", message):
            return f"{' and '.join(map(self._needed, missing[1].split(', ')))} must be given"
        parts = re.fullmatch("argument ([^ :]*): (.*)", message, re.DOTALL)
        if parts is None:
            return message
        name, text = parts[1].rpartition("/")[2], parts[2]
        if text.startswith("must "):
            return f"{name} {text}"
        if text == "expected one argument":
            return f"{name} needs a value, {self._value_of(name)}"
        if other := re.fullmatch("not allowed with argument (.*)", text):
            return f"{other[1].rpartition('/')[2]} and {name} exclude each other: give one"
        if text.startswith("ignored explicit argument"):
            return f"{name} takes no value"
        return f"{name}: {text}"

    def _needed(self, name: str) -> str:
        """Return a missing argument, as argparse names the argument, with the accepted value."""
        if name.startswith("-"):
            option = name.rpartition("/")[2]
            action = self._option_string_actions[option]
            named = f"{option} {action.metavar}" if action.metavar else option
        else:
            action = next(each for each in self._actions if name in (each.metavar, each.dest))
            named = name
        return named if action.choices is None else f"{named} ({_one_of(action)})"

    def _value_of(self, name: str) -> str:
        """Return the value of an option in words."""
        action = self._option_string_actions[name]
        if action.metavar is not None or action.choices is None:
            return str(action.metavar or name.lstrip("-").upper())
        return _one_of(action)

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print help and version as results. argparse itself ignores a failed write."""
        if message:
            say(message.rstrip("\n"))

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride] - its overloads
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse as argparse does. An unknown argument is an error of the command, which can name
        the nearest known argument."""
        self.words = tuple(args or ())
        result, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(self._not_accepted(rest))
        return result, rest

    def _not_accepted(self, rest: Sequence[str]) -> str:
        """Return the message about words that the command does not accept."""
        option = next((word for word in rest if word.startswith("-")), "").partition("=")[0]
        if option == PRESET and any(action.dest == FILE for action in self._actions):
            name = next((word for word in self._values_of(PRESET) if word in PRESET_NAMES), "nano")
            return (
                f"{self.prog} takes FILE, not {PRESET}: diastole init my.toml {PRESET} {name} "
                "writes a FILE"
            )
        return f"the command does not accept {' '.join(rest)}{self._meant(option)}"

    def _meant(self, option: str) -> str:
        """Return the end of a message about an unknown option: the option that was meant, or the
        commands that take the option."""
        known, meant = self._option_string_actions, USUAL_NAMES.get(option)
        if meant in known:
            return f"; did you mean {meant}?"
        if self.axes is not None and (name := option[2:]).replace("-", "_") in self.axes():
            value = next(iter(self._values_of(option)), "VALUE")
            return f"; give --over {name}={value}, for all configurations"
        takers = self.takers.get(option, ())
        alike = any(
            each.startswith(option) or option.startswith(each)
            for each in known
            if each.startswith("--")
        )
        if not takers or alike:
            return suggestion(option, known)
        if len(takers) > FEW:
            return f"; other commands take {option}"
        *first, last = takers
        takes = f"{', '.join(first)} and {last} take" if first else f"{last} takes"
        return f"; {takes} {option}"

    def _values_of(self, option: str) -> list[str]:
        """Return the words behind an option, as "OPTION=VALUE" or as "OPTION VALUE"."""
        joined = [word.partition("=")[2] for word in self.words if word.startswith(f"{option}=")]
        pairs = zip(self.words, self.words[1:], strict=False)
        return joined + [value for word, value in pairs if word == option]

    def _unknown_options(self) -> list[str]:
        """Return the words of the command line that look like options and are none of them."""
        if self._subparsers is not None:
            return []
        words = self.words[: self.words.index("--")] if "--" in self.words else self.words
        options = (word.partition("=")[0] for word in words if re.match(r"--?[A-Za-z]", word))
        known = self._option_string_actions
        return [
            option
            for option in options
            if option not in known and (option.startswith("--") or option[:2] not in known)
        ]

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """Return the value of a word. An empty word names no file."""
        if action.type is Path and not arg_string:
            raise argparse.ArgumentError(action, "must not be empty")
        parent: Any = super()  # the method of argparse has no public name
        return parent._get_value(action, arg_string)

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


def _one_of(action: argparse.Action) -> str:
    return f"one of {', '.join(map(str, action.choices or ()))}"
