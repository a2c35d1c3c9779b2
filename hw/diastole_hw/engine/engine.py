"""The product engine: load, execute and store, decoupled, around the array."""

from dataclasses import dataclass, fields

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.bus.services import ReadSignature, WriteSignature
from diastole_hw.bus.share import share
from diastole_hw.engine.control import ProductControl
from diastole_hw.engine.setup import Setup
from diastole_hw.execute.datapath import Datapath
from diastole_hw.execute.passes import PassWalk
from diastole_hw.execute.slots import PassRun
from diastole_hw.invariant import invariant
from diastole_hw.load.fill import Fill
from diastole_hw.load.headers import Headers
from diastole_hw.load.requests import RegionRequests
from diastole_hw.memory.maxima import Maxima
from diastole_hw.place import place
from diastole_hw.plan.plan import SUM_UNITS, Plan
from diastole_hw.plan.uses import Mode
from diastole_hw.ports import any_port, of_ports, per_port, port_name
from diastole_hw.schedule.ring import RingSpace
from diastole_hw.schedule.tokens import PRODUCT, chunk_layout, pass_layout, region_layout
from diastole_hw.schedule.walk import TileWalk
from diastole_hw.store.arbiter import StoreArbiter
from diastole_hw.store.drain import Drain
from diastole_hw.stream.credit import Credit
from diastole_hw.stream.fifo import StreamFifo

REGIONS_AHEAD = 8  # asked for, and not yet here
CHUNKS_AHEAD = 15  # asked for, and whose first pass has not begun


@dataclass(frozen=True, kw_only=True)
class Loader:
    """The units that each port to memory has of its own."""

    requests: RegionRequests
    regions: StreamFifo
    fill: Fill
    blocks_loaded: Credit
    maxima_loaded: Credit


@dataclass(frozen=True, kw_only=True)
class Stages:
    """The units of load and execute, placed; ``others``: the loaders of all ports but the first,
    whose units are named here."""

    setup: Setup
    walk: TileWalk
    requests: RegionRequests
    regions: StreamFifo
    fill: Fill
    pass_chunks: TileWalk
    chunks: StreamFifo
    pass_walk: PassWalk
    passes: StreamFifo
    pass_run: PassRun
    datapath: Datapath
    maxima: Maxima
    stream_space: RingSpace
    held_space: RingSpace
    west_space: Credit
    ahead: Credit
    blocks_loaded: Credit
    maxima_loaded: Credit
    others: tuple[Loader, ...] = ()

    @property
    def loaders(self) -> list[Loader]:
        """Those of all ports."""
        names = [field.name for field in fields(Loader)]
        return [Loader(**{name: getattr(self, name) for name in names}), *self.others]


class ProductEngine(wiring.Component):
    """Run one product over whole tensors in memory.

    Timing: ``control.done`` comes when nothing is in flight: no tile between its first request and
    its last sum, no row on its way out, no write without its response. Set-up takes as long as
    :class:`diastole_hw.engine.setup.Setup` says, or as the headers of the tensors take to come.

    Parameters
    ----------
    plan : Plan

    Members
    -------
    control : In(ProductControl())
    busy : Out(1)
        From the cycle after ``control.start`` to ``control.done``.
    read : Out(ReadSignature(plan.data_width))
    write : Out(WriteSignature(plan.data_width))
    read_1, write_1
        Likewise, where there is a second port to memory.
    writer_idle : In(1)
        All that was given to ``write`` is in memory, and all that was given to ``write_1``; low
        from the cycle after something was given.
    """

    control: wiring.PureInterface
    read: wiring.PureInterface
    write: wiring.PureInterface

    def __init__(self, plan: Plan):
        self.plan = plan
        super().__init__(
            {
                "control": In(ProductControl()),
                "busy": Out(1),
            }
            | per_port("read", Out(ReadSignature(plan.data_width)), plan.ports)
            | per_port("write", Out(WriteSignature(plan.data_width)), plan.ports)
            | {"writer_idle": In(1)}
        )

    def elaborate(self, platform):
        m = Module()
        product = Signal(PRODUCT)
        stages = self._stages(m, platform)
        headers = self._headers(m, platform, product)
        self._load(m, platform, stages, headers, product)
        self._execute(m, platform, stages, product)
        drains = self._store(m, platform, stages, product)
        in_flight = self._in_flight(m, platform, stages, drains)
        self._sequence(m, platform, stages, headers, in_flight)
        return m

    def _stages(self, m, platform) -> Stages:
        plan, chunk = self.plan, chunk_layout(self.plan)
        stages = Stages(
            setup=Setup(plan),
            walk=TileWalk(plan),
            requests=RegionRequests(plan),
            regions=StreamFifo(region_layout(plan), REGIONS_AHEAD),
            fill=Fill(plan),
            pass_chunks=TileWalk(plan),
            chunks=StreamFifo(chunk, 2),
            pass_walk=PassWalk(plan),
            passes=StreamFifo(pass_layout(plan), 2),
            pass_run=PassRun(plan),
            datapath=Datapath(plan),
            maxima=Maxima(plan),
            stream_space=RingSpace(plan.stream_blocks),
            held_space=RingSpace(plan.held_blocks),
            west_space=Credit(most=2),
            ahead=Credit(most=CHUNKS_AHEAD),
            blocks_loaded=Credit(most=CHUNKS_AHEAD),
            maxima_loaded=Credit(most=plan.tiling.tiles_in_flight),
            others=tuple(
                Loader(
                    requests=RegionRequests(plan, port),
                    regions=StreamFifo(region_layout(plan), REGIONS_AHEAD),
                    fill=Fill(plan, port),
                    blocks_loaded=Credit(most=CHUNKS_AHEAD),
                    maxima_loaded=Credit(most=plan.tiling.tiles_in_flight),
                )
                for port in range(1, plan.ports)
            ),
        )
        units = {name: unit for name, unit in vars(stages).items() if name != "others"}
        for port, loader in enumerate(stages.others, start=1):
            units |= {port_name(name, port): unit for name, unit in vars(loader).items()}
        for name, unit in units.items():
            m.submodules[name] = place(unit, platform)
        return stages

    def _headers(self, m, platform, product) -> Headers | None:
        """Where scales are relative to the tensor's: the unit that reads the tensors' exponents."""
        if not self.plan.significands:
            return None
        headers = Headers(self.plan)
        m.submodules.headers = place(headers, platform)
        m.d.comb += [
            headers.mode.eq(self.control.mode),
            headers.operands.eq(self.control.operands),
        ]
        return headers

    def _load(self, m, platform, stages, headers, product):
        setup, walk, requests, fill = stages.setup, stages.walk, stages.requests, stages.fill
        m.d.comb += [
            setup.mode.eq(self.control.mode),
            setup.operands.eq(self.control.operands),
            self.control.fits.eq(setup.fits),
            product.eq(setup.product),
            walk.product.eq(product),
            requests.product.eq(product),
            self.control.stalls.turn.eq(any_port(each.fill.turn_stall for each in stages.loaders)),
            stages.datapath.write_en.eq(fill.write_en),
            stages.datapath.write.eq(fill.write),
        ]
        if headers is not None:
            m.d.comb += product.exponents.eq(headers.exponents)
        self._chunks(m, walk, stages.loaders)
        wiring.connect(m, requests.regions, stages.regions.i)
        wiring.connect(m, stages.regions.o, fill.regions)
        wiring.connect(m, fill.maxima, stages.maxima.write)
        wiring.connect(m, fill.lookup, stages.maxima.load)
        load = ReadSignature(self.plan.data_width).create(path=("load",))
        wiring.connect(m, wiring.flipped(load.requests), requests.requests)
        wiring.connect(m, wiring.flipped(load.beats), fill.data)
        owners = [] if headers is None else [(headers.busy, headers.read)]
        share(m, wiring.flipped(self.read), [*owners, (None, load)])
        for port, loader in enumerate(stages.others, start=1):
            self._load_too(m, stages, port, loader, product)

    @staticmethod
    def _chunks(m, walk, loaders):
        """All ports take a chunk in one cycle."""
        requests = [loader.requests for loader in loaders]
        if len(requests) == 1:
            wiring.connect(m, walk.chunks, requests[0].chunks)
            return
        everywhere = Cat(each.chunks.ready for each in requests).all()
        m.d.comb += walk.chunks.ready.eq(everywhere)
        for each in requests:
            m.d.comb += [
                each.chunks.payload.eq(walk.chunks.payload),
                each.chunks.valid.eq(walk.chunks.valid & everywhere),
            ]

    def _load_too(self, m, stages, port, loader, product):
        """Another port's loader, beside the first one's."""
        requests, fill, datapath = loader.requests, loader.fill, stages.datapath
        m.d.comb += [
            requests.product.eq(product),
            datapath.write_en_1.eq(fill.write_en),
            datapath.write_1.eq(fill.write),
            fill.write_ready.eq(datapath.write_ready_1),
        ]
        wiring.connect(m, requests.regions, loader.regions.i)
        wiring.connect(m, loader.regions.o, fill.regions)
        wiring.connect(m, fill.maxima, stages.maxima.write_1)
        wiring.connect(m, fill.lookup, stages.maxima.load_1)
        read = of_ports(self, "read", port + 1)[port]
        wiring.connect(m, wiring.flipped(read.requests), requests.requests)
        wiring.connect(m, wiring.flipped(read.beats), fill.data)

    def _room(self, m, platform, stages, product, tiles):
        """A chunk is asked for where its places are free, and not too many are ahead of the array;
        ``tiles``: by direction, those of it that are in flight."""
        requests, chunk, freed = stages.requests, stages.requests.chunks.p, stages.datapath.freed
        fused = product.mode == Mode.FUSED
        stream, held, west = stages.stream_space, stages.held_space, stages.west_space
        take = Signal()
        west_due = chunk.first & fused
        m.d.comb += [
            take.eq(requests.chunks.valid & requests.chunks.ready),
            stream.start.eq(stages.walk.start),
            held.start.eq(stages.walk.start),
            stream.slab.eq(product.stream_slab),
            held.slab.eq(product.held_slab),
            stream.place.eq(chunk.stream_base),
            held.place.eq(chunk.held_base),
            stream.take.eq(take & chunk.load_stream),
            held.take.eq(take & chunk.load_held),
            west.take.eq(take & west_due),
            stream.give.eq(freed.stream),
            held.give.eq(freed.held),
            west.give.eq(freed.west),
            stages.ahead.take.eq(take),
        ]
        full = [
            chunk.load_stream & ~stream.room,
            chunk.load_held & ~held.room,
            west_due & west.full,
            stages.ahead.full,
            *(chunk.first & mine & credit.full for mine, credit in tiles.values()),
        ]
        m.d.comb += [loader.requests.room.eq(~Cat(full).any()) for loader in stages.loaders]
        for mine, credit in tiles.values():
            m.d.comb += credit.take.eq(take & chunk.first & mine)
        for space, name in ((stream, "what streams"), (held, "what is held")):
            given = ~space.give | ~space.empty
            invariant(m, platform, given, f"a place of {name} was given back twice")
        invariant(m, platform, ~west.give | ~west.empty, "a half was given back twice")

    def _execute(self, m, platform, stages, product):
        pass_walk, pass_run, datapath = stages.pass_walk, stages.pass_run, stages.datapath
        wiring.connect(m, stages.pass_chunks.chunks, stages.chunks.i)
        wiring.connect(m, stages.chunks.o, pass_walk.chunks)
        wiring.connect(m, pass_walk.passes, stages.passes.i)
        wiring.connect(m, stages.passes.o, pass_run.passes)
        starved = pass_run.starved
        m.d.comb += [
            stages.pass_chunks.product.eq(product),
            stages.pass_chunks.start.eq(stages.walk.start),
            pass_walk.north.eq(product.north),
            pass_walk.fused.eq(product.mode == Mode.FUSED),
            pass_walk.t_step.eq(product.t_step),
            pass_walk.held_stride.eq(product.held_stride),
            pass_walk.east_units.eq(product.east_units),
            pass_walk.north_units.eq(product.north_units),
            datapath.slot.eq(pass_run.slot),
            datapath.held.eq(pass_run.held),
            self.control.inexact.eq(datapath.inexact),
            self.control.stalls.accumulator.eq(pass_walk.wait_accumulator & starved),
            self.control.stalls.load.eq(pass_walk.wait_load & starved),
        ]
        for name in ("blocks", "maxima"):
            loaded = getattr(pass_walk.loaded, name)
            for loader in stages.loaders:
                there = getattr(loader, f"{name}_loaded")
                m.d.comb += [
                    there.take.eq(getattr(loader.fill, f"{name}_loaded")),
                    there.give.eq(loaded.take),
                ]
                fits = ~there.take | ~there.full
                invariant(m, platform, fits, f"more {name} loaded than asked for")
            missing = any_port(getattr(each, f"{name}_loaded").empty for each in stages.loaders)
            m.d.comb += loaded.there.eq(~missing)
        m.d.comb += stages.ahead.give.eq(pass_walk.begins)

    def _store(self, m, platform, stages, product) -> dict[str, Drain]:
        """The drains, by direction; they share the writer, dX's rows before dW's."""
        plan = self.plan
        writes = of_ports(self, "write", plan.ports)
        arbiters = [self._arbiter(m, platform, *each) for each in enumerate(writes)]
        drains = {
            name: self._drain(m, platform, stages, product, name, arbiters)
            for name in plan.directions
        }
        m.d.comb += [
            self.control.overflow.eq(Cat(drain.overflow for drain in drains.values()).any()),
            self.control.stalls.store.eq(Cat(drain.stalled for drain in drains.values()).any()),
        ]
        return drains

    def _arbiter(self, m, platform, port, write) -> StoreArbiter:
        """Of a port to memory."""
        arbiter = StoreArbiter(data_width=self.plan.data_width)
        m.submodules[port_name("arbiter", port)] = place(arbiter, platform)
        wiring.connect(m, wiring.flipped(write.requests), arbiter.requests)
        wiring.connect(m, wiring.flipped(write.beats), arbiter.beats)
        return arbiter

    def _drain(self, m, platform, stages, product, name, arbiters) -> Drain:
        """One direction: its drain, the tiles it waits for, and the room for sums it frees."""
        plan, north = self.plan, name == "north"
        drain = Drain(plan, north=north)
        tiles = StreamFifo(chunk_layout(plan), plan.tiling.tiles_in_flight)
        banks, ended = Credit(most=SUM_UNITS), Credit(most=plan.tiling.tiles_in_flight)
        units = product[f"{name}_units"]
        m.submodules[f"{name}_drain"] = place(drain, platform)
        m.submodules[f"{name}_tiles"] = place(tiles, platform)
        m.submodules[f"{name}_banks"] = place(banks, platform)
        m.submodules[f"{name}_ended"] = place(ended, platform)
        pass_walk = stages.pass_walk
        side, bank = getattr(stages.datapath, name), getattr(pass_walk.banks, name)
        taken = pass_walk.passes.valid & pass_walk.passes.ready
        done = pass_walk.passes.p.done_north if north else pass_walk.passes.p.done_east
        m.d.comb += [
            bank.free.eq(Mux(units > 1, banks.count < SUM_UNITS // 2, ~banks.full)),
            banks.take.eq(bank.take),
            banks.give.eq(drain.freed),
            tiles.i.valid.eq(taken & done),
            tiles.i.payload.eq(pass_walk.tile),
            ended.take.eq(side.done),
            ended.give.eq(drain.tiles.valid & drain.tiles.ready),
            drain.tiles.valid.eq(tiles.o.valid & ~ended.empty),
            drain.tiles.payload.eq(tiles.o.payload),
            tiles.o.ready.eq(drain.tiles.ready & ~ended.empty),
            drain.mode.eq(product.mode),
            drain.exponents.eq(product.exponents),
            drain.result.eq(product.to_north if north else product.to_east),
            drain.lanes_outermost.eq(product.lanes_outermost),
            drain.t_step.eq(product.t_step),
            drain.units.eq(units),
        ]
        wiring.connect(m, drain.read, side.drain)
        wiring.connect(m, drain.lookup, getattr(stages.maxima.drain, name))
        order = "first" if north else "second"
        for port, arbiter in enumerate(arbiters):
            for stream in ("requests", "beats"):
                source = of_ports(drain, stream, port + 1)[port]
                wiring.connect(m, source, getattr(arbiter, f"{order}_{stream}"))
        # As many tiles as there are units: some have ended, and another one is being made.
        invariant(m, platform, ~tiles.i.valid | tiles.i.ready, f"no room for a tile to the {name}")
        invariant(m, platform, ~ended.take | ~ended.full, f"too many tiles ended to the {name}")
        invariant(m, platform, ~banks.take | ~banks.full, f"no bank free to the {name}")
        return drain

    def _in_flight(self, m, platform, stages, drains):
        """Whether anything of the product is under way: its tiles are counted from the first
        request for one to its last sum that is read."""
        plan = self.plan
        parts = [stages.walk.busy, stages.pass_chunks.busy, ~self.writer_idle]
        tiles_by_direction = {}
        for name, drain in drains.items():
            tiles = Credit(most=plan.tiling.tiles_in_flight)
            m.submodules[f"{name}_in_flight"] = place(tiles, platform)
            mine = Signal(name=f"{name}_used")  # the product has sums in this direction
            m.d.comb += [
                mine.eq(self._goes(name, stages.setup.product)),
                tiles.give.eq(drain.tiles.valid & drain.tiles.ready & drain.tiles.p.last),
            ]
            parts += [~tiles.empty, drain.busy]
            tiles_by_direction[name] = mine, tiles
        self._room(m, platform, stages, stages.setup.product, tiles_by_direction)
        in_flight = Signal()
        m.d.comb += in_flight.eq(Cat(parts).any())
        return in_flight

    def _goes(self, direction: str, product: data.View):
        """Whether a product has sums in a direction."""
        plan = self.plan
        if len(plan.directions) == 1:
            return 1
        if direction == "east":
            return ~product.north
        return product.north | (product.mode == Mode.FUSED)

    def _sequence(self, m, platform, stages, headers, in_flight):
        setup, walk = stages.setup, stages.walk
        with m.FSM() as fsm:
            m.d.comb += self.busy.eq(~fsm.ongoing("IDLE"))
            with m.State("IDLE"):
                m.d.comb += setup.start.eq(self.control.start)
                if headers is not None:
                    m.d.comb += headers.start.eq(self.control.start)
                with m.If(self.control.start):
                    m.next = "SETUP"
            with m.State("SETUP"):
                ready = setup.done if headers is None else setup.done & ~headers.busy
                with m.If(ready):
                    m.d.comb += walk.start.eq(1)
                    m.next = "RUN"
            with m.State("RUN"):
                with m.If(~in_flight):
                    m.d.comb += self.control.done.eq(1)
                    m.next = "IDLE"
        spaces = (stages.stream_space, stages.held_space, stages.west_space, stages.ahead)
        left_over = [stages.pass_run.busy, *(~space.empty for space in spaces)]
        invariant(
            m, platform, ~self.control.done | ~Cat(left_over).any(), "done with work under way"
        )
        invariant(m, platform, ~self.control.start | ~self.busy, "started while busy")
