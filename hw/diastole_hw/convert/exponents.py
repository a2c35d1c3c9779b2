"""The exponent fields of groups: written as their words go by, read in the image's order."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.convert.geometry import Geometry, by_class
from diastole_hw.invariant import invariant
from diastole_hw.memory.ram import Ram
from diastole_hw.place import place
from diastole_sim.spec.numerics import Numerics


def field_banks(sizes: Geometry) -> int:
    """Bytes that a word may bring at once: those of its columns, or of its blocks."""
    return sizes.lanes if sizes.two_copies else sizes.word_chunks


def field_rows(sizes: Geometry) -> int:
    """Rows of as many bytes, of the largest exponent field."""
    return -(-max(sizes.of_classes(sizes.exponent_entries)) // field_banks(sizes))


def field_layout(sizes: Geometry) -> data.StructLayout:
    """Neighbouring bytes of an exponent field, the first at a multiple of their number; those that
    have ``enable`` are written."""
    banks = field_banks(sizes)
    return data.StructLayout(
        {
            "enable": unsigned(banks),
            "row": range(max(2, field_rows(sizes))),
            "values": data.ArrayLayout(unsigned(8), banks),
        }
    )


class ExponentField(wiring.Component):
    """Hold the exponent fields of two groups.

    Bytes that no word brought are those of blocks beside the tensor, the last of the field: zeros.

    Timing: the first byte of a group is valid 2 cycles after ``filled``; one byte per cycle out.

    Parameters
    ----------
    numerics : Numerics
    data_width : int
        As in :class:`Geometry`.

    Members
    -------
    cls : In(2)
        Must hold until all is read.
    write_en : In(1)
    write_half : In(1)
        Must be free.
    write : In(:func:`field_layout`)
        Every byte of the field must be written, once, up to the last that is; not checked.
    filled : In(1)
        A pulse, with the last write of a half or later: the halves are filled in turn, 0 first.
    freed : Out(1)
        A pulse when the last byte of a half has been read: it may be written from the next cycle.
    o : Out(stream of {"byte": unsigned(8), "last": 1})
        The bytes of a group's field without padding, the last of them marked.
    """

    def __init__(self, *, numerics: Numerics, data_width: int):
        self.numerics, self.data_width = numerics, data_width
        sizes = self.geometry = Geometry(numerics=numerics, data_width=data_width)
        byte = data.StructLayout({"byte": unsigned(8), "last": 1})
        super().__init__(
            {
                "cls": In(2),
                "write_en": In(1),
                "write_half": In(1),
                "write": In(field_layout(sizes)),
                "filled": In(1),
                "freed": Out(1),
                "o": Out(stream.Signature(byte)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        sizes = self.geometry
        counts = sizes.of_classes(sizes.exponent_entries)
        rows = max(2, field_rows(sizes))
        count = Signal(range(max(counts)))
        half = Signal()
        full = Signal(range(3))  # halves to be read
        move = Signal()
        read = Signal()
        last = Signal()
        end = count == by_class(m, self.cls, [n - 1 for n in counts], "last_byte")
        m.d.comb += [
            move.eq(self.o.ready | ~self.o.valid),
            read.eq(move & full.any()),
            self.freed.eq(read & end),
        ]
        m.d.sync += full.eq(full + self.filled - self.freed)
        free = (full == 0) | ((full == 1) & (self.write_half != half))
        invariant(m, platform, ~self.write_en | free, "a half is written before it was read")
        invariant(m, platform, ~self.filled | (full != 2), "more than two halves are full")
        with m.If(move):
            m.d.sync += [self.o.valid.eq(full.any()), last.eq(end)]
        with m.If(read):
            m.d.sync += count.eq(count + 1)
            with m.If(end):
                m.d.sync += [count.eq(0), half.eq(~half)]

        present = self._present(m, max(counts), half, count)
        bank_bits = exact_log2(field_banks(sizes))
        bank = Signal(bank_bits)
        with m.If(read):
            m.d.sync += bank.eq(count)
        row = Signal(range(rows))
        m.d.comb += row.eq(count >> bank_bits)
        results = []
        for n in range(2**bank_bits):
            ram = Ram(width=8, depth=2 * rows)
            m.submodules[f"bank{n}"] = place(ram, platform)
            results.append(ram.read_data)
            m.d.comb += [
                ram.write_en.eq(self.write_en & self.write.enable[n]),
                ram.write_addr.eq(Cat(self.write.row, self.write_half)),
                ram.write_data.eq(self.write.values[n]),
                ram.read_en.eq(read),
                ram.read_addr.eq(Cat(row, half)),
            ]
        there = Signal()
        with m.If(read):
            m.d.sync += there.eq(present)
        m.d.comb += [self.o.p.byte.eq(Mux(there, Array(results)[bank], 0)), self.o.p.last.eq(last)]
        return m

    def _present(self, m, most, half, count):
        """Whether byte ``count`` of the half that is read was written."""
        held = Array(Signal(range(most + 1), name=f"bytes{n}") for n in range(2))
        brought = sum(self.write.enable[n] for n in range(field_banks(self.geometry)))
        with m.If(self.freed):
            m.d.sync += held[half].eq(0)
        with m.If(self.write_en):
            m.d.sync += held[self.write_half].eq(held[self.write_half] + brought)
        return count < held[half]
