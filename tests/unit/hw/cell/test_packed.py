# amaranth: UnusedElaboratable=no
"""Packed elements: as wide as they are stored, and nothing is lost; all of 8 bits or fewer."""

from itertools import islice

import pytest
from amaranth.hdl import Signal

from diastole_hw.cell.cell_shape import Element
from diastole_hw.cell.packed import pack, packed_bits, unpack
from oracle.cell import encoded
from support.cells import ANY, BFP3, BFP8, E2M1, E4M3, E5M2
from support.pipelines import Function, check_pipeline

E2M3 = Element(significand_bits=4, depth=2, derived=True)
E3M2 = Element(significand_bits=3, depth=6, derived=True)
BF16 = Element(significand_bits=8, depth=253, derived=True)
BITS = {  # of minifloats those of their codes, of others all of an element
    "E2M1": (E2M1, 4), "E2M3": (E2M3, 6), "E3M2": (E3M2, 6), "E4M3": (E4M3, 8), "E5M2": (E5M2, 8),
    "BF16": (BF16, 16), "bfp3": (BFP3, 4), "bfp8": (BFP8, 9), "E4M3 and E5M2": (ANY, 10),
}  # fmt: skip


def packed_and_back(element):
    """Packs and unpacks."""
    sizes = {"packed": packed_bits(element), "sig": element.significand_bits}

    def both(m, value):
        packed = Signal(packed_bits(element))
        m.d.comb += packed.eq(pack(element, value))
        return packed, *unpack(element, packed)

    return Function({"value": element.bits}, sizes | {"drop": max(element.depth_bits, 1)}, both)


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
    dut = packed_and_back(kind)
    assert len(dut.packed) == packed_bits(kind) == bits
    cases, signs = [], []
    for sign, sig, d in islice(elements(kind), 0, None, 1 if bits < 16 else 13):
        given = {"value": encoded(kind, (sign, sig, d))}
        cases.append((given, {"sig": sig, "drop": d if sig else None, "packed": None}))
        signs.append(sign)
    packed = [found["packed"] for found in check_pipeline(dut, cases, 0)]
    assert [kept >> (bits - 1) for kept in packed] == signs
    assert len({*packed}) == len(packed) > 2, "another element is kept in the same way"
