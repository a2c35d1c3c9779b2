"""What a chain leaves in its output streams."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from diastole_sim.golden.vector.arithmetic import Arithmetic, Numbers
from diastole_sim.golden.vector.order import Integers, Order
from diastole_sim.spec.stream_table import Descriptor, Kind


@dataclass(kw_only=True, eq=False)
class ChainResult:
    """What a chain wrote, by the number of its output; the panel was written in place.

    ``values``: as memory then holds them, in the arithmetic's type: (rows, cols), of a vector of
    rows (rows), of columns (cols), of a constant (). What a program never writes in a last block is
    absent. ``not_finite``: the outputs that held a NaN or Inf, in elements of the tensor, or
    anywhere in the panel.
    """

    values: dict[int, Numbers] = field(default_factory=dict[int, Numbers])
    not_finite: set[int] = field(default_factory=set[int])


class Written:
    """Collects it."""

    def __init__(self, order: Order, outputs: Mapping[int, Descriptor], arithmetic: Arithmetic):
        self.order, self.outputs, self.arithmetic = order, outputs, arithmetic
        self._blocks: dict[int, Numbers] = {}
        self._result = ChainResult()

    def write(self, number: int, blocks: slice | Integers, values: Numbers) -> None:
        """An instruction's results in some blocks, (blocks, B, B), go to an output. Of two writes
        to a block the later one counts."""
        kind = self.outputs[number].kind
        if not len(values):
            return
        if kind == Kind.PANEL:
            self._watch(number, values)
        elif kind in (Kind.ROW, Kind.COLUMN):
            self._write_vector(number, kind, blocks, values)
        elif kind == Kind.CONSTANT:
            if self._numbers(blocks)[-1] == len(self.order) - 1:
                self._result.values[number] = values[-1, 0, 0]
                self._watch(number, values[-1, 0, 0])
        else:
            shape = len(self.order), self.order.block, self.order.block
            held = self._blocks.setdefault(number, np.zeros(shape, self.arithmetic.dtype))
            held[blocks] = values

    def result(self) -> ChainResult:
        """Of all that was written."""
        for number, blocks in self._blocks.items():
            stored = self.arithmetic.stores(self.outputs[number].kind, self.order.join(blocks))
            self._result.values[number] = stored
            self._watch(number, stored)
        return self._result

    def _numbers(self, blocks: slice | Integers) -> Integers:
        return np.arange(len(self.order))[blocks]

    def _write_vector(
        self, number: int, kind: int, blocks: slice | Integers, values: Numbers
    ) -> None:
        """Lane 0, or row slot 0, of the last blocks of lines."""
        last = self.order.last[blocks]
        if not last.any():
            return
        rows = kind == Kind.ROW
        places = (self.order.row_numbers if rows else self.order.column_numbers)[blocks][last]
        found = values[last, :, 0] if rows else values[last, 0, :]
        size = self.order.rows if rows else self.order.cols
        inside = places < size
        vector = self._result.values.setdefault(number, np.zeros(size, self.arithmetic.dtype))
        vector[places[inside]] = found[inside]
        self._watch(number, found[inside])

    def _watch(self, number: int, values: Numbers) -> None:
        if not np.isfinite(values).all():
            self._result.not_finite.add(number)
