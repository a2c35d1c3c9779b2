"""Run product engine, converter and vector unit under one dispatcher, on one bus."""

from functools import reduce
from operator import add

from amaranth.hdl import Assert, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.bus.gathered_writes import DEPTH, GatheredWrites
from diastole_hw.bus.limit import ReadLimit
from diastole_hw.bus.pair import ReadPair
from diastole_hw.bus.read_share import ReadShare
from diastole_hw.bus.services import (
    BETWEEN,
    FETCH,
    ReadSignature,
    owned_beat_layout,
    owned_request_layout,
    write_beat_layout,
)
from diastole_hw.command.conversions import Conversions
from diastole_hw.command.dispatch import FLAGS, Dispatch, command_of, events_of
from diastole_hw.convert.converter import Converter
from diastole_hw.data_registers import data_register
from diastole_hw.engine.product_engine import ProductEngine
from diastole_hw.plan.plan import Plan
from diastole_hw.plan_limits import max_convert_cols, vector_limits
from diastole_hw.ports import of_ports, per_port, port_name
from diastole_hw.store.arbiter import StoreArbiter
from diastole_hw.stream.fifo import StreamFifo
from diastole_hw.vector.vector_engine import VectorEngine
from diastole_hw.vector.vector_tables import constant_layout, floor_layout
from diastole_sim.spec.image import MAX_CONVERT_BLOCKS
from diastole_sim.spec.stream_table import CHOICE_FIELDS

ANSWERS = ("answered", "answered_command")
MAX_OPEN = 63
"""Largest number of unanswered write requests of a command; queues and open bursts hold fewer."""


class Core(wiring.Component):
    """Run commands, two at a time at most, until the last write response of every command.

    All units read over one service. The command fetch has priority, then operands of products, then
    the vector unit, then the converter. All units write over one service: the converter has
    priority, then the vector unit, then products. Accepted requests are served in order.

    Timing: as :class:`diastole_hw.command.dispatch.Dispatch` states.

    Parameters
    ----------
    plan : Plan

    Members
    -------
    command, number : In(stream of command_of(plan)), In(1)
        Members of :class:`diastole_hw.command.dispatch.Dispatch`.
    fetch, fetch_failed : In(ReadSignature(plan.data_width)), Out(1)
        Read service of the command fetch. ``fetch_failed`` with a beat: the bus answered with an
        error.
    seed : In(32)
        Seed of the random bits; must not change while commands run, which is not checked.
    done : Out(1)
    flags : Out(FLAGS)
    events : Out(events_of(plan))
        Members of :class:`diastole_hw.command.dispatch.Dispatch`.
    requests : Out(stream of owned_request_layout())
    read : In(stream of owned_beat_layout(plan.data_width))
        Read requests, and their beats in the order of the requests. ``ready`` is a function of
        registers and of ``units``.
    write_requests : Out(stream of owned_request_layout())
    write : Out(stream of write_beat_layout(plan.data_width))
        Write requests and beats to write; neither stream waits for the other.
    step, following, overflowed, fault, fault_number
        Members of :class:`diastole_hw.command.dispatch.Dispatch`, with a vector unit.
    constant_put, floor : In(constant_layout()), Out(floor_layout())
        Members of :class:`diastole_hw.vector.vector_engine.VectorEngine`, with a vector unit.
    answered, answered_command : In(1), In(1)
        Pulse: the data of the oldest write request are in memory, with the command number of the
        request.
    requests_1, read_1, write_requests_1, write_1, answered_1, answered_command_1
        Members of the second port to memory, if the machine has one. Only products use the second
        port.
    """

    command: stream.Interface
    fetch: wiring.PureInterface
    events: data.View
    flags: data.View
    requests: stream.Interface
    read: stream.Interface
    write_requests: stream.Interface
    write: stream.Interface

    def __init__(self, plan: Plan):
        self.plan = plan
        requests = Out(stream.Signature(owned_request_layout()))
        buses = {
            "requests": requests,
            "read": In(stream.Signature(owned_beat_layout(plan.data_width))),
            "write_requests": requests,
            "write": Out(stream.Signature(write_beat_layout(plan.data_width))),
            "answered": In(1),
            "answered_command": In(1),
        }
        members = {
            "command": In(stream.Signature(command_of(plan))),
            "number": In(1),
            "fetch": In(ReadSignature(plan.data_width)),
            "fetch_failed": Out(1),
            "seed": In(unsigned(32)),
            "done": Out(1),
            "flags": Out(FLAGS),
            "events": Out(events_of(plan)),
        }
        if plan.vector is not None:
            members |= {"step": In(32), "following": In(1), "overflowed": Out(1)}
            members |= {"fault": Out(8), "fault_number": Out(1)}
            members |= {"constant_put": In(constant_layout()), "floor": Out(floor_layout())}
        for name, member in buses.items():
            members |= per_port(name, member, plan.ports)
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        plan = self.plan
        dispatch = Dispatch(plan)
        engine = ProductEngine(plan)
        limits = vector_limits(plan)
        stored_rows = limits.patches.kept_rows if limits and limits.patches else 0
        converter = Converter(
            plan.converter,
            max_col_blocks=MAX_CONVERT_BLOCKS,
            streamed=plan.vector is not None,
            stored_rows=stored_rows,
        )
        units = {"dispatch": dispatch, "engine": engine, "converter": converter}
        vector = None
        if plan.vector is not None:
            assert limits is not None
            widest = max_convert_cols(plan)
            vector = VectorEngine(plan.vector, limits.fed, patches=limits.patches, widest=widest)
            units["vector"] = vector
        for name, unit in units.items():
            m.submodules[name] = unit
        wiring.connect(m, wiring.flipped(self.command), dispatch.command)
        wiring.connect(m, dispatch.product, engine.control)
        convert_number = dispatch.convert_number
        if vector is None:
            wiring.connect(m, dispatch.convert, converter.control)
        else:
            convert_number = self._conversions(m, dispatch, converter, vector)
            wiring.connect(m, engine.chain, vector.product)
            wiring.connect(m, engine.chain_tiles, vector.tiles)
            m.d.comb += dispatch.chain_stalled.eq(engine.chain_stalled)
        m.d.comb += [
            dispatch.number.eq(self.number),
            self.done.eq(dispatch.done),
            self.flags.eq(dispatch.flags),
            self.events.eq(dispatch.events),
            self.events.saturated.eq(converter.saturated),
            self.events.underflowed.eq(converter.underflowed),
            converter.seed.eq(self.seed),
        ]
        if vector is not None:
            wiring.connect(m, dispatch.vector, vector.control)
            if vector.shape.draws:
                m.d.comb += vector.seed.eq(self.seed)
            m.d.comb += [
                dispatch.step.eq(self.step),
                dispatch.following.eq(self.following),
                vector.constant_put.eq(self.constant_put),
                self.floor.eq(vector.floor),
                self.overflowed.eq(dispatch.overflowed),
                self.fault.eq(dispatch.fault),
                self.fault_number.eq(dispatch.fault_number),
            ]
        self._reads(m, dispatch, engine, converter, vector)
        self._writes(m, dispatch, engine, converter, convert_number, vector)
        for port in range(1, plan.ports):
            self._port(m, engine, port)
        self._moved(m, engine)
        requested = [(converter.write.requests, convert_number)]
        if vector is not None:
            requested.append((vector.write.requests, dispatch.vector_number))
        self._answers(m, dispatch, engine, requested)
        return m

    def _conversions(self, m, dispatch, converter, vector):
        """Connect commands, chains and the vector unit's tables to the converter. Return the number
        of the command that the converter works for."""
        m.submodules.conversions = conversions = Conversions(self.plan)
        wiring.connect(m, conversions.converter, converter.control)
        wiring.connect(m, vector.image_requested, conversions.image)
        wiring.connect(m, vector.image, converter.rows)
        accepted = Signal(name="image_accepted")
        image_number = data_register(name="image_number")
        m.d.comb += accepted.eq(conversions.image.valid & conversions.image.ready)
        control, requested = dispatch.convert, conversions.requested
        decided = CHOICE_FIELDS if self.plan.has_choices else ()
        commanded = control.command.p.shape().members
        m.d.comb += [
            requested.valid.eq(control.command.valid),
            *(requested.p[name].eq(control.command.p[name]) for name in commanded),
            requested.p.slot.eq(dispatch.convert_slot),
            *(requested.p[name].eq(getattr(dispatch, name)) for name in decided),
            control.command.ready.eq(requested.ready),
            control.done.eq(conversions.done),
            dispatch.image_requested.eq(accepted),
            dispatch.image_done.eq(conversions.image_done),
            dispatch.converted_class.eq(conversions.cls),
            vector.image_done.eq(conversions.image_done),
            conversions.step.eq(self.step),
            conversions.amax.eq(vector.amax),
        ]
        for name in ("amax_en", "amax_at", "amax_put_en", "amax_put_at", "amax_put"):
            m.d.comb += getattr(vector, name).eq(getattr(conversions, name))
        if self.plan.has_choices:
            m.d.comb += [
                dispatch.last.eq(vector.last),
                conversions.eps.eq(vector.eps),
                conversions.widths.eq(vector.widths),
                vector.width_put_en.eq(conversions.width_put_en),
                vector.width_put.eq(conversions.width_put),
            ]
        for name in control.signature.members:
            if name not in ("command", "done"):
                m.d.comb += getattr(control, name).eq(getattr(converter.control, name))
        with m.If(accepted):
            m.d.sync += image_number.eq(dispatch.vector_number)
        return Mux(conversions.of_image, image_number, dispatch.convert_number)

    def _port(self, m, engine, port):
        """Connect a port to memory that only products use."""
        names = ("requests", "read", "write_requests", "write")
        tagged, beats, writes, written = (getattr(self, port_name(name, port)) for name in names)
        read = getattr(engine, port_name("read", port))
        name = port_name("read", port)
        requested = self._tagged_requests(m, name, read.requests, engine.read_command)
        self._forward_requests(m, requested, tagged)
        m.d.comb += [
            tagged.p.owner_tag.owner.eq(FETCH + 1),
            tagged.p.owner_tag.command.eq(requested.p.owner_tag.command),
        ]
        queue = self._queue(m, port_name("read_beats", port), read.beats)
        m.d.comb += [
            queue.valid.eq(beats.valid),
            queue.payload.eq(beats.p.data),
            beats.ready.eq(queue.ready),
        ]
        wiring.connect(m, getattr(engine, port_name("requests", port)), wiring.flipped(writes))
        wiring.connect(m, getattr(engine, port_name("beats", port)), wiring.flipped(written))

    def _queue(self, m, name, beats):
        """Add a short queue before the beats of a reader, and return its input. No combinational
        path leads from the reader to the bus, or from one reader to another."""
        m.submodules[f"{name}_queue"] = queue = StreamFifo(self.plan.data_width, BETWEEN)
        wiring.connect(m, queue.o, beats)
        return queue.i

    def _tagged_requests(self, m, name, requests, command, *, words=1):
        """Add a short queue behind the requests of a reader, with their command number, and return
        its output. The arbiter decides behind the queue. ``words`` is 1 for requests in every
        second cycle at most, as products issue them."""
        m.submodules[f"{name}_requests_queue"] = queue = StreamFifo(owned_request_layout(), words)
        m.d.comb += [
            queue.i.valid.eq(requests.valid),
            queue.i.p.addr.eq(requests.p.addr),
            queue.i.p.beats.eq(requests.p.beats),
            queue.i.p.owner_tag.command.eq(command),
            requests.ready.eq(queue.i.ready),
        ]
        return queue.o

    @staticmethod
    def _forward_requests(m, tagged, requests):
        """Connect the output of a request queue to ``requests``, except for the owner."""
        m.d.comb += [
            requests.valid.eq(tagged.valid),
            requests.p.addr.eq(tagged.p.addr),
            requests.p.beats.eq(tagged.p.beats),
            tagged.ready.eq(requests.ready),
        ]

    def _moved(self, m, engine):
        """Count beats of products, including the beats of headers."""
        reads = [each.beats for each in of_ports(engine, "read", self.plan.ports)]
        reads += [engine.headers.beats] if self.plan.significands else []
        writes = of_ports(engine, "beats", self.plan.ports)
        for total, beats in ((self.events.read, reads), (self.events.written, writes)):
            m.d.comb += total.eq(reduce(add, (each.valid & each.ready for each in beats)))

    def _reads(self, m, dispatch, engine, converter, vector):
        """Connect all readers. Beside a product, converter and vector unit may not read far
        ahead."""
        m.submodules.convert_limit = limit = ReadLimit(data_width=self.plan.data_width)
        limited, number = converter.read, dispatch.convert_number
        if vector is not None:
            m.submodules.read_pair = pair = ReadPair(data_width=self.plan.data_width)
            wiring.connect(m, vector.read, pair.first)
            wiring.connect(m, converter.read, pair.second)
            m.d.comb += pair.first_command.eq(dispatch.vector_number)
            m.d.comb += pair.second_command.eq(dispatch.convert_number)
            limited, number = pair.service, pair.command
        requested = self._tagged_requests(m, "limited", limited.requests, number, words=BETWEEN)
        self._forward_requests(m, requested, limit.source.requests)
        wiring.connect(m, limit.source.beats, limited.beats)
        m.d.comb += limit.limited.eq(engine.busy)
        m.d.comb += self.fetch_failed.eq(self.read.p.failed)
        readers = [("read", engine.read, engine.read_command)]
        if self.plan.significands:
            readers.append(("headers", engine.headers, engine.headers_command))
        share = ReadShare(data_width=self.plan.data_width, units=2 + len(readers))
        m.submodules.read_share = share
        # The command fetch accepts requested beats at once, and needs no queue.
        wiring.connect(m, wiring.flipped(self.fetch), share.units_read[FETCH])
        m.d.comb += share.commands[FETCH].eq(self.number)
        for unit, (name, reader, number) in enumerate(readers, start=FETCH + 1):
            port = share.units_read[unit]
            tagged = self._tagged_requests(m, name, reader.requests, number)
            self._forward_requests(m, tagged, port.requests)
            m.d.comb += share.commands[unit].eq(tagged.p.owner_tag.command)
            wiring.connect(m, port.beats, self._queue(m, f"{name}_beats", reader.beats))
        *_, port = share.units_read
        wiring.connect(m, limit.service.requests, port.requests)
        m.d.comb += share.commands[-1].eq(requested.p.owner_tag.command)
        queue = self._queue(m, "limited_beats", limit.service.beats)
        wiring.connect(m, port.beats, queue)
        wiring.connect(m, share.requests, wiring.flipped(self.requests))
        wiring.connect(m, wiring.flipped(self.read), share.beats)

    def _writes(self, m, dispatch, engine, converter, convert_number, vector):
        """Connect all writers. The converter has priority over products: it writes little, and
        requests a write only when the beats have arrived. With lower priority than a product that
        writes in every cycle, the converter would end after the product."""
        width = self.plan.data_width
        arbiter, gathered = StoreArbiter(data_width=width), GatheredWrites(data_width=width)
        m.submodules.write_share = arbiter
        m.submodules.gathered = gathered
        behind, behind_beats = engine.requests, engine.beats
        if vector is not None:
            both = self._written_by_vector(m, dispatch, engine, vector)
            behind, behind_beats = both.requests, both.beats
        wiring.connect(m, behind, arbiter.second_requests)
        wiring.connect(m, behind_beats, arbiter.second_beats)
        wiring.connect(m, converter.write, gathered.source)
        m.d.comb += gathered.command.eq(convert_number)
        m.d.comb += gathered.slow.eq(converter.slow)
        wiring.connect(m, gathered.requests, arbiter.first_requests)
        wiring.connect(m, gathered.beats, arbiter.first_beats)
        wiring.connect(m, arbiter.requests, wiring.flipped(self.write_requests))
        wiring.connect(m, arbiter.beats, wiring.flipped(self.write))

    def _written_by_vector(self, m, dispatch, engine, vector):
        """Give the vector unit priority over products, for the reasons that hold for the converter.
        Return the arbiter."""
        width = self.plan.data_width
        arbiter, gathered = StoreArbiter(data_width=width), GatheredWrites(data_width=width)
        m.submodules.vector_write_share = arbiter
        m.submodules.vector_gathered = gathered
        wiring.connect(m, engine.requests, arbiter.second_requests)
        wiring.connect(m, engine.beats, arbiter.second_beats)
        wiring.connect(m, vector.write, gathered.source)
        m.d.comb += [gathered.command.eq(dispatch.vector_number), gathered.slow.eq(DEPTH)]
        wiring.connect(m, gathered.requests, arbiter.first_requests)
        wiring.connect(m, gathered.beats, arbiter.first_beats)
        return arbiter

    def _answers(self, m, dispatch, engine, others):
        """Compute for every command whether all requested writes are in memory. ``others``:
        requests of units beside the product engine, with command numbers."""
        products = of_ports(engine, "requests", self.plan.ports)
        ports = zip(*(of_ports(self, n, self.plan.ports) for n in ANSWERS), strict=True)
        answers = list(ports)
        for number in range(2):
            opened = Signal(range(MAX_OPEN + 1), name=f"open_{number}")
            requested = Signal(2, name=f"requested_{number}")
            late = Signal(2, name=f"requested_before_{number}")
            answered = Signal(2, name=f"answered_{number}")
            accepted = [
                each.valid & each.ready & (each.p.owner_tag.command == number) for each in products
            ]
            accepted += [each.valid & each.ready & (own == number) for each, own in others]
            m.d.comb += [
                requested.eq(reduce(add, accepted)),
                answered.eq(
                    reduce(add, (pulse & (command == number) for pulse, command in answers))
                ),
                dispatch.answered[number].eq((opened == 0) & (late == 0)),
            ]
            m.d.sync += [late.eq(requested), opened.eq(opened + late - answered)]
            m.d.sync += Assert(opened < MAX_OPEN - 2, "more writes than are counted")
            m.d.sync += Assert(opened >= answered, "an answer to nothing")
