"""R x C cells: vectors hop north and east, partial sums east and north, all by one cell per
cycle."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.array.row import ArrayRow
from diastole_hw.cell.align import low_bits
from diastole_hw.cell.cell_shape import EAST, NORTH, CellShape
from diastole_hw.cell.layouts import control_layout, stationary_layout, sum_layout, vector_layout
from diastole_sim.spec.require import require_int


def partial_sum_bits(shape: CellShape, cols: int) -> int:
    """Return the bits of a partial sum, which grows along the longer side of an array with ``cols``
    columns."""
    growth = (max(shape.rows, cols) - 1).bit_length()
    return shape.sum_bits + shape.fraction + growth


class Array(wiring.Component):
    """Multiply R x C stationary blocks by one vector per port and slot, in either direction.

    A slot from south to east adds, in row of cells r, the aligned products of the C vectors and the
    blocks of the row. A slot from west to north adds, in column c, the aligned products of the R
    vectors and the blocks of the column (:class:`diastole_hw.cell.cell.Cell`).

    Timing: slots are numbered by cycles. The vector of slot t is at ``south[c]`` in t + c, or at
    ``west[r]`` in t + r. ``control[r]`` is input in t + r. ``swap`` comes with the slot before the
    first slot of a new pass, even if the slot before is empty. Sums are at ``east[r]`` in t +
    ``east_latency`` + r, and at ``north[c]`` in t + ``north_latency`` + c. The array takes a slot
    per cycle, with directions mixed in any way. An empty slot is a vector with ``nonzero`` 0.

    Loading: word n is at ``load[c]`` in cycle t + c. Every word arrives in time under two
    conditions, with cycles counted without the skew. Word 0 must not come before the swap of the
    previous pass, and the last word must come before the swap of its own pass. Words may come in
    any order, except where :func:`diastole_hw.cell.layouts.stationary_layout` requires the first
    word of a block first.

    Parameters
    ----------
    shape : CellShape
        R and all parameters of a cell. With a single direction, ports of the absent direction are
        left out.
    cols : int
        C, 1 to 64.

    Members
    -------
    control : In(control_layout(shape)), an array of R
    load : In(stationary_layout(shape)), an array of C
    south : In(vector_layout(shape, shape.south)), an array of C
    east : Out(sum_layout(block, psum_bits, shape.poison)), an array of R
        ``south`` and ``east``: only with the direction east.
    west : In(vector_layout(shape, shape.west)), an array of R
    north : Out(sum_layout(block, psum_bits, shape.poison)), an array of C
        ``west`` and ``north``: only with the direction north.

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
            "load": In(stationary_layout(shape)).array(cols),
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
        """Output whole sums at ``port``: the lower halves, which come first, wait for the upper
        halves."""
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
        """Connect the north-going inputs to the first row."""
        m.d.comb += [row.load[c].eq(self.load[c]) for c in range(self.cols)]
        if EAST in self.shape.directions:
            m.d.comb += [row.south[c].eq(self.south[c]) for c in range(self.cols)]
