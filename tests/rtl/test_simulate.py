"""A bench that fails, runs nothing or leaves nothing behind must fail its test."""

import pytest

from rtl.simulate import RUNTIME, keep, require_passed, tail, write_changed

RESULTS = (
    '<testsuites><testsuite tests="{tests}" failures="{failures}" errors="{errors}"/></testsuites>'
)


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "run.log"
    path.write_text("first line\nlast line\n")
    return path


def written(folder, **counts):
    path = folder / "results.xml"
    path.write_text(RESULTS.format(**{"tests": 3, "failures": 0, "errors": 0} | counts))
    return path


def test_passes(tmp_path, log):
    require_passed(written(tmp_path), log)


@pytest.mark.parametrize(
    "counts, message",
    [
        ({"failures": 1}, "1 of 3 tests failed"),
        ({"errors": 2}, "2 of 3 tests failed"),
        ({"tests": 0}, "no test was run"),
    ],
)
def test_failures(tmp_path, log, counts, message):
    with pytest.raises(AssertionError, match=message) as caught:
        require_passed(written(tmp_path, **counts), log)
    assert "last line" in str(caught.value)


def test_no_results(tmp_path, log):
    with pytest.raises(AssertionError, match="ended without results"):
        require_passed(tmp_path / "results.xml", log)


def test_end_of_a_log(log):
    assert tail(log, lines=1) == "last line"
    assert tail(log.with_name("none.log")) == ""


def test_unchanged_files_stay_as_old_as_they_are(tmp_path):
    path = write_changed(tmp_path / "a.v", "text")
    before = path.stat().st_mtime_ns
    assert write_changed(path, "text").stat().st_mtime_ns == before
    write_changed(path, "other")
    assert path.read_text() == "other"


def test_run_time_is_kept_whole(tmp_path, monkeypatch):
    """Also where another process was first."""
    monkeypatch.setattr("rtl.simulate.ROOT", tmp_path)
    built, shared = tmp_path / "built", tmp_path / "runtime"
    built.mkdir()
    for who in ("first", "second"):
        for name in RUNTIME:
            (built / name).write_text(who)
        keep(built, shared)
    assert {path.name: path.read_text() for path in shared.iterdir()} == dict.fromkeys(
        RUNTIME, "first"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["built", "runtime"]
