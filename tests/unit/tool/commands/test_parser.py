"""Help, version, and arguments that are wrong."""

import argparse
import re
import subprocess
import sys
from pathlib import Path

import pytest

import diastole as package
from command_line import error
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
    """Which is one: it is read as it stands."""
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
    """Alone, and where an option takes several."""
    for words in (text, f"{text},{text}", f"{text},{text},{text}"):
        with pytest.raises(argparse.ArgumentTypeError) as caught:
            parse(words)
        assert len(str(caught.value)) < 250


def test_defaults_that_help_states():
    """Where an option has a default of its own, its help says that one."""
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


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["check"], "the following arguments are required: FILE (see diastole check --help)"),
        (
            ["check", "a", "--sett", "x"],
            "unrecognized arguments: --sett x; did you mean --set? (see diastole check --help)",
        ),
        (["check", "a", "b"], "unrecognized arguments: b (see diastole check --help)"),
        (
            ["chekc", "a"],
            (
                "must be one of the commands init, check, estimate, generate, board, synth, run, "
                "explain, train, compare, formats, doctor, completion, not chekc; "
                "did you mean check? (see diastole --help)"
            ),
        ),
        (
            ["train", "f", "--task", "digits", "--optimizer", "Adma"],
            (
                "argument --optimizer: must be one of sgd, nesterov, rmsprop, adam, adamw, "
                "or FILE.py:NAME, not Adma; did you mean adam? (see diastole train --help)"
            ),
        ),
        (
            ["train", "f", "--task", "digits", "--steps", "-3"],
            (
                "argument --steps: must be an integer in 1..1000000, not -3 "
                "(see diastole train --help)"
            ),
        ),
        (
            ["train", "f", "--task", "digits", "--steps", "many"],
            (
                "argument --steps: must be an integer in 1..1000000, not many "
                "(see diastole train --help)"
            ),
        ),
        (
            ["train", "f", "--task", "digits", "--min-accuracy", "95"],
            (
                "argument --min-accuracy: must be a number from 0 to 1, not 95 "
                "(see diastole train --help)"
            ),
        ),
        (
            ["train", "f", "--task", "digits", "--seed", "4294967296"],
            (
                "argument --seed: must be an integer in 0..4294967295, not 4294967296 "
                "(see diastole train --help)"
            ),
        ),
    ],
)
def test_bad_arguments_take_one_line(diastole, arguments, message):
    result = diastole(*arguments)
    assert (result.code, result.out, result.err) == (2, "", error(message))


@pytest.mark.parametrize("command", ["route", "place"])
def test_commands_that_are_none_are_not_accepted(diastole, command):
    assert diastole(command, "nano.toml").code == 2


def test_as_a_program(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "diastole.cli", "check", "no.toml"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 2
    assert done.stderr == "diastole: error: no.toml: No such file or directory\n"


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
