"""Counter-based random bits: a draw is a function of what is rounded, never of when or where.

Threefry-2x32 with 20 rounds: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
1, 2, 3", SC'11; constants and known answers are those of the authors' Random123 library.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diastole_sim.spec.check import require_int
from diastole_sim.spec.command import SECOND_COPY_TAG
from diastole_sim.spec.rounding import DRAW_BITS, SHARED_DRAW_BITS

ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
PARITY = 0x1BD11BDA
ROUNDS = 20
DRAWS_PER_COUNTER = 4

Words = NDArray[np.uint32]


def threefry2x32(key: tuple[int, int], counter: tuple[ArrayLike, ArrayLike]) -> tuple[Words, Words]:
    """Encrypt the two-word ``counter`` with the two-word ``key``; all words are 32 bits.

    The counter's words are arrays that broadcast; the results have their shape, and at least one
    axis. ValueError for a key outside 32 bits.
    """
    low, high = (require_int("key", word, 0, 2**32 - 1) for word in key)
    keys = [np.uint32(word) for word in (low, high, PARITY ^ low ^ high)]
    x0, x1 = np.broadcast_arrays(*(np.array(word, np.uint32, ndmin=1) for word in counter))
    x0, x1 = x0 + keys[0], x1 + keys[1]
    for number in range(ROUNDS):
        rotation = ROTATIONS[number % len(ROTATIONS)]
        x0 += x1
        x1 = (x1 << np.uint32(rotation)) | (x1 >> np.uint32(32 - rotation))
        x1 ^= x0
        injection, last = divmod(number + 1, 4)
        if last == 0:
            x0 += keys[injection % 3]
            x1 += keys[(injection + 1) % 3]
            x1 += np.uint32(injection)
    return x0, x1


def tensor_draws(
    rows: int, columns: int, *, seed: int, tag: int, step: int, bits: int, second: bool = False
) -> NDArray[np.int64]:
    """The draw of every element of a ``rows`` x ``columns`` tensor, each in 0..2^bits - 1.

    Element number ``index`` = row * columns + column takes 16 bits of the 64-bit result of key
    (seed, tag) and counter (index >> 2, step): those from bit 16 * (index & 3) of
    out0 | out1 << 32 on; of them the top ``bits`` (1..16). A ``second`` copy takes the top ``bits``
    of the low byte of the same 16; more than 8 are those of the tag with its top bit inverted.
    ``seed``, ``tag``, ``step``: 32 bits, ValueError beyond; the counter's first word wraps after
    2^34 elements.
    """
    require_int("bits", bits, 1, DRAW_BITS)
    for name, word in (("seed", seed), ("tag", tag), ("step", step)):
        require_int(name, word, 0, 2**32 - 1)
    if second and bits > SHARED_DRAW_BITS:
        tag ^= SECOND_COPY_TAG
    count = rows * columns
    groups = -(-count // DRAWS_PER_COUNTER)
    out0, out1 = threefry2x32((seed, tag), (np.arange(groups, dtype=np.uint32), np.uint32(step)))
    draws = np.empty((groups, DRAWS_PER_COUNTER), dtype=np.int64)
    for place, word in ((0, out0), (2, out1)):
        draws[:, place] = word & np.uint32(0xFFFF)
        draws[:, place + 1] = word >> np.uint32(DRAW_BITS)
    draws = draws.reshape(-1)[:count].reshape(rows, columns)
    if second and bits <= SHARED_DRAW_BITS:
        return (draws & (2**SHARED_DRAW_BITS - 1)) >> (SHARED_DRAW_BITS - bits)
    return draws >> (DRAW_BITS - bits)
