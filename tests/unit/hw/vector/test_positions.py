# amaranth: UnusedElaboratable=no
"""Numbers of rows and columns as floats: exact for every block of the largest tensor."""

import struct

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.vector.positions import FirstPlace, place_number, small
from diastole_hw.vector.shape import row_layout
from diastole_sim.spec.image import MAX_SIZE
from support.bench import design, run
from support.vector_core import shape_of


class Places(wiring.Component):
    """All places of a block."""

    def __init__(self, block):
        self.block = block
        shape = shape_of(block)
        super().__init__({"index": In(shape.index_bits), "o": Out(row_layout(shape))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.first = first = FirstPlace(shape_of(self.block))
        m.d.comb += first.index.eq(self.index)
        for number in range(self.block):
            m.d.comb += self.o[number].eq(place_number(first.o, number))
        return m


def bits_of(number):
    return struct.unpack("<I", struct.pack("<f", number))[0]


@pytest.mark.parametrize("block", [1, 2, 4, 8, 16, 32])
def test_every_place_is_exact(block, rng):
    dut = design(Places, block)
    blocks = -(-MAX_SIZE // block)
    powers = [1 << k for k in range(24) if 1 << k < blocks]
    cases = {0, 1, 2, 3, blocks - 1, *powers, *(power - 1 for power in powers)}
    cases |= {rng.randrange(blocks) for _ in range(50)}

    async def bench(ctx):
        for index in sorted(cases):
            ctx.set(dut.index, index)
            await ctx.delay(1e-9)
            for number in range(block):
                got = ctx.get(dut.o[number])
                assert got == bits_of(index * block + number), f"place {number} of {index}"

    run(dut, bench)


def test_small_numbers():
    for number in [*range(300), 2**24 - 1]:
        assert small(number) == bits_of(number)
