"""Which commands may begin before the one before them is done."""

from dataclasses import replace

import pytest

from diastole_sim.program.command_list import CommandList
from diastole_sim.spec.command import Command, ProgramPlace
from diastole_sim.spec.command_table import Opcode

CHAIN = Command.chain(ProgramPlace(first=0, length=1, streams=0), m=1, n=1)

OTHER = replace(CHAIN, opcode=Opcode.CONVERT)
"""Of another unit."""


def ahead(*listed, entries=()):
    commands = CommandList()
    for options in listed:
        commands.add(options.pop("command", CHAIN), **options)
    return [command.ahead for command in commands.commands(entries)]


@pytest.mark.parametrize(
    "first, second, expected",
    [
        ({"reads": "a", "writes": "b"}, {"reads": "a", "writes": "c"}, 1),
        ({"reads": "a", "writes": "b"}, {"reads": "b", "writes": "c"}, 0),
        ({"reads": "a", "writes": "b"}, {"reads": "c", "writes": "a"}, 1),
        ({"command": OTHER, "reads": "a", "writes": "b"}, {"reads": "c", "writes": "a"}, 0),
        ({"reads": "a", "writes": "b"}, {"command": OTHER, "reads": "c", "writes": "a"}, 0),
        ({"reads": "a", "writes": "b"}, {"reads": "c", "writes": "b"}, 0),
        ({}, {}, 1),
        ({"alone": True}, {}, 0),
        ({}, {"alone": True}, 0),
        ({}, {"command": replace(CHAIN, skip=1)}, 0),
        ({"command": replace(CHAIN, skip=1)}, {}, 1),
    ],
)
def test_two_commands(first, second, expected):
    assert ahead(first, second) == [0, expected]


def test_only_the_one_before_counts():
    assert ahead({"writes": "a"}, {"writes": "b"}, {"reads": "a"}) == [0, 1, 1]


def test_nothing_is_ahead_where_a_run_begins():
    assert ahead({}, {}, {}, {}, entries=(2,)) == [0, 1, 0, 1]


def test_lists_behind_each_other():
    one, other = CommandList(), CommandList()
    one.add(CHAIN, writes="a")
    other.add(replace(CHAIN, m=2), reads="a")
    other.add(replace(CHAIN, m=3))
    one.extend(other, other)
    assert len(one) == 5
    found = one.commands()
    assert [command.m for command in found] == [1, 2, 3, 2, 3]
    assert [command.ahead for command in found] == [0, 0, 1, 1, 1]
