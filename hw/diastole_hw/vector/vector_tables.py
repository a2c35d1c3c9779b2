"""Tables of the vector unit on chip: instructions, constants, descriptors, scales, the panel."""

from functools import reduce
from operator import or_

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.memory.ram import Ram
from diastole_hw.vector.stream_layouts import WORD, VectorShape, row_layout
from diastole_sim.spec.limits import (
    COUNTED_BITS,
    EPS_BITS,
    INSTRUCTIONS,
    SCALE_SLOTS,
    STORABLE_TABLES,
    WIDTH_BITS,
    WIDTH_TABLES,
    VectorTable,
    entry_words,
)
from diastole_sim.spec.micro import CONSTANTS, INVERSE, MICRO_BITS, SCALE
from diastole_sim.spec.stream_table import DESCRIPTOR_BYTES, SLOTS


def entry_bits(shape: VectorShape, table: VectorTable) -> int:
    """Return the bits of an entry of a table. In memory the entries lie side by side."""
    return WORD * entry_words(table, shape.block)


def chunk_bits(shape: VectorShape, table: VectorTable) -> int:
    """Return the bits of a chunk, the part of an entry moved at once: a whole entry, or a beat."""
    return min(shape.data_width, entry_bits(shape, table))


def chunks(shape: VectorShape, table: VectorTable) -> int:
    """Return the number of chunks of an entry."""
    return entry_bits(shape, table) // chunk_bits(shape, table)


def entries(shape: VectorShape, table: VectorTable) -> int:
    """Return the number of entries of a table."""
    return {
        VectorTable.INSTRUCTIONS: INSTRUCTIONS,
        VectorTable.CONSTANTS: CONSTANTS,
        VectorTable.AMAX: shape.slot_entries,
        VectorTable.PANEL: shape.panel_vectors,
        VectorTable.DESCRIPTORS: SLOTS,
        **dict.fromkeys(WIDTH_TABLES, SCALE_SLOTS),
    }[table]


def at_bits(shape: VectorShape) -> int:
    """Return the bits of an entry's number in the longest table."""
    return max((entries(shape, table) - 1).bit_length() for table in VectorTable)


def bank_bits(shape: VectorShape) -> int:
    """Return the bits of a chunk's number in the longest entry, at least 1."""
    return max(1, *((chunks(shape, table) - 1).bit_length() for table in VectorTable))


def put_layout(shape: VectorShape) -> data.StructLayout:
    """Return the layout of a write of chunk number ``bank`` of entry ``at`` of ``table``. ``chunk``
    holds a short chunk in the lowest bits."""
    return data.StructLayout(
        {
            "valid": 1,
            "table": VectorTable,
            "at": unsigned(at_bits(shape)),
            "bank": unsigned(bank_bits(shape)),
            "chunk": unsigned(shape.data_width),
        }
    )


def take_layout(shape: VectorShape) -> data.StructLayout:
    """Return the layout of a read of entry ``at`` of ``table``, a table in
    :data:`diastole_sim.spec.limits.STORABLE_TABLES`."""
    return data.StructLayout({"valid": 1, "table": VectorTable, "at": unsigned(at_bits(shape))})


def constant_layout() -> data.StructLayout:
    """Return the layout of a write, with ``valid``, of binary32 ``value`` to constant ``index``."""
    return data.StructLayout({"valid": 1, "index": range(CONSTANTS), "value": unsigned(WORD)})


def floor_layout() -> data.StructLayout:
    """Return the layout of an update of the smallest loss scale: with ``valid``, ``field`` is the
    scale's exponent field in binary32."""
    return data.StructLayout({"valid": 1, "field": unsigned(8)})


WIDTH_PORTS = {
    "eps": Out(EPS_BITS),
    "widths": Out(WIDTH_BITS),
    "width_put_en": In(1),
    "width_put": In(WIDTH_BITS),
    "last": Out(SCALE_SLOTS),
}
"""Ports for the widths of scale slots, only in a machine that decides widths."""


class VectorTables(wiring.Component):
    """Hold the tables of the vector unit, and share the ports of the tables among users. The panel
    is a table of vectors of B numbers that programs read and write.

    Every memory has 1 read port and 1 write port. Units and commands that use the same port work at
    different times, with one exception: scale slots are also used from outside, and the outside
    user has priority. ``blocked`` then stalls ``put`` and ``take``. A word that is read in the
    cycle of a write to the word is the old word, or arbitrary.

    Timing: a word is available 1 cycle after the request, and holds until the next request.
    ``blocked`` is combinational.

    Parameters
    ----------
    shape : VectorShape

    Members
    -------
    put, take : In(put_layout(shape)), In(take_layout(shape))
        Writes and reads of the commands load and store. The word of ``take`` is output at
        ``constant``, ``amax``, ``panel`` or ``widths``.
    blocked : Out(1)
        A ``put`` or ``take`` of scale slots has no effect in this cycle: the outside user has the
        port.
    scan_en, scan_at : In(1), In(range(256))
        Reads of instructions by the set-up. The word is output at ``instruction``.
    instruction_en, instruction_at, instruction : In(1), In(range(256)), Out(64)
    slot_en, slot_at, slot : In(1), In(range(128)), Out(128)
        Reads of descriptors.
    constant_en, constant_at, constant : In(1), In(range(256)), Out(32)
    constant_put : In(array of 2 of constant_layout())
        Writes of constants by the outputs of chains, and from outside.
    amax_en, amax_at, amax : In(1), In(range(shape.slot_entries)), Out(32)
        Reads of scale slots from outside.
    amax_put_en, amax_put_at, amax_put : In(1), In(range(shape.slot_entries)), In(32)
        Writes of scale slots from outside.
    eps, widths : Out(18), Out(2)
        Threshold and widths of the slot that ``amax_at`` reads. ``eps``, ``widths``,
        ``width_put_en``, ``width_put`` and ``last`` exist only with ``shape.has_choices``.
    width_put_en, width_put : In(1), In(2)
        Write of ``widths`` at ``amax_put_at``.
    last : Out(255)
        Bit 0 of the widths of every slot, valid 1 cycle after the write.
    panel_en, panel_at, panel : In(1), In(range(panel_vectors)), Out(row_layout(shape))
    panel_put_en, panel_put_at, panel_put : In(1), In(range(panel_vectors)), In(row_layout(shape))
    """

    put: data.View
    take: data.View
    constant_put: data.View

    def __init__(self, shape: VectorShape):
        self.shape = shape
        instructions, slots = In(range(INSTRUCTIONS)), In(range(shape.slot_entries))
        vectors, row = In(range(shape.panel_vectors)), row_layout(shape)
        super().__init__(
            {
                "put": In(put_layout(shape)),
                "take": In(take_layout(shape)),
                "blocked": Out(1),
                "scan_en": In(1),
                "scan_at": instructions,
                "instruction_en": In(1),
                "instruction_at": instructions,
                "instruction": Out(MICRO_BITS),
                "slot_en": In(1),
                "slot_at": In(range(SLOTS)),
                "slot": Out(8 * DESCRIPTOR_BYTES),
                "constant_en": In(1),
                "constant_at": In(range(CONSTANTS)),
                "constant": Out(WORD),
                "constant_put": In(data.ArrayLayout(constant_layout(), 2)),
                "amax_en": In(1),
                "amax_at": slots,
                "amax": Out(WORD),
                "amax_put_en": In(1),
                "amax_put_at": slots,
                "amax_put": In(WORD),
                "panel_en": In(1),
                "panel_at": vectors,
                "panel": Out(row),
                "panel_put_en": In(1),
                "panel_put_at": vectors,
                "panel_put": In(row),
            }
            | (WIDTH_PORTS if shape.has_choices else {})
        )

    def elaborate(self, platform):
        m = Module()
        blocked = (self.amax_en & (self.take.table == VectorTable.AMAX)) | (
            self.amax_put_en & (self.put.table == VectorTable.AMAX)
        )
        if self.shape.has_choices:
            blocked |= self.amax_en & (self.take.table == VectorTable.WIDTHS)
            blocked |= self.width_put_en & (self.put.table == VectorTable.WIDTHS)
        m.d.comb += self.blocked.eq(blocked)
        readers = {
            VectorTable.INSTRUCTIONS: [
                (self.scan_en, self.scan_at),
                (self.instruction_en, self.instruction_at),
            ],
            VectorTable.CONSTANTS: [(self.constant_en, self.constant_at)],
            VectorTable.AMAX: [(self.amax_en, self.amax_at)],
            VectorTable.PANEL: [(self.panel_en, self.panel_at)],
            VectorTable.DESCRIPTORS: [(self.slot_en, self.slot_at)],
        }
        writers = {
            VectorTable.CONSTANTS: [(p.valid, p.index, p.value) for p in self.constant_put],
            VectorTable.AMAX: [(self.amax_put_en, self.amax_put_at, self.amax_put)],
            VectorTable.PANEL: [(self.panel_put_en, self.panel_put_at, self.panel_put)],
        }
        words = {
            VectorTable.INSTRUCTIONS: self.instruction,
            VectorTable.CONSTANTS: self.constant,
            VectorTable.AMAX: self.amax,
            VectorTable.PANEL: self.panel,
            VectorTable.DESCRIPTORS: self.slot,
        }
        if self.shape.has_choices:
            put = (self.width_put_en, self.amax_put_at, self.width_put)
            readers |= {each: [(self.amax_en, self.amax_at)] for each in WIDTH_TABLES}
            writers |= {VectorTable.WIDTHS: [put]}
            words |= {VectorTable.EPS: self.eps, VectorTable.WIDTHS: self.widths}
        for table, word in words.items():
            entry = self._table(m, table, readers[table], writers.get(table, []))
            m.d.comb += Value.cast(word).eq(entry)
        return m

    def _table(self, m, table, readers, writers):
        """Build a table of as many memories as an entry has chunks. Return the word that is
        read."""
        shape, name = self.shape, table.name.lower()
        mine = Signal(name=f"puts_{name}")
        m.d.comb += mine.eq(self.put.valid & (self.put.table == table) & ~self.blocked)
        if table == VectorTable.CONSTANTS:  # the register `loss_scale` drives these
            with m.If((self.put.at == SCALE) | (self.put.at == INVERSE)):
                m.d.comb += mine.eq(0)
        if table in STORABLE_TABLES:
            takes = self.take.valid & (self.take.table == table) & ~self.blocked
            readers = [*readers, (takes, self.take.at)]
        self._assert_exclusive(m, f"of {name} reads", [en for en, _ in readers])
        self._assert_exclusive(m, f"of {name} writes", [mine, *(each[0] for each in writers)])
        words = []
        width = COUNTED_BITS.get(table, chunk_bits(shape, table))
        for bank in range(chunks(shape, table)):
            ram = Ram(width=width, depth=max(2, entries(shape, table)))
            m.submodules[f"{name}{bank}"] = ram
            writes = mine if chunks(shape, table) == 1 else mine & (self.put.bank == bank)
            m.d.comb += [
                ram.read_en.eq(_any(en for en, _ in readers)),
                ram.read_addr.eq(_first(readers)),
                ram.write_en.eq(_any([writes, *(each[0] for each in writers)])),
                ram.write_addr.eq(_first([*(each[:2] for each in writers), (1, self.put.at)])),
                ram.write_data.eq(
                    _first(
                        [
                            *((en, _part(word, bank, ram.width)) for en, _, word in writers),
                            (1, self.put.chunk),
                        ]
                    )
                ),
            ]
            words.append(ram.read_data)
            if table == VectorTable.WIDTHS:
                with m.If(ram.write_en):
                    last = self.last.bit_select(ram.write_addr, 1)
                    m.d.sync += last.eq(ram.write_data[0])
        return Cat(words)

    def _assert_exclusive(self, m, what, enables):
        """Assert that at most 1 of ``enables`` is high."""
        in_use = Const(0, 1)
        for enable in enables:
            m.d.sync += Assert(~(in_use & enable), f"two users {what}")
            in_use = in_use | enable


def _any(conditions):
    return reduce(or_, conditions)


def _part(word, bank, width):
    return Value.cast(word)[bank * width : (bank + 1) * width]


def _first(choices):
    """Return the value of the first choice whose condition holds, or the last value."""
    *others, (_, value) = choices
    for condition, other in reversed(others):
        value = Mux(condition, other, value)
    return value
