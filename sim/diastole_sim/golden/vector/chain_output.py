"""Collect the outputs of a chain."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from diastole_sim.golden.vector.arithmetic import Arithmetic, Numbers
from diastole_sim.golden.vector.order import Integers, Order
from diastole_sim.spec.stream_table import Descriptor, Kind


@dataclass(kw_only=True, eq=False)
class ChainResult:
    """Outputs of a chain by number. The panel is not included, since a chain writes the panel in
    place.

    ``values``: values as memory then holds them, in the arithmetic's type: (rows, cols); (rows) for
    a vector of rows; (cols) for a vector of columns; () for a constant. A vector or a constant that
    the program never writes in a last block is absent. ``not_finite``: outputs that held a NaN or
    an Inf, in elements of the tensor, or anywhere in the panel.
    """

    values: dict[int, Numbers] = field(default_factory=dict[int, Numbers])
    not_finite: set[int] = field(default_factory=set[int])


class ChainOutput:
    """Collect the outputs of a chain while its instructions are run."""

    def __init__(self, order: Order, outputs: Mapping[int, Descriptor], arithmetic: Arithmetic):
        self.order, self.outputs, self.arithmetic = order, outputs, arithmetic
        self._blocks: dict[int, Numbers] = {}
        self._result = ChainResult()

    def write(self, number: int, blocks: slice | Integers, values: Numbers) -> None:
        """Write an instruction's results in some blocks, (blocks, B, B), to an output. Of two
        writes to a block the later write counts."""
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
            stored = self._blocks.setdefault(number, np.zeros(shape, self.arithmetic.dtype))
            stored[blocks] = values

    def result(self) -> ChainResult:
        """Return the outputs of all writes."""
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
        """Write lane 0 of the last blocks of lines to a vector of rows, or row slot 0 to a vector
        of columns."""
        last = self.order.last[blocks]
        if not last.any():
            return
        rows = kind == Kind.ROW
        places = (self.order.row_numbers if rows else self.order.column_numbers)[blocks][last]
        lanes = values[last, :, 0] if rows else values[last, 0, :]
        size = self.order.rows if rows else self.order.cols
        inside = places < size
        vector = self._result.values.setdefault(number, np.zeros(size, self.arithmetic.dtype))
        vector[places[inside]] = lanes[inside]
        self._watch(number, lanes[inside])

    def _watch(self, number: int, values: Numbers) -> None:
        if not np.isfinite(values).all():
            self._result.not_finite.add(number)
