# amaranth: UnusedElaboratable=no
"""BlockSum against fractions; exhaustive where the operands are small."""

from itertools import product

import pytest

from diastole_hw.cell.block_sum import BlockSum
from diastole_hw.cell.cell_shape import Element
from oracle.cell import encoded
from oracle.cell import product as windowed
from support.cells import ANY, BFP8
from support.pipelines import check_pipeline


def bfp(bits):
    return Element(significand_bits=bits)


def make(block, vector, stationary, window=None, cut=None, exact=False):
    bits = vector.significand_bits + stationary.significand_bits if window is None else window
    return BlockSum(
        block=block,
        vector_element=vector,
        stationary_element=stationary,
        window=window,
        exact=exact,
        sum_bits=bits + block.bit_length(),
        cut=cut,
    )


def elements(kind):
    """Every sign and significand at d = 0."""
    return [(sign, sig, 0) for sign in (0, 1) for sig in range(1 << kind.significand_bits)]


def check(dut, cases):
    """Every case, a sum per cycle; the sum comes a cycle later if there are registers."""
    kinds = dut.vector_element, dut.stationary_element
    pipelined = []
    for vector, stationary in cases:
        given = {"vector": [encoded(kinds[0], each) for each in vector]}
        given["stationary"] = [encoded(kinds[1], each) for each in stationary]
        pairs = zip(vector, stationary, strict=True)
        want = sum(windowed(kinds[0], v, kinds[1], h, dut.window) for v, h in pairs)
        pipelined.append((given, {"block_sum": want}))
    check_pipeline(dut, pipelined, int(dut.cut is not None))


@pytest.mark.parametrize("vector_bits, held_bits", [(1, 1), (2, 2), (4, 4), (3, 5)])
def test_one_product_exhaustively(vector_bits, held_bits):
    vector, stationary = bfp(vector_bits), bfp(held_bits)
    pairs = product(elements(vector), elements(stationary))
    check(make(1, vector, stationary), [([v], [h]) for v, h in pairs])


def test_two_products_exhaustively():
    signs = product(elements(bfp(2)), repeat=2)
    cases = [(v, h) for v in signs for h in product(elements(bfp(2)), repeat=2)]
    check(make(2, bfp(2), bfp(2)), cases)


def test_two_rounded_products_exhaustively():
    """Each is rounded alone, half away from zero, whatever the signs."""
    kind = Element(significand_bits=1, depth=3)
    values = [(sign, 1, d) for sign in (0, 1) for d in range(4)] + [(1, 0, 0)]
    cases = product(product(values, repeat=2), repeat=2)
    check(make(2, kind, kind, window=4), cases)


@pytest.mark.parametrize("cut", [None, 0, 1])
@pytest.mark.parametrize("block", [1, 2, 4, 8, 32])
@pytest.mark.parametrize(
    "vector, stationary, window",
    [(bfp(4), bfp(4), None), (bfp(2), bfp(8), None), (ANY, ANY, 16), (BFP8, ANY, 12)],
    ids=["4 by 4", "2 by 8", "minifloats", "bfp8 and minifloats"],
)
@pytest.mark.sampled(4)
def test_signed_operands_and_extremes(block, vector, stationary, window, cut, rng):
    def one(kind, full):
        top = (1 << kind.significand_bits) - 1
        d = 0 if full else min(rng.randint(0, 9), kind.depth)
        return (rng.getrandbits(1), top if full else rng.randint(0, top), d)

    def uniform(kind, sign):
        return [(sign, (1 << kind.significand_bits) - 1, 0)] * block

    cases = [(uniform(vector, sv), uniform(stationary, sh)) for sv in (0, 1) for sh in (0, 1)]
    for k in range(60):
        full = k % 3 == 0, k % 2 == 0
        cases.append(
            tuple(
                [one(kind, each) for _ in range(block)]
                for kind, each in zip((vector, stationary), full, strict=True)
            )
        )
    check(make(block, vector, stationary, window, min(cut, block - 1) if cut else cut), cases)
