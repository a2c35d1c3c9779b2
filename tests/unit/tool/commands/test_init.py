"""`init`: writes a preset, and never over what is there."""

import pytest

from command_line import error
from diastole.config.file import from_document, load_config
from diastole.config.numbers import NUMBERS
from diastole.config.presets import PRESETS
from support.sources import ROOT


@pytest.mark.parametrize("preset", PRESETS)
def test_init_writes_a_preset(diastole, tmp_path, preset):
    result = diastole("init", "new.toml", "--preset", preset)
    assert (result.code, result.err) == (0, [])
    assert result.out.splitlines() == [
        f"wrote new.toml (preset {preset})",
        "next: edit the file, then diastole check new.toml",
    ]
    assert load_config(tmp_path / "new.toml") == PRESETS[preset]


def test_init_keeps_what_is_left_out_in_comments(diastole, tmp_path):
    assert diastole("init", "new.toml").code == 0
    text = (tmp_path / "new.toml").read_text()
    table = text[text.index("[block]") : text.index("[scale]")].splitlines()
    assert table[:8] == [
        "[block]",
        "# Groups of activations.",
        (
            '# Accepted: squares such as "8x8", vectors such as "1x16", or "tensor"; '
            "sides are powers of two, at"
        ),
        "# most 128.",
        '# Left out: the default of the format, here "8x8".',
        '# x = "8x8"',
        "# Groups of weights.",
        "# Accepted: as for x.",
    ]


def test_init_writes_nano_if_not_told(diastole, tmp_path):
    assert diastole("init", "new.toml").code == 0
    assert load_config(tmp_path / "new.toml") == PRESETS["nano"]


def test_init_never_overwrites_without_force(diastole, tmp_path):
    (tmp_path / "nano.toml").write_text("precious")
    result = diastole("init", "nano.toml")
    assert (result.code, result.err) == (
        2,
        error("nano.toml: the file exists; --force overwrites the file"),
    )
    assert (tmp_path / "nano.toml").read_text() == "precious"
    assert diastole("init", "nano.toml", "--force").code == 0
    assert load_config(tmp_path / "nano.toml") == PRESETS["nano"]
    assert [path.name for path in tmp_path.iterdir()] == ["nano.toml"]


@pytest.mark.parametrize("board", ["ulx3s", "pynq-z2", "kv260"])
def test_init_writes_the_machine_of_a_board(diastole, tmp_path, board):
    assert diastole("init", "new.toml", "--preset", board).code == 0
    assert load_config(tmp_path / "new.toml") == load_config(
        ROOT / "boards" / board / "machine.toml"
    )


@pytest.mark.parametrize("numbers", NUMBERS)
def test_init_writes_published_numbers(diastole, tmp_path, numbers):
    result = diastole("init", "new.toml", "--preset", "pico", "--numbers", numbers)
    assert (result.code, result.err) == (0, [])
    assert result.out.splitlines()[0] == f"wrote new.toml (preset pico, numbers {numbers})"
    written = load_config(tmp_path / "new.toml")
    assert written == from_document(PRESETS["pico"].to_dict(), [f"numbers={numbers}"])
    assert written.numbers == numbers
