"""Destinations of the lanes' results."""

from amaranth.hdl import Assert, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.data_registers import data_register
from diastole_hw.vector.core.entry import entry_layout
from diastole_hw.vector.core.issue import issued_layout, oldest_age
from diastole_hw.vector.core.row_order import row_at
from diastole_hw.vector.core.timing import WRITTEN_AT
from diastole_hw.vector.stream_layouts import VectorShape
from diastole_sim.spec.micro import OUTPUTS, REGISTERS

STORED_FIELDS = (
    "writes",
    "d",
    "writes_output",
    "o",
    "to_panel",
    "panel_write",
    "order",
    "turn_rows",
)


class ResultDestinations(wiring.Component):
    """Output the destination of every row of results, 7 cycles after the row's operands were read.

    Only 1 instruction writes results at a time, since no slot is shorter than the pipeline of the
    lanes.

    Timing: outputs are functions of registers. The result of the row that a slot reads at age p
    leaves the lanes at age p + 7, in the cycle in which this unit outputs the row's destination.

    Parameters
    ----------
    shape : VectorShape

    Members
    -------
    slot, age : In
        Outputs of :class:`diastole_hw.vector.core.issue.Issue`.
    row : Out(range(B))
    register_en, register : Out(1), Out(range(16))
        The row belongs to a register; number of the register.
    panel_en, vector : Out(1), Out
        The row belongs to the panel; number of the row's vector.
    stream_en, stream : Out(1), Out(range(4))
        The row belongs to an output stream in memory; number of any output stream.
    """

    def __init__(self, shape: VectorShape):
        self.shape = shape
        super().__init__(
            {
                "slot": In(issued_layout(shape)),
                "age": In(range(oldest_age(shape) + 1)),
                "row": Out(shape.row_bits),
                "register_en": Out(1),
                "register": Out(range(REGISTERS)),
                "panel_en": Out(1),
                "vector": Out(shape.panel_bits),
                "stream_en": Out(1),
                "stream": Out(range(OUTPUTS)),
            }
        )

    @property
    def stored_layout(self) -> data.StructLayout:
        """Layout of the fields that the unit stores of a slot."""
        members = entry_layout(self.shape).members
        return data.StructLayout({name: members[name] for name in STORED_FIELDS})

    def elaborate(self, platform):
        m = Module()
        shape, entry = self.shape, self.slot.entry
        slot = data_register(self.stored_layout, name="stored")
        position = Signal(range(shape.block + 1), init=shape.block)
        active = Signal()
        m.d.comb += active.eq(position != shape.block)
        with m.If(active):
            m.d.sync += position.eq(position + 1)
        with m.If(self.age == WRITTEN_AT - 1):
            m.d.sync += [position.eq(0), *(slot[name].eq(entry[name]) for name in STORED_FIELDS)]
            over = position >= shape.block - 1
            m.d.sync += Assert(over, "rows of two slots at once")
        m.d.comb += [
            self.row.eq(row_at(shape, slot, position)),
            self.register_en.eq(active & slot.writes),
            self.register.eq(slot.d),
            self.panel_en.eq(active & slot.to_panel),
            self.vector.eq(slot.panel_write + self.row),
            self.stream_en.eq(active & slot.writes_output),
            self.stream.eq(slot.o),
        ]
        return m
