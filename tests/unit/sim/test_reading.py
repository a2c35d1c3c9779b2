"""What is read of a user's: files and pipes, to a bound; JSON that goes wrong in every way."""

import os
import threading

import pytest

from diastole_sim.reading import (
    TooLargeError,
    parse_json,
    read_bytes,
    read_manifest,
    require_readable,
)


def test_a_file_up_to_its_bound(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    assert read_bytes(path, 5) == b"12345"
    with pytest.raises(TooLargeError) as caught:
        read_bytes(path, 4)
    assert caught.value.strerror == "has more than 4 bytes"


def test_a_pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.write_bytes(b"piped"))
    writer.start()
    assert read_bytes(path, 10) == b"piped"
    writer.join()
    with pytest.raises(OSError, match="is not a regular file"):
        require_readable(path, pipes=False)


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/full", "/dev/null"])
def test_a_device_is_not_even_opened(tmp_path, path):
    link = tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(OSError, match="is neither a regular file nor a pipe"):
        read_bytes(link, 10)


def test_a_folder(tmp_path):
    with pytest.raises(IsADirectoryError):
        read_bytes(tmp_path, 10)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a": ' + "9" * 5000 + "}", "{", "\xff"])
def test_json_that_is_none(tmp_path, text):
    with pytest.raises(ValueError):  # noqa: PT011 - Python's own words
        parse_json(text)
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(ValueError):  # noqa: PT011
        read_manifest(tmp_path / "manifest.json")
