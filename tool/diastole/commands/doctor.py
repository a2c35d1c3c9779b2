"""`diastole doctor`: report found tools, missing tools with a way to get them, and cached files."""

import argparse

from diastole import install
from diastole.commands.arguments import Commands
from diastole.console import say
from diastole.product.cached import products_folder
from diastole_sim.machines.verilator import build
from diastole_sim.machines.verilator.find import find_compiler
from diastole_sim.system.cache import Cache
from diastole_sim.system.programs import ToolMissing

CACHES = {"products": products_folder, "simulations": build.cache_folder}
"""Caches of generated and compiled files. A removed folder of a cache is generated again."""


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "doctor",
        help="report found and missing tools",
        description=__doc__,
        epilog="example: diastole doctor",
        allow_abbrev=False,
    )
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    say(f"{'python':<16}{install.python_version():<24}runs everything")
    missing: list[install.Dependency] = []
    for tool in install.ALL:
        version = tool.version
        if version is None and tool.required:
            missing.append(tool)
        state = version or ("MISSING" if tool.required else "absent (optional)")
        say(f"{tool.name:<16}{state:<24}{tool.purpose}")
        if version is None:
            say(f"{'':<16}get it with: {tool.install}")
    _headers_of_fst()
    for name, folder in CACHES.items():
        entries, size = Cache(folder()).usage
        say(f"{name:<16}{f'{entries} in {size / 2**20:.1f} MiB':<24}kept in {folder()}")
    if missing:
        raise ToolMissing(missing[0].name, missing[0].install)
    say("all required tools are installed")
    return 0


def _headers_of_fst() -> None:
    """Report whether waves can be recorded as .fst, which no program reports itself."""
    name, purpose = "zlib and lz4", "headers for waves as .fst (run --trace)"
    try:
        build.require_fst(find_compiler())
    except ToolMissing as error:
        say(f"{name:<16}{'absent (optional)':<24}{purpose}")
        say(f"{'':<16}get it with: {error.install}")
    else:
        say(f"{name:<16}{'found':<24}{purpose}")
