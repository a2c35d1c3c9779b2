"""Scan a program before the chain begins: check rules, and collect the streams of the program."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.conditions import among
from diastole_hw.vector.core.descriptor_check import InstructionCheck, instruction_layout
from diastole_sim.spec.micro import CONSTANTS, INPUTS, MAX_INSTRUCTIONS, OUTPUTS, When
from diastole_sim.spec.stream_table import ONCE_A_BLOCK, STREAMS, Kind


class ProgramScan(wiring.Component):
    """Check a program as :func:`diastole_sim.spec.micro.program_problems` does.

    Timing: 1 instruction is read per cycle, from the cycle after ``start`` on. ``done`` is high 3
    cycles after the read of the last instruction, or in the cycle after ``condition_valid`` rises
    if later. ``bad`` and ``used`` hold until the next start.

    Parameters
    ----------
    block : int
        B.

    Members
    -------
    start : In(1)
        Pulse. The remaining inputs are stable from ``start`` to ``done``.
    condition_valid : In(1)
        The kinds of the outputs are valid, until ``done``. The kinds of the inputs must be written
        by the end of the cycle after ``start``.
    first, length : In(range(256)), In(range(33))
        First instruction, and number of instructions, at least 1.
    kinds : In(array of 8 of 4 bits)
        Kinds of the streams, inputs first.
    read_en, read_at, word : Out(1), Out(range(256)), In(64)
        Read port of the instruction memory. A word is valid 1 cycle after the request.
    done : Out(1)
        Pulse.
    bad : Out(1)
        The program breaks a rule.
    used : Out(8)
        Streams that the program names.
    """

    word: data.View

    def __init__(self, *, block: int):
        self.block = block
        super().__init__(
            {
                "start": In(1),
                "condition_valid": In(1),
                "first": In(range(CONSTANTS)),
                "length": In(range(MAX_INSTRUCTIONS + 1)),
                "kinds": In(data.ArrayLayout(4, STREAMS)),
                "read_en": Out(1),
                "read_at": Out(range(CONSTANTS)),
                "word": In(instruction_layout()),
                "done": Out(1),
                "bad": Out(1),
                "used": Out(STREAMS),
            }
        )

    def elaborate(self, platform):
        m = Module()
        at = Signal.like(self.length)
        reading, looks, read, ends = Signal(), Signal(), Signal(), Signal()
        m.submodules.check = check = InstructionCheck(block=self.block)
        last = at + 1 == self.length
        m.d.comb += [
            self.read_en.eq(reading),
            self.read_at.eq(self.first + at),
            check.word.eq(self.word),
            check.panels.eq(Cat(self.kinds[n] == Kind.PANEL for n in range(INPUTS))),
        ]
        m.d.comb += ends.eq(read & self.condition_valid)
        m.d.sync += [
            looks.eq(reading),
            read.eq((looks & ~reading) | (read & ~self.condition_valid)),
            self.done.eq(ends),
        ]
        with m.If(reading):
            m.d.sync += [at.eq(at + 1), reading.eq(~last)]
        with m.If(looks):
            m.d.sync += self.used.eq(self.used | Cat(check.inputs, check.outputs))
        wrong = self._written(m, check.outputs, looks)
        with m.If((looks & check.bad) | (ends & wrong)):
            m.d.sync += self.bad.eq(1)
        with m.If(self.start):
            m.d.sync += [at.eq(0), reading.eq(1), self.used.eq(0), self.bad.eq(0)]
        return m

    def _written(self, m, outputs, looks):
        """Return whether an output that must be written once in every block is not written exactly
        once."""
        when, wrong = self.word.when, []
        for number in range(OUTPUTS):
            once = Signal(2, name=f"written_{number}")  # in a line's last block; in earlier blocks
            faulty = Signal(name=f"faulty_{number}")  # written twice, or only in the first block
            now = Signal(2, name=f"writes_{number}")
            m.d.comb += now.eq(Cat(when != When.NOT_LAST, when != When.LAST))
            with m.If(self.start):
                m.d.sync += [once.eq(0), faulty.eq(0)]
            with m.Elif(looks & outputs[number]):
                m.d.sync += once.eq(once | now)
                with m.If((once & now).any() | (when == When.FIRST)):
                    m.d.sync += faulty.eq(1)
            watched = among(self.kinds[INPUTS + number], ONCE_A_BLOCK) & self.used[INPUTS + number]
            wrong.append(watched & (faulty | ~once.all()))
        return reduce(or_, wrong, Const(0, 1))
