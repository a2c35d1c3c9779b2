"""Arguments that several commands share."""

import argparse
from pathlib import Path

import pytest

from diastole.commands.arguments import (
    MAX_SEED,
    add_config,
    add_execution,
    fraction,
    integer,
    one_of,
    read_config,
)
from diastole.config.file import load_config
from diastole.config.presets import PRESETS
from support.sources import ROOT


def refusal(parse, text):
    with pytest.raises(argparse.ArgumentTypeError) as caught:
        parse(text)
    return str(caught.value)


EMPTY = {"": '""'}
"""How messages show a text that nobody would see."""


@pytest.mark.parametrize("text, value", [("3", 3), ("5", 5), ("04", 4), ("+3", 3)])
def test_integers_of_a_range(text, value):
    assert integer(3, 5)(text) == value


@pytest.mark.parametrize(
    "text", ["2", "6", "", "x", "3.0", "1e3", "9" * 5000, "-3", " 4 ", "0_4", "\u0664"]
)
def test_integers_out_of_it(text):
    shown = EMPTY.get(text, text if len(text) < 60 else f"{text[:57]}...")
    assert refusal(integer(3, 5), text) == f"must be an integer in 3..5, not {shown}"
    if text != "6" and len(text) < 5000:
        assert refusal(integer(3), text) == f"must be an integer of at least 3, not {shown}"


def test_one_of_some():
    assert [one_of(1, 2, 4)(text) for text in "124"] == [1, 2, 4]
    for text in ("3", "", "x", "12", "1.0"):
        assert (
            refusal(one_of(1, 2, 4), text) == f"must be one of 1, 2, 4, not {EMPTY.get(text, text)}"
        )


@pytest.mark.parametrize(
    "text, value", [("0", 0), ("1", 1), ("0.5", 0.5), ("1e-400", 0), ("-0", 0)]
)
def test_fractions(text, value):
    assert fraction(text) == value


@pytest.mark.parametrize(
    "text", ["1.0001", "-0.1", "nan", "inf", "", "half", "95%", " 0.5", "0.1_1", "\u0661"]
)
def test_what_is_no_fraction(text):
    assert refusal(fraction, text) == f"must be a number from 0 to 1, not {EMPTY.get(text, text)}"


def parser(*adders):
    made = argparse.ArgumentParser(exit_on_error=False)
    for add in adders:
        add(made)
    return made


def test_execution():
    given = parser(add_execution).parse_args([])
    assert vars(given) == {
        "backend": "rtl",
        "port": None,
        "baud": None,
        "seed": 0,
        "stalls": None,
        "latency": None,
        "verify": False,
        "trace": None,
        "trace_depth": None,
        "json": False,
    }
    words = f"--backend golden --seed {MAX_SEED} --stalls 3 --latency 100 --verify --trace a.vcd"
    words += " --trace-depth 2"
    assert vars(parser(add_execution).parse_args([*words.split(), "--json"])) == {
        "backend": "golden",
        "port": None,
        "baud": None,
        "seed": 2**32 - 1,
        "stalls": 3,
        "latency": 100,
        "verify": True,
        "trace": Path("a.vcd"),
        "trace_depth": 2,
        "json": True,
    }


def of_presets(*words):
    parser = argparse.ArgumentParser()
    add_config(parser, presets=True)
    return read_config(parser.parse_args(words))


def test_a_preset_instead_of_a_file():
    assert of_presets("--preset", "edge") == PRESETS["edge"]
    assert of_presets("--preset", "edge", "--set", "array.rows=2").array.rows == 2


@pytest.mark.parametrize("board", ["ulx3s", "pynq-z2", "kv260"])
def test_the_machine_of_a_board_is_a_preset(board):
    found = of_presets("--preset", board, "--set", "accumulator.fraction=17")
    file = ROOT / "boards" / board / "machine.toml"
    assert found == load_config(file, ["accumulator.fraction=17"]) != load_config(file)


def test_a_configuration_with_changes(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text('name = "mine"\n')
    words = [
        str(path),
        "--set",
        "array.rows=4",
        "--set",
        "bus.data_width=128",
    ]
    config = read_config(parser(add_config).parse_args(words))
    assert (config.name, config.array.rows, config.bus.data_width) == ("mine", 4, 128)
    assert config.array.cols == PRESETS["nano"].array.cols
