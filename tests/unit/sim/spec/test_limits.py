"""What machines accept, as their numerics have it, and the entries of the vector unit's tables."""

from dataclasses import replace

import pytest

from diastole_sim.spec.command_table import Opcode
from diastole_sim.spec.limits import (
    Limits,
    VectorLimits,
    VectorTable,
    entry_words,
    vector_tables,
)
from diastole_sim.spec.patches import PatchLimits
from support.numerics import make_numerics


def test_a_generated_machine_has_a_vector_unit_if_it_has_a_panel():
    numerics = make_numerics(block=4, groupings=("4x4", "1x64", "1x8"))
    assert not Limits.of(numerics, data_width=64).has_vector
    vector = VectorLimits(panel_vectors=512, fed=(0, 64, 8))
    limits = Limits.of(numerics, data_width=64, vector=vector)
    assert limits.has_vector
    assert limits.vector == vector
    patches = PatchLimits(tiles=((1, 8), (8, 8), (1, 8)), kept_rows=4)
    for each in (vector, replace(vector, patches=patches)):
        assert VectorLimits.from_dict(each.to_dict()) == each


@pytest.mark.parametrize("block", [1, 8])
def test_words_of_entries(block):
    words = {table: entry_words(table, block) for table in VectorTable}
    assert words == {
        VectorTable.INSTRUCTIONS: 2,
        VectorTable.CONSTANTS: 1,
        VectorTable.AMAX: 1,
        VectorTable.PANEL: block,
        VectorTable.DESCRIPTORS: 4,
        VectorTable.EPS: 1,
        VectorTable.WIDTHS: 1,
    }
    assert [int(table) for table in VectorTable] == [0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    "formats, widths, choices",
    [
        (("fast", "bfp2", "fast"), (2, 4), (True, False, True)),
        ("fast", (2, 4, 8), (True, True, True)),
        ("fast", (4,), (False, False, False)),
        ("bfp4", (2, 4), (False, False, False)),
    ],
)
def test_classes_whose_widths_a_machine_decides(formats, widths, choices):
    numerics = make_numerics(formats=formats, widths=widths)
    vector = VectorLimits(panel_vectors=512)
    limits = Limits.of(numerics, data_width=64, vector=vector)
    assert limits.choices == choices
    assert limits.has_choices == any(choices)
    assert not Limits.of(numerics, data_width=64).has_choices
    entries = 255 if any(choices) else 0
    for table in (VectorTable.EPS, VectorTable.WIDTHS):
        assert limits.entries(Opcode.LOAD, table) == entries
    assert limits.entries(Opcode.STORE, VectorTable.WIDTHS) == entries
    assert limits.entries(Opcode.STORE, VectorTable.EPS) == 0


def test_a_machine_without_a_vector_unit_has_no_tables():
    limits = Limits.of(make_numerics(), data_width=64)
    assert {limits.entries(Opcode.LOAD, which) for which in range(8)} == {0}


def test_tables_of_machines():
    assert vector_tables(choices=True) == tuple(VectorTable)
    plain = ["INSTRUCTIONS", "CONSTANTS", "AMAX", "PANEL", "DESCRIPTORS"]
    assert [each.name for each in vector_tables(choices=False)] == plain
