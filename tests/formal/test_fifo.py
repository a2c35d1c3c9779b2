"""The queue: nothing lost, repeated, reordered or invented; no value taken that has no room."""

import pytest
from amaranth.hdl import Array, Assert, Module, Mux, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.stream import fifo
from diastole_hw.stream.fifo import StreamFifo
from formal.prove import prove, refute

ASSERTIONS = {"registers": 6, "distributed": 7, "output_register": 7, "memory": 6}
"""By where the words are; one that is shown as it is read is not being written."""


class FifoSpec(wiring.Component):
    """A shift register of the values that are in the queue, beside the queue.

    The probes are for the induction: the queue's pointers, and its words on top of each other. They
    say where the values stand; that what comes out is right then follows from the unit's logic.
    """

    def __init__(self, dut: StreamFifo):
        self.dut = dut
        words = {f"word{n}": In(1) for n in range(dut.depth)}
        pointer = In(range(dut.depth))
        probes = {"write": pointer, "read": pointer, "waiting": In(range(dut.depth + 1)), **words}
        values = stream.Signature(dut.shape)
        super().__init__({"i": In(values), "o": Out(values), **probes})

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = self.dut
        wiring.connect(m, wiring.flipped(self.i), dut.i)
        wiring.connect(m, dut.o, wiring.flipped(self.o))
        # Oldest first.
        inside = Array(Signal(dut.shape, name=f"inside{n}") for n in range(dut.depth + 1))
        count = Signal(range(dut.depth + 1))
        taken = self.i.valid & self.i.ready
        released = self.o.valid & self.o.ready
        with m.If(released):
            for n in range(dut.depth):
                m.d.sync += inside[n].eq(inside[n + 1])
        with m.If(taken):
            m.d.sync += inside[count - released].eq(self.i.payload)
        m.d.sync += count.eq(count + taken - released)

        m.d.comb += Assert(dut.level == count, "wrong level")
        m.d.comb += Assert(self.i.ready == (count < dut.depth), "refuses with room, or overflows")
        m.d.comb += Assert(~self.o.valid | (count > 0), "a value from nowhere")
        m.d.comb += Assert(~self.o.valid | (self.o.payload == inside[0]), "not the oldest value")
        kept = Signal()  # values in the queue, and yet none offered in the last cycle
        m.d.sync += kept.eq((count > 0) & ~self.o.valid)
        m.d.comb += Assert(~kept | self.o.valid, "keeps a value back")
        self._state(m, inside, count)
        return m

    def _state(self, m, inside, count):
        """Value n of the queue is in word (read + n) modulo the depth; of two registers in word
        n."""
        depth = self.dut.depth
        if self.dut.direct and self.dut.in_registers and depth == 2:
            right = [(count <= n) | (getattr(self, f"word{n}") == inside[n]) for n in range(2)]
            m.d.comb += Assert(right[0] & right[1], "state of the queue")
            return
        words = Array(getattr(self, f"word{n}") for n in range(depth))
        in_memory = depth > fifo.SHORT_QUEUE
        read = in_memory or self.dut.output_register  # what is offered, already
        offered = self.o.valid if read else 0
        good = (self.read < depth) & (self.write < depth)
        if in_memory:
            good &= self.waiting == count - offered
        place = self.read
        for n in range(depth):
            good &= (count - offered <= n) | (words[place] == inside[n + offered])
            good &= (count - offered != n) | (self.write == place)
            place = Mux(place == depth - 1, 0, place + 1)
        good &= (count - offered != depth) | (self.write == place)
        m.d.comb += Assert(good, "state of the queue")


def probes(kind: str, depth: int) -> dict[str, str]:
    names = {"write": "dut.write", "read": "dut.read"}
    if (kind, depth) == ("registers", 2):
        return {"word0": "dut.oldest", "word1": "dut.behind"}
    if kind == "registers":
        return names | {f"word{n}": f"dut.word{n}" for n in range(depth)}
    if kind == "memory":
        names["waiting"] = "dut.waiting"
    return names | {f"word{n}": f"dut.ram.words[{n}]" for n in range(depth)}


@pytest.fixture(params=list(ASSERTIONS))
def kind(request, monkeypatch):
    """Short queues of a bit are made of registers; here also of memories."""
    if request.param == "memory":
        monkeypatch.setattr(fifo, "SHORT_QUEUE", 0)
    if request.param in ("distributed", "output_register"):
        monkeypatch.setattr(fifo, "LEAST_WORDS", 2)
        monkeypatch.setattr(fifo, "LEAST_BITS", 0)
    return request.param


def queue(kind, depth, unit=StreamFifo):
    """Of bits."""
    return unit(unsigned(1), depth, output_register=kind == "output_register")


@pytest.mark.parametrize("depth", [2, 3, 5])
def test_queue(kind, depth):
    prove(FifoSpec(queue(kind, depth)), assertions=ASSERTIONS[kind], probes=probes(kind, depth))


class NeverWraps(StreamFifo):
    """Its pointers wrap at a power of two only."""

    def _after(self, pointer):
        return pointer + 1


class Overflows(StreamFifo):
    """Takes values that it has no room for."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += self.i.ready.eq(1)
        return m


class Repeats(StreamFifo):
    """Does not move on when a value enters as another leaves."""

    def _direct(self, m, taken, released):
        super()._direct(m, taken, released & ~taken)

    def _output_register(self, m, taken, released):
        super()._output_register(m, taken, released & ~taken)

    def _memory(self, m, taken, released):
        super()._memory(m, taken, released & ~taken)


class Swaps(StreamFifo):
    """Offers values from the wrong word: all but the first."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        seen = Signal()
        m.d.sync += seen.eq(seen | self.o.valid)
        with m.If(seen):
            m.d.comb += self.o.payload.eq(self.i.payload)
        return m


@pytest.mark.parametrize("broken", [NeverWraps, Overflows, Repeats, Swaps])
@pytest.mark.sampled(2)
def test_broken_queue_is_refuted(kind, broken):
    spec = FifoSpec(queue(kind, 3, broken))
    refute(spec, assertions=ASSERTIONS[kind], probes=probes(kind, 3))
