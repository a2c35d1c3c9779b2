"""Faults put into the Verilog are noticed: what the tests of products say can be believed."""

import pytest

from diastole.backend import cached_product
from support import mutants


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """One product with all faults in it, none active."""
    directory = tmp_path_factory.mktemp("mutants") / "product"
    return mutants.plant(cached_product(mutants.CONFIG), directory)


def test_without_a_fault_all_is_well(planted):
    with mutants.open_mutant(planted, 0) as device:
        mutants.check(device)


@pytest.mark.parametrize("name", mutants.NUMBERS)
def test_fault_is_noticed(name, planted):
    assert not mutants.survives(planted, mutants.NUMBERS[name])
