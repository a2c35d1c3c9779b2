"""Boards by name, their texts, and settings that go together."""

import re

import pytest

from diastole.boards import describe
from diastole.boards.describe import BOARDS, SerialSettings, board_text
from diastole.config.clock import CLOCK_KEYS
from diastole.config.file import load_config
from diastole.config.presets import BOARD_MACHINES
from diastole.errors import BadInput
from support.sources import ROOT
from support.texts import exactly


def test_boards():
    assert list(BOARDS) == ["ulx3s", "pynq-z2", "kv260", "litex"]
    assert [kind.name for kind in BOARDS.values() if kind.serial] == ["ulx3s"]
    assert all(kind.memory_kib % 4 == 0 for kind in BOARDS.values())


def test_a_text_is_filled(monkeypatch, tmp_path):
    monkeypatch.setattr(describe, "TEXTS", tmp_path)
    (tmp_path / "a.txt").write_text("always @(posedge clk) @NAME@ is @NAME@ at @PLACE@ a@b")
    assert board_text("a.txt", name="x", place=3) == "always @(posedge clk) x is x at 3 a@b"
    with pytest.raises(KeyError, match=r"a\.txt needs a value of PLACE"):
        board_text("a.txt", name="x")


def test_divisors_of_lines():
    assert SerialSettings(clock_hz=25_000_000, baud=1_000_000, memory_bytes=4096).divisor == 25
    text = "--baud must be within 2 % of 25000000 / n, n in 4..65535, not 9000000"
    with pytest.raises(BadInput, match=exactly(text)):
        _ = SerialSettings(clock_hz=25_000_000, baud=9_000_000, memory_bytes=4096).divisor


@pytest.mark.parametrize("name", ["ulx3s", "pynq-z2", "kv260"])
def test_there_is_a_machine_for_each(name):
    file = ROOT / "boards" / name / "machine.toml"
    assert BOARDS[name].advice == (
        f"a machine that fits: {file.relative_to(ROOT)} (--preset {name})"
    )
    assert BOARD_MACHINES[name].read_text() == file.read_text(), "what the wheel has"
    config = load_config(file)
    assert config.bus.ports == 1
    assert config.vector.enable == (name == "kv260")
    assert BOARDS[name].lacking_keys(config, BOARDS[name].clock_mhz) == {}


@pytest.mark.parametrize("key", CLOCK_KEYS)
@pytest.mark.parametrize("name", ["pynq-z2", "kv260"])
def test_a_machine_without_a_key_that_the_clock_needs(name, key):
    """No clock of these chips is known without the keys, which the files have."""
    kind = BOARDS[name]
    usual = {"cell.pipeline": "none", "memory.output_register": "false"}
    config = load_config(ROOT / "boards" / name / "machine.toml", [f"{key}={usual[key]}"])
    assert kind.plain_mhz is None
    assert kind.lacking_keys(config, kind.clock_mhz) == {key: CLOCK_KEYS[key]}


def test_the_clock_of_the_ulx3s_needs_no_keys():
    """Its routed clock is a figure of docs/boards.md, and above what is asked for."""
    text = (ROOT / "docs" / "boards.md").read_text()
    (said,) = re.findall(r"([\d.]+) MHz \(`make board-ulx3s`\)\. The goal is (\d+) MHz", text)
    kind = BOARDS["ulx3s"]
    assert (float(said[0]), int(said[1])) == (kind.plain_mhz, kind.clock_mhz)
    config = load_config(ROOT / "boards" / "ulx3s" / "machine.toml")
    assert kind.lacking_keys(config, 44) == {}
    assert kind.lacking_keys(config, 50) == dict(CLOCK_KEYS)
    assert BOARDS["litex"].lacking_keys(config, 1000) == {}
