"""R x C cells: vectors hop north and east, partial sums east and north, all by one cell a cycle."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.array.row import ArrayRow
from diastole_hw.cell.align import low_bits
from diastole_hw.cell.cell_shape import EAST, NORTH, CellShape
from diastole_hw.cell.layouts import control_layout, held_layout, sum_layout, vector_layout
from diastole_sim.spec.require import require_int


def partial_sum_bits(shape: CellShape, cols: int) -> int:
    """Bits of a partial sum in an array of so many columns, along its longer side."""
    growth = (max(shape.rows, cols) - 1).bit_length()
    return shape.sum_bits + shape.fraction + growth


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
    control : In(control_layout(shape)), an array of R
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
        self.psum_bits = partial_sum_bits(shape, cols)
        self.east_latency = cols - 1 + shape.latency
        self.north_latency = self.rows - 1 + shape.latency
        sums = sum_layout(shape.block, self.psum_bits, shape.poison)
        members = {
            "control": In(control_layout(shape)).array(self.rows),
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
        below = None
        for r in range(self.rows):
            row = ArrayRow(shape=self.shape, psum_bits=self.psum_bits, cols=self.cols)
            m.submodules[f"row_{r}"] = row
            m.d.comb += row.control.eq(self.control[r])
            if below is None:
                self._enter(m, row)
            else:
                m.d.comb += row.load.eq(below.load_north)
            if EAST in self.shape.directions:
                self._leave(m, f"east_{r}", self.east[r], row.psum_east)
                if below is not None:
                    m.d.comb += row.south.eq(below.north)
            if NORTH in self.shape.directions:
                m.d.comb += row.west.eq(self.west[r])
                if below is not None:
                    m.d.comb += row.psum_south.eq(below.psum_north)
            below = row
        assert below is not None, "an array without rows"
        if NORTH in self.shape.directions:
            for c in range(self.cols):
                self._leave(m, f"north_{c}", self.north[c], below.psum_north[c])
        return m

    def _leave(self, m, name, port, psum):
        """Sums leave whole: the halves that come first wait for the others."""
        if not self.shape.halves:
            m.d.comb += port.eq(psum)
            return
        waiting = Signal(psum.shape(), name=f"{name}_waiting", reset_less=True)
        low = low_bits(self.psum_bits)
        m.d.sync += waiting.eq(psum)
        m.d.comb += port.eq(waiting)
        for whole, early, late in zip(port.sums, waiting.sums, psum.sums, strict=True):
            m.d.comb += whole.eq(Cat(early[:low], late[low:]))

    def _enter(self, m, row):
        """What goes north, into the first row."""
        m.d.comb += [row.load[c].eq(self.load[c]) for c in range(self.cols)]
        if EAST in self.shape.directions:
            m.d.comb += [row.south[c].eq(self.south[c]) for c in range(self.cols)]
