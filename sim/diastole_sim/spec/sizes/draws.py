"""Random bits that are drawn ahead of their use, for hardware and for the model of cycles."""

DRAWS_PER_HASH = 4
"""Elements that draw their bits from one hash."""
HASHES_AHEAD = 16
"""Most hashes of a unit that are requested and not yet used in a word."""
HASH_NUMBERS = 4
"""Most numbers of hashes that wait for a hash unit that is not always ready."""
STARTS_AHEAD = 8
"""Number of rows whose start states are computed ahead."""
_HASHED_CYCLES = 16
"""Cycles from the request of a hash to its use, at least."""
_ROW_HASH_CYCLES = 5
_USUAL_COLUMNS = 64


def words_ahead(lanes: int) -> int:
    """Return how many words are accepted ahead of their draws: more than the cycles of a hash."""
    return 32 if lanes < DRAWS_PER_HASH else 16


def chain_draw_lanes(block: int) -> int:
    """Return the random numbers of a chain that are drawn per cycle: a block of B x B numbers takes
    as long as four instructions, or as an instruction if B is less than 4."""
    return max(1, block // 4)


def chain_hashes_ahead(block: int) -> int:
    """Return the most hashes of a unit for the random numbers of a chain that are requested and not
    yet used: those of the cycles of a hash."""
    hash_cycles = max(1, DRAWS_PER_HASH // chain_draw_lanes(block))
    return min(HASHES_AHEAD, _HASHED_CYCLES // hash_cycles)


def row_hash_cycles(lanes: int) -> int:
    """Return the cycles from the hash of a row's start state to the next: the cycles of a row of 64
    columns, at most the 5 cycles of a unit with a single quad."""
    return max(1, min(_ROW_HASH_CYCLES, _USUAL_COLUMNS // lanes))
