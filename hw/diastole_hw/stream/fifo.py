"""First-in first-out queue between two streams; products contain no queue of another kind."""

from amaranth.hdl import Array, Assert, Cat, Const, Module, Mux, Shape, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.data_registers import data_register
from diastole_hw.memory.distributed_ram import DistributedRam
from diastole_hw.memory.ram import Ram
from diastole_sim.spec.require import require_int
from diastole_sim.spec.sizes.queues import SHORT_QUEUE

REGISTER_BITS = 4096
"""Most bits of a queue that outputs the oldest word without a memory read."""
LEAST_WORDS = 3
"""Least depth of a queue with words in a :class:`DistributedRam`. For two words, a bit takes two
registers and a multiplexer of 1 LUT, against 1.5 LUTs of distributed RAM."""
LEAST_BITS = 24
"""Least bits of a queue with words in a :class:`DistributedRam`. Fewer bits are no memory that a
user would replace."""


class StreamFifo(wiring.Component):
    """Pass values from ``i`` to ``o`` in order; hold up to ``depth`` values.

    Timing: 1 value per cycle in and out (depth 1: 1 value every second cycle). A value is output 1
    cycle after the input handshake if the depth is at most ``SHORT_QUEUE`` and the bits are at most
    ``REGISTER_BITS``, or if the queue is ``quick``. Else a value is output 2 cycles after the input
    handshake. A word is never read in the cycle in which the word is written. ``i.ready``,
    ``o.valid`` and ``level`` are functions of registers only: the queue cuts every combinational
    path through a handshake. A full queue accepts no value in the cycle in which a value leaves.
    ``o.payload`` is arbitrary while ``o.valid`` is low.

    Parameters
    ----------
    shape : ShapeLike
        Shape of the payload.
    depth : int
        Most values in the queue (1 to 65536).
    quick : bool
        True if a value is output 1 cycle later at any depth.
    stable_output : bool
        True if the output of an empty queue, which is no value, changes only when a value is
        accepted. Else, if words are in no :class:`Ram`, the output follows the offered word, and
        the input handshake may be late in the cycle.
    output_register : bool
        True if the oldest word is in a register, into which the next word is read when the oldest
        leaves: the output does not wait for a memory. Only if words are in distributed RAM. In a
        queue of two words the oldest word is always in a register.

    Members
    -------
    i : In(stream of shape)
    o : Out(stream of shape)
    level : Out(range(depth + 1))
        Number of values in the queue.

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
        stable_output: bool = False,
        output_register: bool = False,
    ):
        require_int("depth", depth, 1, 65536)
        self.shape, self.depth = shape, depth
        self.quick, self.stable_output, self.output_register = quick, stable_output, output_register
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
                "level": Out(range(depth + 1)),
            }
        )

    @property
    def shared_parameters(self) -> dict[str, int | bool]:
        """Parameters that distinguish modules. Queues of values of equal width share a module,
        whatever the values mean."""
        width = {"width": Shape.cast(self.shape).width, "depth": self.depth}
        stable_output = {"stable_output": True} if self.stable_output and self.direct else {}
        output_register = (
            {"output_register": True} if self.output_register and self.in_distributed_ram else {}
        )
        quick = {"quick": True} if self.quick and self.in_ram else {}
        return width | stable_output | output_register | quick

    @property
    def bits(self) -> int:
        """Bits of all words."""
        return self.depth * Shape.cast(self.shape).width

    @property
    def in_ram(self) -> bool:
        """True if the words are in a :class:`Ram`, unless the queue is ``quick``."""
        return self.depth > SHORT_QUEUE or self.bits > REGISTER_BITS

    @property
    def in_registers(self) -> bool:
        """True if the words, when in no :class:`Ram`, are in registers and not in a
        :class:`DistributedRam`."""
        return self.depth < LEAST_WORDS or self.bits < LEAST_BITS

    @property
    def direct(self) -> bool:
        """True if the oldest word is output directly from its place of storage."""
        return self.quick or not self.in_ram

    @property
    def in_distributed_ram(self) -> bool:
        return self.direct and not self.in_registers

    def elaborate(self, platform):
        m = Module()
        accepted = Signal()
        released = Signal()
        m.d.comb += [
            self.i.ready.eq(~self._full(m, accepted, released)),
            accepted.eq(self.i.valid & self.i.ready),
            released.eq(self.o.valid & self.o.ready),
        ]
        if self.direct:
            self._count(m, self.level, accepted, released)
            self._direct(m, accepted, released)
        else:
            self._count_next_cycle(m, self.level, accepted, released)
            self._memory(m, accepted, released)
        return m

    def _count(self, m, count, more, less):
        """Count up and down by 1 in a single addition."""
        step = Cat(more ^ less, (less & ~more).replicate(len(count) - 1))
        m.d.sync += count.eq(count + step)

    def _count_next_cycle(self, m, count, more, less):
        """Count as :meth:`_count`, but ``less`` only enables the register: no addition waits for
        ``less``."""
        step = Cat(Const(1, 1), (~more).replicate(len(count) - 1))
        with m.If(more ^ less):
            m.d.sync += count.eq(count + step)

    def _full(self, m, accepted, released):
        """Return whether ``level`` has reached ``depth``; ``level`` never exceeds ``depth``."""
        if self.depth & (self.depth - 1) == 0:
            return self.level[-1]
        if self.depth & (self.depth + 1) == 0:
            return self.level.all()
        full = Signal()
        with m.If(accepted != released):
            m.d.sync += full.eq(accepted & (self.level == self.depth - 1))
        return full

    def _direct(self, m, accepted, released):
        """Output the oldest value directly from its place of storage."""
        m.d.comb += self.o.valid.eq(self.level != 0)
        if self.output_register and self.in_distributed_ram:
            self._output_register(m, accepted, released)
            return
        if self.in_registers and self.depth == 2:
            self._two(m, accepted, released)
            return
        write = Signal(range(self.depth))
        read = Signal(range(self.depth))
        with m.If(accepted):
            m.d.sync += write.eq(self._after(write))
        with m.If(released):
            m.d.sync += read.eq(self._after(read))
        width = Shape.cast(self.shape).width
        if self.in_registers:
            words = Array(data_register(width, name=f"word{n}") for n in range(self.depth))
            m.d.comb += Value.cast(self.o.payload).eq(words[read])
            with m.If(accepted if self.stable_output else self.i.ready):
                m.d.sync += words[write].eq(self.i.payload)
            return
        m.submodules.ram = ram = DistributedRam(width=width, depth=self.depth)
        m.d.comb += [
            # If not still, write whatever is offered: only an accepted word moves the pointer.
            ram.write_en.eq(accepted if self.stable_output else self.i.ready),
            ram.write_addr.eq(write),
            ram.write_data.eq(self.i.payload),
            ram.read_addr.eq(read),
            Value.cast(self.o.payload).eq(ram.read_data),
        ]
        collides = ram.write_en & self.o.valid & (write == read)
        m.d.sync += Assert(~collides, "a queue shows the word that it writes")

    def _two(self, m, accepted, released):
        """Keep two words in two registers without a memory: the oldest word and the word behind."""
        width = Shape.cast(self.shape).width
        oldest = data_register(width, name="oldest")
        behind = data_register(width, name="behind")
        moves = Signal()
        full = self.level[1]
        m.d.comb += [moves.eq(released | ~self.o.valid), Value.cast(self.o.payload).eq(oldest)]
        with m.If(moves & (full | accepted) if self.stable_output else moves):
            m.d.sync += oldest.eq(Mux(full, behind, self.i.payload))
        with m.If(accepted if self.stable_output else self.i.ready):
            m.d.sync += behind.eq(self.i.payload)

    def _output_register(self, m, accepted, released):
        """Keep the oldest value in a register, and the values behind in a memory."""
        write = Signal(range(self.depth))
        read = Signal(range(self.depth))
        width = Shape.cast(self.shape).width
        oldest = data_register(width)
        behind = Signal()  # values are behind the oldest value
        first = Signal()  # a value accepted now becomes the oldest at once
        moves = Signal()
        m.submodules.ram = ram = DistributedRam(width=width, depth=self.depth)
        m.d.comb += [
            behind.eq(self.level > 1),
            moves.eq(released | ~self.o.valid),
            first.eq(~behind & moves),
            ram.write_en.eq(accepted & ~first if self.stable_output else self.i.ready),
            ram.write_addr.eq(write),
            ram.write_data.eq(self.i.payload),
            ram.read_addr.eq(read),
            Value.cast(self.o.payload).eq(oldest),
        ]
        with m.If(moves & (behind | accepted) if self.stable_output else moves):
            m.d.sync += oldest.eq(Mux(behind, ram.read_data, self.i.payload))
        with m.If(accepted & ~first):
            m.d.sync += write.eq(self._after(write))
        with m.If(released & behind):
            m.d.sync += read.eq(self._after(read))
        collides = ram.write_en & behind & (write == read)
        m.d.sync += Assert(~collides, "a queue shows the word that it writes")

    def _memory(self, m, accepted, released):
        """Keep the oldest value in the output register of the memory."""
        m.submodules.ram = ram = Ram(width=Shape.cast(self.shape).width, depth=self.depth)
        waiting = Signal(range(self.depth + 1))  # values in the memory from earlier cycles
        m.d.comb += [
            ram.write_en.eq(accepted),
            ram.write_data.eq(self.i.payload),
            ram.read_en.eq((waiting != 0) & (released | ~self.o.valid)),
            Value.cast(self.o.payload).eq(ram.read_data),
        ]
        write = Signal(range(self.depth))
        read = Signal(range(self.depth))
        m.d.comb += [ram.write_addr.eq(write), ram.read_addr.eq(read)]
        self._count_next_cycle(m, waiting, accepted, ram.read_en)
        with m.If(accepted):
            m.d.sync += write.eq(self._after(write))
        with m.If(ram.read_en):
            m.d.sync += read.eq(self._after(read))
        with m.If(released | ram.read_en):
            m.d.sync += self.o.valid.eq(ram.read_en)

    def _after(self, pointer):
        return Mux(pointer == self.depth - 1, 0, pointer + 1)
