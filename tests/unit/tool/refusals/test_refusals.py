"""What the tool refuses, by the tables of this folder: a command or a call, and what is said.

A refused command ends with exit code 2 before it starts any program, prints nothing on standard
output, and leaves the folder as it was.
"""

import subprocess
from pathlib import Path

import pytest

from diastole import cli
from diastole.config.file import accepted
from support.transcripts import answer, cases, matches
from support.user_files import write_files

FOLDER = Path(__file__).parent


def contents(folder):
    return {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")}


@pytest.mark.parametrize("refusal", cases(FOLDER / "command_line.txt"))
def test_commands(refusal, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a program was started"))
    for words, said in refusal.commands():
        write_files(tmp_path, words)
        before = contents(tmp_path)
        assert cli.main(words) == 2
        found = capsys.readouterr()
        lines = found.err.replace(accepted("format.x"), "<formats>").splitlines()
        assert [line.replace(str(tmp_path), "<folder>") for line in lines] == said
        assert (found.out, contents(tmp_path)) == ("", before)


@pytest.mark.parametrize("refusal", cases(*FOLDER.glob("*_calls.txt")))
def test_calls(refusal, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for call, names, said in refusal.calls():
        found = answer(call, names)
        assert matches(said, found), f"{call}\n{found}\n{said}"
