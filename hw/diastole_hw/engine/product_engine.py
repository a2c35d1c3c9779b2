"""Product engine: decoupled load, execute and store stages around the array."""

from amaranth.hdl import Assert, Cat, Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.bus.services import ReadSignature, owned_request_layout, write_beat_layout
from diastole_hw.engine.chained_results import ChainedResults
from diastole_hw.engine.flight import Flight
from diastole_hw.engine.product_control import product_control
from diastole_hw.engine.setup import Setup
from diastole_hw.engine.stages import Loader, Stages
from diastole_hw.execute.datapath import Datapath
from diastole_hw.execute.pass_walk import PassWalk
from diastole_hw.execute.slots import PassRun
from diastole_hw.load.headers import Headers
from diastole_hw.load.region_requests import RegionRequests
from diastole_hw.load.write_scratchpads import WriteScratchpads
from diastole_hw.memory.maxima import Maxima
from diastole_hw.plan.modes import Mode
from diastole_hw.plan.plan import Plan
from diastole_hw.ports import any_port, of_ports, per_port, port_name
from diastole_hw.schedule.ring import RingSpace
from diastole_hw.schedule.sum_places import SumPlaces
from diastole_hw.schedule.tile_walk import TileWalk
from diastole_hw.schedule.tokens import (
    loaded_chunk_layout,
    pass_layout,
    region_layout,
    summed_layout,
)
from diastole_hw.store.arbiter import StoreArbiter
from diastole_hw.store.drain import Drain
from diastole_hw.store.drain_walk import transposes
from diastole_hw.store.float_pipe import FloatPipe
from diastole_hw.store.tile_places import TilePlaces
from diastole_hw.stream.credit import Credit
from diastole_hw.stream.fifo import StreamFifo
from diastole_hw.vector.streams.product_walk import tiles_layout
from diastole_sim.spec.sizes.array_sizes import TILES_OF_SUMS
from diastole_sim.spec.sizes.queues import CHUNKS_AHEAD, REGIONS_AHEAD


class ProductEngine(wiring.Component):
    """Run products over whole tensors in memory, two products at a time.

    A product is loaded when all data of the preceding product have been requested, computed when
    the preceding product has been computed, and then stored. The fused pass runs alone, when
    nothing else is in flight. Products end in order.

    Timing: ``control.done`` pulses when nothing of a product is in flight: no tile between its
    first request and its last sum, and no row that is still to be written. Set-up takes as long as
    :class:`diastole_hw.engine.setup.Setup` says, or until the headers of the tensors arrive.

    Parameters
    ----------
    plan : Plan

    Members
    -------
    control : In(product_control(plan))
    busy : Out(1)
        High from the cycle after a ``control.start`` to the last ``control.done``.
    read : Out(ReadSignature(plan.data_width))
    headers : Out(ReadSignature(plan.data_width))
        Read service for headers; only in a machine whose tensors have headers.
    read_command, headers_command : Out(1), Out(1)
        Command numbers of the offered read requests.
    requests : Out(stream of owned_request_layout())
        Write requests; ``owner_tag.owner`` is 0.
    beats : Out(stream of write_beat_layout(plan.data_width))
        Beats of the write requests, in order; neither stream waits for the other.
    read_1, requests_1, beats_1
        Members of the second port to memory, if the machine has a second port.
    chain : Out(stream of B times unsigned(32))
        Results of products with a chain, one product after another, instead of writes. Results are
        passed block by block, in the order of
        :class:`diastole_hw.vector.streams.product_walk.ProductWalk`, and a block as its B rows.
        Elements beyond the result are undefined. A product with a chain is done when its last row
        has been accepted. This member and the following exist only in a machine with a vector unit.
    chain_tiles : Out(stream of tiles_layout())
        Lengths of the tiles of every chained result, 2 cycles after ``control.start``. The reader
        must accept them before the last row of the result; at most two words wait.
    chain_stalled : Out(1)
        A row of a chain could be read, but earlier rows have not been accepted.
        ``control.stalls.store`` reports the stalls of products without a chain.
    """

    control: wiring.PureInterface
    read: wiring.PureInterface
    headers: wiring.PureInterface
    requests: stream.Interface
    beats: stream.Interface
    chain: stream.Interface
    chain_tiles: stream.Interface

    def __init__(self, plan: Plan):
        self.plan = plan
        read = ReadSignature(plan.data_width)
        control = product_control(plan)
        members = {"control": In(control), "busy": Out(1), "read_command": Out(1)}
        if plan.significands:
            members |= {"headers": Out(read), "headers_command": Out(1)}
        if plan.vector is not None:
            row = data.ArrayLayout(unsigned(32), plan.block)
            members |= {"chain": Out(stream.Signature(row)), "chain_stalled": Out(1)}
            members |= {"chain_tiles": Out(stream.Signature(tiles_layout()))}
        buses = {
            "read": Out(read),
            "requests": Out(stream.Signature(owned_request_layout())),
            "beats": Out(stream.Signature(write_beat_layout(plan.data_width))),
        }
        for name, member in buses.items():
            members |= per_port(name, member, plan.ports)
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        stages = self._stages(m)
        self._headers(m, stages)
        self._flight(m, stages)
        self._load(m, stages)
        self._space(m, stages)
        self._execute(m, stages)
        self._store(m, stages)
        flight, control = stages.flight, self.control
        spaces = (stages.stream_space, stages.stationary_space, stages.west_space)
        left_over = [stages.pass_run.busy, *(~space.empty for space in spaces)]
        left_over.append(stages.chunks.o.valid)
        last = control.done & ~flight.busy_behind
        m.d.sync += Assert(~last | ~Cat(left_over).any(), "done with work under way")
        m.d.sync += Assert(~control.start | control.ready, "started while not ready")
        return m

    def _stages(self, m) -> Stages:
        plan = self.plan
        stages = Stages(
            setup=Setup(plan),
            flight=Flight(plan),
            walk=TileWalk(plan),
            requests=RegionRequests(plan),
            regions=StreamFifo(region_layout(plan), REGIONS_AHEAD),
            fill=WriteScratchpads(plan),
            chunks=StreamFifo(
                loaded_chunk_layout(plan), CHUNKS_AHEAD, output_register=plan.output_register
            ),
            pass_walk=PassWalk(plan),
            passes=StreamFifo(pass_layout(plan), 1),
            pass_run=PassRun(plan),
            datapath=Datapath(plan),
            maxima=Maxima(plan),
            stream_space=RingSpace(plan.stream_blocks),
            stationary_space=RingSpace(plan.stationary_blocks),
            west_space=Credit(most=2),
            blocks_loaded=Credit(most=CHUNKS_AHEAD),
            maxima_loaded=Credit(most=plan.tiling.tiles_in_flight),
            others=tuple(
                Loader(
                    requests=RegionRequests(plan, port),
                    regions=StreamFifo(region_layout(plan), REGIONS_AHEAD),
                    fill=WriteScratchpads(plan, port),
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
            m.submodules[name] = unit
        return stages

    def _headers(self, m, stages):
        """Connect the unit that reads the exponents of tensors, where group scales are relative to
        a tensor."""
        setup, flight, plan = stages.setup, stages.flight, self.plan
        m.d.comb += [flight.set_up.eq(setup.product), flight.set_up_done.eq(setup.done)]
        if not plan.significands:
            return
        m.submodules.tensor_headers = headers = Headers(plan)
        for cls, name in enumerate("x w dy".split()):
            size = plan.group_layouts[cls].header_beats * plan.beat_bytes
            m.d.comb += headers.operands[name].eq(setup.product.tensors[cls].base - size)
        m.d.comb += [
            headers.mode.eq(setup.product.mode),
            headers.start.eq(self.control.start),
            self.headers_command.eq(flight.newest_command),
            flight.set_up.exponents.eq(headers.exponents),
            flight.set_up_done.eq(setup.done & ~headers.busy),
        ]
        wiring.connect(m, headers.read, wiring.flipped(self.headers))

    def _flight(self, m, stages):
        """Connect :class:`Flight`, which passes products from stage to stage."""
        control, setup, flight = self.control, stages.setup, stages.flight
        walk, chunks = stages.walk, stages.chunks
        requesting = any_port(loader.requests.busy for loader in stages.loaders)
        m.d.comb += [
            setup.start.eq(control.start),
            setup.mode.eq(control.mode),
            setup.operands.eq(control.operands),
            control.fits.eq(setup.fits),
            control.ready.eq(flight.ready),
            control.done.eq(flight.done),
            control.done_command.eq(flight.done_command),
            self.busy.eq(flight.busy),
            flight.start.eq(control.start),
            flight.command.eq(control.command),
            flight.results.eq(setup.results),
            flight.load.busy.eq(walk.busy | requesting),
            flight.execute.waits.eq(chunks.o.valid),
            flight.execute.next.eq(chunks.o.p.product),
            walk.start.eq(flight.load.start),
            walk.from_idle.eq(flight.load.from_idle),
            walk.number.eq(flight.load.number),
        ]
        self._give(m, walk, flight.load)

    @staticmethod
    def _give(m, unit, stage):
        """Connect the product fields of a stage to its unit."""
        for name in stage.product.shape().members:
            m.d.comb += unit.product[name].eq(stage.product[name])

    def _load(self, m, stages):
        walk, requests, fill = stages.walk, stages.requests, stages.fill
        m.d.comb += [
            self.read_command.eq(stages.flight.load.command),
            stages.datapath.write_en.eq(fill.write_en),
            stages.datapath.write.eq(fill.write),
        ]
        self._give(m, requests, stages.flight.load)
        self._chunks(m, walk, stages.loaders)
        wiring.connect(m, requests.regions, stages.regions.i)
        wiring.connect(m, stages.regions.o, fill.regions)
        wiring.connect(m, fill.maxima, stages.maxima.write)
        wiring.connect(m, fill.lookup, stages.maxima.load)
        wiring.connect(m, wiring.flipped(self.read.requests), requests.requests)
        wiring.connect(m, wiring.flipped(self.read.beats), fill.data)
        for port, loader in enumerate(stages.others, start=1):
            self._load_too(m, stages, port, loader)

    @staticmethod
    def _chunks(m, walk, loaders):
        """Connect the walk to the loaders: all ports accept a chunk in the same cycle."""
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

    def _load_too(self, m, stages, port, loader):
        """Connect the loader of another port, beside the first loader."""
        requests, fill, datapath = loader.requests, loader.fill, stages.datapath
        m.d.comb += [
            datapath.write_en_1.eq(fill.write_en),
            datapath.write_1.eq(fill.write),
            fill.write_ready.eq(datapath.write_ready_1),
        ]
        self._give(m, requests, stages.flight.load)
        wiring.connect(m, requests.regions, loader.regions.i)
        wiring.connect(m, loader.regions.o, fill.regions)
        wiring.connect(m, fill.maxima, stages.maxima.write_1)
        wiring.connect(m, fill.lookup, stages.maxima.load_1)
        read = of_ports(self, "read", port + 1)[port]
        wiring.connect(m, wiring.flipped(read.requests), requests.requests)
        wiring.connect(m, wiring.flipped(read.beats), fill.data)

    def _space(self, m, stages):
        """Allow the request for a chunk when its places in the scratchpads are free and the queue
        of chunks has a free entry. The first chunk of a tile also needs a free slot of maxima."""
        requests, chunk, freed = stages.requests, stages.requests.chunks.p, stages.datapath.freed
        product, flight = stages.flight.load.product, stages.flight
        fused = product.mode == Mode.FUSED
        stream, stationary, west = stages.stream_space, stages.stationary_space, stages.west_space
        take = Signal()
        begun = Signal()  # the walk outputs its first chunk, in the first cycle
        west_due = chunk.first & fused
        m.d.sync += begun.eq(stages.walk.start)
        m.d.comb += [
            take.eq(requests.chunks.valid & requests.chunks.ready),
            stream.start.eq(begun),
            stationary.start.eq(begun),
            stream.slab.eq(product.stream_slab),
            stationary.slab.eq(product.stationary_slab),
            stream.place.eq(chunk.stream_base),
            stationary.place.eq(chunk.stationary_base),
            stream.take.eq(take & chunk.load_stream),
            stationary.take.eq(take & chunk.load_stationary),
            west.take.eq(take & west_due),
            stream.give.eq(freed.stream),
            stationary.give.eq(freed.stationary),
            west.give.eq(freed.west),
            stages.chunks.i.valid.eq(take),
            *(
                stages.chunks.i.p[each].eq(chunk[each])
                for each in stages.chunks.i.p.shape().members
            ),
            flight.opens.eq(take & chunk.first),
        ]
        full = [
            chunk.load_stream & ~stream.space,
            chunk.load_stationary & ~stationary.space,
            west_due & west.full,
            ~stages.chunks.i.ready,
            chunk.first & ~flight.space,
        ]
        # ``full`` of the previous cycle's chunk: after an accepted chunk there is a cycle without a
        # chunk.
        space = Signal()
        m.d.sync += space.eq(stages.walk.chunks.valid & ~Cat(full).any())
        m.d.comb += [loader.requests.space.eq(space) for loader in stages.loaders]
        for space, name in (
            (stream, "the streaming operand"),
            (stationary, "the stationary operand"),
        ):
            no_excess = ~space.give | ~space.empty
            m.d.sync += Assert(no_excess, f"a place of {name} was given back twice")
        m.d.sync += Assert(~west.give | ~west.empty, "a half was given back twice")

    def _execute(self, m, stages):
        pass_walk, pass_run, datapath = stages.pass_walk, stages.pass_run, stages.datapath
        execute, chunks = stages.flight.execute, stages.chunks.o
        product = execute.product
        wiring.connect(m, pass_walk.passes, stages.passes.i)
        wiring.connect(m, stages.passes.o, pass_run.passes)
        starved = pass_run.starved
        shown = chunks.p.product == execute.number
        m.d.comb += [
            pass_walk.chunks.valid.eq(chunks.valid & shown),
            pass_walk.chunks.payload.eq(chunks.payload),
            chunks.ready.eq(pass_walk.chunks.ready),
            pass_walk.north.eq(product.north),
            pass_walk.fused.eq(product.mode == Mode.FUSED),
            pass_walk.t_step.eq(product.t_step),
            pass_walk.stationary_stride.eq(product.stationary_stride),
            pass_walk.east_whole.eq(product.east_whole),
            pass_walk.north_whole.eq(product.north_whole),
            *([pass_walk.planes.eq(product.planes)] if self.plan.planar else []),
            datapath.slot.eq(pass_run.slot),
            datapath.stationary.eq(pass_run.stationary),
            self.control.inexact.eq(datapath.inexact),
            self.control.stalls.accumulator.eq(pass_walk.wait_accumulator & starved),
            self.control.stalls.load.eq(pass_walk.wait_load & starved),
            self.control.slot.eq(pass_run.slot.valid),
        ]
        for name in ("blocks", "maxima"):
            loaded = getattr(pass_walk.loaded, name)
            for loader in stages.loaders:
                available = getattr(loader, f"{name}_loaded")
                m.d.comb += [
                    available.take.eq(getattr(loader.fill, f"{name}_loaded")),
                    available.give.eq(loaded.take),
                ]
                fits = ~available.take | ~available.full
                m.d.sync += Assert(fits, f"more {name} loaded than asked for")
            missing = any_port(getattr(each, f"{name}_loaded").empty for each in stages.loaders)
            m.d.comb += loaded.available.eq(~missing)

    def _store(self, m, stages):
        """Add the drains of all directions. They share the writer; rows of dX go before rows of dW,
        so that sums of dX never block the array."""
        plan = self.plan
        arbiters = [self._arbiter(m, port) for port in range(plan.ports)]
        m.submodules.float_pipe = pipe = FloatPipe(plan)
        drains = [self._drain(m, stages, name, arbiters) for name in plan.directions]
        for drain in drains:
            wiring.connect(m, drain.floats, getattr(pipe, drain.direction))
        stalled = [drain.stalled for drain in drains]
        if plan.vector is not None:
            self._chain(m, stages, drains)
            stalled = [drain.stalled & ~drain.chained for drain in drains]
        m.d.comb += [
            self.control.overflow.eq(pipe.overflow),
            self.control.stalls.store.eq(Cat(stalled).any()),
        ]

    def _chain(self, m, stages, drains):
        """Connect chained results, which are passed on in the order of products."""
        results, control = ChainedResults(self.plan), self.control
        m.submodules.chained_results = results
        for drain in drains:
            name = drain.direction
            store = getattr(stages.flight, name)
            wiring.connect(m, drain.chain, getattr(results, name))
            m.d.comb += [
                drain.chained.eq(store.product.chain),
                getattr(results, f"{name}_first").eq(store.oldest),
            ]
        m.d.comb += [
            results.started.eq(control.start & control.operands.chain),
            results.mode.eq(control.mode),
            results.results.eq(stages.setup.results),
            results.product.eq(stages.setup.product),
            self.chain_stalled.eq(Cat(drain.stalled & drain.chained for drain in drains).any()),
        ]
        wiring.connect(m, results.tiles, wiring.flipped(self.chain_tiles))
        wiring.connect(m, results.rows, wiring.flipped(self.chain))
        alone = ~control.start | ~control.operands.chain | (control.mode != Mode.FUSED)
        m.d.sync += Assert(alone, "the fused pass takes no chain")

    def _arbiter(self, m, port) -> StoreArbiter:
        """Add the write arbiter of a port to memory."""
        arbiter = StoreArbiter(data_width=self.plan.data_width)
        m.submodules[port_name("arbiter", port)] = arbiter
        for name in ("requests", "beats"):
            outer = getattr(self, port_name(name, port))
            wiring.connect(m, wiring.flipped(outer), getattr(arbiter, name))
        return arbiter

    def _drain(self, m, stages, name, arbiters) -> Drain:
        """Connect one direction: its drain, the queue of tiles, and the free places for sums."""
        plan, north = self.plan, name == "north"
        drain, transposed = Drain(plan, north=north), transposes(plan, north=north)
        places = TilePlaces(plan, transposed=transposed)
        waiting = summed_layout(plan, transposed=transposed)
        tiles = StreamFifo(waiting, TILES_OF_SUMS, output_register=plan.output_register)
        banks, ended = SumPlaces(), Credit(most=TILES_OF_SUMS)
        m.submodules[f"{name}_drain"] = drain
        m.submodules[f"{name}_tiles"] = tiles
        m.submodules[f"{name}_places"] = places
        m.submodules[f"{name}_banks"] = banks
        m.submodules[f"{name}_ended"] = ended
        pass_walk, flight = stages.pass_walk, stages.flight
        store = getattr(flight, name)
        product: data.View = store.product
        side, bank = getattr(stages.datapath, name), getattr(pass_walk.banks, name)
        accepted = pass_walk.passes.valid & pass_walk.passes.ready
        done = pass_walk.passes.p.done_north if north else pass_walk.passes.p.done_east
        # Functions of a product's mode in the drain are valid 1 cycle after the product is output.
        before = Signal(name=f"{name}_before")
        m.d.sync += before.eq(store.number)
        shown = (tiles.o.p.product == store.number) & (before == store.number)
        offered = tiles.o.valid & ~ended.empty & shown
        m.d.comb += [
            bank.free.eq(banks.free),
            banks.whole.eq(flight.execute.product[f"{name}_whole"]),
            banks.take.eq(bank.take),
            banks.give.eq(drain.freed),
            tiles.i.valid.eq(accepted & done),
            *(tiles.i.p[each].eq(pass_walk.tile[each]) for each in tiles.i.p.shape().members),
            ended.take.eq(side.done),
            ended.give.eq(drain.tiles.ready),  # implies that the tile was offered
            drain.tiles.valid.eq(offered),
            places.tile.eq(tiles.o.payload),
            places.leaves.eq(drain.tiles.ready),
            places.lanes_outermost.eq(product.lanes_outermost),
            places.t_step.eq(product.t_step),
            drain.tiles.payload.eq(places.drained),
            tiles.o.ready.eq(drain.tiles.ready),
            drain.mode.eq(product.mode),
            drain.exponents.eq(product.exponents),
            drain.result.eq(store.result),
            drain.lanes_outermost.eq(product.lanes_outermost),
            drain.t_step.eq(product.t_step),
            drain.whole.eq(product.whole),
            store.busy.eq(drain.busy),
            store.waits.eq(tiles.o.valid),
            store.next.eq(tiles.o.p.product),
            store.closes.eq(drain.tiles.ready & drain.tiles.p.last),
        ]
        wiring.connect(m, drain.read, side.drain)
        wiring.connect(m, drain.lookup, getattr(stages.maxima.drain, name))
        for port, arbiter in enumerate(arbiters):
            self._results(m, drain, store, port, arbiter)
        m.d.sync += Assert(~tiles.i.valid | tiles.i.ready, f"no room for a tile to the {name}")
        m.d.sync += Assert(~ended.take | ~ended.full, f"too many tiles ended to the {name}")
        m.d.sync += Assert(~banks.take | banks.free, f"no unit free to the {name}")
        return drain

    @staticmethod
    def _results(m, drain, store, port, arbiter):
        """Connect the write requests and beats of a drain to the arbiter of a port."""
        order = "first" if drain.north else "second"
        drain_requests = getattr(drain, port_name("requests", port))
        accepted = getattr(arbiter, f"{order}_requests")
        m.d.comb += [
            accepted.valid.eq(drain_requests.valid),
            accepted.p.addr.eq(drain_requests.p.addr),
            accepted.p.beats.eq(drain_requests.p.beats),
            accepted.p.owner_tag.command.eq(store.command),
            drain_requests.ready.eq(accepted.ready),
        ]
        beats = getattr(drain, port_name("beats", port))
        wiring.connect(m, beats, getattr(arbiter, f"{order}_beats"))
