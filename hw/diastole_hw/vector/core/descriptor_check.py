"""Check an instruction, or the descriptor of a stream: the rules of the contract as gates."""

from typing import Any

from amaranth.hdl import Array, Module, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.conditions import among, any_of
from diastole_hw.vector.stream_layouts import VectorShape
from diastole_sim.spec import micro, stream_table
from diastole_sim.spec.micro import (
    INPUTS,
    MICRO_BITS,
    NO_OUTPUT,
    NO_REGISTER,
    OUTPUTS,
    REGISTERS,
    SPECIALS,
    USES,
    MicroOp,
    Source,
)
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.stream_table import (
    CHOICE_FIELDS,
    DESCRIPTOR_BYTES,
    GATHERED,
    IN_MEMORY,
    INPUT_KINDS,
    OFFSET_KINDS,
    OUTPUT_KINDS,
    ROWS,
    SLOTS,
    Kind,
    PanelOrder,
)


def instruction_layout() -> data.StructLayout:
    """Return the layout of a micro-instruction: the fields, and ``rest``, the bits above the
    fields."""
    fields = {field.name: unsigned(field.bits) for field in micro.FIELDS}
    return data.StructLayout(fields | {"rest": MICRO_BITS - sum(f.bits for f in micro.FIELDS)})


def descriptor_layout(*, choices: bool = False) -> data.Layout:
    """Return the layout of a descriptor in the stream table: the fields, and ``rest``, the bits
    between fields. ``choices``: include the fields of a machine that decides widths."""
    present = [each for each in stream_table.FIELDS if choices or each.name not in CHOICE_FIELDS]
    fields = {field.name: data.Field(unsigned(field.bits), field.low) for field in present}
    used_bits = sum((1 << field.bits) - 1 << field.low for field in present)
    free = [bit for bit in range(8 * DESCRIPTOR_BYTES) if not used_bits >> bit & 1]
    assert free == list(range(free[0], free[-1] + 1)), "bits that no field has lie side by side"
    fields["rest"] = data.Field(unsigned(len(free)), free[0])
    return data.FlexibleLayout(8 * DESCRIPTOR_BYTES, fields)


class InstructionCheck(wiring.Component):
    """Check the rules of a single instruction, as :func:`diastole_sim.spec.micro.program_problems`
    does.

    Timing: all combinational.

    Parameters
    ----------
    block : int
        B.

    Members
    -------
    word : In(64)
    panels : In(4)
        Input streams in the panel.
    bad : Out(1)
        The instruction breaks a rule.
    inputs, outputs : Out(4), Out(4)
        Streams that the instruction reads and writes. An unknown operation reads no inputs.
    """

    word: data.View

    def __init__(self, *, block: int):
        self.block = block
        super().__init__(
            {
                "word": In(instruction_layout()),
                "panels": In(INPUTS),
                "bad": Out(1),
                "inputs": Out(INPUTS),
                "outputs": Out(OUTPUTS),
            }
        )

    def elaborate(self, platform):
        m = Module()
        instruction: Any = self.word
        uses, sources = {}, {}
        for letter in "abc":
            uses[letter] = Signal(name=f"uses_{letter}")
            sources[letter] = instruction[letter]
            having = [op for op, operands in USES.items() if letter in operands]
            m.d.comb += uses[letter].eq(among(instruction.op, having))
        special, defined = Signal(), Signal()
        m.d.comb += [
            special.eq(among(instruction.op, SPECIALS)),
            defined.eq(among(instruction.op, MicroOp)),
        ]
        named = [
            any_of(uses[letter] & (sources[letter] == Source.S0 + s) for letter in "abc")
            for s in range(INPUTS)
        ]
        for number, bit in enumerate(named):
            m.d.comb += self.inputs[number].eq(bit)
        for number in range(OUTPUTS):
            m.d.comb += self.outputs[number].eq(
                (instruction.o == number) & (instruction.op != MicroOp.NOP)
            )
        panels = Signal(INPUTS)
        m.d.comb += panels.eq(self.inputs & self.panels)
        flags = (
            instruction.turn_lanes.any()
            | instruction.turn_rows.any()
            | instruction.fresh
            | instruction.keep
        )
        most = self.block.bit_length() - 1
        itself = (
            (instruction.turn_rows >= micro.FAR_ROTATION)
            & uses["c"]
            & (instruction.c == instruction.d)
        )
        faults = [
            ~defined,
            instruction.rest.any(),
            *(~uses[x] & sources[x].any() for x in "abc"),
            *(uses[x] & (sources[x] > max(Source)) for x in "abc"),
            flags & ~uses["c"],
            instruction.turn_lanes > most,
            instruction.turn_rows > most,
            instruction.turn_rows.any() & (instruction.c >= REGISTERS),
            (instruction.d >= REGISTERS) & (instruction.d != NO_REGISTER),
            (instruction.o >= OUTPUTS) & (instruction.o != NO_OUTPUT),
            special
            & (
                (instruction.a >= REGISTERS)
                | (instruction.o != NO_OUTPUT)
                | (instruction.d == NO_REGISTER)
            ),
            (panels & (panels - 1)[:INPUTS]).any(),
            itself & panels.any() & (instruction.o != NO_OUTPUT),
        ]
        m.d.comb += self.bad.eq(any_of(faults))
        return m


class DescriptorCheck(wiring.Component):
    """Check the rules of a stream that need no arithmetic, as
    :func:`diastole_sim.spec.stream_table.stream_problems` does. The length of the panel and the
    list of gathered rows are not checked.

    Timing: all combinational.

    Parameters
    ----------
    shape : VectorShape

    Members
    -------
    word : In(descriptor_layout(choices=shape.has_choices))
    as_output, as_list : In(1), In(1)
        The descriptor is an output; the descriptor is a list of rows to gather. If neither, an
        input.
    by_columns, of_product : In(1), In(1)
        Order of the walk; the walk belongs to a product.
    bad : Out(1)
        The descriptor breaks a rule.
    """

    word: data.View

    def __init__(self, shape: VectorShape):
        self.shape = shape
        flags = ("as_output", "as_list", "by_columns", "of_product")
        super().__init__(
            {"word": In(descriptor_layout(choices=shape.has_choices)), "bad": Out(1)}
            | {name: In(1) for name in flags}
        )

    def elaborate(self, platform):
        m = Module()
        descriptor: Any = self.word
        present = [kind for kind in Kind if kind != Kind.DRAWS or self.shape.draws]
        is_ = Array(Signal(name=f"is_{kind.name.lower()}") for kind in present)
        for kind in present:
            m.d.comb += is_[kind].eq(descriptor.kind == kind)

        def of(kinds):
            return any_of(is_[kind] for kind in kinds if kind in present)

        faults = [
            *self._unused(of),
            ~self.as_output & ~of(INPUT_KINDS),
            self.as_output & ~of(OUTPUT_KINDS),
            self.as_list & ~is_[Kind.LABELS],
            is_[Kind.PRODUCT] & ~self.of_product,
            is_[Kind.CONSTANT] & (descriptor.address >= micro.CONSTANTS),
            is_[Kind.PANEL] & (descriptor.aux > max(PanelOrder)),
            is_[Kind.PANEL]
            & self.as_output
            & (descriptor.aux == PanelOrder.BLOCK_COLUMN_ZERO_FIRST),
            of(GATHERED) & (descriptor.aux >= SLOTS),
            is_[Kind.IMAGE] & (descriptor.tensor_class >= len(CLASS_NAMES)),
        ]
        low = (self.shape.beat_bytes - 1).bit_length()
        faults += [
            of(OFFSET_KINDS) & (descriptor.address[:low].any() | descriptor.offset[:low].any()),
            of(ROWS) & descriptor.pitch[:low].any(),
        ]
        by_rows = [Kind.ROW, Kind.IMAGE] + [Kind.MASK] * (self.shape.block**2 % 8 > 0)
        faults += [
            self.as_output & of(by_rows) & self.by_columns,
            self.as_output & is_[Kind.COLUMN] & (self.of_product | ~self.by_columns),
        ]
        if self.shape.has_choices:
            needs_width = descriptor.by_slot | descriptor.decides
            undecided = [n for n, decided in enumerate(self.shape.choices) if not decided]
            faults += [
                needs_width & (~is_[Kind.IMAGE] | ~descriptor.aux.any()),
                needs_width & among(descriptor.tensor_class, undecided),
            ]
        m.d.comb += self.bad.eq(any_of(faults))
        return m

    def _unused(self, of):
        """Return conditions for nonzero bits without a meaning."""
        descriptor: Any = self.word
        has_pitch = of((*ROWS, Kind.IMAGE, Kind.DRAWS)) | (of([Kind.PANEL]) & ~descriptor.aux.any())
        return (
            descriptor.address.any() & of([Kind.PRODUCT, Kind.DRAWS]),
            descriptor.tensor_class.any() & ~of([Kind.IMAGE]),
            descriptor.per_step & ~of(IN_MEMORY),
            descriptor.watch & ~self.as_output,
            descriptor.aux.any() & ~of((Kind.IMAGE, Kind.PANEL, *GATHERED)),
            descriptor.pitch.any() & ~has_pitch,
            descriptor.offset.any() & ~(of([Kind.IMAGE]) | descriptor.per_step),
            descriptor.rest.any(),
        )
