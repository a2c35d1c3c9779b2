"""Help, version, and arguments that are wrong."""

import argparse
import re
import subprocess
import sys
from pathlib import Path

import pytest

import diastole as package
from diastole import cli

COMMANDS = (
    "init", "check", "estimate", "generate", "synth", "run", "train", "compare", "formats",
    "doctor",
)  # fmt: skip


def test_help_names_the_commands_that_exist(capsys):
    assert cli.main(["--help"]) == 0
    text = capsys.readouterr().out
    for command in COMMANDS:
        assert f"    {command} " in text


def test_nothing_asks_for_help(capsys):
    assert cli.main([]) == 0
    text = capsys.readouterr().out
    assert cli.main(["--help"]) == 0
    assert capsys.readouterr().out == text


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(capsys, command):
    """The parser accepts every example as the help prints the example."""
    assert cli.main([command, "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert f"usage: diastole {command}" in text
    _, example = text.split("example: diastole ")
    assert cli.make_parser().parse_args(example.split()).execute


def numeric_options():
    """Every option of every command whose type makes a number of a text."""
    parsers = cli.make_parser()._subparsers._group_actions[0].choices
    return [
        pytest.param(action.type, id=f"{name} {action.option_strings[-1]}")
        for name, parser in parsers.items()
        for action in parser._actions
        if action.type is not None and action.type is not Path
    ]


@pytest.mark.parametrize("parse", numeric_options())
@pytest.mark.parametrize("text", ["\u0663", "1_0", "nan", "inf", "1e999", "\uff18", "9" * 5000])
def test_numbers_are_of_the_digits_0_to_9(parse, text):
    """Other digits and texts are refused, in a single number and in a list of numbers."""
    for words in (text, f"{text},{text}", f"{text},{text},{text}"):
        with pytest.raises(argparse.ArgumentTypeError) as caught:
            parse(words)
        assert len(str(caught.value)) < 250


def test_defaults_that_help_states():
    """The help of every option with a default states this default."""
    parsers = cli.make_parser()._subparsers._group_actions[0].choices
    seen = 0
    for name, parser in parsers.items():
        for action in parser._actions:
            said = re.search(r"\(default: ([^)]*)\)", action.help or "")
            own = action.default not in (None, False, argparse.SUPPRESS) and action.default != []
            assert bool(said) or not own, f"{name} {action.dest}: no default is said"
            if own and said[1] not in ("every name",):
                assert said[1] == str(action.default), f"{name} {action.dest}"
                seen += 1
    assert seen >= 12


def test_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"diastole {package.__version__}\n"


def test_as_a_program(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "diastole.cli", "check", "no.toml"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 2
    assert done.stderr == "diastole: error: no.toml: there is no such file\n"


@pytest.mark.parametrize("own_process", [True, False])
@pytest.mark.sampled(2)
def test_a_process_that_ends_with_its_product_frees_nothing(tmp_path, own_process):
    """One that called ``main`` goes on, and does."""
    words = ["generate", str(tmp_path / "none.toml"), "-o", str(tmp_path / "product")]
    script = (
        "import gc, sys\n"
        "from diastole import cli\n"
        "sys.argv = ['diastole', *sys.argv[1:]]\n"
        f"cli.main({'None' if own_process else 'sys.argv[1:]'})\n"
        "print(gc.get_freeze_count() > 0)\n"
    )
    command = [sys.executable, "-c", script, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(own_process)]
