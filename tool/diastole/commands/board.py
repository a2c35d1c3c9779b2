"""`diastole board`: write the files that put a machine on a board: tops, pins, scripts, a host."""

import argparse
import shlex
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from diastole.backend import generated_product
from diastole.boards.describe import BOARDS, BoardKind, SerialSettings
from diastole.boards.fit import FULL, Fit, find_fit
from diastole.commands.arguments import (
    FASTEST_BAUD,
    SLOWEST_BAUD,
    Commands,
    add_config,
    add_json,
    integer,
    read_config,
)
from diastole.config.clock import CLOCK_KEYS, as_overrides
from diastole.config.keys import Config
from diastole.console import note, print_json, say, say_next, warn
from diastole.errors import BadInput
from diastole.files.outputs import check_folder
from diastole_sim.host.product import Product
from diastole_sim.machines.board.port import DEFAULT_BAUD
from diastole_sim.system.programs import ToolMissing

NEXT = {
    "ulx3s": "make -C {output}; then diastole train {output}/product/{name}.toml --task digits "
    "--backend board --port /dev/ttyUSB0",
    "pynq-z2": "vivado -mode batch -source {output}/build.tcl",
    "kv260": "vivado -mode batch -source {output}/build.tcl",
    "litex": "{output}/README.md",
}


def add_parser(commands: Commands) -> None:
    listed = "; ".join(f"{name}, {kind.about}" for name, kind in BOARDS.items())
    parser = commands.add_parser(
        "board",
        help="write the files that put the hardware on a board",
        description=__doc__,
        epilog="example: diastole board ulx3s --preset ulx3s -o ulx3s",
        allow_abbrev=False,
    )
    parser.add_argument("board", metavar="NAME", choices=tuple(BOARDS), help=listed)
    add_config(parser, presets=True)
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        type=Path,
        required=True,
        help="folder to write; an existing folder is replaced, and must be the folder of a board",
    )
    parser.add_argument(
        "--clock",
        metavar="MHZ",
        type=integer(1, 500),
        help="clock of the machine (default: the usual clock of the board)",
    )
    parser.add_argument(
        "--baud",
        metavar="N",
        type=integer(SLOWEST_BAUD, FASTEST_BAUD),
        help=f"bits per second on the serial line of ulx3s (default: {DEFAULT_BAUD})",
    )
    parser.add_argument(
        "--memory",
        metavar="KIB",
        type=integer(4, 16384),
        help="memory on the chip of ulx3s in KiB, a multiple of 4 (default: 256)",
    )
    parser.add_argument(
        "--no-fit",
        action="store_true",
        help="write without a count of the resources by Yosys, which takes minutes",
    )
    add_json(parser)
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    # Imported in the function: only work on hardware needs Amaranth.
    from diastole.boards.write import refuse_what_is_no_board, write_board

    config = read_config(arguments)
    check_folder(arguments.output)
    kind = BOARDS[arguments.board]
    for name in ("baud", "memory"):
        if getattr(arguments, name) is not None and not kind.serial:
            raise BadInput(
                f"--{name} works only for boards with a serial line, not for {kind.name}: "
                f"leave --{name} out"
            )
    memory_kib = arguments.memory or kind.memory_kib
    if memory_kib % 4:
        raise BadInput(f"--memory must be a multiple of 4, not {memory_kib}")
    settings = SerialSettings(
        clock_hz=1_000_000 * (arguments.clock or kind.clock_mhz),
        baud=arguments.baud or DEFAULT_BAUD,
        memory_bytes=1024 * memory_kib,
    )
    if kind.serial and config.vector.enable:
        warn(
            f"programs of whole steps seldom fit the memory of {kind.name}: --set "
            "vector.enable=false leaves the vector unit out"
        )
    clock_mhz = settings.clock_hz // 1_000_000
    refuse_what_is_no_board(arguments.output)
    product = Product.load(generated_product(config))
    ask = None if arguments.no_fit or not kind.family else partial(require_fit, kind, product)
    record = write_board(kind, product, arguments.output, settings=settings, ask=ask)
    _tell_keys(kind, config, clock_mhz)
    if arguments.json:
        print_json(record)
        return 0
    summary = f"{product.name} on {kind.name}, {clock_mhz} MHz"
    say(f"wrote {arguments.output}: {summary}, {len(record['files'])} files")
    if record["fit"] is not None:
        say(f"the {kind.device} has room: {Fit(**record['fit']).text}")
    output = shlex.quote(str(arguments.output))
    say_next(NEXT[kind.name].format(output=output, name=product.name))
    return 0


def _tell_keys(kind: BoardKind, config: Config, clock_mhz: int) -> None:
    """Warn of a machine that lacks keys for its clock."""
    if lacking := kind.lacking_keys(config, clock_mhz):
        fast = " and ".join(as_overrides(CLOCK_KEYS))
        reason = f"no clock of {kind.name} was measured without {fast}"
        if kind.plain_mhz is not None:
            reason = f"{kind.name} reaches {kind.plain_mhz:g} MHz without {fast}"
        added = " ".join(f"--set {key}" for key in as_overrides(lacking))
        warn(f"{reason}, but the clock is {clock_mhz} MHz: add {added}")


def require_fit(kind: BoardKind, product: Product, files: Mapping[str, str]) -> Fit:
    """Return the resources that a machine takes of a board's chip. BadInput with a fitting machine
    if the resources are too many."""
    try:
        fit = find_fit(kind, product, files, note)
    except ToolMissing as error:
        raise ToolMissing(
            error.name, f"{error.install} (or skip this check with --no-fit)"
        ) from None
    if fit.lacking:
        raise BadInput(
            f"{product.name} does not fit {kind.name}: {fit.text}; {_what_fits(kind, fit)}"
        )
    name, share = fit.fullest
    if share > FULL:
        warn(f"the machine takes {share:.0%} of the {name}: place and route may fail or take long")
    if kind.added:
        note(f"the counts leave out the blocks that the flow adds: {kind.added}")
    return fit


def _what_fits(kind: BoardKind, fit: Fit) -> str:
    """Return machines that a user may take instead, as text."""
    if fit.without_vector_unit:
        return (
            f"the machine fits without the vector unit (--set vector.enable=false); {kind.advice}"
        )
    return kind.advice
