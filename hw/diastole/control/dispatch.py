"""Runs decoded commands one after the other, on the converter or on the product engine."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole.bus.service import request_layout, write_beat_layout
from diastole.control.decode import command_layout
from diastole.control.engine import ProductEngine
from diastole.convert.converter import Converter
from diastole.emit.place import place
from diastole.plan import Plan
from diastole.uses import DY, Mode
from diastole_sim.program.command import Opcode

FLAGS = data.StructLayout(
    {
        "x_nan": 1,
        "x_inf": 1,
        "w_nan": 1,
        "w_inf": 1,
        "dy_nan": 1,
        "dy_inf": 1,
        "overflow": 1,
        "inexact": 1,
    }
)
EVENTS = data.StructLayout(
    {
        "converting": 1,  # a convert command runs in this cycle
        "multiplying": 1,  # a product command does
        "stall_load": 1,
        "stall_store": 1,
        "stall_accumulator": 1,
        "stall_turn": 1,
        "converted": 1,  # for one cycle, with what follows: a tensor has been converted
        "saturated": unsigned(32),  # its elements that did, over all copies
        "underflowed": unsigned(32),
        "amax": unsigned(31),  # its largest finite magnitude, as binary32 without a sign
    }
)

MODES = {Opcode.FORWARD: Mode.FORWARD, Opcode.DX: Mode.DX, Opcode.DW: Mode.DW}


class Dispatch(wiring.Component):
    """Take a command, run it to its last write response, pulse ``done``.

    A ``backward`` that the fused pass has no room for runs as ``dx``, then ``dw``: the same bits.
    So does every one where dY is in vector groups.
    ``flags`` and ``events`` are shown in the cycles in which they happen.

    The reader and writer services belong to this unit from a command's first cycle to its last.
    """

    def __init__(self, plan: Plan):
        self.plan = plan
        super().__init__(
            {
                "command": In(stream.Signature(command_layout())),
                "seed": In(32),
                "done": Out(1),
                "busy": Out(1),
                "read_requests": Out(stream.Signature(request_layout())),
                "read_data": In(stream.Signature(unsigned(plan.data_width))),
                "write_requests": Out(stream.Signature(request_layout())),
                "write_beats": Out(stream.Signature(write_beat_layout(plan.data_width))),
                "writer_idle": In(1),
                "flags": Out(FLAGS),
                "events": Out(EVENTS),
            }
        )

    def elaborate(self, platform):
        m = Module()
        plan = self.plan
        self._engine = engine = ProductEngine(plan)
        self._converter = converter = Converter(
            numerics=plan.numerics,
            data_width=plan.data_width,
            max_col_blocks=plan.converter_blocks,
        )
        m.submodules.engine = place(engine, platform)
        m.submodules.converter = place(converter, platform)
        command = Signal(command_layout())
        converting = Signal()
        multiplying = Signal()
        second = Signal()
        self._operands(m, command, second)
        self._services(m, converting)
        m.d.comb += [
            self.events.converting.eq(converting),
            self.events.multiplying.eq(multiplying),
            self.events.stall_load.eq(engine.stall_load),
            self.events.stall_store.eq(engine.stall_store),
            self.events.stall_accumulator.eq(engine.stall_accumulator),
            self.events.stall_turn.eq(engine.stall_turn),
            self.flags.overflow.eq(multiplying & engine.overflow),
            self.flags.inexact.eq(multiplying & engine.inexact),
        ]
        with m.FSM() as fsm:
            m.d.comb += self.busy.eq(~fsm.ongoing("IDLE"))
            with m.State("IDLE"):
                m.d.comb += self.command.ready.eq(1)
                m.d.sync += [command.eq(self.command.payload), second.eq(0)]
                with m.If(self.command.valid):
                    m.next = "MULTIPLY"
                    with m.If(self.command.p.opcode == Opcode.CONVERT):
                        m.next = "CONVERT"
            with m.State("CONVERT"):
                m.d.comb += [converting.eq(1), converter.command.valid.eq(1)]
                with m.If(converter.command.ready):
                    m.next = "CONVERTING"
            with m.State("CONVERTING"):
                m.d.comb += converting.eq(1)
                with m.If(converter.done):
                    m.next = "CONVERTED"
            with m.State("CONVERTED"):
                m.d.comb += converting.eq(1)
                with m.If(self.writer_idle):
                    self._report(m, command)
                    m.d.comb += self.done.eq(1)
                    m.next = "IDLE"
            with m.State("MULTIPLY"):
                m.d.comb += [multiplying.eq(1), engine.start.eq(1)]
                m.next = "MULTIPLYING"
            with m.State("MULTIPLYING"):
                m.d.comb += multiplying.eq(1)
                with m.If(engine.done):
                    with m.If(self._split(command) & ~second):
                        m.d.sync += second.eq(1)
                        m.next = "MULTIPLY"
                    with m.Else():
                        m.d.comb += self.done.eq(1)
                        m.next = "IDLE"
        return m

    def _split(self, command):
        """This command runs as two products."""
        return (command.opcode == Opcode.BACKWARD) & ~self._engine.fits

    def _operands(self, m, command, second):
        engine, given, convert = self._engine, self._engine.operands, self._converter.command.p
        backward = command.opcode == Opcode.BACKWARD
        m.d.comb += [
            given.m.eq(command.m),
            given.n.eq(command.n),
            given.k.eq(command.k),
            given.x.eq(command.address_x),
            given.w.eq(command.address_w),
            given.dy.eq(command.address_dy),
            given.y.eq(command.out_a),
            given.dw.eq(command.out_a),
            given.dx.eq(Mux(backward, command.out_b, command.out_a)),
            convert.cls.eq(command.class_x),
            convert.rows.eq(command.m),
            convert.cols.eq(command.n),
            convert.source.eq(command.address_x),
            convert.destination.eq(command.address_w),
            convert.destination_t.eq(command.address_dy),
            convert.scale.eq(command.scale),
            convert.tag.eq(command.tag),
            convert.step.eq(command.step),
            self._converter.seed.eq(self.seed),
        ]
        if self.plan.grouped(DY):  # the two gradients read its two images
            with m.If(backward & second):
                m.d.comb += given.dy.eq(command.address_dy_m)
        with m.Switch(command.opcode):
            for opcode, mode in MODES.items():
                with m.Case(opcode):
                    m.d.comb += engine.mode.eq(mode)
            with m.Case(Opcode.BACKWARD):
                fallback = Mux(second, Mode.DW, Mode.DX)
                m.d.comb += engine.mode.eq(Mux(engine.fits, Mode.FUSED, fallback))

    def _services(self, m, converting):
        """The bus is the converter's while it converts, else the engine's."""
        engine, converter = self._engine, self._converter
        m.d.comb += engine.writer_idle.eq(self.writer_idle)
        with m.If(converting):
            wiring.connect(m, wiring.flipped(self.read_requests), converter.read_request)
            wiring.connect(m, wiring.flipped(self.read_data), converter.read_data)
            wiring.connect(m, wiring.flipped(self.write_requests), converter.write_request)
            wiring.connect(m, wiring.flipped(self.write_beats), converter.write_data)
        with m.Else():
            wiring.connect(m, wiring.flipped(self.read_requests), engine.read_requests)
            wiring.connect(m, wiring.flipped(self.read_data), engine.read_data)
            wiring.connect(m, wiring.flipped(self.write_requests), engine.write_requests)
            wiring.connect(m, wiring.flipped(self.write_beats), engine.write_beats)

    def _report(self, m, command):
        """What the converter saw in the tensor, by its class."""
        converter, flags = self._converter, self.flags
        m.d.comb += [
            self.events.converted.eq(1),
            self.events.saturated.eq(converter.saturated),
            self.events.underflowed.eq(converter.underflowed),
            self.events.amax.eq(converter.amax),
        ]
        seen = (
            (flags.x_nan, flags.x_inf),
            (flags.w_nan, flags.w_inf),
            (flags.dy_nan, flags.dy_inf),
        )
        for cls, (nan, inf) in enumerate(seen):
            with m.If(command.class_x == cls):
                m.d.comb += [nan.eq(converter.nan), inf.eq(converter.inf)]
