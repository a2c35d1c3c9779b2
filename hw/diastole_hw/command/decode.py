"""The front of the machine: fetches commands, refuses the malformed, hands the others on in
order."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_sim.spec import command as table
from diastole_sim.spec.command import COMMAND_BYTES, FIELDS, ErrorCode, Limits
from diastole_sim.spec.image import MAX_SIZE
from diastole_sim.spec.numerics import CLASS_NAMES

WIDTHS = ("width", *table.WIDTH_FIELDS.values())
"""Fields of machines with the format ``fast``."""


def command_layout(*, planes: bool = False) -> data.StructLayout:
    """A command that is in order; what its operation does not use is 0. ``planes``: of a machine
    with the format ``fast``; others have no widths.

    Names are those of the command's fields; ``class_x`` is the class of a tensor to convert, the
    classes of a product are those of the places. The opcode's numbers are those of the encoding.
    """
    size = unsigned(MAX_SIZE.bit_length())
    narrower = {"opcode": unsigned(3), "m": size, "n": size, "k": size}
    fixed = ("version", "class_w", "class_dy")
    fixed += () if planes else WIDTHS
    return data.StructLayout(
        {f.name: narrower.get(f.name, unsigned(f.bits)) for f in FIELDS if f.name not in fixed}
    )


class Decoder(wiring.Component):
    """Check one command and take it apart, as :func:`diastole_sim.spec.command.decode` does.

    Timing: combinational.

    Parameters
    ----------
    limits : Limits
        What is accepted; it must say its ``nests``.

    Members
    -------
    bits : In(512)
        The command.
    o : Out(command_layout(planes=limits.has_planes))
        Meaningful if ``error_code`` is 0.
    error_code : Out(8)
        The first fault in the order of ``PRECEDENCE``, 0 for none.

    """

    def __init__(self, limits: Limits):
        self.limits = limits
        layout = command_layout(planes=limits.has_planes)
        super().__init__({"bits": In(8 * COMMAND_BYTES), "o": Out(layout), "error_code": Out(8)})

    def elaborate(self, platform):
        m = Module()
        values = {field.name: self.bits[field.low : field.low + field.bits] for field in FIELDS}
        for field in FIELDS:
            if field.name in self.o.shape().members:
                m.d.comb += self.o[field.name].eq(self._own(field, values))

        codes = [
            code for code in table.PRECEDENCE if self.limits.has_planes or code != ErrorCode.WIDTH
        ]
        found = {code: Signal(name=code.name.lower()) for code in codes}
        with m.Switch(values["opcode"]):
            for opcode in table.Opcode:
                with m.Case(opcode):
                    for code, fault in self._faults(opcode, values).items():
                        if code in found:
                            m.d.comb += found[code].eq(fault)
            with m.Default():
                m.d.comb += found[ErrorCode.BAD_OPCODE].eq(1)
        for code in reversed(codes):  # the last assignment wins
            with m.If(found[code]):
                m.d.comb += self.error_code.eq(code)
        return m

    def _own(self, field, values):
        """The field's bits; 0 in an operation that has another field there."""
        shared = any(
            other.low < field.low + field.bits and field.low < other.low + other.bits
            for other in FIELDS
            if other is not field and other.name in self.o.shape().members
        )
        value = values[field.name]
        if not shared:
            return value
        mine = _any(values["opcode"] == opcode for opcode in field.uses)
        return Mux(mine, value, 0)

    def _faults(self, opcode, values):
        used = {field.name for field in table.fields_of(opcode)}
        limits = self.limits
        sizes = [name for name in ("m", "n", "k") if name in used]
        most = dict.fromkeys(sizes, limits.max_size)
        if opcode == table.Opcode.CONVERT:
            most["n"] = min(limits.max_size, limits.max_convert_cols)
            bad_class = values["class_x"] >= len(CLASS_NAMES)
        else:
            places = table.OPERAND_CLASSES.items()
            bad_class = _any(values[name] != place for name, place in places if name in used)
        longest = limits.block << limits.headroom
        low = exact_log2(limits.data_width // 8)
        addresses = [name for name in used if name.startswith(("address_", "out_"))]
        return {
            ErrorCode.BAD_VERSION: ~_any(values["version"] == known for known in table.VERSIONS),
            ErrorCode.RESERVED: _any(
                (values["version"] == known) & self._reserved(opcode, known)
                for known in table.VERSIONS
            ),
            ErrorCode.BAD_CLASS: bad_class,
            ErrorCode.WIDTH: self._bad_width(opcode, used, values),
            ErrorCode.ZERO_SIZE: _any(values[name] == 0 for name in sizes),
            ErrorCode.TOO_LARGE: _any(values[name] > most[name] for name in sizes),
            ErrorCode.TOO_LONG: _any(values[n] > longest for n in table.CONTRACTIONS[opcode]),
            ErrorCode.MISALIGNED: _any(values[name][:low].any() for name in sorted(addresses)),
            ErrorCode.NEST: self._bad_nest(opcode, values),
        }

    def _reserved(self, opcode, version):
        """Whether a bit is set that must be 0."""
        mask = table.reserved_mask(opcode, version, planes=self.limits.has_planes)
        return (self.bits & mask).any()

    def _bad_width(self, opcode, used, values):
        """Whether an operand, or what is converted, has planes that its class has not."""
        counts = self.limits.planes
        if counts is None:
            return Const(0, 1)

        def bad(number, field):
            return ~_any(values[field] == count - 1 for count in counts[number])

        if opcode == table.Opcode.CONVERT:
            return _any(
                (values["class_x"] == number) & bad(number, "width")
                for number in range(len(CLASS_NAMES))
            )
        named = enumerate(table.WIDTH_FIELDS[name] for name in CLASS_NAMES)
        return _any(bad(number, field) for number, field in named if field in used)

    def _bad_nest(self, opcode, values):
        """Whether a length is none of those that the machine has."""
        assert self.limits.nests is not None
        taken = self.limits.nests.of(opcode.name.lower())
        if taken is None:
            return Const(0, 1)
        known = {field: getattr(taken, name) for name, field in table.NEST_FIELDS.items()}
        return _any(
            ~_any(values[field] == length for length in (0, *lengths))
            for field, lengths in known.items()
        )


def _any(conditions):
    """One bit: any of the conditions holds."""
    return Cat(*conditions).any()
