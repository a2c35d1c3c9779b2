"""How much longer words take that draw random bits: where their rows begin between two hashes."""

from collections import deque
from collections.abc import Iterator
from functools import lru_cache

DRAWS_PER_HASH = 4
HASHES_AHEAD = 16
"""Asked for, and not yet in a word."""
NUMBERS = 4
"""Of hashes, that wait for a unit with a ring."""
RINGS = {1: (3, 4), 2: (5, 2)}
"""By lanes, cycles from a pass of a hash through the same stages to the next, and passes; for more
lanes every stage has one."""

Word = tuple[int, int, bool] | None
"""Of a word that draws: its row, its column, and whether it goes on with its row; else nothing."""


def draws_ahead(lanes: int) -> int:
    """Whose draws are under way, the one that waits for them among these."""
    return 33 if lanes < DRAWS_PER_HASH else 17


def hashed_cycles(lanes: int) -> int:
    """From the request of a hash to the word that it is for."""
    return 16 if lanes == 1 else 15


def most_slack(lanes: int) -> int:
    """Cycles by which the first words of a row may be asked for earlier than they must; where every
    word takes a hash, nothing comes of it."""
    return draws_ahead(lanes) - 1 - hashed_cycles(lanes) if lanes < DRAWS_PER_HASH else 0


def hashed_together(lanes: int) -> int:
    """Elements, from a multiple of as many on, whose draws are hashed in one go."""
    return max(DRAWS_PER_HASH, lanes)


@lru_cache(maxsize=1 << 12)
def line_delay(
    lanes: int, block: int, index: int, pitch: int, rows: int, cols: int, slack: int = 0
) -> int:
    """Cycles beyond one a word, of a row of blocks of a tile with ``rows`` x ``cols`` elements in
    the tensor, as it is stored: block by block. ``index``: of its first element, ``pitch``: from a
    row to the next, in elements; only what they are modulo :func:`hashed_together` counts.
    ``slack``: cycles for which its first words wait for those before them, at most
    :func:`most_slack`."""
    return _delay(lanes, index, pitch, _by_blocks(lanes, block, rows, cols), slack)


@lru_cache(maxsize=1 << 12)
def row_delay(lanes: int, index: int, pitch: int, rows: int, cols: int) -> int:
    """Likewise, of ``rows`` of a tile, row by row."""
    words = ((row, col, col > 0) for row in range(rows) for col in range(0, cols, lanes))
    return _delay(lanes, index, pitch, words, most_slack(lanes))


def _by_blocks(lanes: int, block: int, rows: int, cols: int) -> Iterator[Word]:
    for left in range(0, cols, max(block, lanes)):
        for row in range(block):
            for col in range(left, left + max(block, lanes), lanes):
                inside = row < rows and col < cols
                yield (row, col, col > 0) if inside else None


def _delay(lanes: int, index: int, pitch: int, words: Iterator[Word], slack: int) -> int:
    together, latency = hashed_together(lanes), hashed_cycles(lanes)
    apart, passes = RINGS.get(lanes, (1, 1))
    ahead = draws_ahead(lanes)
    before = latency - 1 + slack  # when the word before left
    planned, left, count = -1, before, 0
    begun = deque([-apart * passes], maxlen=apart * passes)  # hashes
    waited = deque([-1] * NUMBERS, maxlen=NUMBERS)  # hashes, for their unit
    gone = deque(range(before - ahead + 1, before + 1), maxlen=ahead)  # words
    used = deque([-1] * HASHES_AHEAD, maxlen=HASHES_AHEAD)  # hashes, in words
    for word in words:
        count += 1
        planned = max(planned + 1, gone[0] + 1)
        hashes = 0
        if word is not None:
            row, col, goes_on = word
            first = index + row * pitch + col
            begins = not (goes_on and first % together)
            ends = (first + lanes - 1) // together != first // together
            hashes = begins + ends
            for number in range(hashes):
                planned = max(planned + (number > 0), waited[0] + 1, used[0] + 1)
                begins = max(planned + 1, begun[-1] + 1)
                meets = {each + apart * turn for each in begun for turn in range(1, passes)}
                while begins in meets:
                    begins += 1
                begun.append(begins)
                waited.append(begins)
                used.append(max(left + number, begins + latency - 2))
        left = max(left + max(1, hashes), begun[-1] + latency - 1 if hashes else 0)
        gone.append(left)
    return left - before - count
