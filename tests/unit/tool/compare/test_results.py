"""Results on disk: found again, whole lines only, nobody else's file, one comparison at a time."""

import json

import pytest

from diastole.compare.results import opened
from diastole.errors import BadInput


def record(key, error=None):
    return {"key": key, "seed": 0, "error": error, "loss": 0.5}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results.jsonl"


def keys(path):
    with opened(path) as results:
        return list(results.done)


def test_what_was_added_is_there_again(path):
    with opened(path) as results:
        assert results.done == {}
        for key in "ab":
            results.add(record(key))
            assert path.read_text().splitlines()[-1] == json.dumps(record(key))
        assert results.done == {key: record(key) for key in "ab"}
    assert keys(path) == ["a", "b"]


def test_what_failed_is_kept_and_tried_again(path):
    with opened(path) as results:
        results.add(record("a", "ValueError: no"))
        assert results.done == {}
    assert keys(path) == []
    assert json.loads(path.read_text())["error"] == "ValueError: no"
    with opened(path) as results:
        results.add(record("a"))
    assert keys(path) == ["a"]


@pytest.mark.parametrize("left", range(1, 54, 6))
def test_a_half_written_line_is_dropped(path, left, capsys):
    with opened(path) as results:
        for key in "ab":
            results.add(record(key))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1][:left])
    assert keys(path) == ["a"]
    assert path.read_bytes() == lines[0]
    assert capsys.readouterr().err == (
        f"diastole: {path}: the last line is incomplete and was dropped\n"
    )
    with opened(path) as results:
        results.add(record("c"))
    assert keys(path) == ["a", "c"]


def test_a_whole_line_without_its_end_is_not_whole(path):
    """Otherwise the next line would be appended to the line."""
    with opened(path) as results:
        results.add(record("a"))
    path.write_bytes(path.read_bytes()[:-1])
    assert keys(path) == []
    assert path.read_bytes() == b""


@pytest.mark.parametrize(
    "text, line",
    [
        ("my thesis", 1),
        ("my thesis\n", 1),
        ('{"key": "a", "seed": 0, "error": null}\n\n', 2),
        ('{"key": "a", "seed": 0, "error": null}\n{"a": 1}\n', 2),
        ('{"key": "a", "seed": 0}\n', 1),
        ('{"key": "a", "seed": 0, "error": null}\nmore', 2),
        ("[1]\n", 1),
    ],
)
def test_a_strangers_file_stays(path, text, line):
    path.write_text(text)
    with pytest.raises(BadInput) as caught, opened(path):
        pass
    assert str(caught.value) == (
        f"{path}: line {line} is not a result of a comparison; give another file"
    )
    assert path.read_text() == text


def test_one_at_a_time(path):
    with opened(path), pytest.raises(BadInput) as caught, opened(path):
        pass
    assert str(caught.value) == f"{path}: another comparison is writing to this file"
    assert keys(path) == []


def test_places_where_nothing_can_be(tmp_path):
    with pytest.raises(BadInput, match=r"Is a directory$"), opened(tmp_path):
        pass
    with pytest.raises(BadInput, match=r"there is no folder "), opened(tmp_path / "a" / "b"):
        pass
