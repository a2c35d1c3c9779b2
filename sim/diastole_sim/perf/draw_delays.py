"""Compute the delay of words with random bits, for rows that begin between two hashes."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain

from diastole_sim.spec.sizes.draws import DRAWS_PER_HASH, HASH_NUMBERS, HASHES_AHEAD, words_ahead

RINGS = {1: (3, 4), 2: (5, 2)}
"""Ring of the hash unit by number of lanes: cycles from one pass of a hash through the same stages
to the next, and passes. With more lanes every pass has stages of its own."""
LONG_AGO = -(1 << 20)

Word = tuple[int, bool]
"""Index of the word's first element, and True if the word continues its row."""
Line = tuple[int, int]
"""Row of blocks of a tile: index of its first element, and number of columns."""


def draws_ahead(lanes: int) -> int:
    """Return how many words may have draws under way, with the word that waits for its draws."""
    return words_ahead(lanes) + 1


def hashed_cycles(lanes: int) -> int:
    """Return the cycles from the request of a hash to the word that uses the hash."""
    return 16 if lanes == 1 else 15


def max_slack(lanes: int) -> int:
    """Return the cycles by which the first words of a row may be requested earlier than necessary;
    0 if every word takes a hash, since the early request then has no effect."""
    return draws_ahead(lanes) - 1 - hashed_cycles(lanes) if lanes < DRAWS_PER_HASH else 0


def hashed_together(lanes: int) -> int:
    """Return the number of elements whose draws are hashed together, from a multiple of the number
    on."""
    return max(DRAWS_PER_HASH, lanes)


@lru_cache(maxsize=1 << 12)
def line_delay(
    lanes: int, block: int, pitch: int, line: Line, slack: int = 0, before: tuple[Line, ...] = ()
) -> int:
    """Return the cycles beyond one per word for a row of blocks of a tile in stored order: block by
    block, all words of a block. ``pitch``: distance from a row to the next, in elements. ``pitch``
    and the index of ``line`` count only modulo :func:`hashed_together`. ``slack``: cycles for which
    the first words wait for the words before, at most :func:`max_slack`. ``before``: rows of
    blocks, of any tiles, that came without a pause."""
    lines = (_by_blocks(lanes, block, start, pitch, wide) for start, wide in before)
    index, cols = line
    words = _by_blocks(lanes, block, index, pitch, cols)
    return _delay(lanes, words, [*chain.from_iterable(lines)], slack)


@lru_cache(maxsize=1 << 12)
def row_delay(lanes: int, index: int, pitch: int, rows: int, cols: int) -> int:
    """Return the cycles beyond one per word for ``rows`` rows of a tile, row by row."""
    starts = range(index, index + rows * pitch, pitch) if pitch else [index] * rows
    return _delay(
        lanes, ((first + col, col > 0) for first in starts for col in range(0, cols, lanes))
    )


def _by_blocks(lanes: int, block: int, index: int, pitch: int, cols: int) -> Iterator[Word]:
    """Yield the words of a row of blocks."""
    wide = max(block, lanes)
    for left in range(0, cols, wide):
        for row in range(block):
            for col in range(left, left + wide, lanes):
                yield index + row * pitch + col, col > 0


def _delay(lanes: int, words: Iterable[Word], before: Sequence[Word] = (), slack: int = 0) -> int:
    """Return the delay of ``words`` after the words in ``before``. The first word is requested at
    the latest possible time, or ``slack`` cycles earlier."""
    draws = _Draws(lanes)
    for word in before:
        draws.word(word)
    begun, count = draws.left, 0
    request = begun - draws.latency - slack
    draws.planned = max(draws.planned, request) if before else request
    for word in words:
        draws.word(word)
        count += 1
    return draws.left - begun - count


class _Draws:
    """Words and their hashes in sequence. The first word can be requested in cycle 0."""

    def __init__(self, lanes: int):
        self.lanes = lanes
        self.together, self.latency = hashed_together(lanes), hashed_cycles(lanes)
        self.apart, self.passes = RINGS.get(lanes, (1, 1))
        under_way, ahead = self.apart * self.passes, draws_ahead(lanes)
        self.planned, self.left = -1, self.latency - 1  # of the word before
        self.begun = deque([LONG_AGO], maxlen=under_way)  # hashes
        self.waited = deque([LONG_AGO] * HASH_NUMBERS, maxlen=HASH_NUMBERS)  # for a unit
        self.gone = deque(range(self.latency - ahead, self.latency), maxlen=ahead)  # words
        self.used = deque([LONG_AGO] * HASHES_AHEAD, maxlen=HASHES_AHEAD)  # hashes, in words

    def word(self, word: Word) -> None:
        """Plan a word, begin its hashes, and let the word leave when the draws are ready."""
        self.planned = max(self.planned + 1, self.gone[0] + 1)
        hashes = self._hashes(*word)
        for number in range(hashes):
            self._hash(number)
        there = self.begun[-1] + self.latency - 1 if hashes else 0
        self.left = max(self.left + max(1, hashes), there)
        self.gone.append(self.left)

    def _hashes(self, first: int, goes_on: bool) -> int:
        """Return the number of hashes of a word without the hashes begun by the word before in the
        row."""
        begins = not (goes_on and first % self.together)
        return begins + ((first + self.lanes - 1) // self.together != first // self.together)

    def _hash(self, number: int) -> None:
        """Begin hash ``number`` of a word."""
        self.planned = max(self.planned + (number > 0), self.waited[0] + 1, self.used[0] + 1)
        begins = max(self.planned + 1, self.begun[-1] + 1)
        meets = {each + self.apart * n for each in self.begun for n in range(1, self.passes)}
        while begins in meets:
            begins += 1
        self.begun.append(begins)
        self.waited.append(begins)
        self.used.append(max(self.left + number, begins + self.latency - 2))
