# amaranth: UnusedElaboratable=no
"""Numbers of rows and columns as floats: exact for every block of the largest tensor."""

import struct

import pytest
from amaranth.hdl import Cat

from diastole_hw.vector.core.positions import PositionBase, place_number, small
from diastole_hw.vector.stream_layouts import row_layout
from diastole_sim.spec.image import MAX_SIZE
from support.pipelines import Function, check_pipeline
from support.vector_core import shape_of


def places(block):
    """All places of a block."""
    shape = shape_of(block)

    def numbers(m, index):
        m.submodules.first = first = PositionBase(shape)
        m.d.comb += first.index.eq(index)
        return Cat(place_number(first.o, number) for number in range(block))

    return Function({"index": shape.index_bits}, {"o": row_layout(shape)}, numbers)


def bits_of(number):
    return struct.unpack("<I", struct.pack("<f", number))[0]


@pytest.mark.parametrize("block", [1, 2, 4, 8, 16, 32])
def test_every_place_is_exact(block, rng):
    blocks = -(-MAX_SIZE // block)
    powers = [1 << k for k in range(24) if 1 << k < blocks]
    cases = {0, 1, 2, 3, blocks - 1, *powers, *(power - 1 for power in powers)}
    cases |= {rng.randrange(blocks) for _ in range(50)}

    wants = ([bits_of(index * block + n) for n in range(block)] for index in cases)
    check_pipeline(
        places(block), [({"index": n}, {"o": o}) for n, o in zip(cases, wants, strict=True)], 0
    )


def test_small_numbers():
    for number in [*range(300), 2**24 - 1]:
        assert small(number) == bits_of(number)
