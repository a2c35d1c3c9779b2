# amaranth: UnusedElaboratable=no
"""Rows of products: their sum, and what is left to add."""

from itertools import product

import pytest

from diastole_hw.vector.float.booth_rows import RowProduct, constant_rows, square_rows, two_rows
from support.pipelines import Function, check_pipeline


def check(dut, a_bits, signed, cases):
    """The sum of the rows, where they have the bits modulo as much; carries have no lowest bit."""
    wants = []
    for a, b in cases:
        value = a - (a >> (a_bits - 1) << a_bits) if signed else a
        wants.append(value * b + dut.offset)
    given = [({"a": a, "b": b}, {"total": None, "carries": None}) for a, b in cases]
    for (a, b), want, found in zip(cases, wants, check_pipeline(dut, given, 0), strict=True):
        total, exact = found["total"] + found["carries"], dut.offset < 2**dut.width
        assert (total if exact else total % 2**dut.width) == want % 2**dut.width, (a, b)
        assert found["carries"] % 2 == 0


@pytest.mark.parametrize("a_bits, b_bits, signed", [(3, 4, False), (3, 4, True), (4, 5, True)])
def test_all_short_products(a_bits, b_bits, signed):
    """Wide enough for the offset, the rows are no less than what they stand for."""
    width = a_bits + b_bits + 4
    dut = RowProduct(a_bits=a_bits, b_bits=b_bits, signed=signed, width=width)
    check(dut, a_bits, signed, [*product(range(2**a_bits), range(2**b_bits))])


@pytest.mark.parametrize(
    "a_bits, b_bits, signed, width", [(24, 24, False, 48), (27, 21, True, 50), (18, 14, False, 34)]
)
def test_products_of_the_units(a_bits, b_bits, signed, width, rng):
    dut = RowProduct(a_bits=a_bits, b_bits=b_bits, signed=signed, width=width)
    ends = [0, 1, 2**a_bits - 1, 2 ** (a_bits - 1), 2 ** (a_bits - 1) - 1]
    cases = [(a, b) for a in ends for b in (0, 1, 2**b_bits - 1, 2 ** (b_bits - 1))]
    cases += [(rng.getrandbits(a_bits), rng.getrandbits(b_bits)) for _ in range(200)]

    check(dut, a_bits, signed, cases)


def check_rows(bits, width, make, want):
    """The sum of the rows that ``make`` makes of every number of so many bits."""

    def total(m, x):
        first, second = two_rows(m, make(m, x, width), width, "x")
        return first + second

    dut = Function({"x": bits}, {"o": width}, total)
    check_pipeline(dut, [({"x": x}, {"o": want(x)}) for x in range(2**bits)], 0)


@pytest.mark.parametrize("bits", [3, 6])
def test_all_short_squares(bits):
    check_rows(bits, 2 * bits, square_rows, lambda x: x * x)


@pytest.mark.parametrize("factor", [7, 11, 0b101010, 221, 255])
def test_all_short_multiples(factor):
    check_rows(5, 13, lambda m, x, width: constant_rows(m, x, factor, width), lambda x: x * factor)
