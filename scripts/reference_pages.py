"""Writes the reference pages, from the descriptions that hardware and host share.

    python scripts/reference_pages.py [FOLDER]

Without a folder renews those in `docs/reference`; a test compares them with this.
"""

import argparse
import re
import sys
from pathlib import Path

from api_page import API
from configuration_page import configuration
from environments import ROOT

from diastole.backend import cached_product, program_limits
from diastole.cli import exit_code
from diastole.config.presets import PRESETS
from diastole.console import say
from diastole_sim.spec.program_reference import program_lines
from diastole_sim.spec.reference import reference


def registers() -> str:
    """Return a page with all commands, error codes and registers."""
    return f"# Commands and registers\n\n{reference()}"


def programs() -> str:
    """Return a page with the tables of the vector unit."""
    lines = [
        "# Tables of the vector unit",
        "",
        "The lengths of tables and the size of blocks, 8 x 8 (B = 8), are of `nano`. The README of",
        "`nano`, with the largest errors of functions, is [a page](product.md#numbers) too.",
        "",
        "The rules of programs are in `sim/diastole_sim/spec/micro.py` (`program_problems`), and",
        "the rules of streams in `sim/diastole_sim/spec/stream_table.py` (`stream_problems`). The",
        "[assembler](../programs.md) names a broken rule.",
        "",
    ]
    return "\n".join([*lines, *program_lines(program_limits(PRESETS["nano"]))]) + "\n"


def product() -> str:
    """Return the README of a product as a page, without the pictures."""
    text = (cached_product(PRESETS["nano"]) / "README.md").read_text()
    text = re.sub(r"^(!\[.*\n\n|<!--.*\n|# .*\n)", "", text, flags=re.MULTILINE)
    return f"# A product: buses, memory, numbers\n\nThis page is the README of `nano`.\n{text}"


PAGES = {
    "configuration": configuration,
    "registers": registers,
    "programs": programs,
    "product": product,
    "api": lambda: API,
}


def main(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    for name, write in PAGES.items():
        (folder / f"{name}.md").write_text(write())
    say(f"wrote the reference pages to {folder}")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "docs" / "reference")
    sys.exit(exit_code(lambda: main(parser.parse_args().folder)))
