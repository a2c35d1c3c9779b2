# amaranth: UnusedElaboratable=no
"""Packed elements: as wide as they are stored, and nothing is lost; all of 8 bits or fewer."""

from itertools import islice

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.cell.packed import pack, packed_bits, unpack
from diastole_hw.cell.shape import Element
from oracle.cell import encoded
from support.bench import run
from support.cells import ANY, BFP3, BFP8, E2M1, E4M3, E5M2

E2M3 = Element(significand_bits=4, depth=2, derived=True)
E3M2 = Element(significand_bits=3, depth=6, derived=True)
BF16 = Element(significand_bits=8, depth=253, derived=True)
BITS = {  # of minifloats those of their codes, of others all of an element
    "E2M1": (E2M1, 4), "E2M3": (E2M3, 6), "E3M2": (E3M2, 6), "E4M3": (E4M3, 8), "E5M2": (E5M2, 8),
    "BF16": (BF16, 16), "bfp3": (BFP3, 4), "bfp8": (BFP8, 9), "E4M3 and E5M2": (ANY, 10),
}  # fmt: skip


class Both(wiring.Component):
    """Packs and unpacks."""

    def __init__(self, element):
        self.element = element
        members = {"value": In(element.bits), "packed": Out(packed_bits(element))}
        members |= {"sig": Out(element.significand_bits), "fall": Out(max(element.depth_bits, 1))}
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        sig, fall = unpack(self.element, self.packed)
        m.d.comb += self.packed.eq(pack(self.element, self.value))
        m.d.comb += [self.sig.eq(sig), self.fall.eq(fall)]
        return m


def elements(kind):
    """(sign, sig, d) of every element: in a derived kind the top bit of sig is 0 at D only."""
    top = 1 << (kind.significand_bits - 1)
    for sign in (0, 1):
        yield sign, 0, 0
        for d in range(kind.depth + 1):
            least = top if kind.derived and d < kind.depth else 1
            yield from ((sign, sig, d) for sig in range(least, 2 * top))


@pytest.mark.parametrize("kind, bits", BITS.values(), ids=BITS)
def test_every_element_comes_back(kind, bits):
    dut = Both(kind)
    assert len(dut.packed) == packed_bits(kind) == bits
    packed = set()

    async def bench(ctx):
        for sign, sig, d in islice(elements(kind), 0, None, 1 if bits < 16 else 13):
            ctx.set(dut.value, encoded(kind, (sign, sig, d)))
            what = f"{sign=} {sig=} {d=}"
            assert ctx.get(dut.sig) == sig, what
            assert ctx.get(dut.fall) == d or not sig, what
            kept = ctx.get(dut.packed)
            assert kept >> (bits - 1) == sign, what
            assert kept not in packed, f"{what}: another element is kept in the same way"
            packed.add(kept)

    run(dut, bench)
    assert len(packed) > 2
