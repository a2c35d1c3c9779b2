"""Shift registers as quotients of polynomials over GF(2), and draws by them, one at a time.

A polynomial is an integer, the coefficient of x^k at bit k. What a register shifts in, from first
to last, are the coefficients of a power series N / C, with C = 1 + the sum of x^tap: so a state is
read off a long division, and nothing is ever stepped.
"""

from functools import cache

from oracle.threefry import threefry2x32

PRIMITIVE = {  # of each degree its exponents: factors of x^(2^n - 1) + 1, of none before (tested)
    3: (3, 2, 0), 4: (4, 3, 0), 5: (5, 3, 0), 6: (6, 5, 0), 7: (7, 6, 0), 8: (8, 6, 5, 4, 0),
    9: (9, 5, 0), 10: (10, 7, 0), 11: (11, 9, 0), 12: (12, 6, 4, 1, 0), 13: (13, 4, 3, 1, 0),
    14: (14, 5, 3, 1, 0), 15: (15, 14, 0), 16: (16, 15, 13, 4, 0), 17: (17, 14, 0),
    18: (18, 11, 0), 19: (19, 6, 2, 1, 0), 20: (20, 17, 0), 21: (21, 19, 0), 22: (22, 21, 0),
    23: (23, 18, 0), 24: (24, 23, 22, 17, 0),
}  # fmt: skip


def polynomial(n):
    """C of the register of n bits."""
    return sum(1 << exponent for exponent in PRIMITIVE[n])


def multiplied(a, b, modulus=None):
    """a b over GF(2), modulo a polynomial if there is one."""
    product = 0
    for k in range(b.bit_length()):
        if b >> k & 1:
            product ^= a << k
    if modulus is not None:
        degree = modulus.bit_length()
        while product.bit_length() >= degree:
            product ^= modulus << (product.bit_length() - degree)
    return product


def power(base, exponent, modulus):
    """base^exponent modulo a polynomial."""
    result = 1
    for digit in f"{exponent:b}":
        result = multiplied(result, result, modulus)
        if digit == "1":
            result = multiplied(result, base, modulus)
    return result


@cache
def shifted_in(n, state, count):
    """The bits of ``state``, first that which was shifted in first, and ``count`` more, as one
    integer with the first of all at bit 0."""
    divisor = polynomial(n)
    first = int(f"{state:0{n}b}"[::-1], 2)  # the highest bit of a state is the oldest
    rest = multiplied(first, divisor) & ((1 << n) - 1)
    quotient = 0
    for k in range(n + count):  # from the lowest coefficient up, as series are divided
        if rest >> k & 1:
            quotient |= 1 << k
            rest ^= divisor << k
    return quotient


def state_after(n, state, steps):
    """The state after so many steps."""
    bits = shifted_in(n, state, steps) >> steps & ((1 << n) - 1)
    return int(f"{bits:0{n}b}"[::-1], 2)


def start(word, n):
    """The first state of a row, from a word of its hash: 31 bits to 1..2^n - 1 evenly."""
    return 1 + (word % 2**31) * (2**n - 1) // 2**31


def row_draw(*, kind, n, seed, tag, step, row, column, bits, second=False):
    """The draw of an element of kind ``lfsr``, or ``lfsr3`` with n and ``bits`` 3."""
    word = threefry2x32((seed, tag), (row, step))[1 if second else 0]
    if kind == "lfsr":
        return state_after(n, start(word, n), column) % 2**bits
    assert (kind, n, bits) == ("lfsr3", 3, 3)
    pair = column // 2
    state = state_after(3, start(word, 3), pair)
    exchanged = word >= 2**31
    return state if (column + pair + exchanged) % 2 == 0 else 7 - state


def data_draw(pattern, bits):
    """The draw of an element of kind ``data``: low bits of its binary32, an integer of 32 bits."""
    return pattern % 2**23 % 2**bits
