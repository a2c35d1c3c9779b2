"""`diastole generate`: write the product: Verilog, manifest, memories, registers, driver."""

import argparse
from pathlib import Path

from diastole import install
from diastole.commands.arguments import (
    Commands,
    add_config,
    add_json,
    machine_arguments,
    read_config,
)
from diastole.console import print_json, say, say_next
from diastole.files.outputs import check_folder
from diastole.layers.layer_costs import usual_use


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "generate",
        help="write the Verilog, the drivers and all further files of a product",
        description=__doc__,
        epilog="example: diastole generate my.toml -o product",
        allow_abbrev=False,
    )
    add_config(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        type=Path,
        required=True,
        help="folder to write; an existing folder is replaced, and must be a product",
    )
    add_json(parser)
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    config = read_config(arguments)
    check_folder(arguments.output)
    install.require(*install.EMISSION)
    from diastole.product.generate import generate

    manifest = generate(config, arguments.output)
    if arguments.json:
        print_json(manifest)
    else:
        say(
            f"wrote {arguments.output}: {manifest['top']}, {manifest['macs']} multipliers, "
            f"{len(manifest['files'])} files"
        )
        say(usual_use(config))
        command = f"diastole train {machine_arguments(arguments)} --task digits --verify"
        say_next(f"{command} runs the product in Verilator")
    return 0
