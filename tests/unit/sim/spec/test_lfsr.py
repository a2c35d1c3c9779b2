"""Taps of maximal period: by walking the short registers, by factors of 2^n - 1 for all."""

import pytest

from diastole_sim.spec.lfsr import TAPS
from oracle.lfsr import PRIMITIVE, polynomial, power


def factors(number):
    """Its prime factors."""
    found, divisor = set(), 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            found.add(divisor)
            number //= divisor
        divisor += 1
    return found | ({number} if number > 1 else set())


def test_every_length_has_taps():
    assert sorted(TAPS) == list(range(3, 25))
    assert {n: (*taps, 0) for n, taps in TAPS.items()} == PRIMITIVE


@pytest.mark.parametrize("n", sorted(PRIMITIVE))
@pytest.mark.sampled(2)
def test_the_period_is_as_long_as_can_be(n):
    """x has the order 2^n - 1 modulo the polynomial: not that of any part of it."""
    whole, modulus = 2**n - 1, polynomial(n)
    assert power(2, whole, modulus) == 1
    for prime in factors(whole):
        assert power(2, whole // prime, modulus) != 1, prime


@pytest.mark.parametrize("n", range(3, 17))
def test_every_state_comes_before_one_comes_again(n):
    state, seen = 1, set()
    while state not in seen:
        seen.add(state)
        bits = f"{state:0{n}b}"[::-1]  # bit k, tap k + 1
        state = state * 2 % 2**n + sum(bits[tap - 1] == "1" for tap in TAPS[n]) % 2
    assert (state, len(seen)) == (1, 2**n - 1)


def test_three_bits_go_as_published():
    """1 2 5 3 7 6 4: the order that the pairs of elements take."""
    state, order = 1, []
    for _ in range(7):
        order.append(state)
        state = state * 2 % 8 + ((state >> 2) + (state >> 1)) % 2
    assert order == [1, 2, 5, 3, 7, 6, 4]
    assert TAPS[3] == (3, 2)
