"""Row and column maxima of a tensor's stored exponents, gathered while its groups go by."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole.emit.place import place
from diastole.memory.ram import Ram
from diastole_sim.check import require_int
from diastole_sim.program.image import GROUP_BLOCKS

_ENTRY_BITS = 8 * GROUP_BLOCKS


def largest(values):
    """The largest of some unsigned values."""
    values = list(values)
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=False)
        rest = values[len(values) // 2 * 2 :]
        values = [Mux(a > b, a, b) for a, b in pairs] + rest
    return values[0]


class RowMaxima(wiring.Component):
    """Largest exponent of each row of blocks, packed into beats.

    Timing: ``o`` is valid from the cycle after the ``add`` that completes a beat, and must be taken
    before the next ``add``; not checked.

    Parameters
    ----------
    data_width : int
        Bits of a beat (a power of two, 32 to 512).

    Members
    -------
    add : In(1)
        A pulse per group.
    exponents : In(array of 8 unsigned(8))
    last_group, last : In(1)
        The group is the last of its row of blocks, of the tensor.
    o : Out(stream of unsigned(data_width))
        One byte per row of blocks; the last beat is filled with zeros.
    """

    def __init__(self, *, data_width: int):
        self.data_width = data_width
        super().__init__(
            {
                "add": In(1),
                "exponents": In(data.ArrayLayout(unsigned(8), GROUP_BLOCKS)),
                "last_group": In(1),
                "last": In(1),
                "o": Out(stream.Signature(unsigned(data_width))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        count = self.data_width // 8
        position = Signal(range(count))
        so_far = Signal(8)
        joined = Signal(8)
        m.d.comb += joined.eq(largest([so_far, *self.exponents]))
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [self.o.valid.eq(0), self.o.payload.eq(0)]
        with m.If(self.add):
            m.d.sync += so_far.eq(joined)
            with m.If(self.last_group):
                m.d.sync += so_far.eq(0)
                m.d.sync += self.o.payload.word_select(position, 8).eq(joined)
                m.d.sync += position.eq(position + 1)
                with m.If(self.last | (position == count - 1)):
                    m.d.sync += [position.eq(0), self.o.valid.eq(1)]
        return m


class ColumnMaxima(wiring.Component):
    """Largest exponent of each column of blocks: a memory of one entry per group of a row.

    Timing: the entry of an ``add`` is rewritten one cycle later; the next ``add`` or ``drain`` must
    be at least two cycles after it, not checked. Draining takes up to 3 cycles per entry, and one
    per beat.

    Parameters
    ----------
    data_width : int
        Bits of a beat (a power of two, 32 to 512).
    depth : int
        Groups of a row of blocks at most (2 to 65536).

    Members
    -------
    add : In(1)
        A pulse per group.
    exponents : In(array of 8 unsigned(8))
        Must hold for the cycle after ``add``, as must ``first_row``.
    first_row, last_group : In(1)
        The group is in the first row of blocks, is the last of its row of blocks.
    drain : In(1)
        A pulse after the last group: put out the maxima.
    beats : In(16)
        How many beats to put out; must hold while draining.
    o : Out(stream of {"data": unsigned(data_width), "last": 1})
        One byte per column of blocks; the last beat is filled with zeros.
    """

    def __init__(self, *, data_width: int, depth: int):
        require_int("depth", depth, 2, 2**16)
        self.data_width, self.depth = data_width, depth
        beat = data.StructLayout({"data": unsigned(data_width), "last": 1})
        super().__init__(
            {
                "add": In(1),
                "exponents": In(data.ArrayLayout(unsigned(8), GROUP_BLOCKS)),
                "first_row": In(1),
                "last_group": In(1),
                "drain": In(1),
                "beats": In(16),
                "o": Out(stream.Signature(beat)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.ram = place(ram := Ram(width=_ENTRY_BITS, depth=self.depth), platform)
        entry = Signal(range(self.depth))
        groups = Signal(range(self.depth + 1))
        update = Signal()
        updated = Signal(range(self.depth))
        stored = data.View(self.exponents.shape(), ram.read_data)
        joined = (
            Mux(self.first_row, new, largest([new, old]))
            for new, old in zip(self.exponents, stored, strict=True)
        )
        m.d.comb += [
            ram.read_addr.eq(entry),
            ram.write_en.eq(update),
            ram.write_addr.eq(updated),
            ram.write_data.eq(Cat(joined)),
        ]
        m.d.sync += update.eq(self.add)
        with m.If(self.add):
            m.d.comb += ram.read_en.eq(1)
            m.d.sync += [updated.eq(entry), entry.eq(entry + 1)]
            with m.If(self.last_group):
                m.d.sync += [entry.eq(0), groups.eq(entry + 1)]
        self._drain(m, ram, entry, groups)
        return m

    def _drain(self, m, ram, entry, groups):
        """Gather entries into a beat, or put one out in several beats."""
        parts = max(1, _ENTRY_BITS // self.data_width)  # beats per entry
        places = max(1, self.data_width // _ENTRY_BITS)  # entries per beat
        place_ = Signal(range(places))
        part = Signal(range(parts))
        beat = Signal(max(self.data_width, _ENTRY_BITS))
        left = Signal(16)
        m.d.comb += self.o.p.data.eq(beat.word_select(part, self.data_width))
        m.d.comb += self.o.p.last.eq(left == 1)
        with m.FSM():
            with m.State("gather"):
                with m.If(self.drain):
                    m.d.sync += [left.eq(self.beats), beat.eq(0), place_.eq(0), part.eq(0)]
                    m.next = "read"
            with m.State("read"):
                m.d.comb += ram.read_en.eq(1)
                m.next = "place"
            with m.State("place"):
                m.d.sync += beat.word_select(place_, _ENTRY_BITS).eq(ram.read_data)
                m.d.sync += [entry.eq(entry + 1), place_.eq(place_ + 1)]
                m.next = "read"
                with m.If((place_ == places - 1) | (entry + 1 == groups)):
                    m.d.sync += place_.eq(0)
                    m.next = "put"
            with m.State("put"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.d.sync += [left.eq(left - 1), part.eq(part + 1)]
                    m.next = "put"
                    with m.If(part == parts - 1):
                        m.d.sync += [part.eq(0), beat.eq(0)]
                        m.next = "read"
                    with m.If(left == 1):
                        m.d.sync += entry.eq(0)
                        m.next = "gather"
