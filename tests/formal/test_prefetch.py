# amaranth: UnusedElaboratable=no
"""Every short program of the vector unit ends, and in time."""

import pytest
from amaranth.hdl import Array, Assert, Assume, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In

from diastole_hw.vector.core.descriptor_check import instruction_layout
from diastole_hw.vector.core.timing import special_cycles
from diastole_hw.vector.core.vector_core import VectorCore
from diastole_hw.vector.stream_layouts import VectorShape
from diastole_sim.spec.micro import NO_OUTPUT, REGISTERS, Source
from formal.prove import prove_bounded, refute_bounded
from support.sweep import sweep

COUNTS = {1: 20, 2: 22}  # assertions, of which all but one are the unit's own
MOST = 3  # instructions
FIRST = 6  # cycles from the start to the first instruction


class EndSpec(wiring.Component):
    """A program of at most three instructions, any but those that name streams or turn rows farther
    than a block has, over one block that is there from the start; begun in the first cycle, and
    done within ``cycles`` of them."""

    def __init__(self, dut: VectorCore, cycles: int):
        self.dut, self.cycles = dut, cycles
        super().__init__(
            {
                "length": In(range(MOST + 1)),
                "words": In(data.ArrayLayout(instruction_layout(), MOST)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = self.dut
        begun, ended, taken = Signal(), Signal(), Signal()
        age = Signal(range(self.cycles + 1))
        self._program(m, begun)
        with m.If(dut.blocks.valid & dut.blocks.ready):
            m.d.sync += taken.eq(1)
        with m.If(dut.done):
            m.d.sync += ended.eq(1)
        m.d.sync += [begun.eq(1), age.eq(Mux(age == self.cycles, age, age + 1))]
        m.d.comb += [
            dut.start.eq(~begun),
            dut.blocks.valid.eq(begun & ~taken),
            dut.blocks.p.rows.eq(dut.shape.block),
            dut.blocks.p.cols.eq(dut.shape.block),
            *(dut.blocks.p[name].eq(1) for name in ("first", "last", "first_row", "end")),
            dut.space.eq(1),
            dut.output_block.ready.eq(1),
            Assert((age != self.cycles) | ended, "a program does not end"),
        ]
        return m

    def _program(self, m, begun):
        """Words that stay, as they are asked for."""
        dut = self.dut
        words, length = (
            Signal(self.words.shape(), name="kept"),
            Signal.like(self.length, name="kept_length"),
        )
        m.d.sync += [words.eq(self.words), length.eq(self.length)]
        same = (words.as_value() == self.words.as_value()) & (length == self.length)
        m.d.comb += Assume(~begun | same)
        for word in self.words:
            m.d.comb += Assume((word.d < REGISTERS) & (word.o == NO_OUTPUT))
            m.d.comb += Assume(word.turn_rows <= dut.shape.row_bits)
            for letter in "abc":
                known = (word[letter] < REGISTERS) | (word[letter] == Source.CONSTANT)
                m.d.comb += Assume(known)
        fetched = Signal(range(MOST))
        with m.If(dut.program_en):
            m.d.sync += fetched.eq(dut.program_at)
        m.d.comb += [
            dut.program_length.eq(self.length),
            dut.program_word.eq(Array(word.as_value() for word in self.words)[fetched]),
        ]


def ends(block, more):
    """All instructions special, one after the other, and ``more`` cycles."""
    shape = VectorShape(block=block, data_width=32 * block, specials=1, panel_vectors=4)
    cycles = FIRST + MOST * special_cycles(shape) + more
    return EndSpec(VectorCore(shape), cycles), cycles + 2


@pytest.mark.parametrize("block", [1, sweep(2)])
def test_every_short_program_ends(block):
    spec, cycles = ends(block, 3)
    prove_bounded(spec, assertions=COUNTS[block], cycles=cycles)


def test_some_program_takes_that_long():
    spec, cycles = ends(1, -2)
    refute_bounded(spec, assertions=COUNTS[1], cycles=cycles)
