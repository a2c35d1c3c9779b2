"""Issue instructions in order, and resolve hazards by waiting."""

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.data_registers import data_register
from diastole_hw.vector.core.entry import entry_layout, is_register
from diastole_hw.vector.core.row_order import RowOrder, row_at
from diastole_hw.vector.core.timing import permuted_cycles, special_cycles, whole_cycles
from diastole_hw.vector.stream_layouts import (
    PIPELINE,
    VectorShape,
    output_block_layout,
    visited_layout,
)
from diastole_sim.spec.micro import INPUTS, REGISTERS

BLOCKS = 4
"""Maximum number of blocks of an input stream in the buffer."""


def issued_layout(shape: VectorShape) -> data.StructLayout:
    """Return the layout of the instruction in progress. ``renamed``: operands a, b, c in the result
    of the special lanes. In a special instruction, a is the previous special result, which is
    copied to ``d``."""
    block = visited_layout(shape).members
    return data.StructLayout(
        {
            "entry": entry_layout(shape),
            "renamed": unsigned(3),
            **{name: block[name] for name in ("i", "j", "rows", "cols")},
        }
    )


def oldest_age(shape: VectorShape) -> int:
    """Return the largest age of a slot: every row is written, and any instruction may read the
    row."""
    return shape.block + PIPELINE


class Issue(wiring.Component):
    """Issue instructions in order. An instruction begins as soon as all operands and free space for
    the output are available. Then the instruction never stalls.

    The result of a special instruction stays in a buffer of the special lanes, and *renames* the
    destination register: reads of the register read the buffer, until another instruction writes
    the register. The next special instruction does not need the normal lanes: in its slot the lanes
    copy the previous special result to the register. A renaming may outlive the chain: the
    registers of the next chain are undefined.

    Timing: an instruction begins in the cycle after acceptance. In cycle r of the instruction, 0 to
    B - 1, ``active`` is high and ``row`` is r, or another row if the rows have another order
    (:class:`diastole_hw.vector.core.row_order.RowOrder`). The *slot* of an instruction has
    ``slot_cycles`` cycles: the next instruction is accepted ``slot_cycles`` after the previous
    acceptance, or later in the following cases:

    - Streams: every stream that the instruction reads must have a whole block, not counting a block
      that is given back in this cycle. An instruction with an output waits for ``space``.
    - Special lanes: a special instruction, or an instruction that names the register of the last
      special instruction, waits until ``special_cycles`` after the last special instruction. The
      wait is B / 2 cycles longer if the instruction permutes rows of the register. The wait is
      B - 1 cycles longer if the instruction reads the register and the instruction's rows do not
      ascend.
    - Rows: an instruction that permutes, by distance d, rows of the register that the previous
      instruction writes waits until 8 + d cycles after the previous acceptance. An instruction
      waits until 7 + B cycles after the previous acceptance if the instruction reads the panel, the
      previous instruction writes the panel, and the first vectors differ modulo B. The rule with
      7 + B cycles also holds if the rows of either instruction do not ascend.

    An instruction with paired rows and an output takes 2 slots: the rows of the output ascend in
    the first slot, and the register is written in the second slot.

    An ``end`` takes no cycle. The unit accepts an ``end`` on arrival if every used stream has a
    block, at most 1 ``end`` in the slot of an instruction. ``release_block`` is high in the last
    cycle of the instruction, or at acceptance if no instruction is in progress. ``done`` is high
    when the end of the walk is accepted, the last rows are written, and the special lanes are idle.

    Parameters
    ----------
    shape : VectorShape

    Members
    -------
    i : In(stream of :func:`entry_layout`)
    block : In(:func:`visited_layout`)
        Block of the entry at ``i``.
    used : In(4)
        Streams of memory or a product that the chain reads.
    level : In(array of 4 range(5))
        Number of whole blocks per input stream.
    space : In(1)
        Free space for B rows of any output, beyond the rows of all announced blocks.
    output_block : Out(stream of :func:`output_block_layout`)
        Announcement of an output block. Valid for the single cycle in which an instruction with an
        output is accepted.
    slot : Out(:func:`issued_layout`)
        Instruction in progress.
    active, row : Out(1), Out(range(B))
    age : Out
        Cycles since the slot began, up to B + 8.
    release_block : Out(1)
        Pulse: release 1 block of every used stream.
    done : Out(1)
        Pulse.
    working, waits_inputs, waits_outputs, waits_specials : Out(1)
        At most 1 of the 4 is high in a cycle, from the first slot on. ``working``: a cycle of a
        slot. The remaining outputs: a cycle without a slot, because an instruction, or the end of a
        block, waited for the cause. ``waits_specials`` includes waits for rows. All 4 are low while
        the next entry is not yet fetched, or the chain is at its end.
    """

    i: stream.Interface
    output_block: stream.Interface

    def __init__(self, shape: VectorShape):
        self.shape = shape
        counts = data.ArrayLayout(range(BLOCKS + 1), INPUTS)
        super().__init__(
            {
                "i": In(stream.Signature(entry_layout(shape))),
                "block": In(visited_layout(shape)),
                "used": In(INPUTS),
                "level": In(counts),
                "space": In(1),
                "output_block": Out(stream.Signature(output_block_layout(shape))),
                "slot": Out(issued_layout(shape)),
                "active": Out(1),
                "row": Out(range(shape.block)),
                "age": Out(range(self.latest + 1), init=self.latest),
                "release_block": Out(1),
                "done": Out(1),
                "working": Out(1),
                "waits_inputs": Out(1),
                "waits_outputs": Out(1),
                "waits_specials": Out(1),
            }
        )

    @property
    def latest(self) -> int:
        """Largest age of a slot."""
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
        writes_first, gave = self._two_slots(m, go)
        with m.If(go):
            m.d.sync += self.age.eq(0)
        with m.Elif(self.age != self.latest):
            m.d.sync += self.age.eq(self.age + 1)
        releases = Signal()
        inputs = self._inputs(m, free & releases)
        rests, special_ready, renamed, owner = self._special(m, go & ~writes_first)
        ready = {
            "inputs": (self.i.p.streams & ~inputs) == 0,
            "outputs": ~self.i.p.writes_output | gave | self.space,
            "specials": special_ready & self._rows_available(m),
        }
        instruction = self.i.valid & ~self.i.p.end
        m.d.comb += go.eq(
            instruction & free & ready["inputs"] & ready["outputs"] & ready["specials"]
        )
        whole = (self.used & ~inputs) == 0
        ended = self._end(m, free, releases, whole, rests)
        m.d.comb += self.i.ready.eq((go & ~writes_first) | ended)
        self._begin(m, go, renamed, owner, writes_first, gave)
        self._count(m, free, ready, whole, go | ended)
        self._check(m, go)
        return m

    def _two_slots(self, m, go):
        """Return whether the next slot of the entry writes only the output, and whether the
        previous slot did. Paired rows need 2 slots, because the rows of an output ascend."""
        first, gave = Signal(), Signal()
        if self.shape.block > PIPELINE:
            m.d.comb += first.eq(
                self.i.p.writes_output & (self.i.p.order == RowOrder.PAIRED) & ~gave
            )
            with m.If(go):
                m.d.sync += gave.eq(first)
        return first, gave

    def _inputs(self, m, leaves):
        """Return which streams have a block, not counting a block that ``leaves``."""
        available = Signal(INPUTS)
        m.d.comb += available.eq(Cat(level > leaves for level in self.level))
        return available

    def _special(self, m, go):
        """Track the age of the last special instruction, and the renamed register. Return whether
        the special lanes are idle, whether the entry may begin, which operands of the entry read
        the special result, and the renaming."""
        soon = special_cycles(self.shape)
        late = soon + whole_cycles(self.shape)
        age = Signal(range(late), init=late - 1, name="special_age")
        mapped, owner = Signal(), data_register(range(REGISTERS))
        complete, settled, whole = Signal(), Signal(), Signal()
        entry, named, permuted = self.i.p, Signal(3), Signal()
        m.d.comb += [
            complete.eq(age >= soon - 1),
            settled.eq(age >= soon + permuted_cycles(self.shape) - 1),
            whole.eq(age == late - 1),
            named.eq(Cat(self._names(entry[letter], owner) for letter in "abc")),
            permuted.eq(named[2] & entry.turn_rows.any()),
        ]
        writes = entry.writes & (entry.d == owner)
        waits = (
            (entry.special & ~complete)
            | (mapped & (named.any() | writes) & ~complete)
            | (mapped & permuted & ~settled)
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
        """Return whether an operand is ``register``."""
        return is_register(operand) & (operand.source[:4] == register)

    def _rows_available(self, m):
        """Return whether the rows of the previous instruction are written before the entry reads
        the rows."""
        entry, before = self.i.p, self.slot.entry
        permuted, apart, disordered = Signal(), Signal(), Signal()
        bits = self.shape.row_bits
        m.d.comb += [
            permuted.eq(entry.turn_rows.any() & self._names(entry.c, before.d) & before.writes),
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
            (permuted & (next_age < PIPELINE + entry.turn_rows))
            | ((apart | disordered) & (next_age < PIPELINE + self.shape.block - 1))
        )

    def _end(self, m, free, releases, inputs, rests):
        """Accept the ends of blocks and of the walk. Return whether an end is accepted."""
        ended, ending = Signal(), Signal()
        m.d.comb += [
            ended.eq(self.i.valid & self.i.p.end & inputs & ~releases),
            self.release_block.eq(free & (releases | ended)),
            self.done.eq(ending & (self.age == self.latest) & rests & ~releases),
        ]
        with m.If(ended):
            m.d.sync += [releases.eq(~free), ending.eq(self.block.end)]
        with m.Elif(free):
            m.d.sync += releases.eq(0)
        with m.If(self.done):
            m.d.sync += ending.eq(0)
        return ended

    def _begin(self, m, go, renamed, owner, writes_first, gave):
        """Load the slot with the accepted entry, and announce the output block."""
        slot = data_register(self.slot.shape())
        wrote, panel = Signal(), Signal()  # fields of the slot with a reset: no write at first
        m.d.comb += [
            self.slot.eq(slot),
            self.slot.entry.writes.eq(wrote),
            self.slot.entry.to_panel.eq(panel),
            self.output_block.valid.eq(go & self.i.p.writes_output & ~gave),
            self.output_block.p.stream.eq(self.i.p.o),
            self.output_block.p.block.eq(self.block),
        ]
        with m.If(go):
            m.d.sync += [
                slot.entry.eq(self.i.payload),
                slot.renamed.eq(renamed),
                slot.entry.writes_output.eq(self.i.p.writes_output & ~gave),
                wrote.eq(self.i.p.writes & ~writes_first),
                panel.eq(self.i.p.to_panel),
                *(slot[name].eq(self.block[name]) for name in ("i", "j", "rows", "cols")),
            ]
            with m.If(writes_first):
                m.d.sync += slot.entry.order.eq(RowOrder.ASCENDING)
            with m.If(self.i.p.special):  # the lanes copy the previous special result
                m.d.sync += [
                    slot.entry.d.eq(owner.register),
                    wrote.eq(owner.mapped),
                    slot.renamed[0].eq(1),
                ]

    def _count(self, m, free, ready, inputs, accepted):
        """Register the cause of a wait, 1 cycle before the cycle without a slot."""
        waits, instruction = self.i.valid & free & ~accepted, ~self.i.p.end
        available = Mux(self.i.p.end, inputs, ready["inputs"])
        m.d.comb += self.working.eq(self.age < self.shape.slot_cycles)
        m.d.sync += [
            self.waits_inputs.eq(waits & ~available),
            self.waits_outputs.eq(waits & available & instruction & ~ready["outputs"]),
            self.waits_specials.eq(
                waits & available & instruction & ready["outputs"] & ~ready["specials"]
            ),
        ]

    def _check(self, m, go):
        """Assert the rules that the users of the unit must obey."""
        empty = Cat(level == 0 for level in self.level)
        slot = self.slot.entry
        rules = [
            (
                self.output_block.valid & ~self.output_block.ready,
                "there is room, and a block is not taken",
            ),
            (
                self.release_block & (self.used & empty).any(),
                "a block is given back that is not there",
            ),
            (self.active & (slot.streams & empty).any(), "a block is read that is not there"),
            (go & (self.i.p.streams & ~self.used).any(), "a stream is read that is not used"),
            (self.done & self.i.valid, "entries are left at the end"),
            (go & self.i.p.order.all() & (len(self.i.p.order) > 1), "rows would have two orders"),
        ]
        for broken, message in rules:
            m.d.sync += Assert(~broken, message)


OWNER = data.StructLayout({"mapped": unsigned(1), "register": range(REGISTERS)})
"""Renaming: ``mapped`` if the special result stands for a register, and the number of the
register."""
