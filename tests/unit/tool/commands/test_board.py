"""`board`: what it writes, and what it refuses."""

import pytest

from command_line import error
from diastole.commands import board as board_command
from support.board_products import HASH, write_stub


@pytest.fixture
def quick(monkeypatch, tmp_path):
    """A product that is there at once."""
    write_stub(tmp_path / "stub" / "product")
    monkeypatch.setattr(
        board_command, "generated_product", lambda config: tmp_path / "stub" / "product"
    )


def test_a_board_is_written(diastole, quick, tmp_path):
    result = diastole("board", "ulx3s", "nano.toml", "-o", "out", "--clock", "50", "--json")
    assert result.code == 0, result.err
    record = result.json
    assert (record["board"], record["config_sha256"]) == ("ulx3s", HASH)
    sizes = (record["clock_hz"], record["baud"], record["memory_bytes"])
    assert sizes == (50_000_000, 1_000_000, 256 * 1024)
    assert (tmp_path / "out" / "ulx3s.lpf").exists()
    result = diastole("board", "kv260", "nano.toml", "-o", "out")
    assert result.code == 0
    assert result.out.startswith("wrote out: mine on kv260, 100 MHz, ")


@pytest.mark.parametrize(
    "words, text",
    [
        (
            ("kv260", "--baud", "9600"),
            "--baud is of boards with a serial line, not of kv260",
        ),
        (
            ("litex", "--memory", "64"),
            "--memory is of boards with a serial line, not of litex",
        ),
        (("ulx3s", "--memory", "6"), "--memory must be a multiple of 4, not 6"),
        (
            ("ulx3s", "--baud", "9000000"),
            "--baud must be within 2 % of 25000000 / n, n in 4..65535, not 9000000",
        ),
    ],
)
def test_what_is_refused(diastole, quick, words, text, tmp_path):
    result = diastole("board", words[0], "nano.toml", "-o", "out", *words[1:])
    assert (result.code, result.err) == (2, error(text))
    assert not (tmp_path / "out").exists()


def test_a_vector_unit_is_warned_of(diastole, quick):
    words = ("nano.toml", "-o", "out", "--set", "vector.enable=true")
    result = diastole("board", "ulx3s", *words)
    assert result.code == 0
    assert result.err == [
        (
            "diastole: warning: programs of whole steps seldom fit the memory of ulx3s: "
            "vector.enable = false"
        )
    ]
    assert diastole("board", "litex", *words).err == []
