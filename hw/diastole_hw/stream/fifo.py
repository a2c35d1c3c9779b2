"""A first-in first-out queue between two streams; the only kind that products contain."""

from amaranth.hdl import Array, Assert, Cat, Const, Module, Mux, Shape, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.data_registers import data_register
from diastole_hw.memory.distributed_ram import DistributedRam
from diastole_hw.memory.ram import Ram
from diastole_sim.spec.require import require_int

REGISTERS = 16
"""Deepest queue whose oldest word is there without a read; deeper ones keep their words in a
:class:`Ram`, unless they must be quick."""
REGISTER_BITS = 4096
"""Most bits of such a queue."""
LEAST_WORDS = 3
"""Least depth of a queue whose words are in a :class:`DistributedRam`: of two words a bit is two
registers and a multiplexer of one LUT, where distributed RAM takes one and a half."""
LEAST_BITS = 24
"""Least bits of one: fewer are no memory that anybody would replace."""


class StreamFifo(wiring.Component):
    """Pass values from ``i`` to ``o`` in order; holds up to ``depth`` of them.

    Timing: 1 value per cycle in and out (depth 1: one every second cycle); a value taken leaves 1
    cycle later up to a depth of ``REGISTERS`` and ``REGISTER_BITS`` or where it is ``quick``, 2
    cycles later else. A word is never read in the cycle in which it is written.
    ``i.ready``, ``o.valid`` and ``level`` are functions of registers only, so the queue cuts every
    path through a handshake; a full queue takes nothing in the cycle in which a value leaves it.
    ``o.payload`` while ``o.valid`` is low is anything.

    Parameters
    ----------
    shape : ShapeLike
        Of the payload.
    depth : int
        Values it can hold (1 to 65536).
    quick : bool
        Values leave 1 cycle later whatever its depth.
    still : bool
        What an empty queue shows, which is no value, changes only when one is taken. Else, where
        words are in no :class:`Ram`, it follows what is offered, and whether that is taken may be
        known late.
    ahead : bool
        The oldest word is in a register, which the next one is read into as it leaves: what waits
        for it does not wait for a memory. Only where words are in distributed RAM; of two words the
        oldest is always in a register.

    Members
    -------
    i : In(stream of shape)
    o : Out(stream of shape)
    level : Out(range(depth + 1))
        Values in the queue.

    ValueError if ``depth`` is out of range.
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(
        self,
        shape,
        depth: int,
        *,
        quick: bool = False,
        still: bool = False,
        ahead: bool = False,
    ):
        require_int("depth", depth, 1, 65536)
        self.shape, self.depth = shape, depth
        self.quick, self.still, self.ahead = quick, still, ahead
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
                "level": Out(range(depth + 1)),
            }
        )

    @property
    def shared_parameters(self) -> dict[str, int | bool]:
        """Queues of values of the same width are one module, whatever the values mean."""
        width = {"width": Shape.cast(self.shape).width, "depth": self.depth}
        still = {"still": True} if self.still and self.at_once else {}
        ahead = {"ahead": True} if self.ahead and self.in_distributed_ram else {}
        quick = {"quick": True} if self.quick and self.in_ram else {}
        return width | still | ahead | quick

    @property
    def bits(self) -> int:
        """Of all its words."""
        return self.depth * Shape.cast(self.shape).width

    @property
    def in_ram(self) -> bool:
        """Whether its words are in a :class:`Ram`, if it is not quick."""
        return self.depth > REGISTERS or self.bits > REGISTER_BITS

    @property
    def in_registers(self) -> bool:
        """Whether, if in no Ram, they are in registers and not in a :class:`DistributedRam`."""
        return self.depth < LEAST_WORDS or self.bits < LEAST_BITS

    @property
    def at_once(self) -> bool:
        """Whether the oldest word is shown from where it stands."""
        return self.quick or not self.in_ram

    @property
    def in_distributed_ram(self) -> bool:
        return self.at_once and not self.in_registers

    def elaborate(self, platform):
        m = Module()
        taken = Signal()
        given = Signal()
        m.d.comb += [
            self.i.ready.eq(~self._full(m, taken, given)),
            taken.eq(self.i.valid & self.i.ready),
            given.eq(self.o.valid & self.o.ready),
        ]
        if self.at_once:
            self._count(m, self.level, taken, given)
            self._at_once(m, taken, given)
        else:
            self._count_late(m, self.level, taken, given)
            self._memory(m, taken, given)
        return m

    def _count(self, m, count, more, less):
        """Count up and down by one, in one addition."""
        step = Cat(more ^ less, (less & ~more).replicate(len(count) - 1))
        m.d.sync += count.eq(count + step)

    def _count_late(self, m, count, more, less):
        """Likewise; ``less`` is an enable alone, after which nothing is added."""
        step = Cat(Const(1, 1), (~more).replicate(len(count) - 1))
        with m.If(more ^ less):
            m.d.sync += count.eq(count + step)

    def _full(self, m, taken, given):
        """Whether ``level``, which never exceeds it, is the depth."""
        if self.depth & (self.depth - 1) == 0:
            return self.level[-1]
        if self.depth & (self.depth + 1) == 0:
            return self.level.all()
        full = Signal()
        with m.If(taken != given):
            m.d.sync += full.eq(taken & (self.level == self.depth - 1))
        return full

    def _at_once(self, m, taken, given):
        """The oldest value is shown from where it stands."""
        m.d.comb += self.o.valid.eq(self.level != 0)
        if self.ahead and self.in_distributed_ram:
            self._ahead(m, taken, given)
            return
        if self.in_registers and self.depth == 2:
            self._two(m, taken, given)
            return
        write = Signal(range(self.depth))
        read = Signal(range(self.depth))
        with m.If(taken):
            m.d.sync += write.eq(self._after(write))
        with m.If(given):
            m.d.sync += read.eq(self._after(read))
        width = Shape.cast(self.shape).width
        if self.in_registers:
            words = Array(data_register(width, name=f"word{n}") for n in range(self.depth))
            m.d.comb += Value.cast(self.o.payload).eq(words[read])
            with m.If(taken if self.still else self.i.ready):
                m.d.sync += words[write].eq(self.i.payload)
            return
        m.submodules.ram = ram = DistributedRam(width=width, depth=self.depth)
        m.d.comb += [
            # If not still, whatever is there: it counts when it is taken.
            ram.write_en.eq(taken if self.still else self.i.ready),
            ram.write_addr.eq(write),
            ram.write_data.eq(self.i.payload),
            ram.read_addr.eq(read),
            Value.cast(self.o.payload).eq(ram.read_data),
        ]
        collides = ram.write_en & self.o.valid & (write == read)
        m.d.sync += Assert(~collides, "a queue shows the word that it writes")

    def _two(self, m, taken, given):
        """Two words are two registers and no memory: the oldest one, and the one behind it."""
        width = Shape.cast(self.shape).width
        oldest = data_register(width, name="oldest")
        behind = data_register(width, name="behind")
        moves = Signal()
        full = self.level[1]
        m.d.comb += [moves.eq(given | ~self.o.valid), Value.cast(self.o.payload).eq(oldest)]
        with m.If(moves & (full | taken) if self.still else moves):
            m.d.sync += oldest.eq(Mux(full, behind, self.i.payload))
        with m.If(taken if self.still else self.i.ready):
            m.d.sync += behind.eq(self.i.payload)

    def _ahead(self, m, taken, given):
        """The oldest value is in a register, the others in the memory behind it."""
        write = Signal(range(self.depth))
        read = Signal(range(self.depth))
        width = Shape.cast(self.shape).width
        oldest = data_register(width)
        behind = Signal()  # there are others
        first = Signal()  # what is taken has none before it
        moves = Signal()
        m.submodules.ram = ram = DistributedRam(width=width, depth=self.depth)
        m.d.comb += [
            behind.eq(self.level > 1),
            moves.eq(given | ~self.o.valid),
            first.eq(~behind & moves),
            ram.write_en.eq(taken & ~first if self.still else self.i.ready),
            ram.write_addr.eq(write),
            ram.write_data.eq(self.i.payload),
            ram.read_addr.eq(read),
            Value.cast(self.o.payload).eq(oldest),
        ]
        with m.If(moves & (behind | taken) if self.still else moves):
            m.d.sync += oldest.eq(Mux(behind, ram.read_data, self.i.payload))
        with m.If(taken & ~first):
            m.d.sync += write.eq(self._after(write))
        with m.If(given & behind):
            m.d.sync += read.eq(self._after(read))
        collides = ram.write_en & behind & (write == read)
        m.d.sync += Assert(~collides, "a queue shows the word that it writes")

    def _memory(self, m, taken, given):
        """The memory's own output register holds the oldest value."""
        m.submodules.ram = ram = Ram(width=Shape.cast(self.shape).width, depth=self.depth)
        waiting = Signal(range(self.depth + 1))  # in the memory, written in an earlier cycle
        m.d.comb += [
            ram.write_en.eq(taken),
            ram.write_data.eq(self.i.payload),
            ram.read_en.eq((waiting != 0) & (given | ~self.o.valid)),
            Value.cast(self.o.payload).eq(ram.read_data),
        ]
        write = Signal(range(self.depth))
        read = Signal(range(self.depth))
        m.d.comb += [ram.write_addr.eq(write), ram.read_addr.eq(read)]
        self._count_late(m, waiting, taken, ram.read_en)
        with m.If(taken):
            m.d.sync += write.eq(self._after(write))
        with m.If(ram.read_en):
            m.d.sync += read.eq(self._after(read))
        with m.If(given | ram.read_en):
            m.d.sync += self.o.valid.eq(ram.read_en)

    def _after(self, pointer):
        return Mux(pointer == self.depth - 1, 0, pointer + 1)
