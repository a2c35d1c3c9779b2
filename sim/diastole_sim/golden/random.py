"""Draw counter-based random bits: a draw depends on the rounded element, never on time or place.

Threefry-2x32 with 20 rounds: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1,
2, 3", SC'11. Constants and known answers come from the authors' Random123 library.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diastole_sim.spec.command import SECOND_COPY_TAG
from diastole_sim.spec.require import require_int
from diastole_sim.spec.rounding import DRAW_BITS, SHARED_DRAW_BITS

ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
PARITY = 0x1BD11BDA
ROUNDS = 20
DRAWS_PER_COUNTER = 4

Words = NDArray[np.uint32]
Shape = tuple[int, int]
"""Numbers of rows and columns."""


@dataclass(frozen=True, kw_only=True)
class DrawKey:
    """Key of the random bits of a stack of matrices: a seed, the ``tags`` of the matrices, a step,
    and ``second``, True for second copies. ValueError beyond 32 bits."""

    seed: int
    tags: tuple[int, ...]
    step: int
    second: bool = False

    def __post_init__(self) -> None:
        for name, words in (("seed", (self.seed,)), ("tag", self.tags), ("step", (self.step,))):
            for word in words:
                require_int(name, word, 0, 2**32 - 1)


def threefry2x32(key: tuple[int, int], counter: tuple[ArrayLike, ArrayLike]) -> tuple[Words, Words]:
    """Encrypt the two-word ``counter`` with the two-word ``key``; all words have 32 bits.

    The words of the counter are arrays that broadcast. The results have the broadcast shape, and at
    least one axis. ValueError for a key outside 32 bits.
    """
    low, high = (np.uint32(require_int("key", word, 0, 2**32 - 1)) for word in key)
    return _encrypt(low, np.array([high]), counter)


def _encrypt(
    low: np.uint32, high: Words, counter: tuple[ArrayLike, ArrayLike]
) -> tuple[Words, Words]:
    """Encrypt as :func:`threefry2x32` does; ``high`` broadcasts with the counter."""
    keys = [low, high, np.uint32(PARITY) ^ low ^ high]
    x0, x1 = np.broadcast_arrays(high, *(np.array(word, np.uint32, ndmin=1) for word in counter))[
        1:
    ]
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


def encrypt_stack(key: DrawKey, words: Words) -> tuple[Words, Words]:
    """Encrypt counters with the key (``seed``, tag) of every tag: (tags, counters). ``words``:
    first words of the counters. The second word is the step."""
    tags = np.array(key.tags, np.uint32)[:, None]
    return _encrypt(np.uint32(key.seed), tags, (words, key.step))


def tensor_draws(
    shape: Shape, *, seed: int, tag: int, step: int, bits: int, second: bool = False
) -> NDArray[np.int64]:
    """Return the draw of every element of a tensor of this ``shape``, in 0..2^bits - 1.

    Element number ``index`` = row * columns + column has 16 bits of the 64-bit result for key
    (seed, tag) and counter (index >> 2, step): the bits from bit 16 * (index & 3) of out0 | out1 <<
    32 on. The draw is the top ``bits`` (1..16) of the 16 bits. A ``second`` copy takes the top
    ``bits`` of the low byte of the same 16 bits. For more than 8 bits a second copy takes the draw
    of the tag with its top bit inverted. ``seed``, ``tag``, ``step``: 32 bits, ValueError beyond.
    The first word of the counter wraps after 2^34 elements.
    """
    key = DrawKey(seed=seed, tags=(tag,), step=step, second=second)
    return stack_draws(shape, key, bits=bits)[0].astype(np.int64)


def stack_draws(shape: Shape, key: DrawKey, *, bits: int) -> NDArray[np.int32]:
    """Return the draws of :func:`tensor_draws` for every tag: (tags, rows, columns)."""
    require_int("bits", bits, 1, DRAW_BITS)
    second, tags, count = key.second, key.tags, shape[0] * shape[1]
    if second and bits > SHARED_DRAW_BITS:
        key = replace(key, tags=tuple(tag ^ SECOND_COPY_TAG for tag in tags))
    groups = np.arange(-(-count // DRAWS_PER_COUNTER), dtype=np.uint32)
    words = np.stack(encrypt_stack(key, groups), axis=-1)
    # In little-endian order the words of a result are the four draws in order.
    draws = words.astype("<u4", copy=False).view("<u2").reshape(len(tags), -1)[:, :count]
    if second and bits <= SHARED_DRAW_BITS:
        draws = (draws & (2**SHARED_DRAW_BITS - 1)) >> (SHARED_DRAW_BITS - bits)
    else:
        draws = draws >> (DRAW_BITS - bits)
    return draws.astype(np.int32).reshape(len(tags), *shape)
