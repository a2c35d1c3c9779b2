"""Compute the addresses of gathered rows, once per line of blocks. A list selects gathered rows."""

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.data_registers import data_register
from diastole_hw.memory.ram import Ram
from diastole_hw.vector.stream_layouts import VectorShape
from diastole_sim.spec.command_table import ADDRESS_BITS

INDEX_BITS = 24
"""Bits of a row's number."""
NUMBER_DIGIT = 4
"""Bits of a number that are multiplied in a cycle."""
LISTS = 2
"""Number of stored lists: the rows of a line, and the rows of the next line."""


class GatheredRows(wiring.Component):
    """Compute and store the addresses ``base`` + number * ``pitch``, modulo 2^40, of the rows of at
    most 2 lists. The addresses of a list can be read repeatedly, until the list is released.

    Timing: ``available`` rises 4 cycles after the arrival of a number, plus 1 cycle for every 4
    bits up to the number's highest 1. If several numbers wait, every number takes 1 cycle plus the
    cycles for the number's bits. A list is therefore ready before the previous line has been read,
    if the previous line has a few blocks.

    Parameters
    ----------
    shape : VectorShape

    Members
    -------
    base, pitch : In(40), In(32)
        Stable while addresses of a list are computed.
    number_en, number : In(1), In(24)
        Next number of a list. A list has at most B numbers.
    last : In(1)
        The number is the last number of the list.
    at : In(range(B))
        Row of the oldest list that was not released.
    available : Out(1)
        The address of row ``at`` is available. A function of registers and ``at``.
    read_en, address : In(1), Out(40)
        Address of row ``at``, valid 1 cycle after ``read_en`` until the next read.
    discard : In(1)
        Pulse: the oldest list, whose addresses are all computed, is not read from the next cycle
        on.
    """

    def __init__(self, shape: VectorShape):
        self.shape = shape
        super().__init__(
            {
                "base": In(ADDRESS_BITS),
                "pitch": In(32),
                "number_en": In(1),
                "number": In(INDEX_BITS),
                "last": In(1),
                "at": In(range(shape.block)),
                "available": Out(1),
                "read_en": In(1),
                "address": Out(ADDRESS_BITS),
                "discard": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        addresses = Ram(width=ADDRESS_BITS, depth=LISTS << self.shape.row_bits)
        m.submodules.addresses = addresses
        located, last, address = self._locate(m)
        rows, bank = Signal(range(self.shape.block + 1)), Signal()  # incomplete list: rows, bank
        lists, oldest = Signal(range(LISTS + 1)), Signal()  # complete lists; bank of the oldest
        whole = Signal()
        m.d.comb += [
            whole.eq(located & last),
            self.available.eq((lists != 0) | (self.at < rows)),
            addresses.write_en.eq(located),
            addresses.write_addr.eq(Cat(rows[: self.shape.row_bits], bank)),
            addresses.write_data.eq(address),
            addresses.read_en.eq(self.read_en),
            addresses.read_addr.eq(Cat(self.at, oldest)),
            self.address.eq(addresses.read_data),
        ]
        m.d.sync += [lists.eq(lists + whole - self.discard), oldest.eq(oldest ^ self.discard)]
        with m.If(located):
            m.d.sync += [rows.eq(Mux(last, 0, rows + 1)), bank.eq(bank ^ last)]
        m.d.sync += Assert(~self.discard | (lists != 0), "a list is let go that is not here")
        return m

    def _locate(self, m):
        """Multiply the numbers in sequence. Return whether an address is finished in this cycle,
        whether the number is the last number of the list, and the address."""
        depth = max(2, self.shape.block)
        m.submodules.numbers = numbers = Ram(width=INDEX_BITS + 1, depth=depth)
        put, got = Signal(range(depth)), Signal(range(depth))
        waiting, read = Signal(range(depth + 1)), Signal()  # numbers in memory; a number is read
        busy, last = Signal(), data_register(name="last_located")
        total, term = data_register(ADDRESS_BITS, name="total"), data_register(ADDRESS_BITS)
        left = data_register(INDEX_BITS, name="number_left")
        accepted, located = Signal(), Signal()
        m.d.comb += [
            located.eq(busy & ~left.any()),
            accepted.eq(read & (~busy | located)),
            numbers.write_en.eq(self.number_en),
            numbers.write_addr.eq(put),
            numbers.write_data.eq(Cat(self.number, self.last)),
            numbers.read_en.eq((waiting != 0) & (~read | accepted)),
            numbers.read_addr.eq(got),
        ]
        m.d.sync += [
            put.eq(put + self.number_en),
            got.eq(got + numbers.read_en),
            waiting.eq(waiting + self.number_en - numbers.read_en),
            read.eq(numbers.read_en | (read & ~accepted)),
            busy.eq(accepted | (busy & ~located)),
        ]
        with m.If(accepted):
            m.d.sync += [
                *(total.eq(self.base), term.eq(self.pitch)),
                *(left.eq(numbers.read_data[:INDEX_BITS]), last.eq(numbers.read_data[-1])),
            ]
        with m.Elif(left.any()):
            m.d.sync += [
                total.eq(total + term * left[:NUMBER_DIGIT]),
                left.eq(left >> NUMBER_DIGIT),
                term.eq(term << NUMBER_DIGIT),
            ]
        full = waiting == depth
        m.d.sync += Assert(~(self.number_en & full), "a number of a row has no place")
        return located, last, total
