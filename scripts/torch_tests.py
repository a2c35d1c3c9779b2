"""Tests that need torch, and a figure of diastole.torch, in an environment of their own.

    python scripts/torch_tests.py [FOLDER]

FOLDER (build/torch) gets an environment that sees the packages of this one, and torch, once. That
of Linux is some gigabytes, with CUDA; with
PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu it is one without. Exit 1 if a test fails,
or the figure of docs/figures.md is not met.
"""

import argparse
import os
import sys
import tomllib
from pathlib import Path

from environments import ROOT, environment

from diastole.cli import exit_code
from diastole.console import say
from diastole.errors import CheckFailed
from diastole_sim.system import children

PINNED = "torch==2.13.0"
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
TESTS = (
    "tests/unit/tool/torch",
    "tests/sweeps/test_chains_torch.py",
    "tests/sweeps/test_graphs_torch.py",
    "tests/unit/test_documents.py",
    "tests/unit/test_readme.py",
)


def main(folder: Path) -> int:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extra = project["optional-dependencies"]["torch"]
    python = environment(folder / "venv", [*extra, PINNED], inherits=True) / "python"
    tests = [python, "-m", "pytest", "-n", "auto", "-p", "no:cacheprovider", *TESTS]
    run(*tests, threads=1)
    run(python, "-m", "pytest", "bench", "-p", "no:cacheprovider", "-k", "torch_linear")
    say("the tests with torch pass, and diastole.torch is as fast as asked")
    return 0


def run(*command: object, threads: int | None = None) -> None:
    """A program in the checkout; CheckFailed if it fails. ``threads``: of torch and numpy each."""
    limited = {} if threads is None else dict.fromkeys(ONE_THREAD, str(threads))
    if children.call(command, cwd=ROOT, env=os.environ | limited):
        raise CheckFailed(f"{' '.join(map(str, command))} failed")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path("build/torch"))
    sys.exit(exit_code(lambda: main(parser.parse_args().folder.absolute())))
