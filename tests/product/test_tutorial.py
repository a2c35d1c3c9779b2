"""The tutorial, followed to the letter."""

import re
import shlex
import subprocess
import sys

import pytest

from support.sources import ROOT

COMMANDS = re.findall(r"^    (\S.*)$", (ROOT / "docs" / "tutorial.md").read_text(), re.MULTILINE)
ELSEWHERE = ("make ", "source ")
"""Commands of the repository, which other tests run."""


@pytest.mark.sweep
def test_every_command_of_the_tutorial(tmp_path):
    assert len(COMMANDS) > 12
    for line in COMMANDS:
        if line.startswith(ELSEWHERE):
            continue
        program, *words = shlex.split(line)
        python = [sys.executable] if program == "python" else [sys.executable, "-m", "diastole"]
        done = subprocess.run([*python, *words], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
    assert (tmp_path / "product" / "README.md").is_file()
    assert (tmp_path / "page.html").is_file()


def test_the_tutorial_names_commands():
    programs = {line.split()[0] for line in COMMANDS}
    assert programs == {"make", "source", "diastole", "python"}
