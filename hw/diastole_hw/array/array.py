"""R x C cells: vectors hop north and east, partial sums east and north, all by one cell a cycle."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.cell.cell import Cell
from diastole_hw.cell.layouts import control_layout, held_layout, sum_layout, vector_layout
from diastole_hw.cell.shape import EAST, NORTH, CellShape
from diastole_hw.place import place
from diastole_sim.spec.check import require_int


class Array(wiring.Component):
    """Multiply R x C held blocks by one vector per port and slot, in either direction.

    A slot from south to east adds, in row of cells r, the aligned products of the C vectors with
    the blocks of that row; one from west to north, in column c, those of the R vectors with the
    blocks of that column (:class:`diastole_hw.cell.cell.Cell`).

    Timing: for a slot t, its number in cycles, vector at ``south[c]`` in t + c, or at ``west[r]``
    in t + r; ``control[r]`` in t + r, ``swap`` with the slot before the first of a new pass,
    whether or not anything is in that slot. Sums at ``east[r]`` in t + ``east_latency`` + r, at
    ``north[c]`` in t + ``north_latency`` + c. A slot per cycle, the directions mixed in any way;
    an empty slot is a vector with ``nonzero`` 0.

    Loading: word n at ``load[c]`` in cycle t + c. If word 0 comes not before the swap of the
    previous pass, and the last word before the swap of its own, both counted without the skew,
    every word arrives in time. Words may come in any order, but where
    :func:`diastole_hw.cell.layouts.held_layout` asks for a block's first word first.

    Parameters
    ----------
    shape : CellShape
        R and all of a cell; with one direction there are no ports of the other.
    cols : int
        C, 1 to 64.

    Members
    -------
    control : In(control_layout()), an array of R
    load : In(held_layout(shape)), an array of C
    south : In(vector_layout(shape, shape.south)), an array of C
    east : Out(sum_layout(block, psum_bits, shape.poison)), an array of R
        Both with the direction east.
    west : In(vector_layout(shape, shape.west)), an array of R
    north : Out(sum_layout(block, psum_bits, shape.poison)), an array of C
        Both with the direction north.

    ``rows``, ``block``, ``psum_bits`` = SW + F + ceil(log2 max(R, C)), ``east_latency`` and
    ``north_latency`` (cycles from south[0] or west[0] to port 0) are attributes. ValueError if a
    parameter is out of range.
    """

    def __init__(self, *, shape: CellShape, cols: int):
        require_int("cols", cols, 1, 64)
        self.shape, self.rows, self.cols, self.block = shape, shape.rows, cols, shape.block
        growth = (max(self.rows, cols) - 1).bit_length()
        self.psum_bits = shape.sum_bits + shape.fraction + growth
        self.east_latency, self.north_latency = cols + shape.stages, self.rows + shape.stages
        sums = sum_layout(shape.block, self.psum_bits, shape.poison)
        members = {
            "control": In(control_layout()).array(self.rows),
            "load": In(held_layout(shape)).array(cols),
        }
        if EAST in shape.directions:
            south = vector_layout(shape, shape.south)
            members |= {"south": In(south).array(cols), "east": Out(sums).array(self.rows)}
        if NORTH in shape.directions:
            west = vector_layout(shape, shape.west)
            members |= {"west": In(west).array(self.rows), "north": Out(sums).array(cols)}
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        cells = [
            [Cell(shape=self.shape, psum_bits=self.psum_bits) for _ in range(self.cols)]
            for _ in range(self.rows)
        ]
        for r, row in enumerate(cells):
            for c, cell in enumerate(row):
                m.submodules[f"cell_{r}_{c}"] = place(cell, platform)
                self._wire(m, cells, r, c)
            if EAST in self.shape.directions:
                m.d.comb += self.east[r].eq(row[-1].psum)
        if NORTH in self.shape.directions:
            for c, cell in enumerate(cells[-1]):
                m.d.comb += self.north[c].eq(cell.psum)
        return m

    def _wire(self, m, cells, r, c):
        """Inputs of cell (r, c): from its neighbours, or from the ports at the edge."""
        cell = cells[r][c]
        west = cells[r][c - 1] if c else None
        south = cells[r - 1][c] if r else None
        m.d.comb += [
            cell.control.eq(west.control_east if west else self.control[r]),
            cell.load.eq(south.load_north if south else self.load[c]),
        ]
        if EAST in self.shape.directions:
            m.d.comb += cell.south.eq(south.north if south else self.south[c])
            if west:
                m.d.comb += cell.psum_west.eq(west.psum)
        if NORTH in self.shape.directions:
            m.d.comb += cell.west.eq(west.east if west else self.west[r])
            if south:
                m.d.comb += cell.psum_south.eq(south.psum)
