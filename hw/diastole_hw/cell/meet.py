"""What follows from the marks of a vector and of the held block that it meets."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.cell.cell_shape import EAST, NORTH, CellShape
from diastole_hw.cell.hold import block_marks_layout
from diastole_hw.cell.layouts import vector_marks_layout
from diastole_sim.spec.formats import SCALE_SIGNIFICAND_BITS


def met_layout(shape: CellShape) -> data.StructLayout:
    """What the lanes need to know, as arrays of one for all lanes or of one for each.

    ``shifts``: of the block sum, all ones if it adds nothing. ``scales``: the product of both
    significands. ``poison``: a bit per lane.
    """
    members = {"shifts": data.ArrayLayout(unsigned(shape.deficit_bits), shape.lanes), "inexact": 1}
    if shape.significands:
        members["scales"] = data.ArrayLayout(unsigned(2 * SCALE_SIGNIFICAND_BITS), shape.lanes)
    if shape.poison:
        members["poison"] = unsigned(shape.block)
    return data.StructLayout(members)


class Meet(wiring.Component):
    """Shift, scale, ``inexact`` and poison of the lanes (:class:`diastole_hw.cell.cell.Cell`).

    Timing: combinational.

    Parameters
    ----------
    shape : CellShape

    Members
    -------
    direction : In(1)
        From west to north; ignored where there is one direction.
    vector : In(vector_marks_layout(shape))
    block : In(block_marks_layout(shape))
    met : Out(met_layout(shape))
    """

    def __init__(self, *, shape: CellShape):
        self.shape = shape
        super().__init__(
            {
                "direction": In(1),
                "vector": In(vector_marks_layout(shape)),
                "block": In(block_marks_layout(shape)),
                "met": Out(met_layout(shape)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        shape, met = self.shape, self.met
        lossy = [self._lane(m, lane) for lane in range(shape.lanes)]
        if shape.extents:
            lossy.append(self._reaches_too_far())
        m.d.comb += met.inexact.eq(Cat(*lossy).any())
        if shape.poison:
            lanes = self._chosen("poison_east", "poison_north")
            m.d.comb += met.poison.eq(lanes | self.vector.poison.replicate(shape.block))
        return m

    def _lane(self, m, lane):
        """Shift and scale of one lane; whether it may lose something in the shift."""
        shape, vector, met = self.shape, self.vector, self.met
        deficit = Signal(shape.deficit_bits + 1, name=f"deficit_{lane}")
        both = Signal(name=f"both_{lane}")
        # All ones shift a block sum out of the window: every sum of deficits beyond it, and every
        # block that is not there.
        gone = deficit[-1] | ~both
        m.d.comb += [
            deficit.eq(vector.deficit + self._chosen("deficit_east", "deficit_north", lane)),
            both.eq(vector.nonzero & self._chosen("nonzero", "nonzero", lane)),
            met.shifts[lane].eq(deficit[:-1] | gone.replicate(shape.deficit_bits)),
        ]
        if shape.significands:
            held = self._chosen("significand", "significand", lane)
            m.d.comb += met.scales[lane].eq(vector.significand * held)
        return both & (deficit > shape.fraction)

    def _reaches_too_far(self):
        """Whether some product of the vector with the block may lose a bit in the window."""
        here, there = self.vector.extent, self.block.extent
        both = self.vector.nonzero & here.any() & there.any()
        return both & (here + there > self.shape.extent_limit)

    def _chosen(self, east: str, north: str, lane: int = 0):
        """The block's mark in the slot's direction: ``east``, or that of a lane in ``north``."""
        if NORTH not in self.shape.directions:
            return self._mark(east, 0)
        if EAST not in self.shape.directions:
            return self._mark(north, lane)
        return Mux(self.direction, self._mark(north, lane), self._mark(east, 0))

    def _mark(self, name: str, lane: int):
        mark = self.block[name]
        return mark[lane] if isinstance(mark, data.View) else mark
