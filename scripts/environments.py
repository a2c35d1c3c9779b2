"""Environments for work whose packages are too large for the set-up; each is made once."""

import sys
import sysconfig
import venv
from collections.abc import Sequence
from pathlib import Path

from diastole.console import note
from diastole.errors import CheckFailed
from diastole_sim.system import children

ROOT = Path(__file__).resolve().parent.parent


def environment(folder: Path, packages: Sequence[str], *, inherits: bool = False) -> Path:
    """Return the folder of the programs of an environment with these packages.

    The environment is made if ``folder`` has none, or one with other packages or another Python.
    ``inherits``: the environment sees the packages of the running Python too. CheckFailed if pip
    fails.
    """
    stamp, programs = folder / ".ready", folder / "bin"
    contents = f"{' '.join(packages)} {sys.version}"
    if stamp.is_file() and stamp.read_text() == contents:
        return programs
    note(f"setting up {folder} with {', '.join(packages)}: a minute or more, once")
    venv.create(folder, clear=True, with_pip=True, symlinks=True)
    python = programs / "python"
    if inherits:
        words = "import sysconfig; print(sysconfig.get_path('purelib'))"
        site = children.run([python, "-c", words], text=True)
        line = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
        (Path(site.stdout.strip()) / "packages.pth").write_text(line)
    if children.call([python, "-m", "pip", "--quiet", "install", *packages]):
        raise CheckFailed(f"pip did not install {' '.join(packages)}")
    stamp.write_text(contents)
    return programs
