"""Runs decoded commands one after the other, on the converter or on the product engine."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.command.decode import command_layout
from diastole_hw.convert.converter import ConverterControl
from diastole_hw.engine.control import STALLS, ProductControl
from diastole_hw.invariant import invariant
from diastole_hw.plan.plan import Plan
from diastole_hw.plan.uses import DY, Mode
from diastole_sim.spec.command import NEST_FIELDS, Opcode
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.registers import FLAG_BITS

FLAGS = data.StructLayout({bit.name: 1 for bit in FLAG_BITS})
EVENTS = data.StructLayout(
    {
        "converting": 1,  # a convert command runs in this cycle
        "multiplying": 1,  # a product command does
        "stalls": STALLS,
        "converted": 1,  # for one cycle, with what follows: a tensor has been converted
        "saturated": unsigned(32),  # its elements that did, over all copies
        "underflowed": unsigned(32),
        "amax": unsigned(31),  # its largest finite magnitude, as binary32 without a sign
    }
)

NESTS = (*NEST_FIELDS.values(), "nest_outer", "nest_keep")
MODES = {Opcode.FORWARD: Mode.FORWARD, Opcode.DX: Mode.DX, Opcode.DW: Mode.DW}


class Dispatch(wiring.Component):
    """Take a command, run it on its engine to its last write response, pulse ``done``.

    A ``backward`` that the fused pass has no room for runs as ``dx``, then ``dw``: the same bits.
    So does every one where dY is in vector groups.

    Timing: an engine is started in the cycle after its command was taken. ``done`` comes in the
    cycle of the product engine's own, and for a conversion in the first cycle after the
    converter's in which ``writer_idle`` is high; the next command is taken from the following cycle
    on. ``flags`` and ``events`` are shown in the cycles in which they happen.

    Parameters
    ----------
    plan : Plan

    Members
    -------
    command : In(stream of command_layout())
        In order; others must not come, which is not checked.
    done : Out(1)
        A pulse: the command that was taken last is done.
    busy : Out(1)
        A command is under way.
    product : Out(ProductControl())
        The product engine.
    convert : Out(ConverterControl())
        The converter.
    converting : Out(1)
        The services are the converter's, else the product engine's.
    writer_idle : In(1)
        All that was given to the writer is in memory.
    flags : Out(FLAGS)
    events : Out(EVENTS)
    """

    command: stream.Interface
    product: wiring.PureInterface
    convert: wiring.PureInterface
    flags: data.View
    events: data.View

    def __init__(self, plan: Plan):
        self.plan = plan
        super().__init__(
            {
                "command": In(stream.Signature(command_layout())),
                "done": Out(1),
                "busy": Out(1),
                "product": Out(ProductControl()),
                "convert": Out(ConverterControl()),
                "converting": Out(1),
                "writer_idle": In(1),
                "flags": Out(FLAGS),
                "events": Out(EVENTS),
            }
        )

    def elaborate(self, platform):
        m = Module()
        product, convert, events = self.product, self.convert, self.events
        command = Signal(command_layout())
        multiplying = Signal()
        second = Signal()  # of the two products of a backward
        m.d.comb += [
            events.converting.eq(self.converting),
            events.multiplying.eq(multiplying),
            events.stalls.eq(product.stalls),
            self.flags.overflow.eq(multiplying & product.overflow),
            self.flags.inexact.eq(multiplying & product.inexact),
        ]
        self._product_operands(m, command, second)
        self._convert_operands(m, command)
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
                m.d.comb += [self.converting.eq(1), convert.command.valid.eq(1)]
                with m.If(convert.command.ready):
                    m.next = "CONVERTING"
            with m.State("CONVERTING"):
                m.d.comb += self.converting.eq(1)
                with m.If(convert.done):
                    m.next = "CONVERTED"
            with m.State("CONVERTED"):
                m.d.comb += self.converting.eq(1)
                with m.If(self.writer_idle):
                    self._report(m, command)
                    m.d.comb += self.done.eq(1)
                    m.next = "IDLE"
            with m.State("MULTIPLY"):
                m.d.comb += [multiplying.eq(1), product.start.eq(1)]
                m.next = "MULTIPLYING"
            with m.State("MULTIPLYING"):
                m.d.comb += multiplying.eq(1)
                with m.If(product.done):
                    invariant(m, platform, self.writer_idle, "done before the last response")
                    with m.If((command.opcode == Opcode.BACKWARD) & ~product.fits & ~second):
                        m.d.sync += second.eq(1)
                        m.next = "MULTIPLY"
                    with m.Else():
                        m.d.comb += self.done.eq(1)
                        m.next = "IDLE"
        return m

    def _product_operands(self, m, command, second):
        """What the product engine is to do with the command at hand."""
        product, given = self.product, self.product.operands
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
            *(given[name].eq(command[name]) for name in NESTS),
        ]
        if self.plan.grouped(DY):  # the two gradients read its two images
            with m.If(backward & second):
                m.d.comb += given.dy.eq(command.address_dy_m)
        with m.Switch(command.opcode):
            for opcode, mode in MODES.items():
                with m.Case(opcode):
                    m.d.comb += product.mode.eq(mode)
            with m.Case(Opcode.BACKWARD):
                fallback = Mux(second, Mode.DW, Mode.DX)
                m.d.comb += product.mode.eq(Mux(product.fits, Mode.FUSED, fallback))

    def _convert_operands(self, m, command):
        """What the converter is to do with the command at hand."""
        given = self.convert.command.p
        m.d.comb += [
            given.cls.eq(command.class_x),
            given.rows.eq(command.m),
            given.cols.eq(command.n),
            given.source.eq(command.address_x),
            given.destination.eq(command.address_w),
            given.destination_t.eq(command.address_dy),
            given.scale.eq(command.scale),
            given.tag.eq(command.tag),
            given.step.eq(command.step),
        ]

    def _report(self, m, command):
        """What the converter saw in the tensor, by its class."""
        convert, events, flags = self.convert, self.events, self.flags
        m.d.comb += [
            events.converted.eq(1),
            events.saturated.eq(convert.saturated),
            events.underflowed.eq(convert.underflowed),
            events.amax.eq(convert.amax),
        ]
        for number, name in enumerate(CLASS_NAMES):
            with m.If(command.class_x == number):
                m.d.comb += flags[f"{name}_nan"].eq(convert.nan)
                m.d.comb += flags[f"{name}_inf"].eq(convert.inf)
