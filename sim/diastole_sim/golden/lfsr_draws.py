"""Draw random bits from the states of a shift register that starts anew in every row of a tensor.

:mod:`diastole_sim.spec.lfsr` defines the register. The start state in a row follows from the
Threefry hash of counter (row, step) under key (seed, tag), so a draw is a function of the element's
place. o is the first word of the hash for the first copy, and the second word for the second copy.
u = o mod 2^31 gives the state 1 + floor(u (2^n - 1) / 2^31), which is never 0.

``lfsr`` steps once per column, and an element draws low bits of the state. ``lfsr3`` steps once per
pair of columns. One element of a pair draws the state s, the other element draws the inverse 7 - s.
The order alternates from pair to pair, and f = o >> 31 exchanges the order in half of all rows and
steps.

Source of the pairs: ESRU, an efficient stochastic rounding unit, with state and inverse of three
bits. f is an addition of this project: without f an element would always be on the same side, by a
sixteenth of a unit.
"""

import numpy as np
from numpy.typing import NDArray

from diastole_sim.golden.random import DrawKey, Shape, encrypt_stack
from diastole_sim.spec.lfsr import PAIR_LFSR_BITS, START_BITS, taps_of
from diastole_sim.spec.require import require_int

States = NDArray[np.int32]


def row_states(
    hashed: NDArray[np.uint32], columns: int, *, lfsr_bits: int, columns_per_step: int = 1
) -> States:
    """Return the state for every column: (..., rows, ``columns``). ``hashed``: one word of a hash
    per row, (..., rows). ``columns_per_step``: columns per step of the register."""
    taps = taps_of(lfsr_bits)
    states = np.empty((columns, *hashed.shape), dtype=np.int32)
    u = (hashed & np.uint32((1 << START_BITS) - 1)).astype(np.int64)
    state = (1 + (((u << lfsr_bits) - u) >> START_BITS)).astype(np.int32)
    for column in range(columns):
        if column and column % columns_per_step == 0:
            parity = np.bitwise_xor.reduce([state >> (tap - 1) for tap in taps])
            state = (state << 1 | parity & 1) & ((1 << lfsr_bits) - 1)
        states[column] = state
    return np.moveaxis(states, 0, -1)


def lfsr_draws(shape: Shape, key: DrawKey, *, bits: int, lfsr_bits: int) -> States:
    """Return draws of the kind ``lfsr``: the low ``bits`` of the state of every element's column,
    (tags, rows, columns), for matrices of this ``shape``. ValueError for ``bits`` outside
    1..``lfsr_bits``, and as in :func:`taps_of`."""
    require_int("bits", bits, 1, lfsr_bits)
    rows, columns = shape
    return row_states(_hashed(rows, key), columns, lfsr_bits=lfsr_bits) & ((1 << bits) - 1)


def pair_draws(shape: Shape, key: DrawKey) -> States:
    """Return draws of the kind ``lfsr3``: (tags, rows, columns), in 0..7."""
    rows, columns = shape
    hashed = _hashed(rows, key)
    state = row_states(hashed, columns, lfsr_bits=PAIR_LFSR_BITS, columns_per_step=2)
    column = np.arange(columns, dtype=np.int32)
    exchanged = (hashed >> np.uint32(START_BITS)).astype(np.int32)[..., None]
    inverted = (column + (column >> 1) + exchanged) & 1 == 1
    return np.where(inverted, (1 << PAIR_LFSR_BITS) - 1 - state, state)


def _hashed(rows: int, key: DrawKey) -> NDArray[np.uint32]:
    """Return o for every row: (tags, ``rows``)."""
    return encrypt_stack(key, np.arange(rows, dtype=np.uint32))[1 if key.second else 0]
