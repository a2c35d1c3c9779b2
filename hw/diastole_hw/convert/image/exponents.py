"""Store the exponent fields of groups: write bytes as words pass, and read bytes in the image's
order."""

from amaranth.hdl import Array, Assert, Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.convert.by_class import by_class
from diastole_hw.memory.ram import Ram
from diastole_sim.spec.require import require_int
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes


def field_banks(sizes: ConverterSizes, copy: int) -> int:
    """Return the number of bytes that a word may bring at once: a byte for every block in the word,
    or in the second copy for every column."""
    return sizes.lanes if copy else sizes.word_chunks


def field_rows(sizes: ConverterSizes, copy: int) -> int:
    """Return the number of rows, of :func:`field_banks` bytes, of the largest exponent field."""
    entries = sizes.by_class(sizes.exponent_entries)
    most = max(n for n, vectors in zip(entries, sizes.vectors, strict=True) if vectors or not copy)
    return -(-most // field_banks(sizes, copy))


def field_groups(sizes: ConverterSizes, copy: int) -> int:
    """Return the number of groups with fields written together: 1, or the groups of a strip."""
    return sizes.strip_groups if copy else 1


def field_layout(sizes: ConverterSizes, copy: int) -> data.StructLayout:
    """Return the layout of neighbouring bytes of an exponent field. The first byte lies at a
    multiple of the number of bytes. Bytes with ``enable`` are written. ``group``: number of the
    group in the strip."""
    banks = field_banks(sizes, copy)
    return data.StructLayout(
        {
            "enable": unsigned(banks),
            "row": range(max(2, field_rows(sizes, copy))),
            "group": range(field_groups(sizes, copy)),
            "values": data.ArrayLayout(unsigned(8), banks),
        }
    )


def field_byte_layout() -> data.StructLayout:
    """Return the layout of a byte of a group's exponent field. ``last``: the byte is the last of
    the field. ``end``: the group is the last of the groups that were written together."""
    return data.StructLayout({"byte": unsigned(8), "last": 1, "end": 1})


class ExponentField(wiring.Component):
    """Store the exponent fields of two groups of the first copy, or of two strips of the second
    copy.

    Bytes that no word brings belong to blocks outside the tensor, at the end of the field, and are
    zeros.

    Timing: the first byte is valid 2 cycles after ``filled``; 1 byte per cycle out.

    Parameters
    ----------
    sizes : ConverterSizes
    copy : int
        0 or 1; 1 only if a class has two copies.

    Members
    -------
    cls : In(2)
        Must hold until all bytes are read.
    write_en : In(1)
    write_half : In(1)
        Half to write; must be free.
    write : In(:func:`field_layout`)
        All bytes of a field from the first to the last written byte must be written exactly once.
        The last write must be the last byte of the last group. All groups of a strip, from the
        first group on, must get the same number of bytes. Not checked.
    filled : In(1)
        A pulse with the last write of a half or later. The halves are filled alternately, 0 first.
    freed : Out(1)
        A pulse when the last byte of a half is read. The half may be written from the next cycle
        on.
    o : Out(stream of :func:`field_byte_layout`)
        Bytes of the groups' fields without padding, group by group.
    """

    def __init__(self, sizes: ConverterSizes, *, copy: int):
        self.sizes = sizes
        self.copy = require_int("copy", copy, 0, int(sizes.two_copies))
        super().__init__(
            {
                "cls": In(2),
                "write_en": In(1),
                "write_half": In(1),
                "write": In(field_layout(sizes, copy)),
                "filled": In(1),
                "freed": Out(1),
                "o": Out(stream.Signature(field_byte_layout())),
            }
        )

    def elaborate(self, platform):
        m = Module()
        sizes = self.sizes
        counts = sizes.by_class(sizes.exponent_entries)
        banks, rows = field_banks(sizes, self.copy), max(2, field_rows(sizes, self.copy))
        count = Signal(range(max(counts)))
        group = Signal(range(field_groups(sizes, self.copy)))
        half = Signal()
        full = Signal(range(3))  # halves to be read
        move = Signal()
        read = Signal()
        last = Signal()
        last_group = Signal()
        of_last_group = Signal()  # the byte at the output is of the last group
        half_end = Signal()
        end = count == by_class(m, self.cls, [n - 1 for n in counts], "last_byte")
        m.d.comb += [
            last_group.eq(group == self._last_group(m, half)),
            move.eq(self.o.ready | ~self.o.valid),
            read.eq(move & full.any()),
            half_end.eq(end & last_group if self.copy else end),
            self.freed.eq(read & half_end),
        ]
        m.d.sync += full.eq(full + self.filled - self.freed)
        free = (full == 0) | ((full == 1) & (self.write_half != half))
        m.d.sync += Assert(~self.write_en | free, "a half is written before it was read")
        m.d.sync += Assert(~self.filled | (full != 2), "more than two halves are full")
        with m.If(move):
            m.d.sync += [self.o.valid.eq(full.any()), last.eq(end), of_last_group.eq(last_group)]
        with m.If(read):
            m.d.sync += count.eq(count + 1)
            with m.If(end):
                m.d.sync += [count.eq(0), group.eq(Mux(last_group, 0, group + 1))]
            with m.If(self.freed):
                m.d.sync += half.eq(~half)

        # Read all banks, and select the byte a cycle later.
        present = self._present(m, max(counts), half, count)
        bank = Signal(exact_log2(banks))
        with m.If(read):
            m.d.sync += bank.eq(count)
        row = Signal(range(rows))
        m.d.comb += row.eq(count >> len(bank))
        results = []
        for n in range(banks):
            ram = Ram(width=8, depth=2 * rows * field_groups(sizes, self.copy))
            m.submodules[f"bank{n}"] = ram
            results.append(ram.read_data)
            m.d.comb += [
                ram.write_en.eq(self.write_en & self.write.enable[n]),
                ram.write_addr.eq(Cat(self.write.row, self.write.group, self.write_half)),
                ram.write_data.eq(self.write.values[n]),
                ram.read_en.eq(read),
                ram.read_addr.eq(Cat(row, group, half)),
            ]
        read_present = Signal()
        with m.If(read):
            m.d.sync += read_present.eq(present)
        m.d.comb += [
            self.o.p.byte.eq(Mux(read_present, Array(results)[bank], 0)),
            self.o.p.last.eq(last),
            self.o.p.end.eq(of_last_group),
        ]
        return m

    def _last_group(self, m, half):
        """Return the number of the last group of the half that is read."""
        if not self.copy:
            return Const(0)
        last_groups = Array(Signal.like(self.write.group, name=f"last_group{n}") for n in range(2))
        with m.If(self.write_en):
            m.d.sync += last_groups[self.write_half].eq(self.write.group)
        return last_groups[half]

    def _present(self, m, most, half, count):
        """Return whether byte ``count`` of a field was written, in the half that is read. Written
        bytes are counted for the first group."""
        byte_counts = Array(Signal(range(most + 1), name=f"bytes{n}") for n in range(2))
        brought = sum(self.write.enable[n] for n in range(field_banks(self.sizes, self.copy)))
        with m.If(self.freed):
            m.d.sync += byte_counts[half].eq(0)
        with m.If(self.write_en & (self.write.group == 0)):
            m.d.sync += byte_counts[self.write_half].eq(byte_counts[self.write_half] + brought)
        return count < byte_counts[half]
