"""Memory of rows with 3 read ports: registers, and results of the special lanes."""

from amaranth.hdl import Assert, Module, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.memory.ram import Ram
from diastole_hw.vector.stream_layouts import VectorShape, row_layout

PORTS = 3
"""Operands a, b and c of an instruction."""


class RowFile(wiring.Component):
    """Store ``rows`` rows of a block in 3 memories with the same contents. The memories are written
    together and read separately.

    Timing: a written row can be read from the next cycle on, not in the cycle of the write. A read
    row is available 1 cycle later, and holds until the next read of the port.

    Parameters
    ----------
    shape : VectorShape
    rows : int
        2 or more.

    Members
    -------
    write_en, write_at, write : In(1), In(range(rows)), In(:func:`row_layout`)
    read_en, read_at : In(3), In(array of 3 range(rows))
    read : Out(array of 3 :func:`row_layout`)
    """

    def __init__(self, shape: VectorShape, *, rows: int):
        self.shape, self.rows = shape, rows
        super().__init__(
            {
                "write_en": In(1),
                "write_at": In(range(rows)),
                "write": In(row_layout(shape)),
                "read_en": In(PORTS),
                "read_at": In(data.ArrayLayout(range(rows), PORTS)),
                "read": Out(data.ArrayLayout(row_layout(shape), PORTS)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        for port in range(PORTS):
            m.submodules[f"port{port}"] = ram = Ram(width=self.shape.vector_bits, depth=self.rows)
            m.d.comb += [
                ram.write_en.eq(self.write_en),
                ram.write_addr.eq(self.write_at),
                ram.write_data.eq(self.write),
                ram.read_en.eq(self.read_en[port]),
                ram.read_addr.eq(self.read_at[port]),
                Value.cast(self.read[port]).eq(ram.read_data),
            ]
            meets = self.write_en & self.read_en[port] & (self.read_at[port] == self.write_at)
            m.d.sync += Assert(~meets, "a row is read while it is written")
        return m
