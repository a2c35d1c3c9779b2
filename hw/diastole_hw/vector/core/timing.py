"""Delays until an instruction of the vector unit can read the results of an earlier instruction."""

from diastole_hw.vector.core.lane import Lane
from diastole_hw.vector.float.special import SpecialLane
from diastole_hw.vector.stream_layouts import PIPELINE, VectorShape

OPERANDS_AT = 2
"""Cycles from a row's read address to the lanes' operands."""
WRITTEN_AT = OPERANDS_AT + Lane.latency
"""Cycles from a row's read address to the cycle in which the row's result is written."""
assert WRITTEN_AT < PIPELINE


def groups(shape: VectorShape) -> int:
    """Return the number of cycles in which the special lanes process a row."""
    return shape.block // shape.specials


def special_from(shape: VectorShape) -> int:
    """Return the cycles from the first cycle of a special instruction to the first operands at the
    special lanes. If a row takes several cycles, rows wait in a memory."""
    return OPERANDS_AT + (2 if groups(shape) > 1 else 0)


def special_cycles(shape: VectorShape) -> int:
    """Return the cycles from a special instruction to the first instruction that may be special, or
    read the special result row by row."""
    work = shape.block * groups(shape)
    last_row = special_from(shape) + work + SpecialLane.latency  # the last row is readable
    return max(shape.slot_cycles, work, last_row - (shape.block - 1))


def permuted_cycles(shape: VectorShape) -> int:
    """Return how many cycles later an instruction that permutes rows may read a result. The number
    is the largest distance, B / 2."""
    return shape.block // 2


def whole_cycles(shape: VectorShape) -> int:
    """Return how many cycles later an instruction that reads rows in any order may read a result.
    In a block of fewer than 8 rows only permutations change the order."""
    return permuted_cycles(shape) if shape.block < PIPELINE else shape.block - 1
