"""R x C cells: vectors hop north and east, partial sums east and north, all by one cell a cycle."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole.array.signature import (
    control_layout,
    deficit_bits,
    held_layout,
    sum_layout,
    vector_layout,
)
from diastole.cell.cell import Cell, pipeline_stages, require_cell_parameters
from diastole.emit.place import place
from diastole_sim.check import require_int


class Array(wiring.Component):
    """Multiply R x C held blocks by one vector per port and slot, in either direction.

    A slot from south to east adds, in row of cells r, the aligned products of the C vectors with
    the blocks of that row; one from west to north, in column c, those of the R vectors with the
    blocks of that column (:class:`diastole.cell.cell.Cell`).

    Timing, for a slot t, its number in cycles: vector at ``south[c]`` in t + c, or at ``west[r]``
    in t + r; ``control[r]`` in t + r, ``swap`` with the slot before the first of a new pass,
    whether or not anything is in that slot. Sums at ``east[r]`` in t + ``east_latency`` + r, at
    ``north[c]`` in t + ``north_latency`` + c. A slot per cycle, the directions mixed in any way;
    an empty slot is a vector with ``nonzero`` 0.

    Loading: word n at ``load[c]`` in cycle t + c. If word 0 comes not before the swap of the
    previous pass, and the last word before the swap of its own, both counted without the skew,
    every word arrives in time.

    Parameters
    ----------
    rows, cols : int
        R and C, 1 to 64.
    block, south_bits, west_bits, held_bits, fraction, in_place, product_registers
        As :class:`diastole.cell.cell.Cell`; without ``in_place`` no ``west`` and ``north``.
    sum_bits : int
        SW: bits that hold every block sum which occurs.

    Members
    -------
    control, west, east : R times
    south, load, north : C times

    ``psum_bits`` = SW + F + ceil(log2 max(R, C)), ``deficit_bits``, ``east_latency`` and
    ``north_latency`` (cycles from south[0] or west[0] to port 0) are attributes. ValueError if a
    parameter is out of range.
    """

    def __init__(
        self,
        *,
        rows: int,
        cols: int,
        block: int,
        south_bits: int,
        west_bits: int,
        held_bits: int,
        sum_bits: int,
        fraction: int,
        in_place: bool = True,
        product_registers: bool = False,
    ):
        require_cell_parameters(
            rows=rows,
            block=block,
            south_bits=south_bits,
            west_bits=west_bits,
            held_bits=held_bits,
            sum_bits=sum_bits,
            fraction=fraction,
        )
        require_int("cols", cols, 1, 64)
        self.rows, self.cols, self.block = rows, cols, block
        self.south_bits, self.west_bits, self.held_bits = south_bits, west_bits, held_bits
        self.sum_bits, self.fraction = sum_bits, fraction
        self.in_place, self.product_registers = in_place, product_registers
        self.psum_bits = sum_bits + fraction + (max(rows, cols) - 1).bit_length()
        self.deficit_bits = deficit_bits(sum_bits, fraction)
        stages = pipeline_stages(product_registers)
        self.east_latency, self.north_latency = cols + stages, rows + stages
        sums = sum_layout(block, self.psum_bits)
        members = {
            "control": In(control_layout()).array(rows),
            "south": In(vector_layout(block, south_bits, self.deficit_bits)).array(cols),
            "load": In(held_layout(rows, block, held_bits, self.deficit_bits)).array(cols),
            "east": Out(sums).array(rows),
        }
        if in_place:
            west = vector_layout(block, west_bits, self.deficit_bits)
            members |= {"west": In(west).array(rows), "north": Out(sums).array(cols)}
        super().__init__(members)

    def _cell(self) -> Cell:
        return Cell(
            rows=self.rows,
            block=self.block,
            south_bits=self.south_bits,
            west_bits=self.west_bits,
            held_bits=self.held_bits,
            sum_bits=self.sum_bits,
            psum_bits=self.psum_bits,
            fraction=self.fraction,
            in_place=self.in_place,
            product_registers=self.product_registers,
        )

    def elaborate(self, platform):
        m = Module()
        cells = [[self._cell() for _ in range(self.cols)] for _ in range(self.rows)]
        for r, row in enumerate(cells):
            for c, cell in enumerate(row):
                m.submodules[f"cell_{r}_{c}"] = place(cell, platform)
                self._wire(m, cells, r, c)
            m.d.comb += self.east[r].eq(row[-1].psum)
        if self.in_place:
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
            cell.south.eq(south.north if south else self.south[c]),
            cell.load.eq(south.load_north if south else self.load[c]),
        ]
        if west:
            m.d.comb += cell.psum_west.eq(west.psum)
        if self.in_place:
            m.d.comb += cell.west.eq(west.east if west else self.west[r])
            if south:
                m.d.comb += cell.psum_south.eq(south.psum)
