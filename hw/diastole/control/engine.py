"""The product engine: load, execute and store, decoupled, around the array."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from diastole.bus.service import request_layout, write_beat_layout
from diastole.control.credit import Credit
from diastole.control.datapath import Datapath
from diastole.control.descriptors import PRODUCT, chunk_layout
from diastole.control.execute import PassRun, PassWalk, pass_layout
from diastole.control.fill import Fill
from diastole.control.headers import Headers
from diastole.control.issue import RegionIssue
from diastole.control.region import region_layout
from diastole.control.setup import OPERANDS, Setup
from diastole.control.store import Drain
from diastole.control.store_arbiter import StoreArbiter
from diastole.control.walk import TileWalk
from diastole.emit.place import place
from diastole.memory.maxima import Maxima
from diastole.plan import Plan
from diastole.stream.fifo import StreamFifo
from diastole.uses import Mode

QUIET_CYCLES = 4  # without anything in flight before a product counts as done


class ProductEngine(wiring.Component):
    """Run one product over whole tensors in memory.

    ``start`` with ``mode`` and ``operands`` (stable until ``done``); ``done`` for one cycle when
    the last byte of the result is acknowledged (``writer_idle``). ``fits`` tells whether mode FUSED
    is possible for the operands. ``stalls``: one bit per cause and cycle (load, store, accumulator,
    turn).
    """

    def __init__(self, plan: Plan):
        self.plan = plan
        super().__init__(
            {
                "start": In(1),
                "mode": In(Mode),
                "operands": In(OPERANDS),
                "fits": Out(1),
                "busy": Out(1),
                "done": Out(1),
                "read_requests": Out(stream.Signature(request_layout())),
                "read_data": In(stream.Signature(plan.data_width)),
                "write_requests": Out(stream.Signature(request_layout())),
                "write_beats": Out(stream.Signature(write_beat_layout(plan.data_width))),
                "writer_idle": In(1),
                "overflow": Out(1),
                "inexact": Out(1),
                "stall_load": Out(1),
                "stall_store": Out(1),
                "stall_accumulator": Out(1),
                "stall_turn": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        plan = self.plan
        chunk = chunk_layout(plan)
        self._units = units = {
            "setup": Setup(plan),
            "walk": TileWalk(plan),
            "issue": RegionIssue(plan),
            "regions": StreamFifo(region_layout(plan), 8),
            "loading": StreamFifo(chunk, 4),
            "fill": Fill(plan),
            "loaded": StreamFifo(chunk, 4),
            "pass_walk": PassWalk(plan),
            "passes": StreamFifo(pass_layout(plan), 2),
            "pass_run": PassRun(plan),
            "datapath": Datapath(plan),
            "maxima": Maxima(plan),
            "buffers": Credit(most=2),
            "chunks": Credit(most=15),
        }
        if plan.significands:
            units["headers"] = Headers(plan)
        for name, unit in units.items():
            m.submodules[name] = place(unit, platform)
        self._load(m, platform)
        self._execute(m)
        self._store(m, platform)
        self._sequence(m)
        return m

    def _load(self, m, platform):
        u = self._units
        setup, walk, issue, fill = u["setup"], u["walk"], u["issue"], u["fill"]
        self._product = Signal(PRODUCT, name="product")
        m.d.comb += self._product.eq(setup.product)
        m.d.comb += [
            setup.mode.eq(self.mode),
            setup.operands.eq(self.operands),
            self.fits.eq(setup.fits),
            walk.product.eq(self._product),
            issue.product.eq(self._product),
            issue.credit.eq(~u["buffers"].full),
            u["buffers"].take.eq(issue.take),
            u["buffers"].give.eq(u["datapath"].released),
            u["chunks"].take.eq(issue.take),
            self.stall_turn.eq(fill.turn_stall),
        ]
        wiring.connect(m, walk.chunks, issue.chunks_in)
        wiring.connect(m, issue.chunks_out, u["loading"].i)
        wiring.connect(m, issue.regions, u["regions"].i)
        self._reader(m, issue.requests, fill.data)
        wiring.connect(m, u["regions"].o, fill.regions)
        wiring.connect(m, u["loading"].o, fill.chunks_in)
        wiring.connect(m, fill.chunks_out, u["loaded"].i)
        maxima, datapath = u["maxima"], u["datapath"]
        m.d.comb += [
            maxima.write_en.eq(fill.maxima_write_en),
            maxima.write_select.eq(fill.maxima_write_select),
            maxima.write_addr.eq(fill.maxima_write_addr),
            maxima.write_data.eq(fill.maxima_write_data),
            maxima.load_en.eq(fill.lookup_en),
            datapath.write_en.eq(fill.write_en),
            datapath.write.eq(fill.write),
        ]
        for name in fill.names:
            m.d.comb += [
                getattr(maxima, f"load_{name}_index").eq(getattr(fill, f"{name}_index")),
                getattr(fill, f"{name}_value").eq(getattr(maxima, f"load_{name}_value")),
            ]

    def _reader(self, m, requests, data):
        """The reader is the load unit's, but while the headers of tensors are read."""
        if not self.plan.significands:
            wiring.connect(m, wiring.flipped(self.read_requests), requests)
            wiring.connect(m, wiring.flipped(self.read_data), data)
            return
        headers = self._units["headers"]
        m.d.comb += [headers.mode.eq(self.mode), headers.operands.eq(self.operands)]
        m.d.comb += self._product.exponents.eq(headers.exponents)
        with m.If(headers.busy):
            wiring.connect(m, wiring.flipped(self.read_requests), headers.requests)
            wiring.connect(m, wiring.flipped(self.read_data), headers.data)
        with m.Else():
            wiring.connect(m, wiring.flipped(self.read_requests), requests)
            wiring.connect(m, wiring.flipped(self.read_data), data)

    def _execute(self, m):
        u = self._units
        pass_walk, pass_run, datapath = u["pass_walk"], u["pass_run"], u["datapath"]
        wiring.connect(m, u["loaded"].o, pass_walk.chunks)
        wiring.connect(m, pass_walk.passes, u["passes"].i)
        wiring.connect(m, u["passes"].o, pass_run.passes)
        m.d.comb += [
            pass_walk.north.eq(self._product.north),
            pass_walk.fused.eq(self._product.mode == Mode.FUSED),
            datapath.slot.eq(pass_run.slot),
            datapath.held.eq(pass_run.held),
            u["chunks"].give.eq(pass_walk.chunks.valid & pass_walk.chunks.ready),
            self.inexact.eq(datapath.inexact),
            self.stall_accumulator.eq(pass_walk.wait_accumulator & pass_run.starved),
            self.stall_load.eq(
                self.busy & pass_run.starved & ~pass_walk.chunks.valid & ~u["chunks"].empty
            ),
        ]

    def _store(self, m, platform):
        plan, _u = self.plan, self._units
        arbiter = StoreArbiter(data_width=plan.data_width)
        m.submodules.arbiter = place(arbiter, platform)
        wiring.connect(m, wiring.flipped(self.write_requests), arbiter.requests)
        wiring.connect(m, wiring.flipped(self.write_beats), arbiter.beats)
        services = {
            "east": (arbiter.second_requests, arbiter.second_beats),
            "north": (arbiter.first_requests, arbiter.first_beats),
        }
        drains = [self._drain(m, platform, name, *services[name]) for name in plan.directions]
        m.d.comb += [
            self.overflow.eq(Cat(*(drain.overflow for drain in drains)).any()),
            self.stall_store.eq(Cat(*(drain.stalled for drain in drains)).any()),
        ]
        self._drains = drains

    def _drain(self, m, platform, name, requests, beats):
        """One direction: its drain, the tiles it waits for, and the banks it frees."""
        plan, u = self.plan, self._units
        north = name == "north"
        drain = Drain(plan, north=north)
        tiles = StreamFifo(chunk_layout(plan), 4)
        banks, ended = Credit(most=2), Credit(most=4)
        m.submodules[f"{name}_drain"] = place(drain, platform)
        m.submodules[f"{name}_tiles"] = place(tiles, platform)
        m.submodules[f"{name}_banks"] = place(banks, platform)
        m.submodules[f"{name}_ended"] = place(ended, platform)
        u[f"{name}_banks"] = banks
        pass_walk, datapath, maxima = u["pass_walk"], u["datapath"], u["maxima"]
        taken = pass_walk.passes.valid & pass_walk.passes.ready
        done = pass_walk.passes.p.done_north if north else pass_walk.passes.p.done_east
        m.d.comb += [
            getattr(pass_walk, f"{name}_free").eq(~banks.full),
            banks.take.eq(getattr(pass_walk, f"take_{name}")),
            banks.give.eq(drain.freed),
            tiles.i.valid.eq(taken & done),
            tiles.i.payload.eq(pass_walk.tile),
            ended.take.eq(getattr(datapath, f"{name}_done")),
            ended.give.eq(drain.tiles.valid & drain.tiles.ready),
            drain.tiles.valid.eq(tiles.o.valid & ~ended.empty),
            drain.tiles.payload.eq(tiles.o.payload),
            tiles.o.ready.eq(drain.tiles.ready & ~ended.empty),
            drain.mode.eq(self._product.mode),
            drain.exponents.eq(self._product.exponents),
            drain.result.eq(getattr(self._product, f"to_{name}")),
            getattr(datapath, f"{name}_drain_en").eq(drain.read_en),
            getattr(datapath, f"{name}_drain_port").eq(drain.read_port),
            getattr(datapath, f"{name}_drain_addr").eq(drain.read_addr),
            drain.read_data.eq(getattr(datapath, f"{name}_drain_data")),
            getattr(maxima, f"drain_{name}_en").eq(drain.read_en),
        ]
        for part, memory in zip(
            ("stream", "held"), ("west", "north") if north else ("south", "east"), strict=False
        ):
            m.d.comb += [
                getattr(maxima, f"drain_{memory}_index").eq(getattr(drain, f"{part}_index")),
                getattr(drain, f"{part}_value").eq(getattr(maxima, f"drain_{memory}_value")),
            ]
        wiring.connect(m, drain.requests, requests)
        wiring.connect(m, drain.beats, beats)
        return drain

    def _sequence(self, m):
        u = self._units
        in_flight = Signal()
        quiet = Signal(range(QUIET_CYCLES + 1))
        busy_units = [
            u["walk"].busy,
            ~u["chunks"].empty,
            u["passes"].o.valid,
            u["pass_run"].busy,
            ~u["buffers"].empty,
            ~self.writer_idle,
            *(drain.busy for drain in self._drains),
            *(~u[f"{name}_banks"].empty for name in ("east", "north") if f"{name}_banks" in u),
        ]
        m.d.comb += in_flight.eq(Cat(*busy_units).any())
        with m.FSM() as fsm:
            m.d.comb += self.busy.eq(~fsm.ongoing("IDLE"))
            with m.State("IDLE"):
                m.d.comb += u["setup"].start.eq(self.start)
                if "headers" in u:
                    m.d.comb += u["headers"].start.eq(self.start)
                with m.If(self.start):
                    m.next = "SETUP"
            with m.State("SETUP"):
                ready = u["setup"].done
                if "headers" in u:
                    ready = ready & ~u["headers"].busy
                with m.If(ready):
                    m.d.comb += u["walk"].start.eq(1)
                    m.next = "RUN"
            with m.State("RUN"):
                m.d.sync += quiet.eq(quiet + 1)
                with m.If(in_flight):
                    m.d.sync += quiet.eq(0)
                with m.Elif(quiet == QUIET_CYCLES):
                    m.d.comb += self.done.eq(1)
                    m.d.sync += quiet.eq(0)
                    m.next = "IDLE"
