"""Names of files that a command writes: endings, pictures, folders that are not there."""

import os
from pathlib import Path

import pytest

from diastole.errors import BadInput
from diastole.files.outputs import check_folder, check_output, check_picture


@pytest.mark.parametrize("name", ["p.txt", "p.pdf", "p", "p.png.txt", "p.npz"])
def test_a_picture_says_its_kind(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput) as caught:
        check_picture("--picture", Path(name))
    assert str(caught.value) == f"--picture must end in .png or .svg, not {name}"


def test_pictures(tmp_path):
    check_picture("--out", None)
    for name in ("p.png", "p.SVG"):
        check_picture("--out", tmp_path / name)


def test_other_files(tmp_path):
    """Without an ending a name says nothing that is wrong; nor does that of a pipe."""
    os.mkfifo(tmp_path / "pipe.fifo")
    for name in ("b.npz", "b.NPZ", "b", "pipe.fifo"):
        check_output("--out", tmp_path / name, (".npz",))
    check_output("--out", Path("/dev/stdout"), (".npz",))
    with pytest.raises(BadInput, match=r"^--out must end in \.html or \.htm, not .*b\.png$"):
        check_output("--out", tmp_path / "b.png", (".html", ".htm"))


def test_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_folder(Path("product"))
    with pytest.raises(BadInput, match=r"^no/such/dir: there is no folder no/such$"):
        check_folder(Path("no/such/dir"))
    monkeypatch.setattr(os, "access", lambda path, mode: (path, mode) != (tmp_path, os.W_OK))
    with pytest.raises(BadInput, match=r"^product: the folder \. is not writable$"):
        check_folder(Path("product"))
