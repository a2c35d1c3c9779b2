"""The options of `train` as settings that `compare` may vary, read from the parser of `train`."""

import argparse
from collections.abc import Mapping
from typing import Any, NoReturn, cast

from diastole.commands import train
from diastole.commands.network_options import refuse_layers
from diastole.commands.parser import Parser
from diastole.config.file import toml_value
from diastole.config.keys import Config
from diastole.errors import BadInput

NO_AXES = (
    "help", "file", "overrides", "task", "steps", "seed", "backend", "min_accuracy", "picture",
    "stalls", "latency", "verify", "trace", "trace_depth", "port", "baud", "state", "json",
    "graph", "data", "loss", "target", "standardize", "epochs", "batch", "init", "save", "resume",
    "weights", "groups", "memory_kib", "log", "tensorboard",
)  # fmt: skip
"""Options of `train` about place and observation of the work, which are no settings to compare."""


class _Strict(Parser):
    """Parser of settings: raises a mistake as BadInput, in words for a setting, not for an
    option."""

    def error(self, message: str) -> NoReturn:
        raise BadInput(self.wording(message).removeprefix("--"))


def _typed(value: str) -> str:
    """Return the value of a setting as typed behind an option, without TOML's quotes and list
    brackets."""
    meant = toml_value(value)
    if isinstance(meant, list):
        return ",".join(map(str, cast(list[Any], meant)))
    return meant if isinstance(meant, str) else value


class TrainOptions:
    """Options of `train`, read from the parser of `train`."""

    def __init__(self) -> None:
        train.add_parser(self)
        self.names = [
            action.dest
            for action in self.parser._actions  # pyright: ignore[reportPrivateUsage] - no other way
            if action.dest not in NO_AXES
        ]

    def add_parser(
        self, name: str, *, help: str, description: str | None, epilog: str, allow_abbrev: bool
    ) -> argparse.ArgumentParser:
        """Keep the parser that `train` fills with options."""
        self.parser = _Strict(prog=name, allow_abbrev=allow_abbrev)
        return self.parser

    def network(self, values: Mapping[str, str]) -> argparse.Namespace:
        """Return the options of a network as parsed, from texts by name. BadInput for a value that
        an option does not accept."""
        words = [f"--{name}={value}" for name, value in values.items()]
        return self.parser.parse_args(["FILE", *words])

    def mistake(self, name: str, value: str) -> str | None:
        """Return the mistake of an option's value, whatever the machine and all further options;
        None for a possible value."""
        word = f"--{name.replace('_', '-')}={_typed(value)}"
        try:
            self.parser.parse_args(["FILE", "--task=any", word])
        except BadInput as error:
            return error.problems[0]
        return None

    def read(
        self, config: Config, settings: Mapping[str, str], learnt: str = "--task=any"
    ) -> dict[str, Any]:
        """Return the settings that are options, as the training takes them. ``learnt`` is --task or
        --graph, as typed. An unknown name of a task stands for a task of a user."""
        values = {key.replace("-", "_"): _typed(value) for key, value in settings.items()}
        words = [
            f"--{name.replace('_', '-')}={values[name]}" for name in self.names if name in values
        ]
        arguments = self.parser.parse_args(["FILE", learnt, *words])
        if arguments.graph is not None:
            refuse_layers(arguments)
        return train.training_options(config, arguments)
