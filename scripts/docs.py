"""Builds the site of the documents, in an environment of its own.

    python scripts/docs.py [FOLDER]

FOLDER (build/docs) gets the environment with Sphinx once, and the site in FOLDER/html. Notebooks
are shown with their stored outputs. The machine of the playground is compiled once
(scripts/playground.py). Exit 1 at any warning of Sphinx; broken links between pages are warnings.
"""

import argparse
import os
import shutil
import sys
from pathlib import Path

import playground
from environments import ROOT, environment

from diastole.cli import exit_code
from diastole.console import say
from diastole.errors import CheckFailed
from diastole_sim.system import children

PINNED = ("sphinx==9.0.4", "furo==2025.12.19", "myst-parser==5.2.0", "myst-nb==1.4.0")


def main(folder: Path) -> int:
    programs = environment(folder / "venv", PINNED, inherits=True)
    source, site = folder / "source", folder / "html"
    for old in (source, site):
        shutil.rmtree(old, ignore_errors=True)
    shutil.copytree(ROOT / "docs", source)
    shutil.copy(ROOT / "CHANGELOG.md", source / "history.md")
    strict = ["--fail-on-warning", "--keep-going", "--quiet"]
    build = [programs / "python", "-m", "sphinx", *strict, "-d", folder / "doctrees"]
    if children.call([*build, source, site], cwd=ROOT, env=os.environ):
        raise CheckFailed("Sphinx has warnings; see above")
    playground.write(site / "playground")
    for script in (ROOT / "docs" / "playground").glob("*.js"):
        shutil.copy(script, site / "playground" / script.name)
    say(f"open {site / 'index.html'}")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path("build/docs"))
    sys.exit(exit_code(lambda: main(parser.parse_args().folder.absolute())))
