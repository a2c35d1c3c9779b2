"""Runs decoded commands on the converter and on the product engine, two at a time at most."""

from typing import NamedTuple

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.command.decode import command_layout
from diastole_hw.convert.control import ConverterControl
from diastole_hw.engine.control import STALLS, ProductControl
from diastole_hw.plan.plan import Plan
from diastole_hw.plan.uses import DY, Mode
from diastole_hw.schedule.tokens import operands_layout
from diastole_sim.spec.command_table import NEST_FIELDS, WIDTH_FIELDS, Opcode
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.registers import FLAG_BITS, WAIT_CAUSES

FLAGS = data.StructLayout({bit.name: 1 for bit in FLAG_BITS})
IMPROVEMENTS = {"improvement_num": unsigned(32), "improvement_den": unsigned(32)}
EVENTS = data.StructLayout(
    {
        "running": 1,  # a command runs in this cycle
        "converting": 1,  # a convert command does
        "multiplying": 1,  # a product command does
        "read": unsigned(2),  # beats that have come for products
        "written": unsigned(2),  # that they have given
        "stalls": STALLS,
        "converted": 1,  # for one cycle, with what follows: a tensor has been converted
        "saturated": unsigned(32),  # its elements that did, over all copies
        "underflowed": unsigned(32),
        "amax": unsigned(31),  # its largest finite magnitude, as binary32 without a sign
    }
)


WAITS = {
    "busy_slot": 1,  # a slot of the array is valid
    "waits": data.StructLayout(dict.fromkeys(WAIT_CAUSES[:-1], 1)),  # why none is, if that holds
}


def events_layout(*, planes: bool, vector: bool = False) -> data.StructLayout:
    """``EVENTS``; with ``planes``, also what the monitor has counted of a tensor; with ``vector``,
    of a machine with a vector unit, also what the array waits for. There a cycle without a slot, in
    which nothing that it waits for holds, is one of waiting for a command."""
    more = (IMPROVEMENTS if planes else {}) | (WAITS if vector else {})
    return data.StructLayout(EVENTS.members | more) if more else EVENTS


NESTS = (*NEST_FIELDS.values(), "nest_outer", "nest_keep")


class Engaged(NamedTuple):
    """Of an engine: its command starts in this cycle; by number, commands that it is at."""

    starts: Signal
    under_way: Signal


MODES = {Opcode.FORWARD: Mode.FORWARD, Opcode.DX: Mode.DX, Opcode.DW: Mode.DW}


class Dispatch(wiring.Component):
    """Start commands in their order, and pulse ``done`` for each in that order.

    A command starts when the one before it is done; one that says ``ahead``, when the one before it
    has started and its own engine takes it. So two are in flight at most, with numbers 0 and 1 in
    turn. A command is done when its engine has given all that it writes to the writer, and the
    writer has all answers to it.

    A ``backward`` that the fused pass has no room for runs as ``dx``, then ``dw``: the same bits.
    So does every one where dY is in vector groups. These two are in flight together.

    Timing: a command is taken in the cycle in which it starts, of two products the second: in the
    first one in which it may and its engine is ready. ``done`` comes in the cycle of the product
    engine's own, if all is answered by then, else in the first cycle in which it is; for a
    conversion in the first cycle after the converter's in which it is. ``flags`` and ``events`` are
    shown in the cycles in which they happen; what a conversion has seen with the converter's
    ``done``.

    Parameters
    ----------
    plan : Plan

    Members
    -------
    command : In(stream of command_layout(planes=plan.planar))
        In order; others must not come, which is not checked. An offer must stay.
    number : In(1)
        Of the command that is offered: that of the one before it, inverted, unless none is here.
    done : Out(1)
        A pulse: the oldest command is done.
    product : Out(ProductControl(operands_layout(plan)))
        The product engine.
    convert : Out(ConverterControl(planes=plan.planar))
        The converter.
    convert_number : Out(1)
        Of the command that the converter is at.
    answered : In(2)
        By number, all that was given to the writer for the command is in memory.
    flags : Out(FLAGS)
    events : Out(events_layout(planes=plan.planar))
        But those of beats, which are 0.
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
                "command": In(stream.Signature(command_layout(planes=plan.planar))),
                "number": In(1),
                "done": Out(1),
                "product": Out(ProductControl(operands_layout(plan))),
                "convert": Out(ConverterControl(planes=plan.planar)),
                "convert_number": Out(1),
                "answered": In(2),
                "flags": Out(FLAGS),
                "events": Out(events_layout(planes=plan.planar)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        events = self.events
        here = Signal(2)  # by number: a command has started
        converts = Signal(2)  # it is no product
        oldest = Signal()
        command, at = self.command.p, self.number
        due = Signal()  # the command that is offered may start
        starts = Signal()
        is_convert = command.opcode == Opcode.CONVERT
        m.d.comb += [
            due.eq(self.command.valid & ((here == 0) | (command.ahead & ~here.bit_select(at, 1)))),
            self.command.ready.eq(starts),
        ]
        converting = self._convert(m, command, at, due & is_convert)
        multiplying = self._multiply(m, command, at, due & ~is_convert)
        m.d.comb += starts.eq(converting.starts | multiplying.starts)
        worked = here & ~converting.under_way & ~multiplying.under_way & self.answered
        m.d.comb += self.done.eq(worked.bit_select(oldest, 1))
        with m.If(self.done):
            m.d.sync += [here.bit_select(oldest, 1).eq(0), oldest.eq(~oldest)]
        with m.Elif(here == 0):
            m.d.sync += oldest.eq(at)
        with m.If(starts):
            m.d.sync += here.bit_select(at, 1).eq(1)
            m.d.sync += converts.bit_select(at, 1).eq(is_convert)
        m.d.comb += [
            events.converting.eq((here & converts).any() | (due & is_convert)),
            events.multiplying.eq((here & ~converts).any() | (due & ~is_convert)),
            events.running.eq(events.converting | events.multiplying),
            events.stalls.eq(self.product.stalls),
            self.flags.overflow.eq(events.multiplying & self.product.overflow),
            self.flags.inexact.eq(events.multiplying & self.product.inexact),
        ]
        self._report(m)
        return m

    def _convert(self, m, command, at, due):
        """Conversions, one after the other."""
        convert, given = self.convert, self.convert.command.p
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
        if self.plan.planar:
            m.d.comb += given.planes.eq(command.width)
        under_way = Signal(2, name="converts_now")
        starts = Signal(name="convert_starts")
        m.d.comb += [
            convert.command.valid.eq(due),
            starts.eq(convert.command.valid & convert.command.ready),
        ]
        with m.If(convert.done):
            m.d.sync += under_way.eq(0)
        with m.If(starts):
            m.d.sync += [under_way.eq(Mux(at, 2, 1)), self.convert_number.eq(at)]
        return Engaged(starts, under_way)

    def _multiply(self, m, command, at, due):
        """Products; those of backward may be two."""
        product = self.product
        second = Signal()  # of two
        two = Signal()
        starts = Signal(name="product_starts")
        under_way = Signal(2, name="multiplies_now")
        m.d.comb += [
            two.eq((command.opcode == Opcode.BACKWARD) & ~product.fits),
            product.start.eq(due & product.ready),
            product.command.eq(at),
            starts.eq(product.start & (~two | second)),
        ]
        with m.If(product.start):
            m.d.sync += second.eq(two & ~second)
        for number in range(2):
            left = Signal(2, name=f"products_{number}")
            begins = product.start & (product.command == number)
            ends = Signal(name=f"product_of_{number}_ends")
            m.d.comb += [
                ends.eq(product.done & (product.done_command == number)),
                under_way[number].eq((left != 0) & ~((left == 1) & ends)),
            ]
            m.d.sync += left.eq(left + begins - ends)
        self._product_operands(m, command, second)
        return Engaged(starts, under_way)

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
        if self.plan.planar:
            widths = (command[WIDTH_FIELDS[name]] for name in CLASS_NAMES)
            m.d.comb += [planes.eq(n) for planes, n in zip(given.planes, widths, strict=True)]
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

    def _report(self, m):
        """What the converter saw in the tensor, by its class."""
        convert, events, flags = self.convert, self.events, self.flags
        cls = Signal.like(convert.command.p.cls, name="converted_class")
        with m.If(convert.command.valid & convert.command.ready):
            m.d.sync += cls.eq(convert.command.p.cls)
        with m.If(convert.done):
            m.d.comb += [
                events.converted.eq(1),
                events.saturated.eq(convert.saturated),
                events.underflowed.eq(convert.underflowed),
                events.amax.eq(convert.amax),
            ]
            if self.plan.planar:
                m.d.comb += [events[name].eq(getattr(convert, name)) for name in IMPROVEMENTS]
            for number, name in enumerate(CLASS_NAMES):
                with m.If(cls == number):
                    m.d.comb += flags[f"{name}_nan"].eq(convert.nan)
                    m.d.comb += flags[f"{name}_inf"].eq(convert.inf)
