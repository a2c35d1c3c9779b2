# amaranth: UnusedElaboratable=no
"""Multiplier against fractions: every pair of elements of formats of 8 bits and fewer."""

from dataclasses import replace
from itertools import islice

import pytest
from amaranth.lib.wiring import In, Out

from diastole_hw.cell.cell_shape import Element
from diastole_hw.cell.dsp_products import DspProducts
from diastole_hw.cell.multiplier import Multiplier
from diastole_hw.cell.packed import pack
from oracle.cell import encoded
from oracle.cell import product as windowed
from support.cells import ANY, BFP3, BFP8, E2M1, E4M3, E5M2
from support.pipelines import Built, check_pipeline
from support.sweep import sweep

E2M3 = Element(significand_bits=4, depth=2, derived=True)
E3M2 = Element(significand_bits=3, depth=6, derived=True)
BF16 = Element(significand_bits=8, depth=253, derived=True)


def packed_multiplier(vector, stationary, window, exact, dsp):
    """A multiplier of an element that is kept packed, as in a cell, and its DSP block."""
    kinds = {"vector_element": vector, "stationary_element": stationary}
    dut = Multiplier(**kinds, window=window, exact=exact, dsp=dsp)
    ports = {"vector": In(vector.bits), "stationary": In(stationary.bits), "negative": Out(1)}

    def build(m, unit):
        m.submodules.dut = dut
        m.d.comb += [
            dut.vector.eq(unit.vector),
            dut.stationary.eq(pack(stationary, unit.stationary)),
        ]
        if dut.dsp:
            m.submodules.block = block = DspProducts(**kinds, count=1)
            m.d.comb += [block.vector.eq(unit.vector), block.stationary[0].eq(dut.stationary)]
            m.d.comb += dut.product.eq(block.products[0])
        m.d.comb += [unit.product.eq(dut.magnitude + dut.round_up), unit.negative.eq(dut.negative)]

    return Built(ports | {"product": Out(len(dut.magnitude) + 1)}, build)


def elements(kind):
    """All of a minifloat with the significand and depth of ``kind``, or of block floating point."""
    top = 1 << (kind.significand_bits - 1)
    if not kind.depth:
        magnitudes = [(sig, 0) for sig in range(2 * top)]
    else:
        falls = range(kind.depth + 1)
        normal = [(sig, d) for d in falls for sig in range(top, 2 * top)]
        magnitudes = [(0, 0)] + [(sig, kind.depth) for sig in range(1, top)] + normal
    return [(sign, *magnitude) for sign in (0, 1) for magnitude in magnitudes]


def check(vector, stationary, window, pairs, exact=False, dsp=False):
    """Magnitude, rounding and sign of every pair."""
    cases = (
        (
            {"vector": encoded(vector, v), "stationary": encoded(stationary, h)},
            {"product": abs(windowed(vector, v, stationary, h, window)), "negative": v[0] ^ h[0]},
        )
        for v, h in pairs
    )
    check_pipeline(packed_multiplier(vector, stationary, window, exact, dsp), cases, 0)


def every_pair(vector, stationary):
    return ((v, h) for v in elements(vector) for h in elements(stationary))


@pytest.mark.parametrize(
    "vector, stationary, window",
    [(E2M1, E2M1, 8), (E2M3, E2M3, 12), (E3M2, E3M2, 18), (BFP3, BFP8, None), (BFP3, E2M3, 9)],
    ids=["E2M1", "E2M3", "E3M2", "bfp", "bfp and E2M3"],
)
def test_every_exact_product(vector, stationary, window):
    check(vector, stationary, window, every_pair(vector, stationary), exact=True)


@pytest.mark.parametrize("vector, stationary, window", [(BFP3, BFP8, None), (E3M2, E2M3, 12)])
def test_every_product_in_dsp(vector, stationary, window):
    check(vector, stationary, window, every_pair(vector, stationary), dsp=True)


@pytest.mark.parametrize("window", [4, 5, 8, 12, 17])
def test_every_rounded_product_of_six_bits(window):
    if window >= 6:
        check(E3M2, E3M2, window, every_pair(E3M2, E3M2))
    check(E2M1, E3M2, max(window, 5), every_pair(E2M1, E3M2))


@pytest.mark.parametrize(
    "vector, stationary, window", [(E4M3, E4M3, 16), (E5M2, E5M2, 24)], ids=str
)
@pytest.mark.parametrize("one_in", [7, sweep(1)])
def test_every_rounded_product_of_eight_bits(one_in, vector, stationary, window):
    check(vector, stationary, window, islice(every_pair(vector, stationary), 0, None, one_in))


@pytest.mark.parametrize("window", [16, 20, 36])
def test_mixed_formats_keep_every_bit_of_a_significand(window, rng):
    """Not derived: any significand at any d, as where two formats share one layout."""
    kinds = (ANY, replace(E4M3, derived=False))
    pairs = [
        [(rng.getrandbits(1), rng.randrange(1, 16), rng.randint(0, kind.depth)) for kind in kinds]
        for _ in range(4000)
    ]
    check(*kinds, window, pairs)


WIDE = Element(significand_bits=8, depth=2)


def test_window_narrower_than_a_product(rng):
    """As where the widest significands of both sides never meet."""
    pairs = [(element_of(rng, BFP8), element_of(rng, WIDE)) for _ in range(4000)]
    check(BFP8, WIDE, 9, pairs)


def test_exact_window_narrower_than_a_product(rng):
    """One of the two has a significand of 2 bits, at the top of its 8."""
    narrow = [(s, sig << 6, d) for s, sig, d in elements(E2M1)]
    pairs = [(element_of(rng, BFP8), rng.choice(narrow)) for _ in range(2000)]
    check(BFP8, WIDE, 12, pairs, exact=True)


def element_of(rng, kind):
    return rng.getrandbits(1), rng.randrange(256), rng.randint(0, kind.depth)


def test_deepest(rng):
    """bfloat16: d of 8 bits, and products far below the window."""
    every = elements(BF16)
    near = [each for each in every if each[2] < 20]
    pairs = [(rng.choice(near), rng.choice(rng.choice((near, every)))) for _ in range(4000)]
    check(BF16, BF16, 24, pairs)
