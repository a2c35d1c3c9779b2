# amaranth: UnusedElaboratable=no
"""BlockSum against Python's integers; exhaustive where the operands are small."""

from itertools import product

import pytest
from amaranth.sim import Simulator

from diastole.cell.block_sum import BlockSum
from oracle.cell import value
from support.bench import run


def make(block, vector_bits, held_bits, registered=False):
    return BlockSum(
        block=block,
        vector_bits=vector_bits,
        held_bits=held_bits,
        sum_bits=vector_bits + held_bits + 1 + (block - 1).bit_length(),
        product_registers=registered,
    )


def elements(bits):
    return [(sign, magnitude) for sign in (0, 1) for magnitude in range(1 << bits)]


def check(dut, cases):
    """Every case, a sum per cycle; the sum comes a cycle later if products are registered."""

    async def bench(ctx):
        before = None
        for vector, held in cases:
            ctx.set(dut.vector, [sign << dut.vector_bits | mag for sign, mag in vector])
            ctx.set(dut.held, [sign << dut.held_bits | mag for sign, mag in held])
            want = sum(value(v) * value(h) for v, h in zip(vector, held, strict=True))
            if dut.product_registers:
                before, want = want, before
            if want is not None:
                got = ctx.get(dut.block_sum)
                assert got == want, f"{vector=} {held=}: {got}, not {want}"
            if dut.product_registers:
                await ctx.tick()

    if dut.product_registers:
        run(dut, bench)
    else:  # nothing to clock
        sim = Simulator(dut)
        sim.add_testbench(bench)
        sim.run()


@pytest.mark.parametrize("vector_bits, held_bits", [(2, 2), (4, 4), (3, 5)])
def test_one_product_exhaustively(vector_bits, held_bits):
    pairs = product(elements(vector_bits), elements(held_bits))
    check(make(1, vector_bits, held_bits), [([v], [h]) for v, h in pairs])


def test_two_products_exhaustively():
    signs = product(elements(2), repeat=2)
    cases = [(v, h) for v in signs for h in product(elements(2), repeat=2)]
    check(make(2, 2, 2), cases)


@pytest.mark.parametrize("registered", [False, True], ids=["combinational", "registered"])
@pytest.mark.parametrize("block", [1, 2, 4, 8, 32])
@pytest.mark.parametrize("vector_bits, held_bits", [(4, 4), (2, 8), (8, 3)])
def test_signed_operands_and_extremes(block, vector_bits, held_bits, registered, rng):
    def vector(bits, full):
        top = (1 << bits) - 1
        return [(rng.getrandbits(1), top if full else rng.randint(0, top)) for _ in range(block)]

    def uniform(bits, sign):
        return [(sign, (1 << bits) - 1)] * block

    cases = [
        (uniform(vector_bits, sv), uniform(held_bits, sh)) for sv in (0, 1) for sh in (0, 1)
    ] + [(vector(vector_bits, k % 3 == 0), vector(held_bits, k % 2 == 0)) for k in range(60)]
    check(make(block, vector_bits, held_bits, registered), cases)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"block": 3}, "block must be one of 1, 2, 4, 8, 16, 32, not 3"),
        ({"vector_bits": 1}, "vector_bits must be an integer in 2..8, not 1"),
        ({"held_bits": 9}, "held_bits must be an integer in 2..8, not 9"),
        ({"sum_bits": 23}, "sum_bits must be an integer in 5..22, not 23"),
    ],
)
def test_bad_parameters(change, message):
    good = {"block": 8, "vector_bits": 4, "held_bits": 4, "sum_bits": 12}
    with pytest.raises(ValueError) as caught:
        BlockSum(**good | change, product_registers=False)
    assert str(caught.value) == message
