"""Products on their way through stages that the bench plays: who is at which, and when they end."""

from collections import deque
from dataclasses import dataclass, field
from itertools import product

import pytest

from diastole_hw.engine.flight import Flight
from diastole_hw.plan.modes import Mode
from diastole_hw.schedule.tokens import product_layout
from support.bench import design, run
from support.plans import make_numerics, make_plan, with_vector
from support.sweep import sweep

PLAN = make_plan(make_numerics(block=2), 2, 2)
WITH_VECTOR = with_vector(PLAN)
T_STEPS = [1 << log for log in range(PLAN.tile_blocks.bit_length())]
MOST = PLAN.tiling.tiles_in_flight
NORTH = {Mode.FORWARD: PLAN.use(Mode.FORWARD).north, Mode.DX: PLAN.use(Mode.DX).north,
         Mode.DW: PLAN.use(Mode.DW).north, Mode.FUSED: False}  # fmt: skip


@dataclass
class Flown:
    """A product; ``mark`` tells its record from others. Tiles that are to be opened."""

    mode: Mode
    mark: int
    command: int
    t_step: int
    to_open: int
    stages: list = field(default_factory=list)
    done: bool = False

    @property
    def directions(self):
        if self.mode == Mode.FUSED:
            return ("east", "north")
        return ("north",) if NORTH[self.mode] else ("east",)


class Stages:
    """Load and execute take their time, the one asks for chunks of a tile each that the other cuts;
    the drains too, tile after tile."""

    def __init__(self, dut, rng, modes):
        self.dut, self.rng = dut, rng
        self.waiting = [
            Flown(
                mode, rng.getrandbits(16), rng.randrange(2), rng.choice(T_STEPS), rng.randint(1, 12)
            )
            for mode in modes
        ]
        self.flown = []
        self.setting = None  # (product, cycles)
        self.load = None
        self.chunks = deque()  # their products
        self.cut = None  # the product of a chunk that is cut in this cycle
        self.tiles = {"east": deque(), "north": deque()}
        self.drains = {"east": None, "north": None}  # (product, cycles)
        self.seen = dict.fromkeys(self.tiles, False)
        self.before = dict.fromkeys(self.tiles)  # who was drained in the cycle before
        self.overlaps = set()
        self.waited = 0  # cycles in which a drain has tiles of a product that is not the oldest

    @property
    def live(self):
        return [each for each in self.flown if not each.done]

    async def play(self, ctx):
        while self.waiting or self.live:
            self.sets_up(ctx)
            self.stages(ctx)
            self.starts(ctx)
            self.stores(ctx)
            await self.watch(ctx)
        assert not ctx.get(self.dut.busy)

    def starts(self, ctx):
        dut = self.dut
        start = bool(self.waiting) and ctx.get(dut.ready) and self.rng.random() < 0.7
        ctx.set(dut.start, start)
        self.began = None
        if start:
            assert len(self.live) <= 1
            self.began = self.waiting.pop(0)
            ctx.set(dut.command, self.began.command)
        mark = self.began.mark if start else 7
        mark *= dut.plan.beat_bytes
        ctx.set(dut.results, {name: {"base": mark, "pitch": mark} for name in self.tiles})

    def sets_up(self, ctx):
        dut = self.dut
        if self.setting and self.setting[1] > 0:
            self.setting = self.setting[0], self.setting[1] - 1
        ctx.set(dut.set_up_done, bool(self.setting) and self.setting[1] == 0)

    def stages(self, ctx):
        dut = self.dut
        load, first = self.load, self.chunks[0] if self.chunks else None
        ctx.set(dut.load.busy, load is not None)
        ctx.set(dut.execute.waits, first is not None)
        ctx.set(dut.execute.next, first.number if first else self.rng.randrange(2))
        mine = first and ctx.get(dut.execute.number) == first.number
        self.cut = first if mine and self.rng.random() < 0.4 else None
        opens = False
        if load and load.to_open and ctx.get(dut.space) and self.rng.random() < 0.6:
            opens = True
        ctx.set(dut.opens, opens)
        self.opens = load if opens else None

    def stores(self, ctx):
        self.closed = {}
        for name, queue in self.tiles.items():
            port, drain = getattr(self.dut, name), self.drains[name]
            ctx.set(port.waits, bool(queue))
            ctx.set(port.next, queue[0].number if queue else self.rng.randrange(2))
            mine = bool(queue) and ctx.get(port.number) == queue[0].number
            mine, self.seen[name] = mine and self.seen[name], mine  # as the engine offers tiles
            if drain is None and mine and self.rng.random() < 0.7:
                self.drains[name] = drain = [queue[0], self.rng.randint(1, 6)]
            closes = False
            if drain is not None:
                drain[1] -= 1
                closes = drain[1] <= 1 and bool(queue) and queue[0] is drain[0]
            ctx.set(port.busy, drain is not None)
            ctx.set(port.closes, closes)
            if closes:
                self.closed[name] = queue[0]

    @property
    def _of_chains(self):
        """What drains are told in a machine with a vector unit."""
        if self.dut.plan.vector is None:
            return []
        drains = self.dut.east, self.dut.north
        return [each for drain in drains for each in (drain.product.chain, drain.oldest)]

    async def watch(self, ctx):
        dut = self.dut
        ports = [dut.load, dut.east, dut.north]
        told = [signal for port in ports for signal in (port.number, port.command)]
        marks = [dut.load.product.t_size]
        marks += [dut.east.result.base, dut.north.result.base]
        pitches = [dut.east.result.tile_pitch, dut.north.result.tile_pitch]
        execute = dut.execute.product.stationary_stride
        _, _, load, anew, done, owner_tag, cut_mark, *rest = await ctx.tick().sample(
            dut.load.start, dut.load.from_idle, dut.done, dut.done_command, execute, *told, *marks,
            *pitches, *self._of_chains,
        )  # fmt: skip
        numbers, marks, pitches, chains = rest[:6], rest[6:9], rest[9:11], rest[11:]
        if load:
            at = next(each for each in self.live if "load" not in each.stages)
            assert self.load is None
            self.begins("load", at)
            assert anew == (self.live == [at])
            self.load = at
        if self.load:
            assert (numbers[0], numbers[1]) == (self.load.number, self.load.command)
            assert marks[0] == self.load.mark
        if self.cut:
            assert cut_mark == self.cut.mark % 2 ** len(dut.execute.product.stationary_stride)
            if "execute" not in self.cut.stages:
                self.begins("execute", self.cut)
        for place, name in enumerate(self.tiles, start=1):
            if self.drains[name]:
                at = self.drains[name][0]
                assert (numbers[2 * place], numbers[2 * place + 1]) == (at.number, at.command)
                beat = self.dut.plan.beat_bytes
                assert marks[place] == at.mark * beat
                # Known from the second cycle of a drain on, before its second tile.
                tile = at.t_step * self.dut.plan.block * beat  # rows
                assert pitches[place - 1] == at.mark * tile or self.before[name] is not at
                if chains:
                    chain, oldest = chains[2 * (place - 1) :][:2]
                    assert chain == at.mark & 1
                    assert oldest == (at is self.live[0])
                    self.waited += not oldest
        if done:
            oldest = self.live[0]
            assert owner_tag == oldest.command
            assert oldest.stages == ["load", "execute"]
            assert oldest is not self.load, "done while it is loaded"
            assert oldest not in self.chunks, "chunks are left"
            assert not any(oldest in queue for queue in self.tiles.values()), "tiles are left"
            assert not any(each and each[0] is oldest for each in self.drains.values())
            oldest.done = True
        self.after(ctx)

    def begins(self, name, at):
        """A stage does, with a product."""
        before = self.live[: self.live.index(at)]
        if before:
            assert Mode.FUSED not in (at.mode, before[0].mode), "the fused pass is alone"
            self.overlaps.add((before[0].mode, at.mode, name))
        at.stages.append(name)

    def after(self, ctx):
        """What has changed in this cycle."""
        self.before = {name: drain and drain[0] for name, drain in self.drains.items()}
        if self.opens:
            self.opens.to_open -= 1
            self.chunks.append(self.opens)
            for name, tiles in self.tiles.items():
                waiting = sum(name in each.directions for each in self.chunks)
                assert waiting + len(tiles) <= MOST
        if self.cut:
            assert self.chunks.popleft() is self.cut
            for name in self.cut.directions:
                self.tiles[name].append(self.cut)
        for name, at in self.closed.items():
            assert self.tiles[name].popleft() is at
        for name, drain in self.drains.items():
            if drain and drain[1] <= 0 and drain[0] not in self.tiles[name]:
                self.drains[name] = None
        if self.load and not self.load.to_open and self.rng.random() < 0.5:
            self.load = None
        if self.setting and self.setting[1] == 0 and "load" in self.setting[0].stages:
            self.setting = None
        if self.began:
            number = 1 - self.flown[-1].number if self.flown else 1
            self.began.number = number
            self.flown.append(self.began)
            self.setting = self.began, self.rng.randint(2, 6)
            record = {"mode": self.began.mode, "north": NORTH[self.began.mode]}
            low = self.began.mark % 2 ** len(self.dut.execute.product.stationary_stride)
            record |= {"t_size": self.began.mark, "stationary_stride": low}
            record |= {"t_step": self.began.t_step}
            if self.dut.plan.vector is not None:
                record |= {"chain": self.began.mark & 1}
            ctx.set(self.dut.set_up, product_layout(self.dut.plan).const(record))


@pytest.mark.parametrize("number", [0, *map(sweep, (1, 2, 3)), 4, sweep(5)])
def test_products_in_every_order(number, rng):
    plan = PLAN if number < 4 else WITH_VECTOR
    dut = design(Flight, plan)
    modes = [mode for pair in product(Mode, repeat=2) for mode in pair]
    rng.shuffle(modes)
    stages = Stages(dut, rng, modes * 2)
    run(dut, stages.play)
    assert len(stages.flown) == 2 * len(modes)
    assert all(each.done for each in stages.flown)
    beside = {name for *_, name in stages.overlaps}
    assert beside == {"load", "execute"}, "none beside another"
    assert not any(Mode.FUSED in pair for *pair, _ in stages.overlaps)
    assert plan is PLAN or stages.waited, "none drains beside an older one"
