"""When what is written by one instruction of the vector unit is there for another."""

from diastole_hw.vector.core.lane import Lane
from diastole_hw.vector.float.special import SpecialLane
from diastole_hw.vector.stream_layouts import PIPELINE, VectorShape

OPERANDS_AT = 2
"""Cycles from a row's read address to the lanes' operands."""
WRITTEN_AT = OPERANDS_AT + Lane.latency
"""Cycles from a row's read address to the cycle in which its result is written."""
assert WRITTEN_AT < PIPELINE


def groups(shape: VectorShape) -> int:
    """Cycles in which the special lanes do a row."""
    return shape.block // shape.specials


def special_from(shape: VectorShape) -> int:
    """Cycles from a special instruction's first cycle to that in which the special lanes have its
    first operands: where a row takes several cycles, rows wait in a memory."""
    return OPERANDS_AT + (2 if groups(shape) > 1 else 0)


def special_cycles(shape: VectorShape) -> int:
    """Cycles from a special instruction to the first that may read its result row by row, or be
    special itself."""
    work = shape.block * groups(shape)
    last_row = special_from(shape) + work + SpecialLane.latency  # from here on it can be read
    return max(shape.slot_cycles, work, last_row - (shape.block - 1))


def turned_cycles(shape: VectorShape) -> int:
    """By how many cycles an instruction comes later that reads rows turned: the farthest turn."""
    return shape.block // 2


def whole_cycles(shape: VectorShape) -> int:
    """Return by how many cycles an instruction comes later that reads rows in any order; no
    instruction does so on a block of fewer than 8 rows, but for turns."""
    return turned_cycles(shape) if shape.block < PIPELINE else shape.block - 1
