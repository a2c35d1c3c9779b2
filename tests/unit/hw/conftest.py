"""A small design with everything that emission has to handle."""

import pytest
from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.memory.ram import Ram

PAIR = data.StructLayout({"low": unsigned(4), "high": unsigned(4)})


class Add(wiring.Component):
    """``o = a + b + offset``, after ``stages`` (0 or 1) cycles."""

    def __init__(self, width: int, *, offset: int = 0, stages: int = 0):
        self.width, self.offset, self.stages = width, offset, stages
        super().__init__({"a": In(width), "b": In(width), "o": Out(width)})

    def elaborate(self, platform):
        m = Module()
        total = Signal(self.width)
        m.d.comb += total.eq(self.a + self.b + self.offset)
        if self.stages:
            m.d.sync += self.o.eq(total)
        else:
            m.d.comb += self.o.eq(total)
        return m


class Inner(wiring.Component):
    """Places an adder that is equal to one of the top's."""

    a: In(8)
    o: Out(8)

    def elaborate(self, platform):
        m = Module()
        m.submodules.wide = wide = Add(8)
        m.d.comb += [wide.a.eq(self.a), wide.b.eq(5), self.o.eq(wide.o)]
        return m


class Demo(wiring.Component):
    """Adders of three kinds, one of them not placed by hand, and a memory."""

    i: In(PAIR)
    o: Out(8)

    def elaborate(self, platform):
        m = Module()
        first, late, narrow = Add(8), Add(8, stages=1), Add(4)
        second = Inner()
        ram = Ram(width=8, depth=16)
        m.submodules.first = first
        m.submodules.second = second
        m.submodules.late = late
        m.submodules.narrow = narrow
        m.submodules.ram = ram
        m.d.comb += [
            first.a.eq(self.i),
            first.b.eq(1),
            second.a.eq(first.o),
            late.a.eq(second.o),
            late.b.eq(3),
            narrow.a.eq(self.i.low),
            narrow.b.eq(self.i.high),
            ram.write_en.eq(1),
            ram.write_data.eq(late.o),
            ram.read_en.eq(1),
            self.o.eq(ram.read_data + narrow.o),
        ]
        m.d.sync += ram.write_addr.eq(ram.write_addr + 1)
        m.d.comb += ram.read_addr.eq(ram.write_addr - 1)
        return m


@pytest.fixture
def add():
    return Add


@pytest.fixture
def demo():
    return Demo()
