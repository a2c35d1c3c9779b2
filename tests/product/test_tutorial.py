"""The tutorials, followed to the letter (``support.tutorial_page`` says how)."""

import re
import subprocess

import pytest

from diastole.backend import cached_product
from diastole.cli import make_parser
from diastole_sim.host.product import Product
from diastole_sim.machines.verilator.build import build
from support.c_library import COMPILERS, STRICT
from support.products import MACHINES
from support.sources import ROOT
from support.sweep import sweep
from support.tutorial_page import Command, File, command_words, follow, page, prints, steps

PAGES = ("tutorial.md", "networks.md", "tutorials/driver.md", "tutorials/layers.md")
BOARD = ROOT / "tests" / "support" / "board.c"


@pytest.mark.parametrize(
    "name",
    ["networks.md", "tutorials/layers.md", sweep("tutorial.md"), sweep("tutorials/driver.md")],
)
def test_every_step_of_a_page(name, tmp_path):
    follow(page(name), tmp_path)


def test_the_tutorial_is_read():
    programs = {each.line.split()[0] for each in steps(page("tutorial.md"))}
    assert programs == {"make", "source", "diastole", "python"}
    assert len(command_words(page("tutorial.md"), "diastole")) >= 12


def test_every_page_is_known():
    found = {f"tutorials/{path.name}" for path in (ROOT / "docs/tutorials").glob("*.md")}
    assert found | {"tutorial.md", "networks.md"} == set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_every_command_has_these_options(name):
    calls = command_words(page(name), "diastole")
    assert calls
    for words in calls:
        make_parser().parse_args(words)


@pytest.mark.parametrize("name", PAGES)
def test_every_stated_output_belongs_to_a_command(name):
    text = page(name)
    found = [step for step in steps(text) if isinstance(step, Command)]
    assert text.count("\n$ ") == sum(step.printed is not None for step in found)


def test_the_program_of_the_driver_page(tmp_path):
    """The C program of the page on the simulated machine, as strict compilers compile it."""
    text = page("tutorials/driver.md")
    for step in steps(text):
        if isinstance(step, File):
            (tmp_path / step.name).write_text(step.text)
    product = cached_product(MACHINES["pico"])
    library, name = build(Product.load(product)), MACHINES["pico"].name
    names = {"DRIVER": f'"{name}_driver.h"', "PORT": f"{name}_port", "BOARD": f"{name}_board"}
    defines = [f"-D{key}={value}" for key, value in names.items()]
    (call,) = re.findall(r"^\$ make .*HOST=\S+\n((?:[^`].*\n)+)```", text, re.MULTILINE)
    for compiler in COMPILERS:
        for source, flags in ((tmp_path / "mine.c", []), (BOARD, defines)):
            target = ["-c", source, "-o", tmp_path / f"{source.stem}.o"]
            command = [*compiler, *STRICT, f"-I{product / 'sw'}", *flags, *target]
            subprocess.run(command, check=True)
        objects = [tmp_path / "mine.o", tmp_path / "board.o"]
        link = [compiler[0], *objects, library, f"-Wl,-rpath,{library.parent}", "-lm"]
        subprocess.run([*link, "-o", tmp_path / "mine"], check=True)
        done = subprocess.run([tmp_path / "mine"], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout
        matrix = call.splitlines()[:2]
        assert done.stdout.splitlines()[:2] == matrix, "cycles depend on the memory of the board"


WRONG = {
    "a wrong line": "```console\n$ echo 41\n42\n```\n",
    "a line too many": "```console\n$ echo 42\n42\n43\n```\n",
    "a line too few": "```console\n$ printf '42\\n43\\n'\n42\n```\n",
    "a failure": "```console\n$ false\n```\n",
    "a failure without output": "    diastole init my.toml --preset no\n",
    "a silent command that speaks": "```console\n$ echo 42\n```\n",
    "a file of another name": "A file `a`:\n\n```text\n1\n```\n\n```console\n$ cat b\n1\n```\n",
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_page_is_seen(wrong, tmp_path):
    with pytest.raises(AssertionError):
        follow(WRONG[wrong], tmp_path)


def test_a_right_page_is_followed(tmp_path):
    text = "Write a file `a.txt` for\nme:\n\n```text\n1\n2\n3 and 4\n```\n\n"
    text += "```console\n$ cat a.txt\n...\n3 ... 4\n$ true\n$ cat a.txt\n1\n...\n```\n\n"
    text += "    make demo\n    1 2\n\n```sh\ndiastole never\n```\n"
    follow(text, tmp_path)
    assert (tmp_path / "a.txt").read_text() == "1\n2\n3 and 4\n"
    with pytest.raises(ValueError, match="neither a file nor commands"):
        follow("Look:\n\n```c\nint x;\n```\n", tmp_path)


@pytest.mark.parametrize(
    "stated, found, same",
    [
        ("...\n", "", True),
        ("a ... c\n", "a b c\n", True),
        ("a ... c\n", "a b\nc\n", False),
        ("a\n...\n", "b\na\n", False),
        ("a.c\n", "abc\n", False),
        ("a  \n", "a\n", True),
    ],
)
def test_omitted_text(stated, found, same):
    assert prints(stated, found) is same
