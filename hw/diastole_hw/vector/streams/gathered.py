"""Where gathered rows begin, worked out once for a line of blocks."""

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.data_registers import data_register
from diastole_hw.memory.ram import Ram
from diastole_hw.vector.stream_layouts import VectorShape
from diastole_sim.spec.command_table import ADDRESS_BITS

INDEX_BITS = 24
"""Of the number of a row."""
NUMBER_DIGIT = 4
"""Bits of a number that are multiplied in a cycle."""
LISTS = 2
"""Whose rows are kept: those of a line, and those of the next one."""


class GatheredRows(wiring.Component):
    """The addresses ``base`` + number * ``pitch``, modulo 2^40, of the rows of two lists at most;
    they can be read again and again, until their list is let go.

    Timing: ``there`` rises 4 cycles after a number came, and one more for every four bits up to its
    highest; where several wait, each takes 1 cycle and these. So a list is ready before the line
    before it is read, if that has a few blocks.

    Parameters
    ----------
    shape : VectorShape

    Members
    -------
    base, pitch : In(40), In(32)
        Must hold while numbers of a list are located.
    number_en, number : In(1), In(24)
        The next number of a list, B of one at most.
    last : In(1)
        It is the last one of its list.
    at : In(range(B))
        A row of the oldest list that was not let go.
    there : Out(1)
        That row is located. A function of registers and ``at``.
    read_en, address : In(1), Out(40)
        Of that row, one cycle later; it holds until the next reading.
    let_go : In(1)
        A pulse: the oldest list, all of which is located, is not read from the next cycle on.
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
                "there": Out(1),
                "read_en": In(1),
                "address": Out(ADDRESS_BITS),
                "let_go": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        addresses = Ram(width=ADDRESS_BITS, depth=LISTS << self.shape.row_bits)
        m.submodules.addresses = addresses
        located, last, address = self._locate(m)
        found, bank = Signal(range(self.shape.block + 1)), Signal()  # of a list not yet whole
        lists, oldest = Signal(range(LISTS + 1)), Signal()  # whole ones; where the first is
        whole = Signal()
        m.d.comb += [
            whole.eq(located & last),
            self.there.eq((lists != 0) | (self.at < found)),
            addresses.write_en.eq(located),
            addresses.write_addr.eq(Cat(found[: self.shape.row_bits], bank)),
            addresses.write_data.eq(address),
            addresses.read_en.eq(self.read_en),
            addresses.read_addr.eq(Cat(self.at, oldest)),
            self.address.eq(addresses.read_data),
        ]
        m.d.sync += [lists.eq(lists + whole - self.let_go), oldest.eq(oldest ^ self.let_go)]
        with m.If(located):
            m.d.sync += [found.eq(Mux(last, 0, found + 1)), bank.eq(bank ^ last)]
        m.d.sync += Assert(~self.let_go | (lists != 0), "a list is let go that is not here")
        return m

    def _locate(self, m):
        """One number after the other: whether one is located now, whether it is the last one of its
        list, and its address."""
        depth = max(2, self.shape.block)
        m.submodules.numbers = numbers = Ram(width=INDEX_BITS + 1, depth=depth)
        put, got = Signal(range(depth)), Signal(range(depth))
        waiting, read = Signal(range(depth + 1)), Signal()  # in the memory; one read from there
        busy, last = Signal(), data_register(name="last_located")
        total, term = data_register(ADDRESS_BITS, name="total"), data_register(ADDRESS_BITS)
        left = data_register(INDEX_BITS, name="number_left")
        taken, located = Signal(), Signal()
        m.d.comb += [
            located.eq(busy & ~left.any()),
            taken.eq(read & (~busy | located)),
            numbers.write_en.eq(self.number_en),
            numbers.write_addr.eq(put),
            numbers.write_data.eq(Cat(self.number, self.last)),
            numbers.read_en.eq((waiting != 0) & (~read | taken)),
            numbers.read_addr.eq(got),
        ]
        m.d.sync += [
            put.eq(put + self.number_en),
            got.eq(got + numbers.read_en),
            waiting.eq(waiting + self.number_en - numbers.read_en),
            read.eq(numbers.read_en | (read & ~taken)),
            busy.eq(taken | (busy & ~located)),
        ]
        with m.If(taken):
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
