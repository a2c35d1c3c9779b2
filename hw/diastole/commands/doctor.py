"""`diastole doctor`: which tools are found, which are missing, and how to get them."""

import argparse

from diastole import tools
from diastole.console import say
from diastole_sim.tools import ToolMissing


def add_parser(commands) -> None:
    parser = commands.add_parser(
        "doctor", help="find the tools", description=__doc__, allow_abbrev=False
    )
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    say(f"{'python':<16}{tools.python_version():<24}runs everything")
    missing = []
    for tool in tools.ALL:
        version = tool.version
        if version is None and tool.required:
            missing.append(tool)
        state = version or ("MISSING" if tool.required else "absent (optional)")
        say(f"{tool.name:<16}{state:<24}{tool.purpose}")
        if version is None:
            say(f"{'':<16}get it with: {tool.install}")
    if missing:
        raise ToolMissing(missing[0].name, missing[0].install)
    say("everything that is required is here")
    return 0
