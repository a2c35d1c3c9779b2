"""Integers of the array against fractions: aligned accumulation, stated once more by the oracle."""

from fractions import Fraction

import numpy as np
import pytest

from diastole.explain.shown_operands import factors_of
from diastole.explain.sum_rules import shifted
from diastole_sim.spec.operations import PRODUCTS
from oracle.product import aligned_product
from oracle.product import read as read_oracle
from support.pages import random_operands
from support.products import KINDS, MACHINES, READ

SIZES = {"m": 9, "k": 14, "n": 7}
NAMES = ("pico", "mixed", "textbook", "nvfp4", "mxfp8_e4m3", "fp8_e5m2", "mxfp4_e2m1", "bfp4_1x16")


@pytest.mark.parametrize("data", ["plain", "wide"])
@pytest.mark.parametrize("name", NAMES)
def test_all_blocks_add_up_to_the_aligned_product(name, data, rng):
    """Wide data lose bits in the shift; what is left of them is the same."""
    config = MACHINES[name]
    operands = random_operands(config, SIZES, seed=rng.getrandbits(31), kind=KINDS[data])
    side = config.numerics.block
    for result, ((first, a), (second, b)) in READ.items():
        product = PRODUCTS[result]
        factors = factors_of(product, *product.factors, operands, config.numerics)
        want, _ = aligned_product(
            read_oracle(operands[first].stored, a),
            read_oracle(operands[second].stored, b),
            block=side,
            fraction=config.numerics.fraction,
            product_bits=factors.rule.product_bits,
        )
        everything = slice(None)
        blocks = -(-SIZES[product.contraction] // side)
        got = sum(factors.addends(everything, everything, number) for number in range(blocks))
        bound = factors.streaming.maximum[:, None] + factors.stationary.maximum[None, :]
        for (t, lane), total in np.ndenumerate(got):
            unit = Fraction(2) ** int(bound[t, lane] + factors.rule.unit)
            assert int(total) * unit == want[t][lane], f"{result}[{t}, {lane}]"


def test_shifts_round_to_nearest_ties_upward():
    numbers = np.array([5, 6, 7, -5, -6, -7, 2**61, -(2**61), 9])
    by = np.array([2, 2, 2, 2, 2, 2, 70, 70, 0])
    assert shifted(numbers, by).tolist() == [1, 2, 2, -1, -1, -2, 0, 0, 9]
