"""Execute one instruction on blocks: the common part of both ways to run a program."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from diastole_sim.golden.vector.arithmetic import Arithmetic, Numbers
from diastole_sim.golden.vector.order import Integers, Mask, Order
from diastole_sim.spec.micro import REGISTERS, Instruction, MicroOp, Source

FIXED = {Source.ZERO: 0.0, Source.ONE: 1.0}


@dataclass(frozen=True, kw_only=True, eq=False)
class SourceValues:
    """Operands outside of registers and panel. ``streams``: by number, the values of all blocks in
    order: (blocks, B, B). ``constants``: 256 constants."""

    order: Order
    arithmetic: Arithmetic
    streams: Mapping[int, Numbers]
    constants: Numbers

    def read(self, source: int, k: int, blocks: slice | Integers) -> Numbers:
        """Return an operand in some blocks; it broadcasts to (blocks, B, B)."""
        if source in FIXED:
            return self.arithmetic.array(FIXED[Source(source)])
        if source == Source.CONSTANT:
            return self.constants[k]
        if source == Source.COLUMN:
            return self.arithmetic.array(self.order.column_numbers[blocks, None, :])
        if source == Source.ROW:
            return self.arithmetic.array(self.order.row_numbers[blocks, :, None])
        if source == Source.INSIDE:
            return self.arithmetic.array(self.order.inside[blocks])
        return self.streams[source - REGISTERS][blocks]


def operate(
    each: Instruction,
    operands: Mapping[str, Numbers],
    arithmetic: Arithmetic,
    *,
    first: Mask,
    inside: Mask | None,
) -> Numbers:
    """Return the result of an instruction, which broadcasts to (blocks, B, B). ``first``: True for
    blocks that are the first of a line. ``inside``: True for elements in the tensor, None if all
    elements are in the tensor."""
    ready = {
        letter: _permuted(each, values) if letter == "c" else values
        for letter, values in operands.items()
    }
    for letter in ready:
        if getattr(each, f"negate_{letter}"):
            ready[letter] = arithmetic.negate(ready[letter])
    if each.fresh and first.any():
        neutral = arithmetic.neutral(each.op)
        ready["c"] = neutral if first.all() else np.where(first[:, None, None], neutral, ready["c"])
    result = arithmetic.operations[MicroOp(each.op)](*ready.values())
    if each.keep and inside is not None:
        result = np.where(inside, result, ready["c"])
    return result


def _permuted(each: Instruction, c: Numbers) -> Numbers:
    """Return c with lanes and row slots permuted as the instruction says."""
    if each.turn_lanes and c.ndim and c.shape[-1] > 1:
        c = c[..., np.arange(c.shape[-1]) ^ 1 << each.turn_lanes - 1]
    if each.turn_rows and c.ndim and c.shape[-2] > 1:
        c = c[..., np.arange(c.shape[-2]) ^ 1 << each.turn_rows - 1, :]
    return c
