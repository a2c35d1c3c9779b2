"""Builds what an index would get, and uses it as somebody would who has nothing else.

    python scripts/package.py [FOLDER]

Leaves the source distribution, and the wheel that is built from it, in FOLDER (build/package). The
wheel is installed, with what it depends on from where pip takes it, and tried outside of the
checkout. Exit 1 at the first thing that fails.
"""

import argparse
import os
import shutil
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

from diastole.cli import exit_code
from diastole.console import say
from diastole.errors import CheckFailed
from diastole_sim.system import children

ROOT = Path(__file__).resolve().parent.parent
LEFT = shutil.ignore_patterns(".git", ".venv", "build", "dist", "__pycache__", "*.egg-info")
PIP = ("-m", "pip", "--disable-pip-version-check", "--quiet")
BUILD = "import sys, setuptools.build_meta as b; b.build_sdist(sys.argv[1])"
USE = """
import sys, numpy as np, diastole
assert diastole.__version__ == sys.argv[1], diastole.__version__
x, w = np.ones((3, 5), np.float32), np.full((5, 7), 0.5, np.float32)
y = diastole.GoldenDevice(diastole.Config().numerics).forward(x, w).y
assert (y == x @ w).all(), y
assert "site-packages" in diastole.__file__, diastole.__file__
np.savez("a.npz", X=x, W=w)
"""
COMMANDS = """\
init my.toml --preset pico
check my.toml
generate my.toml -o product
run my.toml --op forward --in a.npz --out b.npz --backend golden
formats --data a.npz --formats bfp4,mxfp8_e4m3
estimate my.toml --shapes dlrm"""


def main(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("diastole-*"):
        old.unlink()
    with tempfile.TemporaryDirectory() as name:
        apart = Path(name)
        sources = shutil.copytree(ROOT, apart / "sources", ignore=LEFT)
        run(sys.executable, "-c", BUILD, folder.resolve(), cwd=sources)
        (sdist,) = folder.glob("*.tar.gz")
        build = ("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, sdist)
        run(sys.executable, *PIP, *build, cwd=Path())
        (wheel,) = folder.glob("*.whl")
        venv.create(apart / "venv", with_pip=True)
        python = apart / "venv" / "bin" / "python"
        run(python, *PIP, "install", wheel.resolve(), cwd=apart)
        run(python, *PIP, "check", cwd=apart)
        use(python, apart / "elsewhere")
    say(f"{sdist.name} and {wheel.name} are in {folder}; the wheel works by itself")
    return 0


def use(python: Path, folder: Path) -> None:
    """What a user does first."""
    folder.mkdir()
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    run(python, "-c", USE, version, cwd=folder)
    for line in COMMANDS.splitlines():
        run(python.with_name("diastole"), *line.split(), cwd=folder)
        say(f"diastole {line}")


def run(*command: object, cwd: Path) -> str:
    """The output of a program that knows nothing of the checkout; CheckFailed with what it said."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = children.run(command, cwd=cwd, env=environment, text=True)
    if done.returncode:
        raise CheckFailed(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path("build/package"))
    sys.exit(exit_code(lambda: main(parser.parse_args().folder)))
