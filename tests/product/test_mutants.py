"""Faults put into the Verilog are noticed: what the tests of products say can be believed.

Some of the faults, on two machines; ``python scripts/mutation.py`` tries them all.
"""

import pytest

from diastole.backend import cached_product
from support import mutants

MACHINES = {"squares": mutants.SQUARES, "windows": mutants.WINDOWS}
TRIED = [(name, fault.name) for name, machine in MACHINES.items() for fault in machine.faults[::3]]
NO_FAULT = 255


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """``planted(machine)``: its product with all its faults in it, none active."""
    found = {}

    def plant(machine):
        name = machine.config.name
        if name not in found:
            directory = tmp_path_factory.mktemp("mutants") / name
            found[name] = mutants.plant(machine, cached_product(machine.config), directory)
        return found[name]

    return plant


@pytest.mark.parametrize("machine", mutants.MACHINES, ids=lambda machine: machine.config.name)
def test_every_fault_has_its_place(machine, planted):
    source = planted(machine) / "rtl" / f"{machine.config.name}.v"
    text = source.read_text()
    for name, number in machine.numbers.items():
        assert f"fault_number == 8'd{number} ?" in text, name


@pytest.mark.parametrize("number", [0, NO_FAULT])
@pytest.mark.parametrize("name", MACHINES)
def test_without_a_fault_all_is_well(name, number, planted):
    machine = MACHINES[name]
    assert NO_FAULT not in machine.numbers.values()
    with mutants.open_mutant(planted(machine), number) as device:
        mutants.check(device)


@pytest.mark.parametrize("name, fault", TRIED)
def test_fault_is_noticed(name, fault, planted):
    machine = MACHINES[name]
    assert not mutants.survives(planted(machine), machine.numbers[fault])
