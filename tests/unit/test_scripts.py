"""The command lines in ``scripts/``: thin, and with the exit codes of all others."""

import subprocess
import sys

import pytest

from support.sources import ROOT

SCRIPTS = sorted(path.stem for path in (ROOT / "scripts").glob("*.py"))


@pytest.mark.parametrize("name", SCRIPTS)
def test_one_screen(name):
    assert len((ROOT / "scripts" / f"{name}.py").read_text().splitlines()) <= 90


@pytest.mark.parametrize("name", ["demo", "mutation", "package"])
@pytest.mark.sampled(3)
def test_help_runs_nothing(name, tmp_path, monkeypatch):
    """Of those that would work for long without arguments, or take any for a folder."""
    monkeypatch.chdir(tmp_path)
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / f"{name}.py", "--help"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: {name}.py")
    assert not list(tmp_path.iterdir())
