"""The order in which instructions begin, and what they wait for."""

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.data_registers import data_register
from diastole_hw.vector.core.entry import entry_layout, is_register
from diastole_hw.vector.core.row_order import RowOrder, row_at
from diastole_hw.vector.core.timing import special_cycles, turned_cycles, whole_cycles
from diastole_hw.vector.stream_layouts import PIPELINE, VectorShape, given_layout, visited_layout
from diastole_sim.spec.micro import INPUTS, REGISTERS

BLOCKS = 4
"""Blocks of an input stream that can be there."""


def issued_layout(shape: VectorShape) -> data.StructLayout:
    """The instruction that is worked on. ``renamed``: operands a, b, c that are in the special
    lanes' result; of a special one a is the result before it, which goes to ``d``."""
    block = visited_layout(shape).members
    return data.StructLayout(
        {
            "entry": entry_layout(shape),
            "renamed": unsigned(3),
            **{name: block[name] for name in ("i", "j", "rows", "cols")},
        }
    )


def oldest_age(shape: VectorShape) -> int:
    """Return the largest age of a slot: every row is written, and any instruction may read it."""
    return shape.block + PIPELINE


class Issue(wiring.Component):
    """Begin one instruction after the other, as soon as all that it needs is there; then nothing of
    it waits.

    The result of a special instruction stays with the special lanes, and *renames* its register:
    who reads the register reads it there, until another instruction writes the register. When the
    next special instruction begins, the lanes, idle for that long, copy the result before it to the
    register. A renaming may outlive its chain: the next one's registers are undefined.

    Timing: an instruction begins in the cycle after it was taken. In cycle r after that, 0 to B -
    1, it is ``active`` and addresses row ``row`` = r, or another where its rows have another order
    (:class:`diastole_hw.vector.core.row_order.RowOrder`). The next is taken ``slot_cycles`` after
    it, or later where it waits:

    - for streams: until each that it reads has a whole block, which is not the one that is given
      back in this cycle. For its output: until there is ``room``;
    - for specials: until ``special_cycles`` after the last special one, if it is special, or names
      its register; if it turns that register's rows, B / 2 cycles longer; if it names the register
      and its rows do not ascend, B - 1 cycles longer;
    - for rows: if it turns rows of the register that the instruction before it writes, until
      8 + B / 2 cycles after that; if it reads the panel where the one before writes it, but not at
      a multiple of B vectors from there, or the rows of either do not ascend, until 7 + B cycles
      after it.

    An instruction with paired rows and an output takes two slots: the rows of the output ascend in
    the first slot, the register is written in the second.

    An ``end`` takes no cycle: it is taken when it comes, if every stream has a block, and one end
    at most in the time of an instruction; ``give_back`` is high in the last cycle of the
    instruction, or when it is taken where there is none. ``done`` comes when the walk's end was
    taken, the last rows are written and the special lanes rest.

    Parameters
    ----------
    shape : VectorShape

    Members
    -------
    i : In(stream of :func:`entry_layout`)
    block : In(:func:`visited_layout`)
        That of ``i``.
    used : In(4)
        Streams of memory or a product that the chain reads.
    level : In(array of 4 range(5))
        Whole blocks of each.
    room : In(1)
        For B rows of any output, besides those of all blocks that were given.
    given : Out(stream of :func:`given_layout`)
        Valid for the one cycle in which an instruction with an output is taken.
    slot : Out(:func:`issued_layout`)
    active, row : Out(1), Out(range(B))
    age : Out
        Cycles since the slot began, up to B + 8.
    give_back : Out(1)
        One block of every stream that is used.
    done : Out(1)
        For one cycle.
    working, wants_inputs, wants_outputs, wants_specials : Out(1)
        Of the cycles from the first slot on one at most: a slot's cycle; or one in which there is
        none since an instruction, or the end of a block, waited for that. ``wants_specials``: for
        rows too. In no cycle of these the next entry was not fetched, or the chain is at its end.
    """

    i: stream.Interface
    given: stream.Interface

    def __init__(self, shape: VectorShape):
        self.shape = shape
        counts = data.ArrayLayout(range(BLOCKS + 1), INPUTS)
        super().__init__(
            {
                "i": In(stream.Signature(entry_layout(shape))),
                "block": In(visited_layout(shape)),
                "used": In(INPUTS),
                "level": In(counts),
                "room": In(1),
                "given": Out(stream.Signature(given_layout(shape))),
                "slot": Out(issued_layout(shape)),
                "active": Out(1),
                "row": Out(range(shape.block)),
                "age": Out(range(self.latest + 1), init=self.latest),
                "give_back": Out(1),
                "done": Out(1),
                "working": Out(1),
                "wants_inputs": Out(1),
                "wants_outputs": Out(1),
                "wants_specials": Out(1),
            }
        )

    @property
    def latest(self) -> int:
        """The largest age."""
        return oldest_age(self.shape)

    def elaborate(self, platform):
        m = Module()
        shape = self.shape
        free, go = Signal(), Signal()
        m.d.comb += [
            free.eq(self.age >= shape.slot_cycles - 1),
            self.active.eq(self.age < shape.block),
            self.row.eq(row_at(shape, self.slot.entry, self.age)),
        ]
        gives_first, gave = self._two_slots(m, go)
        with m.If(go):
            m.d.sync += self.age.eq(0)
        with m.Elif(self.age != self.latest):
            m.d.sync += self.age.eq(self.age + 1)
        releases = Signal()
        inputs = self._inputs(m, free & releases)
        rests, special_ready, renamed, owner = self._special(m, go & ~gives_first)
        ready = {
            "inputs": (self.i.p.streams & ~inputs) == 0,
            "outputs": ~self.i.p.gives | gave | self.room,
            "specials": special_ready & self._rows_are_there(m),
        }
        instruction = self.i.valid & ~self.i.p.end
        m.d.comb += go.eq(
            instruction & free & ready["inputs"] & ready["outputs"] & ready["specials"]
        )
        whole = (self.used & ~inputs) == 0
        ended = self._end(m, free, releases, whole, rests)
        m.d.comb += self.i.ready.eq((go & ~gives_first) | ended)
        self._begin(m, go, renamed, owner, gives_first, gave)
        self._count(m, free, ready, whole, go | ended)
        self._check(m, go)
        return m

    def _two_slots(self, m, go):
        """Whether the entry's next slot writes its output alone, and whether that slot was the one
        before: where rows are paired, since the rows of an output ascend."""
        first, gave = Signal(), Signal()
        if self.shape.block > PIPELINE:
            m.d.comb += first.eq(self.i.p.gives & (self.i.p.order == RowOrder.PAIRED) & ~gave)
            with m.If(go):
                m.d.sync += gave.eq(first)
        return first, gave

    def _inputs(self, m, leaves):
        """Which streams have a block besides the one that ``leaves``."""
        there = Signal(INPUTS)
        m.d.comb += there.eq(Cat(level > leaves for level in self.level))
        return there

    def _special(self, m, go):
        """The special instruction before: how old it is, and what it makes others wait for. Returns
        whether its lanes rest, whether it lets the entry begin, which of the entry's operands are
        its result, and in whose stead that is."""
        soon = special_cycles(self.shape)
        late = soon + whole_cycles(self.shape)
        age = Signal(range(late), init=late - 1, name="special_age")
        mapped, owner = Signal(), data_register(range(REGISTERS))
        complete, settled, whole = Signal(), Signal(), Signal()
        entry, named, turned = self.i.p, Signal(3), Signal()
        m.d.comb += [
            complete.eq(age >= soon - 1),
            settled.eq(age >= soon + turned_cycles(self.shape) - 1),
            whole.eq(age == late - 1),
            named.eq(Cat(self._names(entry[letter], owner) for letter in "abc")),
            turned.eq(named[2] & entry.turn_rows.any()),
        ]
        writes = entry.writes & (entry.d == owner)
        waits = (
            (entry.special & ~complete)
            | (mapped & (named.any() | writes) & ~complete)
            | (mapped & turned & ~settled)
            | (mapped & named.any() & entry.order.any() & ~whole)
        )
        with m.If(age != late - 1):
            m.d.sync += age.eq(age + 1)
        with m.If(go & entry.special):
            m.d.sync += [age.eq(0), mapped.eq(1), owner.eq(entry.d)]
        with m.Elif(go & writes):
            m.d.sync += mapped.eq(0)
        return complete, ~waits, named & mapped.replicate(3), data.View(OWNER, Cat(mapped, owner))

    def _names(self, operand, register):
        return is_register(operand) & (operand.source[:4] == register)

    def _rows_are_there(self, m):
        """Written by the instruction just before: not, perhaps, those that are read first."""
        entry, before = self.i.p, self.slot.entry
        turned, apart, disordered = Signal(), Signal(), Signal()
        bits = self.shape.row_bits
        m.d.comb += [
            turned.eq(entry.turn_rows.any() & self._names(entry.c, before.d) & before.writes),
            apart.eq(
                entry.from_panel
                & before.to_panel
                & (entry.panel_read[:bits] != before.panel_write[:bits])
            ),
            disordered.eq(entry.order.any() | before.order.any()),
        ]
        next_age = Signal(range(self.latest + 2))
        m.d.comb += next_age.eq(self.age + 1)
        return ~(
            (turned & (next_age < PIPELINE + entry.turn_rows))
            | ((apart | disordered) & (next_age < PIPELINE + self.shape.block - 1))
        )

    def _end(self, m, free, releases, inputs, rests):
        """Ends of blocks, and of the walk; returns whether one is taken."""
        ended, ending = Signal(), Signal()
        m.d.comb += [
            ended.eq(self.i.valid & self.i.p.end & inputs & ~releases),
            self.give_back.eq(free & (releases | ended)),
            self.done.eq(ending & (self.age == self.latest) & rests & ~releases),
        ]
        with m.If(ended):
            m.d.sync += [releases.eq(~free), ending.eq(self.block.end)]
        with m.Elif(free):
            m.d.sync += releases.eq(0)
        with m.If(self.done):
            m.d.sync += ending.eq(0)
        return ended

    def _begin(self, m, go, renamed, owner, gives_first, gave):
        """What the slot is to do, and who is told of its output."""
        slot = data_register(self.slot.shape())
        wrote, panel = Signal(), Signal()  # of the slot, and with a reset: nothing before the first
        m.d.comb += [
            self.slot.eq(slot),
            self.slot.entry.writes.eq(wrote),
            self.slot.entry.to_panel.eq(panel),
            self.given.valid.eq(go & self.i.p.gives & ~gave),
            self.given.p.stream.eq(self.i.p.o),
            self.given.p.block.eq(self.block),
        ]
        with m.If(go):
            m.d.sync += [
                slot.entry.eq(self.i.payload),
                slot.renamed.eq(renamed),
                slot.entry.gives.eq(self.i.p.gives & ~gave),
                wrote.eq(self.i.p.writes & ~gives_first),
                panel.eq(self.i.p.to_panel),
                *(slot[name].eq(self.block[name]) for name in ("i", "j", "rows", "cols")),
            ]
            with m.If(gives_first):
                m.d.sync += slot.entry.order.eq(RowOrder.ASCENDING)
            with m.If(self.i.p.special):  # the lanes copy the result before
                m.d.sync += [
                    slot.entry.d.eq(owner.register),
                    wrote.eq(owner.mapped),
                    slot.renamed[0].eq(1),
                ]

    def _count(self, m, free, ready, inputs, taken):
        """What of the entry is not there, in the cycle before one that nothing is done in."""
        waits, instruction = self.i.valid & free & ~taken, ~self.i.p.end
        there = Mux(self.i.p.end, inputs, ready["inputs"])
        m.d.comb += self.working.eq(self.age < self.shape.slot_cycles)
        m.d.sync += [
            self.wants_inputs.eq(waits & ~there),
            self.wants_outputs.eq(waits & there & instruction & ~ready["outputs"]),
            self.wants_specials.eq(
                waits & there & instruction & ready["outputs"] & ~ready["specials"]
            ),
        ]

    def _check(self, m, go):
        empty = Cat(level == 0 for level in self.level)
        slot = self.slot.entry
        rules = [
            (self.given.valid & ~self.given.ready, "there is room, and a block is not taken"),
            (self.give_back & (self.used & empty).any(), "a block is given back that is not there"),
            (self.active & (slot.streams & empty).any(), "a block is read that is not there"),
            (go & (self.i.p.streams & ~self.used).any(), "a stream is read that is not used"),
            (self.done & self.i.valid, "entries are left at the end"),
            (go & self.i.p.order.all() & (len(self.i.p.order) > 1), "rows would have two orders"),
        ]
        for broken, message in rules:
            m.d.sync += Assert(~broken, message)


OWNER = data.StructLayout({"mapped": unsigned(1), "register": range(REGISTERS)})
"""Whether the special lanes' result stands for a register, and for which."""
