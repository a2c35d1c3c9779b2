"""Files of trained networks: what is written comes back, and no byte may change."""

import numpy as np
import pytest
from safetensors.numpy import load_file

from diastole.errors import BadInput
from diastole.files.network_file import NetworkFile
from support.texts import exactly

RECORD = {"graph": {"nodes": [1, 2.5, None]}, "name": "ä"}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "run.safetensors"
    NetworkFile(
        record=RECORD,
        parameters={"0.weight": np.float32([[1, -2], [3, 4]]), "0.bias": np.float32([0.5, 0])},
        state={"0.weight": np.arange(7, dtype=np.uint8)},
    ).write(path)
    return path


def test_what_is_written_comes_back(file):
    found = NetworkFile.read(file)
    assert found.record == RECORD
    np.testing.assert_array_equal(found.parameters["0.weight"], [[1, -2], [3, 4]])
    assert found.state["0.weight"].tolist() == list(range(7))
    assert set(load_file(file)) == {"parameters.0.weight", "parameters.0.bias", "state.0.weight"}


def test_the_same_contents_are_the_same_bytes(file, tmp_path):
    other = tmp_path / "other.safetensors"
    found = NetworkFile.read(file)
    backwards = dict(reversed(found.parameters.items()))
    NetworkFile(record=found.record, parameters=backwards, state=found.state).write(other)
    assert other.read_bytes() == file.read_bytes()


def test_every_flipped_byte_is_noticed(file):
    data = file.read_bytes()
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 + place % 255
        file.write_bytes(changed)
        with pytest.raises(BadInput):
            NetworkFile.read(file)


def test_every_shorter_file_is_noticed(file):
    data = file.read_bytes()
    for length in (0, 7, 8, 100, len(data) // 2, len(data) - 1):
        file.write_bytes(data[:length])
        with pytest.raises(BadInput):
            NetworkFile.read(file)
    file.write_bytes(data + b"\0")
    with pytest.raises(BadInput):
        NetworkFile.read(file)


def test_an_altered_number(file):
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    said = f"{file}: the file was altered after it was written"
    with pytest.raises(BadInput, match=exactly(said)):
        NetworkFile.read(file)


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff" * 64, b"\x02\0\0\0\0\0\0\0{}"])
def test_other_files(content, tmp_path):
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    wrong = "is not a network that diastole train --save wrote, or was cut off"
    with pytest.raises(BadInput, match=exactly(f"{path}: {wrong}")):
        NetworkFile.read(path)
    with pytest.raises(BadInput, match="there is no such file"):
        NetworkFile.read(tmp_path / "none.safetensors")
