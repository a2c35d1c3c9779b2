"""Products on their way through stages that the bench plays: who is at which, and when they end."""

from collections import deque
from dataclasses import dataclass, field
from itertools import product

import pytest

from diastole_hw.engine.flight import Flight
from diastole_hw.plan.uses import Mode
from diastole_hw.schedule.tokens import product_layout
from support.bench import design, run
from support.plans import make_numerics, make_plan, with_vector

PLAN = make_plan(make_numerics(block=2), 2, 2)
WITH_VECTOR = with_vector(PLAN)
MOST = PLAN.tiling.tiles_in_flight
NORTH = {Mode.FORWARD: PLAN.use(Mode.FORWARD).north, Mode.DX: PLAN.use(Mode.DX).north,
         Mode.DW: PLAN.use(Mode.DW).north, Mode.FUSED: False}  # fmt: skip


@dataclass
class Flown:
    """A product; ``mark`` tells its record from others. Tiles that are to be opened, to be passed
    on to the drains, and to be drained, by direction."""

    mode: Mode
    mark: int
    command: int
    to_open: int
    opened: int = 0
    to_drain: dict = field(default_factory=dict)
    stages: list = field(default_factory=list)
    done: bool = False

    @property
    def directions(self):
        if self.mode == Mode.FUSED:
            return ("east", "north")
        return ("north",) if NORTH[self.mode] else ("east",)


class Stages:
    """Load and execute take their time; the drains too, tile after tile."""

    def __init__(self, dut, rng, modes):
        self.dut, self.rng = dut, rng
        self.waiting = [
            Flown(mode, rng.getrandbits(20), rng.randrange(2), rng.randint(1, 12)) for mode in modes
        ]
        self.flown = []
        self.setting = None  # (product, cycles)
        self.busy = {"load": None, "execute": None}
        self.tiles = {"east": deque(), "north": deque()}
        self.drains = {"east": None, "north": None}  # (product, cycles)
        self.overlaps = set()
        self.most = dict.fromkeys(self.tiles, 0)
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

    def sets_up(self, ctx):
        dut = self.dut
        if self.setting and self.setting[1] > 0:
            self.setting = self.setting[0], self.setting[1] - 1
        ctx.set(dut.set_up_done, bool(self.setting) and self.setting[1] == 0)

    def stages(self, ctx):
        dut = self.dut
        load, execute = self.busy["load"], self.busy["execute"]
        ctx.set(dut.load.busy, load is not None)
        ctx.set(dut.execute.busy, execute is not None)
        opens = False
        if load and load.to_open and ctx.get(dut.room) and self.rng.random() < 0.6:
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
        ports = [dut.load, dut.execute, dut.east, dut.north]
        told = [signal for port in ports for signal in (port.number, port.command)]
        marks = [dut.load.product.t_size, dut.execute.product.t_size]
        marks += [dut.east.product.result.rows, dut.north.product.result.rows]
        _, _, load, execute, anew, done, whose, *rest = await ctx.tick().sample(
            dut.load.start, dut.execute.start, dut.anew, dut.done, dut.done_command, *told, *marks,
            *self._of_chains,
        )  # fmt: skip
        numbers, marks, chains = rest[:8], rest[8:12], rest[12:]
        for place, name in enumerate(("load", "execute")):
            at = self.busy[name]
            begins = (load, execute)[place]
            if begins:
                at = next(each for each in self.live if name not in each.stages)
                before = [each for each in self.live if each is not at]
                assert self.busy[name] is None
                assert anew == (not before) or name == "execute"
                if before:
                    assert Mode.FUSED not in (at.mode, before[0].mode), "the fused pass is alone"
                    self.overlaps.add((before[0].mode, at.mode, name))
                at.stages.append(name)
                self.busy[name] = at
            if at:
                assert (numbers[2 * place], numbers[2 * place + 1]) == (at.number, at.command)
                assert marks[place] == at.mark
        for place, name in enumerate(self.tiles, start=2):
            if self.drains[name]:
                at = self.drains[name][0]
                assert (numbers[2 * place], numbers[2 * place + 1]) == (at.number, at.command)
                assert marks[place] == at.mark
                if chains:
                    chain, oldest = chains[2 * (place - 2) :][:2]
                    assert chain == at.mark & 1
                    assert oldest == (at is self.live[0])
                    self.waited += not oldest
        if done:
            oldest = self.live[0]
            assert whose == oldest.command
            assert oldest.stages == ["load", "execute"]
            assert oldest not in self.busy.values(), "done in a stage"
            assert not any(oldest in queue for queue in self.tiles.values()), "tiles are left"
            assert not any(each and each[0] is oldest for each in self.drains.values())
            oldest.done = True
        self.after(ctx)

    def after(self, ctx):
        """What has changed in this cycle."""
        if self.opens:
            self.opens.to_open -= 1
            for name in self.opens.directions:
                self.tiles[name].append(self.opens)
                self.most[name] = max(self.most[name], len(self.tiles[name]))
                assert len(self.tiles[name]) <= MOST
        for name, at in self.closed.items():
            assert self.tiles[name].popleft() is at
        for name, drain in self.drains.items():
            if drain and drain[1] <= 0 and drain[0] not in self.tiles[name]:
                self.drains[name] = None
        load, execute = self.busy["load"], self.busy["execute"]
        if load and not load.to_open and self.rng.random() < 0.5:
            self.busy["load"] = None
        ended = execute and not execute.to_open and self.busy["load"] is not execute
        if ended and self.rng.random() < 0.3:
            self.busy["execute"] = None
        if self.setting and self.setting[1] == 0 and "load" in self.setting[0].stages:
            self.setting = None
        if self.began:
            number = 1 - self.flown[-1].number if self.flown else 1
            self.began.number = number
            self.flown.append(self.began)
            self.setting = self.began, self.rng.randint(2, 6)
            record = {"mode": self.began.mode, "north": NORTH[self.began.mode]}
            record |= {"t_size": self.began.mark}
            record |= {name: {"rows": self.began.mark} for name in ("to_east", "to_north")}
            if self.dut.plan.vector is not None:
                record |= {"chain": self.began.mark & 1}
            ctx.set(self.dut.set_up, product_layout(self.dut.plan).const(record))


@pytest.mark.parametrize("number", range(6))
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
