"""The front of the machine: fetches commands, refuses the malformed, hands the others on in
order."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole.bus.service import request_layout
from diastole.emit.place import place
from diastole_sim.check import require_choice, require_int
from diastole_sim.numerics import BLOCK_SIDES, CLASS_NAMES
from diastole_sim.program import command as table
from diastole_sim.program.command import ADDRESS_BITS, COMMAND_BYTES, FIELDS, ErrorCode
from diastole_sim.program.image import DATA_WIDTHS, MAX_SIZE


def command_layout() -> data.StructLayout:
    """A command that is in order; what its operation does not use is 0.

    Names are those of the command's fields; ``class_x`` is the class of a tensor to convert, the
    classes of a product are those of the places. The opcode's numbers are those of the encoding.
    """
    size = unsigned(MAX_SIZE.bit_length())
    narrower = {"opcode": unsigned(3), "m": size, "n": size, "k": size}
    fixed = ("version", "class_w", "class_dy")
    return data.StructLayout(
        {f.name: narrower.get(f.name, unsigned(f.bits)) for f in FIELDS if f.name not in fixed}
    )


class Decoder(wiring.Component):
    """Check one command and take it apart, as :func:`diastole_sim.program.command.decode` does.

    Combinational.

    Parameters
    ----------
    block, headroom, data_width : int
        B, G and the bits of a beat.
    max_size, max_convert_cols : int
        Largest size, and most columns of a tensor to convert (1 to 2**24 - 1).

    Members
    -------
    bits : In(512)
        The command.
    o : Out(:func:`command_layout`)
        Meaningful if ``error_code`` is 0.
    error_code : Out(8)
        The first fault in the order of ``PRECEDENCE``, 0 for none.

    ValueError if a parameter is out of range.
    """

    def __init__(
        self, *, block: int, headroom: int, data_width: int, max_size: int, max_convert_cols: int
    ):
        self.block, self.headroom, self.data_width = block, headroom, data_width
        self.max_size, self.max_convert_cols = max_size, max_convert_cols
        _check_limits(self)
        super().__init__(
            {"bits": In(8 * COMMAND_BYTES), "o": Out(command_layout()), "error_code": Out(8)}
        )

    def elaborate(self, platform):
        m = Module()
        values = {field.name: self.bits[field.low : field.low + field.bits] for field in FIELDS}
        for field in FIELDS:
            if field.name in self.o.shape().members:
                m.d.comb += self.o[field.name].eq(self._own(field, values))

        found = {}
        for code in table.PRECEDENCE:
            found[code] = Signal(name=code.name.lower())
        with m.Switch(values["opcode"]):
            for opcode in table.Opcode:
                with m.Case(opcode):
                    for code, fault in self._faults(opcode, values).items():
                        m.d.comb += found[code].eq(fault)
            with m.Default():
                m.d.comb += found[ErrorCode.BAD_OPCODE].eq(1)
        for code in reversed(table.PRECEDENCE):  # the last assignment wins
            with m.If(found[code]):
                m.d.comb += self.error_code.eq(code)
        return m

    @staticmethod
    def _own(field, values):
        """The field's bits; 0 in an operation that has another field there."""
        shared = any(
            other.low < field.low + field.bits and field.low < other.low + other.bits
            for other in FIELDS
            if other is not field
        )
        value = values[field.name]
        if not shared:
            return value
        mine = _any(values["opcode"] == opcode for opcode in field.uses)
        return Mux(mine, value, 0)

    def _faults(self, opcode, values):
        used = {field.name for field in table.fields_of(opcode)}
        sizes = [name for name in ("m", "n", "k") if name in used]
        most = dict.fromkeys(sizes, self.max_size)
        if opcode == table.Opcode.CONVERT:
            most["n"] = min(self.max_size, self.max_convert_cols)
            bad_class = values["class_x"] >= len(CLASS_NAMES)
        else:
            places = table.OPERAND_CLASSES.items()
            bad_class = _any(values[name] != place for name, place in places if name in used)
        longest = self.block << self.headroom
        low = exact_log2(self.data_width // 8)
        addresses = [name for name in used if name.startswith(("address_", "out_"))]
        return {
            ErrorCode.BAD_VERSION: values["version"] != table.COMMAND_VERSION,
            ErrorCode.RESERVED: (self.bits & table.reserved_mask(opcode)).any(),
            ErrorCode.BAD_CLASS: bad_class,
            ErrorCode.ZERO_SIZE: _any(values[name] == 0 for name in sizes),
            ErrorCode.TOO_LARGE: _any(values[name] > most[name] for name in sizes),
            ErrorCode.TOO_LONG: _any(values[n] > longest for n in table.CONTRACTIONS[opcode]),
            ErrorCode.MISALIGNED: _any(values[name][:low].any() for name in sorted(addresses)),
        }


class CommandFetch(wiring.Component):
    """Fetch and check the commands of an array one after the other, and wait for each to be done.

    ``start`` begins with command 0; a count of 0 is the error ``ZERO_SIZE`` of command 0, an
    address off the beat ``MISALIGNED``. A command that is in order is offered at ``command``; when
    it is taken, ``done`` ends it, and the next is fetched. After the last, ``finished`` is high for
    one cycle. The first error, of a command or ``fault``, stops the machine: nothing more is
    fetched or offered, and the error stays until ``clear``. ``fault`` counts only while ``busy``,
    and has precedence over ``done`` in the same cycle.

    Timing: 2 cycles from the last beat of a command to ``command.valid``, a register. The request
    of the first command is valid in the cycle after ``start``, that of the next in the cycle after
    ``done``.

    Parameters
    ----------
    block, headroom, data_width, max_size, max_convert_cols : int
        As of :class:`Decoder`.

    Members
    -------
    start : In(1)
        Ignored while ``busy`` and while there is an error.
    address, count : In(40), In(32)
        Of the commands; must hold while ``busy``.
    clear : In(1)
        Stop and forget the error; the reader must be cleared with it.
    request : Out(stream of {"addr": unsigned(40), "beats": unsigned(16)})
    data : In(stream of unsigned(data_width))
        To and from an :class:`diastole.bus.axi_reader.AxiReader`.
    command : Out(stream of :func:`command_layout`)
        The payload holds until ``done``, also after it was taken.
    done : In(1)
        A pulse: the command that was taken is done, its last write is answered. May come in the
        cycle after it was taken, or later.
    fault : In(8)
        An error code from the buses, 0 for none.
    busy, finished : Out(1)
    error_code, error_index : Out(8), Out(32)

    ValueError if a parameter is out of range.
    """

    request: stream.Interface
    data: stream.Interface
    command: stream.Interface

    def __init__(
        self, *, block: int, headroom: int, data_width: int, max_size: int, max_convert_cols: int
    ):
        self.block, self.headroom, self.data_width = block, headroom, data_width
        self.max_size, self.max_convert_cols = max_size, max_convert_cols
        _check_limits(self)
        super().__init__(
            {
                "start": In(1),
                "address": In(ADDRESS_BITS),
                "count": In(32),
                "clear": In(1),
                "request": Out(stream.Signature(request_layout())),
                "data": In(stream.Signature(unsigned(data_width))),
                "command": Out(stream.Signature(command_layout())),
                "done": In(1),
                "fault": In(8),
                "busy": Out(1),
                "finished": Out(1),
                "error_code": Out(8),
                "error_index": Out(32),
            }
        )

    def elaborate(self, platform):
        m = Module()
        decoder = Decoder(
            block=self.block,
            headroom=self.headroom,
            data_width=self.data_width,
            max_size=self.max_size,
            max_convert_cols=self.max_convert_cols,
        )
        m.submodules.decoder = place(decoder, platform)
        bits = Signal(8 * COMMAND_BYTES)
        index = Signal(32)
        last = Signal()
        beats = 8 * COMMAND_BYTES // self.data_width
        beat = Signal(range(beats))
        m.d.comb += [
            decoder.bits.eq(bits),
            last.eq(index + 1 == self.count),
            self.request.p.addr.eq(self.address + (index << exact_log2(COMMAND_BYTES))),
            self.request.p.beats.eq(beats),
        ]
        state = Signal(State)
        code = Signal(8)  # of a fault that stops the machine in this cycle
        m.d.sync += self.finished.eq(0)
        with m.Switch(state):
            with m.Case(State.IDLE):
                with m.If(self.start & (self.error_code == 0)):
                    m.d.sync += [index.eq(0), state.eq(State.REQUEST)]
                    with m.If(self.count == 0):
                        m.d.comb += code.eq(ErrorCode.ZERO_SIZE)
                    with m.Elif(self.address[: exact_log2(self.data_width // 8)].any()):
                        m.d.comb += code.eq(ErrorCode.MISALIGNED)
            with m.Case(State.REQUEST):
                m.d.comb += self.request.valid.eq(1)
                m.d.sync += beat.eq(0)
                with m.If(self.request.ready):
                    m.d.sync += state.eq(State.BEATS)
            with m.Case(State.BEATS):
                m.d.comb += self.data.ready.eq(1)
                with m.If(self.data.valid):
                    m.d.sync += bits.eq(Cat(bits, self.data.payload)[self.data_width :])
                    m.d.sync += beat.eq(beat + 1)
                    with m.If(beat == beats - 1):
                        m.d.sync += state.eq(State.CHECK)
            with m.Case(State.CHECK):
                m.d.sync += [self.command.payload.eq(decoder.o), state.eq(State.OFFER)]
                m.d.comb += code.eq(decoder.error_code)
            with m.Case(State.OFFER):
                m.d.comb += self.command.valid.eq(1)
                with m.If(self.command.ready):
                    m.d.sync += state.eq(State.WAIT)
            with m.Case(State.WAIT):
                with m.If(self.done):
                    m.d.sync += [index.eq(index + 1), state.eq(State.REQUEST)]
                    with m.If(last):
                        m.d.sync += [state.eq(State.IDLE), self.finished.eq(1)]
        m.d.comb += self.busy.eq(state != State.IDLE)
        self._stop(m, state, index, code)
        return m

    def _stop(self, m, state, index, code):
        """Errors and ``clear``; what is assigned here wins over the states."""
        with m.If(self.busy & (self.fault != 0)):
            m.d.comb += code.eq(self.fault)
        with m.If(code != 0):
            m.d.sync += [state.eq(State.IDLE), self.finished.eq(0), self.error_code.eq(code)]
            m.d.sync += self.error_index.eq(Mux(self.busy, index, 0))
        with m.If(self.clear):
            m.d.sync += [state.eq(State.IDLE), self.finished.eq(0)]
            m.d.sync += [self.error_code.eq(0), self.error_index.eq(0)]


class State(enum.Enum, shape=3):
    """Of :class:`CommandFetch`."""

    IDLE = 0
    REQUEST = 1
    BEATS = 2
    CHECK = 3
    OFFER = 4
    WAIT = 5


def _check_limits(unit):
    require_choice("block", unit.block, BLOCK_SIDES)
    require_int("headroom", unit.headroom, 1, 16)
    require_choice("data_width", unit.data_width, DATA_WIDTHS)
    require_int("max_size", unit.max_size, 1, MAX_SIZE)
    require_int("max_convert_cols", unit.max_convert_cols, 1, MAX_SIZE)


def _any(conditions):
    """One bit: any of the conditions holds."""
    return Cat(*conditions).any()
