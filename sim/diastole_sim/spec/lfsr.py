"""Linear feedback shift registers of maximal length, for the cheap kinds of draws.

A draw is the random bits of one rounding. A register of n bits holds a state that is never 0. One
step shifts the state up and puts the parity of the tapped bits below: s' = ((s << 1) | parity) mod
2^n. Taps are numbered from 1, the lowest bit. Bit n is always a tap, so no two states have the same
successor. With the taps below a register goes through all 2^n - 1 states before a state comes
again.

Source: P. Alfke, "Efficient Shift Registers, LFSR Counters, and Long Pseudo-Random Sequence
Generators", Xilinx XAPP052, 1996, table 3. (The source uses exclusive-nor, with states that are the
states of this module with all bits inverted.)
"""

from diastole_sim.spec.require import require_int

TAPS: dict[int, tuple[int, ...]] = {
    3: (3, 2),
    4: (4, 3),
    5: (5, 3),
    6: (6, 5),
    7: (7, 6),
    8: (8, 6, 5, 4),
    9: (9, 5),
    10: (10, 7),
    11: (11, 9),
    12: (12, 6, 4, 1),
    13: (13, 4, 3, 1),
    14: (14, 5, 3, 1),
    15: (15, 14),
    16: (16, 15, 13, 4),
    17: (17, 14),
    18: (18, 11),
    19: (19, 6, 2, 1),
    20: (20, 17),
    21: (21, 19),
    22: (22, 21),
    23: (23, 18),
    24: (24, 23, 22, 17),
}
"""Taps by the length of a register."""
MIN_LFSR_BITS, MAX_LFSR_BITS = min(TAPS), max(TAPS)
DEFAULT_LFSR_BITS = MAX_LFSR_BITS
PAIR_LFSR_BITS = 3
"""Bits of the register with one step per pair of elements."""
START_BITS = 31
"""Bits of u, the part of a hash that gives the start state: 1 + floor(u (2^n - 1) / 2^31)."""


def taps_of(bits: int) -> tuple[int, ...]:
    """Return the taps of a register of ``bits`` bits. ValueError for a length outside 3..24."""
    return TAPS[require_int("lfsr_bits", bits, MIN_LFSR_BITS, MAX_LFSR_BITS)]
