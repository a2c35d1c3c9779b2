"""Check commands and split them into fields."""

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.data_registers import data_output, data_register
from diastole_sim.spec.command_check import lengths_of
from diastole_sim.spec.command_errors import COMMAND_VERSION, IN_TABLES, PRECEDENCE, ErrorCode
from diastole_sim.spec.command_table import (
    ADDRESS_FIELDS,
    CHAINS,
    COMMAND_BYTES,
    CONTRACTIONS,
    MULTIPLYING,
    NEST_FIELDS,
    NESTED,
    OPERAND_CLASSES,
    SIZES,
    SLOT_FIELDS,
    TRANSFERS,
    WIDTH_FIELDS,
    Opcode,
    fields_of,
    machine_fields,
    opcodes_of,
    reserved_mask,
)
from diastole_sim.spec.image import EXTENT_BITS
from diastole_sim.spec.limits import (
    INSTRUCTIONS,
    MAX_ENTRIES,
    Limits,
    VectorTable,
    vector_tables,
)
from diastole_sim.spec.micro import MAX_INSTRUCTIONS
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.stream_table import SLOTS, STREAMS

WIDTHS = ("width", *WIDTH_FIELDS.values())
"""Fields that only machines with the format ``fast`` have."""


def command_layout(
    *, planes: bool = False, vector: bool = False, choices: bool = False
) -> data.StructLayout:
    """Return the layout of a valid command. Fields that the operation does not use are 0.
    ``planes``: the machine has the format ``fast``; without it there are no widths. ``vector``: the
    machine has a vector unit; without it there are no fields of vector operations. ``choices``: the
    machine decides widths.

    Names are the names of the command's fields. ``class_x`` is the class of a tensor to convert;
    the classes of a product follow from the places of its operands. Opcodes are numbered as
    encoded.
    """
    opcodes = unsigned(max(opcodes_of(vector=vector)).bit_length())
    narrower = {"opcode": opcodes} | dict.fromkeys(SIZES, unsigned(EXTENT_BITS))
    narrower |= {"which": unsigned(max(VectorTable).bit_length())}
    narrower |= dict.fromkeys(("first", "count"), unsigned(MAX_ENTRIES.bit_length()))
    fixed = ("version", "class_w", "class_dy")
    fixed += () if planes else WIDTHS
    return data.StructLayout(
        {
            field.name: narrower.get(field.name, unsigned(field.bits))
            for field in machine_fields(vector=vector, choices=choices)
            if field.name not in fixed
        }
    )


def layout_for(limits: Limits) -> data.StructLayout:
    """Return :func:`command_layout` of a machine with the given limits."""
    return command_layout(
        planes=limits.has_planes, vector=limits.has_vector, choices=limits.has_choices
    )


def bit_groups(limits: Limits) -> list[list[int]]:
    """Group the positions of all bits of a command. Of the bits of a group only their OR matters:
    :class:`Decoder` may receive the OR as the first bit of the group, and 0 as the remaining
    bits."""
    groups: dict[tuple, list[int]] = {}
    layout = layout_for(limits)
    has = {"vector": limits.has_vector, "choices": limits.has_choices}
    fields = machine_fields(**has)
    reserved = [
        reserved_mask(opcode, planes=limits.has_planes, **has)
        for opcode in opcodes_of(vector=limits.has_vector)
    ]
    for at in range(8 * COMMAND_BYTES):
        uses = tuple(mask >> at & 1 for mask in reserved)
        own = [field for field in fields if field.low <= at < field.low + field.bits]
        if all(uses):
            groups.setdefault((), []).append(at)
        elif any(at < field.low + _looked_at(field, layout) for field in own):
            groups[at,] = [at]
        else:
            groups.setdefault((uses, *own), []).append(at)
    return list(groups.values())


def _looked_at(field, layout):
    """Return the number of low bits of a field, every bit of which matters."""
    members = layout.members
    return Shape.cast(members[field.name]).width if field.name in members else field.bits


class Decoder(wiring.Component):
    """Check one command and split it into fields, as :func:`diastole_sim.spec.command_check.decode`
    does.

    Timing: ``o`` is combinational. ``error_code`` belongs to the ``bits`` of 1 cycle before,
    ``wrong`` to the ``bits`` of 2 cycles before.

    Parameters
    ----------
    limits : Limits
        Limits of accepted commands; must contain ``nests``.

    Members
    -------
    bits : In(512)
        Command.
    o : Out(layout_for(limits))
        Fields of the command, meaningful if ``error_code`` is 0.
    error_code : Out(8)
        First fault in the order of ``PRECEDENCE``, 0 for none; faults of ``IN_TABLES`` are not
        checked.
    wrong : Out(1)
        High if there is a fault. A register, because every start of a command depends on it.
    """

    def __init__(self, limits: Limits):
        self.limits = limits
        layout = layout_for(limits)
        verdict = {"error_code": Out(8), "wrong": Out(1)}
        super().__init__({"bits": In(8 * COMMAND_BYTES), "o": Out(layout)} | verdict)

    def elaborate(self, platform):
        m = Module()
        fields = self._fields
        values = {field.name: self.bits[field.low : field.low + field.bits] for field in fields}
        for field in fields:
            if field.name in self.o.shape().members:
                m.d.comb += self.o[field.name].eq(self._own(field, values))

        never = IN_TABLES if self.limits.has_planes else (*IN_TABLES, ErrorCode.WIDTH)
        codes = [code for code in PRECEDENCE if code not in never]
        faults = {code: Signal(name=code.name.lower()) for code in codes}
        seen = {code: data_register(name=f"{code.name.lower()}_seen") for code in codes}
        m.d.sync += [seen[code].eq(faults[code]) for code in codes]
        m.d.sync += data_output(m, self.wrong, "any_seen").eq(_any(seen.values()))
        with m.Switch(values["opcode"]):
            for opcode in opcodes_of(vector=self.limits.has_vector):
                with m.Case(opcode):
                    for code, fault in self._faults(opcode, values).items():
                        if code in faults:
                            m.d.comb += faults[code].eq(fault)
            with m.Default():
                m.d.comb += faults[ErrorCode.BAD_OPCODE].eq(1)
        for code in reversed(codes):  # the last assignment wins
            with m.If(seen[code]):
                m.d.comb += self.error_code.eq(code)
        return m

    @property
    def _fields(self):
        """Fields of a command of the machine."""
        limits = self.limits
        return machine_fields(vector=limits.has_vector, choices=limits.has_choices)

    def _own(self, field, values):
        """Return the bits of the field, 0 for an operation with another field at this position."""
        shared = any(
            other.low < field.low + field.bits and field.low < other.low + other.bits
            for other in self._fields
            if other is not field and other.name in self.o.shape().members
        )
        value = values[field.name]
        if not shared:
            return value
        present = opcodes_of(vector=self.limits.has_vector)
        mine = _any(values["opcode"] == opcode for opcode in field.uses if opcode in present)
        return Mux(mine, value, 0)

    def _faults(self, opcode, values):
        used = {field.name for field in fields_of(opcode)}
        limits = self.limits
        longest = limits.block << limits.headroom
        low = exact_log2(limits.data_width // 8)
        addresses = [name for name in sorted(used) if name in (*ADDRESS_FIELDS, "advance")]
        if opcode == Opcode.CONVERT:
            bad_class = values["class_x"] >= len(CLASS_NAMES)
        else:
            places = OPERAND_CLASSES.items()
            bad_class = _any(values[name] != place for name, place in places if name in used)
        return {
            ErrorCode.BAD_VERSION: values["version"] != COMMAND_VERSION,
            ErrorCode.RESERVED: self._reserved(opcode),
            ErrorCode.BAD_CLASS: bad_class,
            ErrorCode.WIDTH: self._bad_width(opcode, used, values),
            ErrorCode.ZERO_SIZE: _any(values[name] == 0 for name in lengths_of(opcode)),
            ErrorCode.TOO_LARGE: _any(self._too_large(opcode, used, values)),
            ErrorCode.TOO_LONG: _any(values[n] > longest for n in CONTRACTIONS[opcode]),
            ErrorCode.MISALIGNED: _any(values[name][:low].any() for name in addresses),
            ErrorCode.NEST: self._bad_nest(opcode, values),
        }

    def _too_large(self, opcode, used, values):
        """Yield a condition for every size, or place in a table, that may exceed the limits of the
        machine."""
        limits = self.limits
        for name in (name for name in SIZES if name in used):
            most = limits.max_size
            if opcode == Opcode.CONVERT and name == "n":
                most = min(most, limits.max_convert_cols)
            yield values[name] > most
        if opcode in CHAINS:
            length = values["program_length"]
            yield length > MAX_INSTRUCTIONS
            yield values["program"] + length > INSTRUCTIONS
            yield values["streams"] > SLOTS - STREAMS
        if opcode in TRANSFERS:
            end = values["first"] + values["count"]
            tables = vector_tables(choices=limits.has_choices)
            entries = {table: limits.entries(opcode, table) for table in tables}
            yield values["which"] > max(tables)
            for table, most in entries.items():
                yield (values["which"] == table) & (end > most)

    def _reserved(self, opcode):
        """Return whether a bit is set that must be 0."""
        limits = self.limits
        mask = reserved_mask(
            opcode,
            planes=limits.has_planes,
            vector=limits.has_vector,
            choices=limits.has_choices,
        )
        return (self.bits & mask).any()

    def _bad_width(self, opcode, used, values):
        """Return whether the number of planes of an operand, or of a tensor to convert, is none of
        the class."""
        counts = self.limits.planes
        if counts is None:
            return Const(0, 1)

        def bad(number, field):
            return ~_any(values[field] == count - 1 for count in counts[number])

        if opcode == Opcode.CONVERT:
            refused = [
                (values["class_x"] == number) & bad(number, "width")
                for number in range(len(CLASS_NAMES))
            ]
            return _any([*refused, *self._bad_choices(values)])
        named = enumerate(WIDTH_FIELDS[name] for name in CLASS_NAMES)
        refused = [bad(number, field) for number, field in named if field in used]
        for name, decided in zip(CLASS_NAMES, self.limits.choices, strict=True):
            if self.limits.has_choices and SLOT_FIELDS[name] in used and not decided:
                refused.append(values[SLOT_FIELDS[name]].any())
        return _any(refused)

    def _bad_choices(self, values):
        """Yield conditions under which a conversion asks for a width by slot or for a decision
        without a slot, or for a class that has no choice."""
        if self.limits.has_choices:
            needs_width = values["by_slot"] | values["decides"]
            yield needs_width & ~values["slot"].any()
            for number, decided in enumerate(self.limits.choices):
                if not decided:
                    yield needs_width & (values["class_x"] == number)

    def _bad_nest(self, opcode, values):
        """Return whether a length of the loop nest is not among the lengths of the machine."""
        assert self.limits.nests is not None
        nest = self.limits.nests.of(MULTIPLYING[opcode].name) if opcode in NESTED else None
        if nest is None:
            return Const(0, 1)
        accepted = {field: getattr(nest, name) for name, field in NEST_FIELDS.items()}
        return _any(
            ~_any(values[field] == length for length in (0, *lengths))
            for field, lengths in accepted.items()
        )


def _any(conditions):
    """Return 1 bit: any of the conditions holds."""
    return Cat(*conditions).any()
