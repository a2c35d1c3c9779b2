"""The load unit on one or two regions, cycle by cycle on paper."""

import pytest

from diastole_sim.perf.load import Load, turn_wide
from diastole_sim.perf.machine import Memory, ModelledMachine
from diastole_sim.perf.walk import Chunk, LoadedRegion, Run

ONE = Run(0, (6,), 1, 5, 1)  # a beat of exponents, then a block of 8 vectors in 5 beats


def machine(**changes):
    sizes = {"rows": 2, "cols": 2, "block": 8, "element_bits": (5, 5, 5), "data_width": 64}
    return ModelledMachine(**sizes | {"memory": Memory()} | changes)


def chunk(*regions):
    return Chunk(
        regions=regions,
        slots=1,
        slices=1,
        groups=1,
        uses=(True, False),
        opens=(True, False),
        closes=(True, False),
        spans=((), ()),
    )


def test_maxima():
    """Asked for in 11, they come in 12 to 14; the next region's two in 16 and 17."""
    load = Load(machine(), ask=10)
    region = LoadedRegion(rows=0, maxima_beats=3)
    assert load.chunk(chunk(region, LoadedRegion(rows=0, maxima_beats=2)), free=0) == -1
    assert (load.bus, load.beats, load.ask) == (18, 5, 14)


def test_a_block():
    """Its address takes until 15; the exponents come in 16, its vectors are written from 20 on."""
    load = Load(machine(), ask=10)
    assert load.chunk(chunk(LoadedRegion(rows=1, runs=(ONE,))), free=0) == 27
    assert (load.beats, load.turn_stalls) == (6, 0)
    assert load.bus == 26  # the last beat waits until two vectors are left


@pytest.mark.parametrize(
    "changes, free, written",
    [
        ({"memory": Memory(read_cycles=10)}, 0, 36),
        ({}, 100, 117),  # the half is free later
        ({}, 10, 27),  # in time
        ({"fill_vectors": 8}, 0, 27),  # the description of the block decides
    ],
)
def test_what_a_block_waits_for(changes, free, written):
    load = Load(machine(**changes), ask=10)
    assert load.chunk(chunk(LoadedRegion(rows=1, runs=(ONE,))), free=free) == written


def test_the_address_of_a_later_row_takes_longer():
    load = Load(machine(), ask=10)
    region = LoadedRegion(rows=1, first_row=9, runs=(ONE,))  # 4 bits
    assert load.chunk(chunk(region), free=0) == 31


def test_turned_blocks():
    """The first enters the turning array in 19 to 26 and has left it in 34. The second could enter
    in 29, and waits for 35."""
    load = Load(machine(), ask=10)
    assert load.chunk(chunk(LoadedRegion(rows=1, runs=(ONE,), turned=True)), free=0) == 34
    load = Load(machine(), ask=10)
    assert load.chunk(chunk(LoadedRegion(rows=2, runs=(ONE,), turned=True)), free=0) == 50
    assert (load.turn_stalls, load.beats) == (6, 12)


@pytest.mark.parametrize(
    "vectors, cycles, waits",
    [
        (2, 4, 0),  # of two beats each: there in 2 and 4
        (4, 8, 1),  # the third is not there in 5, when the block leaves; it waits from 6 to 7
    ],
)
def test_wide_vectors_on_their_way_through_the_turning_array(vectors, cycles, waits):
    assert turn_wide(2, vectors, 64, 32, 64) == (cycles, waits)
