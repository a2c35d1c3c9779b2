"""Row of cells, the unit of which arrays are made."""

from amaranth.hdl import Module
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.cell.cell import Cell
from diastole_hw.cell.cell_shape import EAST, NORTH, CellShape
from diastole_hw.cell.layouts import control_layout, stationary_layout, sum_layout, vector_layout
from diastole_sim.spec.require import require_int


class ArrayRow(wiring.Component):
    """Connect C cells side by side. East-going data enter the first cell and hop from cell to cell.
    North-going data enter and leave every cell.

    Timing: from one cell to the next as in :class:`diastole_hw.cell.cell.Cell`. Data at cell c in
    cycle t are at cell c + 1 in t + 1. Partial sums enter and leave in halves if the cells add in
    halves.

    Parameters
    ----------
    shape : CellShape
        With a single direction, ports of the absent direction are left out.
    psum_bits : int
        Bits of a partial sum.
    cols : int
        C, 1 to 64.

    Members
    -------
    control : In(control_layout(shape))
    load, load_north : In, Out(array of C stationary_layout(shape))
    south, north : In, Out(array of C vector_layout(shape, shape.south))
    psum_east : Out(sum_layout(block, psum_bits, shape.poison))
        ``south``, ``north`` and ``psum_east``: only with the direction east.
    west : In(vector_layout(shape, shape.west))
    psum_south, psum_north : In, Out(array of C sum_layout(block, psum_bits, shape.poison))
        ``west``, ``psum_south`` and ``psum_north``: only with the direction north.

    ValueError if out of range.
    """

    def __init__(self, *, shape: CellShape, psum_bits: int, cols: int):
        self.shape, self.psum_bits = shape, psum_bits
        self.cols = require_int("cols", cols, 1, 64)
        sums = sum_layout(shape.block, psum_bits, shape.poison)
        stationary = data.ArrayLayout(stationary_layout(shape), cols)
        members = {
            "control": In(control_layout(shape)),
            "load": In(stationary),
            "load_north": Out(stationary),
        }
        if EAST in shape.directions:
            south = data.ArrayLayout(vector_layout(shape, shape.south), cols)
            members |= {"south": In(south), "north": Out(south), "psum_east": Out(sums)}
        if NORTH in shape.directions:
            all_sums = data.ArrayLayout(sums, cols)
            members |= {"west": In(vector_layout(shape, shape.west))}
            members |= {"psum_south": In(all_sums), "psum_north": Out(all_sums)}
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        west = None
        for c in range(self.cols):
            m.submodules[f"cell_{c}"] = cell = Cell(shape=self.shape, psum_bits=self.psum_bits)
            m.d.comb += [
                cell.control.eq(west.control_east if west else self.control),
                cell.load.eq(self.load[c]),
                self.load_north[c].eq(cell.load_north),
            ]
            if EAST in self.shape.directions:
                m.d.comb += [cell.south.eq(self.south[c]), self.north[c].eq(cell.north)]
                if west:
                    m.d.comb += cell.psum_west.eq(west.psum)
            if NORTH in self.shape.directions:
                m.d.comb += [
                    cell.west.eq(west.east if west else self.west),
                    cell.psum_south.eq(self.psum_south[c]),
                    self.psum_north[c].eq(cell.psum),
                ]
            west = cell
        assert west is not None, "a row without cells"
        if EAST in self.shape.directions:
            m.d.comb += self.psum_east.eq(west.psum)
        return m
