"""Sealed files: kinds, names, and bytes that follow from the contents."""

import numpy as np
import pytest

from diastole.errors import BadInput
from diastole.files.sealed_file import (
    NETWORK,
    PROGRAM,
    SealedFile,
    check_sealed,
    part_of,
    prefixed,
)
from support.texts import exactly

TENSORS = {"b.x": np.arange(3, dtype=np.uint8), "a.x": np.float32([[1.5], [-2]])}
RECORD = {"name": "one", "list": [1, None, True]}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "file.safetensors"
    SealedFile(kind=PROGRAM, record=RECORD, tensors=TENSORS).write(path)
    return path


def test_what_is_written_comes_back(path):
    found = SealedFile.read(path, PROGRAM)
    assert found.record == RECORD
    assert set(found.tensors) == set(TENSORS)
    for name, each in TENSORS.items():
        np.testing.assert_array_equal(found.tensors[name], each)
        assert found.tensors[name].dtype == each.dtype


def test_the_order_of_tensors_changes_no_byte(path, tmp_path):
    other = tmp_path / "other.safetensors"
    backwards = dict(reversed(TENSORS.items()))
    SealedFile(kind=PROGRAM, record=RECORD, tensors=backwards).write(other)
    assert other.read_bytes() == path.read_bytes()


def test_every_flipped_byte_is_noticed(path):
    data = path.read_bytes()
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 + place % 255
        path.write_bytes(changed)
        with pytest.raises(BadInput):
            SealedFile.read(path, PROGRAM)


def test_another_kind(path):
    said = f"{path}: must be a network, which diastole train --save writes, not a program"
    with pytest.raises(BadInput, match=exactly(said)):
        SealedFile.read(path, NETWORK)


def test_another_form(path, monkeypatch):
    monkeypatch.setattr("diastole.files.sealed_file.FORMAT", 2)
    said = f"{path}: is a file of form 1, but this version reads form 2"
    with pytest.raises(BadInput, match=exactly(said)):
        SealedFile.read(path, PROGRAM)


def test_names_of_files(tmp_path):
    check_sealed("--out", tmp_path / "x.safetensors")
    for name, said in (
        ("x.bin", f"--out must end in .safetensors, not {tmp_path / 'x.bin'}"),
        ("", f"--out must name a file, not {tmp_path}"),
    ):
        with pytest.raises(BadInput, match=exactly(said)):
            check_sealed("--out", tmp_path / name)


def test_prefixes():
    assert set(prefixed("c.", TENSORS)) == {"c.b.x", "c.a.x"}
    assert list(part_of(TENSORS, "a.")) == ["x"]
    assert part_of(prefixed("c.", TENSORS), "c.").keys() == TENSORS.keys()
