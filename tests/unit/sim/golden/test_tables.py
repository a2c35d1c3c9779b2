"""Tables of the vector unit, in and out of memory."""

import numpy as np
import pytest

from diastole_sim.golden.improvement import Improvement
from diastole_sim.golden.tables import Tables
from diastole_sim.spec.limits import VectorTable
from diastole_sim.spec.micro import Instruction, MicroOp
from diastole_sim.spec.stream_table import Descriptor, Kind

ENTRIES = {
    VectorTable.INSTRUCTIONS: 8,
    VectorTable.CONSTANTS: 4,
    VectorTable.AMAX: 4,
    VectorTable.PANEL: 16,
    VectorTable.DESCRIPTORS: 16,
    VectorTable.EPS: 4,
    VectorTable.WIDTHS: 4,
}


def make_tables():
    return Tables(block=4, panel_vectors=10)


@pytest.mark.parametrize("which, length", ENTRIES.items())
def test_what_is_loaded_is_stored(which, length, np_rng):
    tables = make_tables()
    assert tables.entry_bytes(which) == length
    data = np_rng.integers(0, 256, size=3 * length, dtype=np.uint8)
    if which == VectorTable.CONSTANTS:
        data[:4] = [1, 0, 0x80, 0x7F]  # a NaN that signals
    before = tables.bytes_of(which, 0, 10).copy()
    assert not before.any()
    tables.load(which, 2, data)
    after = tables.bytes_of(which, 0, 10)
    if which in (VectorTable.EPS, VectorTable.WIDTHS):  # not all bits of a word count
        most = 2**18 - 1 if which == VectorTable.EPS else 3
        data = (data.view("<u4") & most).view(np.uint8)
    assert np.array_equal(after[2 * length : 5 * length], data)
    assert not after[: 2 * length].any()
    assert not after[5 * length :].any()


def test_what_is_read_of_them():
    tables = make_tables()
    each = Instruction(op=MicroOp.ADD, a=3, c=2, d=1)
    tables.load(0, 255, np.frombuffer(each.encode().to_bytes(8, "little"), np.uint8))
    assert tables.instructions[255] == each
    stream = Descriptor(kind=Kind.ROW, address=0x12_3456_7890, per_step=1, offset=64)
    tables.load(4, 127, np.frombuffer(stream.encode(), np.uint8))
    assert tables.descriptors[127] == stream
    tables.load(3, 1, np.arange(4, dtype="<f4").view(np.uint8))
    assert tables.panel[1].tolist() == [0, 1, 2, 3]
    tables.load(2, 254, np.array([7], dtype="<u4").view(np.uint8))
    assert tables.amax[254] == 7


def test_the_edition_changes_with_instructions_and_streams_alone():
    tables = make_tables()
    for which, length in ENTRIES.items():
        edition = tables.edition
        tables.load(which, 0, np.zeros(length, np.uint8))
        changes = which in (VectorTable.INSTRUCTIONS, VectorTable.DESCRIPTORS)
        assert (tables.edition != edition) == changes


def test_what_was_stored_stays():
    tables = make_tables()
    stored = tables.store(VectorTable.CONSTANTS, 3, 1)
    tables.constants[3] = 1
    assert not stored.any()


def test_what_a_slot_says_of_widths():
    """r = 1/2 against thresholds of 2^-16: above 2^15 - 1, not above 2^15."""
    tables, half = make_tables(), Improvement(num=1, den=2)
    tables.eps[:2] = 2**15 - 1, 2**15
    tables.update_widths(0, by_slot=False, improvement=half)
    tables.update_widths(1, by_slot=True, improvement=half)
    assert (tables.last_planes(0), tables.next_planes(0)) == (0, 1)
    assert (tables.last_planes(1), tables.next_planes(1)) == (0, 0)
    tables.update_widths(0, by_slot=True, improvement=None)
    assert (tables.last_planes(0), tables.next_planes(0)) == (1, 1)
    tables.eps[0] = 2**15
    tables.update_widths(0, by_slot=False, improvement=half)
    assert (tables.last_planes(0), tables.next_planes(0)) == (1, 0)
    tables.update_widths(0, by_slot=True, improvement=half)
    assert tables.widths[:3].tolist() == [0, 0, 0]
