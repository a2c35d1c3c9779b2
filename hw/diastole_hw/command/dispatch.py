"""Run decoded commands on the converter, the product engine and the vector unit, two at a time at
most."""

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.command.decoder import command_layout
from diastole_hw.conditions import among
from diastole_hw.convert.converter_control import ConverterControl
from diastole_hw.engine.product_control import product_control
from diastole_hw.plan.modes import Mode
from diastole_hw.plan.plan import Plan
from diastole_hw.schedule.tokens import NEST_OPERANDS
from diastole_hw.stream.fifo import StreamFifo
from diastole_hw.vector.vector_control import VectorControl
from diastole_sim.spec.command_table import (
    CHAINED,
    SLOT_FIELDS,
    TRANSFERS,
    VECTOR_OPCODES,
    WIDTH_FIELDS,
    Opcode,
)
from diastole_sim.spec.limits import SCALE_SLOTS
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.registers import FLAG_BITS, VECTOR_WAIT_CAUSES, WAIT_CAUSES
from diastole_sim.spec.sizes.uses import DY
from diastole_sim.spec.stream_table import CHOICE_FIELDS

FLAGS = data.StructLayout({bit.name: 1 for bit in FLAG_BITS})
IMPROVEMENTS = {"improvement_num": unsigned(32), "improvement_den": unsigned(32)}
EVENTS = {
    "running": 1,  # a command runs in this cycle
    "converting": 1,  # a convert command runs
    "multiplying": 1,  # a product command runs
    "read": unsigned(2),  # beats that products receive
    "written": unsigned(2),  # beats that products write
    "busy_slot": 1,  # a slot of the array is valid
    "waits": data.StructLayout(dict.fromkeys(WAIT_CAUSES[:-1], 1)),  # causes of a free slot
    "converted": 1,  # for 1 cycle, with the following: a tensor has been converted
    "amax": unsigned(31),  # largest finite magnitude of the tensor, binary32 without sign
}


def require_waits(waits: Mapping[str, Value], *, has_vector: bool) -> None:
    """AssertionError unless ``waits`` has a condition for each wait cause of the machine."""
    absent = () if has_vector else VECTOR_WAIT_CAUSES
    causes = [cause for cause in WAIT_CAUSES[:-1] if cause not in absent]
    assert sorted(waits) == sorted(causes), f"conditions are needed for {causes}, not {[*waits]}"


def events_layout(*, planes: bool, elements: int) -> data.StructLayout:
    """Return the layout of ``EVENTS`` and of the numbers of elements that ``saturated`` or
    ``underflowed`` in this cycle, over all copies: ``elements`` at most. With ``planes``, the
    counts of the precision monitor for a tensor follow. A cycle without a slot and without a wait
    cause counts as waiting for a command."""
    more = IMPROVEMENTS if planes else {}
    counts = dict.fromkeys(("saturated", "underflowed"), unsigned(elements.bit_length()))
    return data.StructLayout(EVENTS | counts | more)


def events_of(plan: Plan) -> data.StructLayout:
    """Return the layout of the machine's events."""
    return events_layout(planes=plan.planar, elements=elements_of(plan))


def elements_of(plan: Plan) -> int:
    """Return the largest number of elements that the converter stores in a cycle."""
    return plan.converter.stored_at_once


def command_of(plan: Plan) -> data.StructLayout:
    """Return the layout of the machine's commands."""
    return command_layout(
        planes=plan.planar, vector=plan.vector is not None, choices=plan.has_choices
    )


class Engaged(NamedTuple):
    """State of an engine: ``starts`` is high when a command starts in this cycle. ``under_way`` has
    a bit per command number, set while the engine works on the command."""

    starts: Signal
    under_way: Signal


MODES = {Opcode.FORWARD: Mode.FORWARD, Opcode.DX: Mode.DX, Opcode.DW: Mode.DW}
CHAINED_MODES = {opcode: Mode[operation.name.upper()] for opcode, operation in CHAINED.items()}


class Dispatch(wiring.Component):
    """Start commands in order, and pulse ``done`` for every command in that order.

    A command starts when the preceding command is done. With ``ahead``, a command starts when the
    preceding command has started and its own engine accepts it. At most two commands are in flight,
    numbered 0 and 1 alternately. A command is done when its engine has passed all its writes to the
    writer, and the writer has received all responses.

    With a vector unit, a command with ``skip`` is done at once in a step that has overflowed. A
    step has overflowed if, since ``following``, a result was too large, a converted gradient had a
    NaN or an Inf, or the vector unit reports that it wrote an overflow.

    A ``backward`` too large for the fused pass runs as ``dx``, then ``dw``: the result bits are
    equal. Where dY is in vector groups, every ``backward`` runs as ``dx``, then ``dw``. The two
    products are in flight together.

    Timing: a command is accepted in the cycle in which it starts: the first cycle in which it may
    start and its engine is ready. A command of two products is accepted with the start of the
    second product. ``done`` of a product is in the cycle of the product engine's ``done`` if all
    writes are answered by then, else in the first cycle in which all writes are answered. ``done``
    of a conversion is in the first cycle after the converter's ``done`` in which all writes are
    answered. ``flags`` and ``events`` are output in the cycles in which they happen, the flags of a
    conversion with the converter's ``done``.

    Parameters
    ----------
    plan : Plan

    Members
    -------
    command : In(stream of command_of(plan))
        Valid commands only, which is not checked. An offer must stay until it is accepted, and its
        payload must be present 1 cycle before ``valid``.
    number : In(1)
        Number of the offered command: the inverse of the preceding command's number, unless no
        command is in flight.
    done : Out(1)
        Pulse: the oldest command is done.
    product : Out(product_control(plan))
        Product engine.
    convert : Out(ConverterControl(planes=plan.planar))
        Converter.
    convert_number : Out(1)
        Number of the converter's current command.
    answered : In(2)
        For each command number, whether all its writes are in memory.
    flags : Out(FLAGS)
    events : Out(events_of(plan))
        All events but beats and elements, which are 0.
    vector, vector_number : Out(VectorControl()), Out(1)
        Vector unit, and the number of its current command. The following members also exist only
        with a vector unit.
    step, following : In(32), In(1)
        Training step, and a pulse at its end, while no command is in flight. Random bits use the
        step of the command plus this step.
    overflowed : Out(1)
        True if this step has overflowed.
    fault, fault_number : Out(8), Out(1)
        Error code of the vector unit, 0 for none, and the number of the failed command.
    convert_slot : Out(8)
        Scale slot + 1 of the command at ``convert``, valid with the command.
    by_slot, decides, last : Out(1), Out(1), In(255)
        On a machine that decides widths. With the command of ``convert``: the slot supplies the
        width, the conversion decides the next width. ``last`` has a bit per slot: its last tensor
        has two planes, not 1.
    image_requested, image_done, converted_class : In(1), In(1), In(2)
        Pulses: the command of the vector unit requests the image of a chain; the converter has
        written the image, before another image is requested. The class of the converted tensor is
        valid with ``image_done`` or ``convert.done``.
    chain_stalled : In(1)
        Output ``chain_stalled`` of the product engine.
    """

    command: stream.Interface
    product: wiring.PureInterface
    convert: wiring.PureInterface
    flags: data.View
    events: data.View

    def __init__(self, plan: Plan):
        self.plan = plan
        vector = {
            "vector": Out(VectorControl()),
            "vector_number": Out(1),
            "step": In(32),
            "following": In(1),
            "overflowed": Out(1),
            "fault": Out(8),
            "fault_number": Out(1),
            "convert_slot": Out(8),
            "image_requested": In(1),
            "image_done": In(1),
            "converted_class": In(2),
            "chain_stalled": In(1),
        }
        if plan.has_choices:
            vector |= {"by_slot": Out(1), "decides": Out(1), "last": In(SCALE_SLOTS)}
        super().__init__(
            ({} if plan.vector is None else vector)
            | {
                "command": In(stream.Signature(command_of(plan))),
                "number": In(1),
                "done": Out(1),
                "product": Out(product_control(plan)),
                "convert": Out(ConverterControl(planes=plan.planar)),
                "convert_number": Out(1),
                "answered": In(2),
                "flags": Out(FLAGS),
                "events": Out(events_of(plan)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        events = self.events
        here = Signal(2)  # by number: a command has started
        converts = Signal(2)  # by number: the command is a conversion
        oldest = Signal()
        command, at = self.command.p, self.number
        due = Signal()  # the offered command may start
        starts = Signal()
        is_convert = command.opcode == Opcode.CONVERT
        has_vector = self.plan.vector is not None
        multiplies, product_due = ~is_convert, due & ~is_convert
        of_vector, chained, space = Const(0, 1), Const(0, 1), Const(0, 1)
        if has_vector:
            of_vector, chained, space = self._of_vector(m, command)
            multiplies = (~is_convert & ~of_vector) | chained
            product_due = due & multiplies & (~chained | space)
        m.d.comb += [
            due.eq(self.command.valid & ((here == 0) | (command.ahead & ~here.bit_select(at, 1)))),
            self.command.ready.eq(starts),
        ]
        engines = [
            self._convert(m, command, at, due & is_convert),
            self._multiply(m, command, at, product_due),
        ]
        others = Const(0, 2)  # commands that only the vector unit runs
        if has_vector:
            others = Signal(2, name="others")
            vector_due = due & of_vector & (~chained | self.product.ready)
            engines.append(self._run(m, command, at, vector_due, space))
            engines.append(self._image(m))
        m.d.comb += starts.eq(reduce(or_, (engine.starts for engine in engines)))
        worked = here
        for engine in engines:
            worked &= ~engine.under_way
        worked &= self.answered
        m.d.comb += self.done.eq(worked.bit_select(oldest, 1))
        with m.If(self.done):
            m.d.sync += [here.bit_select(oldest, 1).eq(0), oldest.eq(~oldest)]
        with m.Elif(here == 0):
            m.d.sync += oldest.eq(at)
        with m.If(starts):
            m.d.sync += here.bit_select(at, 1).eq(1)
            m.d.sync += converts.bit_select(at, 1).eq(is_convert)
            if has_vector:
                m.d.sync += others.bit_select(at, 1).eq(of_vector & ~multiplies)
        products = here & ~converts & ~others if has_vector else here & ~converts
        converting, multiplying = Signal(), Signal()
        m.d.comb += [
            converting.eq((here & converts).any() | (due & is_convert)),
            multiplying.eq(products.any() | (due & multiplies)),
            events.converting.eq(converting),
            events.multiplying.eq(multiplying),
            events.running.eq(converting | multiplying),
            self.flags.overflow.eq(multiplying & self.product.overflow),
            self.flags.inexact.eq(multiplying & self.product.inexact),
        ]
        waits = self._product_waits(converting, multiplying)
        m.d.comb += events.busy_slot.eq(self.product.slot)
        m.d.comb += [events.waits[cause].eq(holds) for cause, holds in waits.items()]
        if has_vector:
            running = converting | multiplying
            m.d.comb += events.running.eq(running | (here & others).any() | (due & of_vector))
            runs = engines[-2].under_way | engines[-1].under_way
            of_chains = self._chain_waits(m, command, starts & of_vector, runs)
            m.d.comb += [events.waits[cause].eq(holds) for cause, holds in of_chains.items()]
            waits |= of_chains
            self._report_events(m)
        require_waits(waits, has_vector=has_vector)
        self._report(m)
        return m

    def _of_vector(self, m, command):
        """Return whether a command belongs to the vector unit, whether it is also a product, with a
        chain, and a signal that is driven later: whether the chain can be queued."""
        chained = Signal()
        m.d.comb += [
            chained.eq(among(command.opcode, CHAINED) & ~(command.skip & self.overflowed)),
            self.product.operands.chain.eq(chained),
        ]
        return among(command.opcode, VECTOR_OPCODES), chained, Signal(name="space_for_chain")

    def _run(self, m, command, at, due, space):
        """Run commands of the vector unit in order. A chain with a product waits in a queue for the
        preceding chain, and the product can begin at once. Drive ``space``."""
        vector = self.vector
        layout = data.StructLayout({"requested": vector.command.payload.shape(), "number": 1})
        m.submodules.queue = queue = StreamFifo(layout, 1)
        m.d.comb += [
            space.eq(queue.i.ready),
            queue.i.valid.eq(due),
            queue.i.p.number.eq(at),
            *self._request(command, queue.i.p.requested),
            vector.step.eq(self.step),
            vector.command.payload.eq(queue.o.p.requested),
            vector.command.valid.eq(queue.o.valid),
            queue.o.ready.eq(vector.command.ready),
        ]
        under_way = Signal(2, name="runs_now")
        starts = Signal(name="vector_starts")
        m.d.comb += starts.eq(due & queue.i.ready)
        with m.If(vector.command.valid & vector.command.ready):
            m.d.sync += self.vector_number.eq(queue.o.p.number)
        for number in range(2):
            with m.If(starts & (at == number)):
                m.d.sync += under_way[number].eq(1)
            with m.Elif(vector.done & (self.vector_number == number)):
                m.d.sync += under_way[number].eq(0)
        m.d.comb += [self.fault.eq(vector.error_code), self.fault_number.eq(self.vector_number)]
        return Engaged(starts, under_way)

    def _image(self, m):
        """Track images that are still being converted when their chains are done."""
        under_way = Signal(2, name="images_now")
        with m.If(self.image_done):
            m.d.sync += under_way.eq(0)
        with m.If(self.image_requested):
            m.d.sync += under_way.eq(Mux(self.vector_number, 2, 1))
        return Engaged(Const(0, 1), under_way)

    def _request(self, command, request):
        """Yield the assignments of a command to the vector unit."""
        chain = request.chain
        yield from (
            request.skipped.eq(command.skip & self.overflowed),
            request.transfer.eq(among(command.opcode, TRANSFERS)),
            request.store.eq(command.opcode == Opcode.STORE),
            request.address.eq(command.address_x),
            *(request[name].eq(command[name]) for name in ("which", "first", "count", "advance")),
            chain.first.eq(command.program),
            chain.length.eq(command.program_length),
            chain.streams.eq(command.streams),
            chain.by_columns.eq(command.columns),
            chain.of_product.eq(among(command.opcode, CHAINED)),
        )
        rows, cols = command.m, command.n
        for opcode, operation in CHAINED.items():
            (result,) = operation.results
            ours = command.opcode == opcode
            rows = Mux(ours, command[result.rows], rows)
            cols = Mux(ours, command[result.columns], cols)
        yield from (chain.rows.eq(rows), chain.cols.eq(cols))

    def _product_waits(self, converting, multiplying):
        """Return by cause why the array waits in a cycle in which no vector enters."""
        stalls = self.product.stalls
        return {
            "store": multiplying & (stalls.store | stalls.accumulator),
            "load": multiplying & stalls.load,
            "convert": converting,
        }

    def _chain_waits(self, m, command, starts, runs):
        """Return the wait causes of the vector unit."""
        updating = Signal(2)  # by number: the command is an update
        updates = updating.bit_select(self.vector_number, 1)
        with m.If(starts):
            m.d.sync += updating.bit_select(self.number, 1).eq(command.update)
        return {
            "vector": self.chain_stalled,
            "update": runs.any() & updates,
            "chain": runs.any() & ~updates,
        }

    def _report_events(self, m):
        """Track in ``overflowed`` whether a value of this step was too large."""
        flags = self.flags
        seen = flags.overflow | flags.dy_nan | flags.dy_inf | self.vector.overflow
        with m.If(self.following):
            m.d.sync += self.overflowed.eq(0)
        with m.Elif(seen):
            m.d.sync += self.overflowed.eq(1)

    def _convert(self, m, command, at, due):
        """Run conversions one after another."""
        convert, conversion = self.convert, self.convert.command.p
        m.d.comb += [
            conversion.cls.eq(command.class_x),
            conversion.rows.eq(command.m),
            conversion.cols.eq(command.n),
            conversion.source.eq(command.address_x),
            conversion.destination.eq(command.address_w),
            conversion.destination_t.eq(command.address_dy),
            conversion.scale.eq(command.scale),
            conversion.tag.eq(command.tag),
            conversion.step.eq(
                command.step if self.plan.vector is None else command.step + self.step
            ),
        ]
        if self.plan.planar:
            m.d.comb += conversion.planes.eq(command.width)
        if self.plan.vector is not None:
            m.d.comb += self.convert_slot.eq(command.slot)
        if self.plan.has_choices:
            m.d.comb += [getattr(self, name).eq(command[name]) for name in CHOICE_FIELDS]
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
        """Run products. A ``backward`` may be two products."""
        product = self.product
        second = Signal()  # of two products
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
        """Pass the operands of the current command to the product engine."""
        product, operands = self.product, self.product.operands
        backward = command.opcode == Opcode.BACKWARD
        m.d.comb += [
            operands.m.eq(command.m),
            operands.n.eq(command.n),
            operands.k.eq(command.k),
            operands.x.eq(command.address_x),
            operands.w.eq(command.address_w),
            operands.dy.eq(command.address_dy),
            operands.y.eq(command.out_a),
            operands.dw.eq(command.out_a),
            operands.dx.eq(Mux(backward, command.out_b, command.out_a)),
            *(operands[name].eq(command[name]) for name in NEST_OPERANDS),
        ]
        if self.plan.planar:
            widths = (self._width(command, name) for name in CLASS_NAMES)
            m.d.comb += [planes.eq(n) for planes, n in zip(operands.planes, widths, strict=True)]
        if self.plan.grouped(DY):  # the two gradients read the two images of dY
            with m.If(backward & second):
                m.d.comb += operands.dy.eq(command.address_dy_m)
        modes = MODES if self.plan.vector is None else MODES | CHAINED_MODES
        with m.Switch(command.opcode):
            for opcode, mode in modes.items():
                with m.Case(opcode):
                    m.d.comb += product.mode.eq(mode)
            with m.Case(Opcode.BACKWARD):
                fallback = Mux(second, Mode.DW, Mode.DX)
                m.d.comb += product.mode.eq(Mux(product.fits, Mode.FUSED, fallback))

    def _width(self, command, tensor_class):
        """Return the number of planes, less 1, of an operand of a product."""
        width = command[WIDTH_FIELDS[tensor_class]]
        if not self.plan.has_choices:
            return width
        slot = command[SLOT_FIELDS[tensor_class]]
        return Mux(slot == 0, width, Cat(Const(0, 1), self.last).bit_select(slot, 1))

    def _report(self, m):
        """Report the converter's results for a tensor, as flags of its class."""
        convert, events, flags = self.convert, self.events, self.flags
        cls = Signal.like(convert.command.p.cls, name="converted_class")
        reported = convert.done
        if self.plan.vector is not None:
            m.d.comb += cls.eq(self.converted_class)
            reported = convert.done | self.image_done
        else:
            with m.If(convert.command.valid & convert.command.ready):
                m.d.sync += cls.eq(convert.command.p.cls)
        m.d.comb += [events.converted.eq(reported), events.amax.eq(convert.amax)]
        if self.plan.planar:
            m.d.comb += [events[name].eq(getattr(convert, name)) for name in IMPROVEMENTS]
        with m.If(reported):
            for number, name in enumerate(CLASS_NAMES):
                with m.If(cls == number):
                    m.d.comb += flags[f"{name}_nan"].eq(convert.nan)
                    m.d.comb += flags[f"{name}_inf"].eq(convert.inf)
