"""Combine the marks of a vector with the marks of the stationary block that the vector meets."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.cell.cell_shape import EAST, NORTH, CellShape
from diastole_hw.cell.layouts import vector_marks_layout
from diastole_hw.cell.stationary_buffer import block_marks_layout
from diastole_sim.spec.formats import SCALE_SIGNIFICAND_BITS


def lane_marks_layout(shape: CellShape) -> data.StructLayout:
    """Return the layout of a slot's values for the lanes. Arrays have an entry for all lanes or an
    entry per lane.

    ``shifts``: shift of the block sum, all ones if the block sum adds nothing. ``scales``: product
    of the two significands. ``poison``: a bit per lane.
    """
    members = {"shifts": data.ArrayLayout(unsigned(shape.deficit_bits), shape.lanes), "inexact": 1}
    if shape.significands:
        members["scales"] = data.ArrayLayout(unsigned(2 * SCALE_SIGNIFICAND_BITS), shape.lanes)
    if shape.poison:
        members["poison"] = unsigned(shape.block)
    return data.StructLayout(members)


class CombineMarks(wiring.Component):
    """Compute shift, scale, ``inexact`` and poison of the lanes
    (:class:`diastole_hw.cell.cell.Cell`).

    Timing: combinational.

    Parameters
    ----------
    shape : CellShape

    Members
    -------
    direction : In(1)
        1 from west to north. Ignored by a shape with a single direction.
    vector : In(vector_marks_layout(shape))
    block : In(block_marks_layout(shape))
    lane_marks : Out(lane_marks_layout(shape))
    """

    def __init__(self, *, shape: CellShape):
        self.shape = shape
        super().__init__(
            {
                "direction": In(1),
                "vector": In(vector_marks_layout(shape)),
                "block": In(block_marks_layout(shape)),
                "lane_marks": Out(lane_marks_layout(shape)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        shape, lane_marks = self.shape, self.lane_marks
        may_lose = [self._lane(m, lane) for lane in range(shape.lanes)]
        if shape.extents:
            may_lose.append(self._extents_exceed_window())
        m.d.comb += lane_marks.inexact.eq(Cat(*may_lose).any())
        if shape.poison:
            lanes = self._select_mark("poison_east", "poison_north")
            m.d.comb += lane_marks.poison.eq(lanes | self.vector.poison.replicate(shape.block))
        return m

    def _lane(self, m, lane):
        """Set shift and scale of a lane. Return whether the shift may lose something."""
        shape, vector, lane_marks = self.shape, self.vector, self.lane_marks
        deficit = Signal(shape.deficit_bits + 1, name=f"deficit_{lane}")
        both_nonzero = Signal(name=f"both_nonzero_{lane}")
        # All ones shift a block sum out of the window. All ones stand for every sum of deficits
        # beyond the field, and for every operand of ``nonzero`` 0.
        shifted_out = deficit[-1] | ~both_nonzero
        m.d.comb += [
            deficit.eq(vector.deficit + self._select_mark("deficit_east", "deficit_north", lane)),
            both_nonzero.eq(vector.nonzero & self._select_mark("nonzero", "nonzero", lane)),
            lane_marks.shifts[lane].eq(deficit[:-1] | shifted_out.replicate(shape.deficit_bits)),
        ]
        if shape.significands:
            stationary = self._select_mark("significand", "significand", lane)
            m.d.comb += lane_marks.scales[lane].eq(vector.significand * stationary)
        return both_nonzero & (deficit > shape.fraction)

    def _extents_exceed_window(self):
        """Return whether a product of the vector and the block may lose a bit in the window."""
        vector_extent, block_extent = self.vector.extent, self.block.extent
        both_nonzero = self.vector.nonzero & vector_extent.any() & block_extent.any()
        return both_nonzero & (vector_extent + block_extent > self.shape.extent_limit)

    def _select_mark(self, east: str, north: str, lane: int = 0):
        """Return the block's mark in the slot's direction: ``east``, or the lane's entry of
        ``north``."""
        if NORTH not in self.shape.directions:
            return self._mark(east, 0)
        if EAST not in self.shape.directions:
            return self._mark(north, lane)
        return Mux(self.direction, self._mark(north, lane), self._mark(east, 0))

    def _mark(self, name: str, lane: int):
        mark = self.block[name]
        return mark[lane] if isinstance(mark, data.View) else mark
