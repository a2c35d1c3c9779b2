"""The text of a program: every area, every command, and texts that assemble to what runs."""

import re

import numpy as np
import pytest

from diastole_sim.program.assembly import assemble
from diastole_sim.program.listing import ProgramListing
from diastole_sim.spec.command_table import CHAINS, Opcode
from diastole_sim.spec.micro import Instruction
from support.optimisers import SETTINGS
from support.small_programs import SmallRun

NAMES = 51
"""Column of a name in the list of areas."""


@pytest.fixture(scope="module")
def program():
    return SmallRun(np.random.default_rng(3), SETTINGS["adamw"], clip=1.0, steps=3).program


@pytest.fixture(scope="module")
def text(program):
    cycles = {number: 10 * number for number in range(len(program.training))}
    return str(ProgramListing(program, cycles))


def section(text, heading):
    return re.search(rf"^{heading}.*\n((?:.+\n)*)", text, re.MULTILINE)[1].splitlines()


def test_every_area_has_a_line(program, text):
    lines = section(text, "memory: ")
    for area in program.areas.values():
        found = [each for each in lines if each.split()[0] == f"{area.address:#x}"]
        (line,) = [each for each in found if each[NAMES:] == area.name]
        assert line.split()[1:3] == [str(area.length), area.kind.split()[0]]
    places = [f"{first}..{end - 1}" for first, end in program.panel.values()]
    assert [line.split()[3] for line in lines if line.lstrip().startswith("panel")] == places


@pytest.mark.parametrize("name", ["training", "evaluation"])
def test_every_command_has_a_line(program, text, name):
    commands = getattr(program, name)
    lines = [line for line in section(text, f"commands of {name}") if re.match(r" *\d+  ", line)]
    assert [int(line.split()[0]) for line in lines] == list(range(len(commands)))
    for command, line in zip(commands, lines, strict=True):
        assert line.split()[1] == Opcode(command.opcode).name.lower()
        for letter in "mnk":
            size = getattr(command, letter)
            assert (f" {letter} {size} " in line) == bool(size)
        assert (" ahead" in line) == bool(command.ahead)
        assert ("program " in line) == (command.opcode in CHAINS)
        assert ("# " in line) == (name == "training")


def test_addresses_are_names(program, text):
    for line in section(text, "commands of training"):
        for name in re.findall(r"\[([^\]]+?)(?: \+ \d+)?\]", line):
            known = name in program.areas or name in program.panel or name.isdigit()
            assert known, line
    assert "0x" not in "\n".join(section(text, "commands of training"))


def test_texts_assemble_to_what_runs(program, text):
    data = program.initial["instructions of training"]
    words = [int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data), 8)]
    stored = [Instruction.decode(word) for word in words]
    used = [each for each in program.training if each.opcode in CHAINS]
    texts = re.findall(r"^program \d+\n((?:    .+\n)+)", text, re.MULTILINE)
    found = [
        tuple(assemble(re.sub(r"^    ", "", each, flags=re.MULTILINE), block=8)) for each in texts
    ]
    assert len(set(found)) == len(found)
    inside = {
        tuple(stored[each.program : each.program + each.program_length])
        for each in used
        if each.program + each.program_length <= len(stored)
    }
    assert len(inside & set(found)) > 5


def test_constants_have_values(text):
    notes = re.findall(r"K\[(\d+)\] = (\S+?),?$", text, re.MULTILINE)
    assert notes
    assert all(np.isfinite(float(value)) for _, value in notes)
