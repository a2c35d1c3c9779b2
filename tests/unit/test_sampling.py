"""Which cases of a test are always run."""

import os
import subprocess
import sys
from enum import Enum
from itertools import product

import pytest

from support.sampling import sample

GRID = [{"side": side, "stalls": stalls} for side, stalls in product((1, 2, 4), (False, True))]


def test_every_value_is_shown_as_far_as_it_goes():
    chosen = sample(GRID, 2)
    assert len(chosen) == 3
    assert {GRID[number]["side"] for number in chosen} == {1, 2, 4}
    assert {GRID[number]["stalls"] for number in chosen} == {False, True}


def test_every_member_of_an_enumeration_is_shown():
    mode = Enum("mode", ["FORWARD", "DX", "DW"])
    cases = [{"mode": each, "side": 2} for each in mode for _ in range(2)]
    assert {cases[number]["mode"] for number in sample(cases, 2)} == set(mode)


@pytest.mark.parametrize("one_in, count", [(1, 6), (2, 3), (4, 2), (6, 1), (100, 1)])
def test_one_in_so_many(one_in, count):
    assert len(sample(GRID, one_in)) == count
    assert sample(GRID, one_in) == sample(GRID, one_in)


def test_words_of_lists_and_tables_count_and_numbers_do_not():
    one = {"formats": ("bfp4", "bfp4"), "keys": {}, "shapes": [(1, 1)]}
    more_shapes = one | {"shapes": [(1, 1), (3, 5), (7, 9)]}
    another_format = one | {"formats": ("bfp4", "bfp8")}
    grouped = one | {"keys": {"grouping": ("1x4", "8x8")}}
    assert sample([one, more_shapes, another_format, grouped], 2) == {2, 3}


def test_what_has_been_shown_counts_again_when_all_has():
    cases = [{"x": 1, "y": 1}, {"x": 2, "y": 2}, {"x": 1}, {"x": 1, "y": 2}, {"x": 2}]
    assert sample(cases, 2) == {0, 1, 3}


SAMPLED = "tests/unit/sim/spec/test_rounding.py"
TEST = "::test_every_small_case_against_fractions["


def collected(root, marks):
    command = (sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", marks, SAMPLED)
    env = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=True)
    return {line for line in done.stdout.splitlines() if TEST in line}


def test_the_others_are_sweeps(pytestconfig):
    always, others = (collected(pytestconfig.rootpath, marks) for marks in ("not sweep", "sweep"))
    assert always
    assert not always & others
    assert len(always) == -(-len(always | others) // 4)
