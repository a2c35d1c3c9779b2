"""`diastole synth`: report FPGA or standard-cell area by component, and with --pnr the clock."""

import argparse
import json
from pathlib import Path
from typing import Any

from diastole import install
from diastole.commands.arguments import (
    Commands,
    add_config,
    add_json,
    add_seed,
    fraction,
    integer,
    megahertz,
    read_config,
)
from diastole.config.clock import CLOCK_KEYS, as_overrides, clock_keys
from diastole.config.keys import Config
from diastole.console import note, print_json, say
from diastole.errors import BadInput, CheckFailed
from diastole.files import atomic
from diastole.files.outputs import check_output, check_picture
from diastole.product.cached import cached
from diastole.synth.delays import USUAL_MHZ, delays_of
from diastole.synth.flow import DEFAULT_MHZ, Request, Synthesis, Tools, synthesise
from diastole.synth.mapper import Design
from diastole.synth.route import PLACERS
from diastole.synth.targets import FPGAS, SG13G2, Cells, read_target


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "synth",
        help="count gates and LUTs by component, and place and route",
        description=__doc__,
        epilog="example: diastole synth --preset pico --target ecp5 --pnr",
        allow_abbrev=False,
    )
    add_config(parser, presets=True)
    parser.add_argument(
        "--target",
        required=True,
        metavar="T",
        help=f"target of the mapping: {', '.join(FPGAS)}, {SG13G2}, or FILE.lib, a library of "
        "cells",
    )
    endings = ", ".join(
        f"{each.bitstream} for {name}" for name, each in FPGAS.items() if each.bitstream
    )
    devices = "; ".join(f"{name}: {', '.join(each.devices)}" for name, each in FPGAS.items())
    parser.add_argument(
        "--device", metavar="D", help=f"FPGA of the target: {devices} (default: the first)"
    )
    parser.add_argument(
        "--flat",
        action="store_true",
        help="map the whole machine at once, which is slower and gives fewer gates than "
        "component by component",
    )
    parser.add_argument("--pnr", action="store_true", help="place and route the whole machine")
    parser.add_argument(
        "--delays",
        action="store_true",
        help="longest paths of standard cells sized for a clock, by the delays of the library, "
        "without wires",
    )
    parser.add_argument(
        "--freq",
        metavar="MHZ",
        type=megahertz(1, 2000),
        help="clock to reach with --pnr or --delays; exit code 1 if the clock is missed "
        f"(default: {DEFAULT_MHZ:g}, for cells {USUAL_MHZ:g}, where a slower clock is no failure)",
    )
    add_seed(parser, "seed of place and route")
    parser.add_argument(
        "--times",
        metavar="N",
        type=integer(1, 64),
        default=1,
        help="place and route N times, with the seeds from S on, and keep the fastest result "
        "(default: 1)",
    )
    parser.add_argument(
        "--placer",
        choices=PLACERS,
        help="placer of nextpnr: static makes shorter wires, for large machines that cannot be "
        "routed otherwise; heap is often faster for small machines (default: the default "
        "of nextpnr)",
    )
    parser.add_argument(
        "--bitstream",
        metavar="FILE",
        type=Path,
        help=f"file for the bitstream of --pnr: {endings}",
    )
    parser.add_argument(
        "--least",
        metavar="SHARE",
        type=fraction,
        default=0.02,
        help="smallest share of the whole for a component to be shown (default: 0.02)",
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        type=Path,
        help="file for the report in JSON, as --json prints the report",
    )
    parser.add_argument(
        "--picture", metavar="PICTURE", type=Path, help="picture of the components, .png or .svg"
    )
    add_json(parser)
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    request = read_request(arguments)
    config = read_config(arguments)
    if request.delays and isinstance(request.target, Cells):
        delays_of(request.target.library)  # a mistake is found before Yosys works for minutes
    _check_files(arguments, request)
    install.require(*install.EMISSION)
    tools = Tools.find(request)
    design = Design.of_product(cached(config, _generate))
    note(f"mapping {design.top} to {request.target.title}")
    synthesis = synthesise(request, design, tools, note)
    record: dict[str, Any] = {"name": config.name, "config_sha256": config.config_sha256}
    record |= {"clock_keys": clock_keys(config), **synthesis.record()}
    if arguments.out is not None:
        text = json.dumps(record, indent=2) + "\n"
        atomic.replace(arguments.out, lambda file: file.write(text.encode()))
    if arguments.bitstream is not None:
        bitstream = synthesis.bitstream
        assert bitstream is not None
        atomic.replace(arguments.bitstream, lambda file: file.write(bitstream))
    if arguments.picture is not None:
        from diastole.report.synth_picture import write_synthesis

        write_synthesis(synthesis, arguments.picture, f"{config.name} on {request.target.title}")
    _say(arguments, synthesis, record)
    _require_clock(arguments, synthesis)
    return 0


def _generate(config: Config, folder: Path) -> None:
    from diastole.product.generate import generate

    note(f"generating {config.name}")
    generate(config, folder)


def _say(arguments: argparse.Namespace, synthesis: Synthesis, record: dict[str, Any]) -> None:
    if arguments.json:
        print_json(record)
        return
    from diastole.report.synth_table import synth_lines

    for line in synth_lines(synthesis, arguments.least):
        say(line)
    if synthesis.routed is not None or synthesis.delays is not None:
        keys = record["clock_keys"]
        fast = ", ".join(as_overrides(CLOCK_KEYS))
        faster = "" if keys == CLOCK_KEYS else f"; {fast} make it faster"
        say(f"that clock is of a machine with {', '.join(as_overrides(keys))}{faster}")
    for path in (arguments.out, arguments.bitstream, arguments.picture):
        if path is not None:
            say(f"wrote {path}")


def read_request(arguments: argparse.Namespace) -> Request:
    """Return the requested synthesis. BadInput for options that do not go together."""
    route = arguments.pnr
    if not route and arguments.bitstream is not None:
        raise BadInput("--bitstream needs --pnr: the option belongs to place and route")
    if not route and arguments.times > 1:
        raise BadInput("--times needs --pnr: the option belongs to place and route")
    if not route and arguments.placer is not None:
        raise BadInput("--placer needs --pnr: the option belongs to place and route")
    if not (route or arguments.delays) and arguments.freq is not None:
        raise BadInput("--freq needs --pnr or --delays: the option is the clock to reach")
    return Request(
        target=read_target(arguments.target),
        device=arguments.device,
        flat=arguments.flat,
        route=route,
        bitstream=arguments.bitstream is not None,
        requested_mhz=arguments.freq,
        delays=arguments.delays,
        seed=arguments.seed,
        times=arguments.times,
        placer=arguments.placer,
    )


def _check_files(arguments: argparse.Namespace, request: Request) -> None:
    """Refuse files that cannot be written, before any work."""
    if arguments.out is not None:
        check_output("--out", arguments.out, (".json",))
    if arguments.bitstream is not None:
        assert request.bitstream_ending is not None
        check_output("--bitstream", arguments.bitstream, (request.bitstream_ending,))
    check_picture("--picture", arguments.picture)


def _require_clock(arguments: argparse.Namespace, synthesis: Synthesis) -> None:
    routed, delays = synthesis.routed, synthesis.delays
    if arguments.freq is not None and routed is not None and not routed.met:
        raise CheckFailed(
            f"the design reaches {routed.fmax_mhz:.2f} MHz, less than the requested "
            f"{routed.requested_mhz:g} MHz"
        )
    if arguments.freq is not None and delays is not None and not delays.met:
        raise CheckFailed(
            f"the longest path allows {delays.mhz:.1f} MHz, less than the requested "
            f"{delays.requested_mhz:g} MHz"
        )
