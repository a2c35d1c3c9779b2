"""Arguments of several commands, with checks that argparse cannot word."""

import argparse
import shlex
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from diastole.config.file import from_document, load_config, to_toml
from diastole.config.keys import Config
from diastole.config.presets import BOARD_MACHINES, PRESET_NAMES, PRESETS
from diastole.errors import BadInput
from diastole.execution import BACKENDS
from diastole_sim.machines.board.port import DEFAULT_BAUD
from diastole_sim.machines.verilator.simulation import MAX_DEPTH, MAX_LATENCY
from diastole_sim.perf.modelled_machine import LATENCY
from diastole_sim.spec.require import excerpt, real_number, signed_number

MAX_SEED = 2**32 - 1
SLOWEST_BAUD, FASTEST_BAUD = 1_200, 12_000_000


class Commands(Protocol):
    """Adds the parser of a command. Interface of the result of argparse's ``add_subparsers``, which
    has no public name."""

    def add_parser(
        self, name: str, *, help: str, description: str | None, epilog: str, allow_abbrev: bool
    ) -> argparse.ArgumentParser: ...


def integer(low: int, high: int | None = None) -> Callable[[str], int]:
    """Return a type for argparse: an integer in a range, with both limits in the message."""
    accepted = f"in {low}..{high}" if high is not None else f"of at least {low}"

    def parse(text: str) -> int:
        value = signed_number(text)
        if value is None or value < low or (high is not None and value > high):
            raise argparse.ArgumentTypeError(f"must be an integer {accepted}, not {excerpt(text)}")
        return value

    return parse


def megahertz(low: float = 0.001, high: float = 100_000.0) -> Callable[[str], float]:
    """Return a type for argparse: a clock in MHz, in a range."""

    def parse(text: str) -> float:
        value = real_number(text)
        if value is None or not low <= value <= high:
            message = f"must be a number of MHz in {low:g}..{high:g}, not {excerpt(text)}"
            raise argparse.ArgumentTypeError(message)
        return value

    return parse


def one_of(*accepted: int) -> Callable[[str], int]:
    """Return a type for argparse: one of the ``accepted`` integers, with all of them in the
    message. The message is equal in every Python."""
    choices = ", ".join(map(str, accepted))

    def parse(text: str) -> int:
        if text not in map(str, accepted):
            raise argparse.ArgumentTypeError(f"must be one of {choices}, not {excerpt(text)}")
        return int(text)

    return parse


def fraction(text: str) -> float:
    """Parse a number from 0 to 1, as a type for argparse."""
    value = real_number(text)
    if value is None or not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to 1, not {excerpt(text)}")
    return value


def add_config(parser: argparse.ArgumentParser, *, presets: bool = False) -> None:
    """Add FILE and --set, which every command with a configuration takes. With ``presets``,
    --preset may replace FILE."""
    number = "?" if presets else None
    about = "TOML file with the configuration of the machine"
    parser.add_argument("file", metavar="FILE", type=Path, nargs=number, help=about)
    if presets:
        parser.add_argument(
            "--preset",
            choices=PRESET_NAMES,
            help="ready configuration, or configuration of a board, instead of FILE",
        )
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        dest="overrides",
        action="append",
        default=[],
        help="set a key of the configuration for this command; repeat the option for further keys",
    )


def add_execution(parser: argparse.ArgumentParser) -> None:
    """Add the common options of `run` and `train`: backend, seed, delays, waves and
    verification."""
    add_backend(parser)
    add_seed(parser, "seed of all random draws; runs with equal seeds draw equal numbers")
    add_delays(parser)
    add_json(parser)


def add_backend(parser: argparse.ArgumentParser) -> None:
    """Add the choice of the place where the work runs."""
    parser.add_argument(
        "--backend",
        choices=BACKENDS,
        default="rtl",
        help="where the work runs: rtl is the generated Verilog in Verilator, golden is the "
        "numpy model, board is a board (default: rtl)",
    )
    parser.add_argument(
        "--port", metavar="PORT", help="serial port of the board, such as /dev/ttyUSB0"
    )
    parser.add_argument(
        "--baud",
        metavar="N",
        type=integer(SLOWEST_BAUD, FASTEST_BAUD),
        help="bits per second on the serial line, as the board was built (default: "
        f"{DEFAULT_BAUD})",
    )


def add_delays(parser: argparse.ArgumentParser) -> None:
    """Add delays, verification and waves."""
    parser.add_argument(
        "--stalls",
        metavar="S",
        type=integer(0, MAX_SEED),
        help="delay every handshake of buses and streams at random, with the seed S",
    )
    parser.add_argument(
        "--latency",
        metavar="CYCLES",
        type=integer(1, MAX_LATENCY),
        help=f"latency of the memory behind the hardware (default: {LATENCY})",
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="compare all results with the golden model, bit for bit",
    )
    parser.add_argument(
        "--trace",
        metavar="FILE",
        type=Path,
        help="record waves in FILE: .vcd, or .fst for a smaller file",
    )
    parser.add_argument(
        "--trace-depth",
        metavar="LEVELS",
        type=integer(1, MAX_DEPTH),
        help="levels of modules in the waves, from the top module on (default: all)",
    )


def add_seed(parser: argparse.ArgumentParser, of: str) -> None:
    """Add --seed, the only source of randomness in the results. ``of`` begins the help of the
    option."""
    parser.add_argument(
        "--seed",
        metavar="S",
        type=integer(0, MAX_SEED),
        default=0,
        help=f"{of} (default: 0)",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json", action="store_true", help="print the result as a JSON object on standard output"
    )


def read_config(arguments: argparse.Namespace) -> Config:
    preset = getattr(arguments, "preset", None)
    if preset is not None:
        if arguments.file is not None:
            raise BadInput("FILE and --preset exclude each other: give one")
        return read_preset(preset, arguments.overrides)
    if arguments.file is None:
        raise BadInput(
            "the machine must be given either as FILE or as --preset, such as --preset nano"
        )
    return load_config(arguments.file, arguments.overrides)


def machine_arguments(arguments: argparse.Namespace) -> str:
    """Return the machine of a command, FILE and keys, as a shell takes the machine in another
    command."""
    return shlex.join([str(arguments.file), *(f"--set={text}" for text in arguments.overrides)])


def read_preset(name: str, overrides: Sequence[str] = ()) -> Config:
    """Return the preset of PRESET_NAMES with this name, changed by overrides."""
    if name in BOARD_MACHINES:
        return load_config(BOARD_MACHINES[name], overrides)
    document = tomllib.loads(to_toml(PRESETS[name]))
    return from_document(document, overrides, source=f"preset {name}")
