# amaranth: UnusedElaboratable=no
"""The queue, of registers and of both kinds of memory, at every depth where they differ."""

from collections import deque

import pytest
from amaranth.hdl import Mux, unsigned
from amaranth.lib import data

from diastole_hw.memory.distributed_ram import DistributedRam
from diastole_hw.stream import fifo
from diastole_hw.stream.fifo import LEAST_BITS, LEAST_WORDS, StreamFifo
from diastole_sim.spec.sizes.queues import SHORT_QUEUE
from support.bench import design, get, put, simulation
from support.unit_bench import Unit

DEPTHS = [1, 2, 3, SHORT_QUEUE, SHORT_QUEUE + 1, 40]
KINDS = [(depth, False) for depth in DEPTHS] + [(1, True), (SHORT_QUEUE + 1, True), (40, True)]
"""Of queues: the depth, and whether it is to be quick."""
RATES = [(1.0, 1.0), (0.3, 1.0), (1.0, 0.3), (0.5, 0.5)]


@pytest.mark.parametrize("depth, quick", KINDS)
@pytest.mark.parametrize("p_put, p_get", RATES)
@pytest.mark.parametrize("kind", [{}, {"output_register": True}], ids=str)
@pytest.mark.sampled(4)
def test_values_come_out_as_they_went_in(depth, quick, p_put, p_get, kind, rng):
    layout = data.StructLayout({"low": unsigned(5), "high": unsigned(9)})
    dut = design(StreamFifo, layout, depth, quick=quick, **kind)
    cases = [{"low": rng.randrange(32), "high": rng.randrange(512)} for _ in range(150)]
    level = passes(dut, cases, rng, p_put, p_get)
    assert level.values[-1] == 0


def passes(dut, cases, rng, p_put, p_get):
    """All values, in their order; returns the level in each cycle."""
    unit = Unit(dut, rng)
    unit.give(dut.i, cases, p_put)
    unit.take(dut.o, cases, p_get)
    level = unit.record(dut.level)
    unit.run()
    return level


@pytest.mark.parametrize("depth, quick", KINDS)
@pytest.mark.parametrize("kind", [{}, {"output_register": True}], ids=str)
async def test_holds_exactly_its_depth(depth, quick, kind):
    dut = design(StreamFifo, unsigned(8), depth, quick=quick, **kind)
    ctx = await simulation(dut)
    for count in range(depth):
        assert ctx.get(dut.level) == count
        await put(ctx, dut.i, [count])
    assert ctx.get(dut.level) == depth
    assert not ctx.get(dut.i.ready)
    ctx.set(dut.i.valid, 1)  # refused, and nothing is overwritten
    ctx.set(dut.i.payload, 99)
    await ctx.tick().repeat(3)
    ctx.set(dut.i.valid, 0)
    for count in range(depth):
        assert await get(ctx, dut.o) == count
        assert ctx.get(dut.level) == depth - count - 1
        assert ctx.get(dut.o.valid) == (depth - count > 1) or not dut.direct


@pytest.mark.parametrize("depth, quick", KINDS)
@pytest.mark.parametrize("output_register", [False, True])
async def test_latency_and_throughput(depth, quick, output_register):
    """As the docstring has them; the model is a deque with the latency of the queue's kind."""
    dut = design(StreamFifo, unsigned(16), depth, quick=quick, output_register=output_register)
    latency = 1 if quick or depth <= SHORT_QUEUE else 2
    inside = deque()  # (value, cycle in which it can leave)
    taken, released = [], []
    ctx = await simulation(dut)
    ctx.set(dut.i.valid, 1)
    ctx.set(dut.o.ready, 1)
    for cycle in range(60):
        ctx.set(dut.i.payload, cycle)
        _, _, ready, valid, value = await ctx.tick().sample(dut.i.ready, dut.o.valid, dut.o.payload)
        assert valid == bool(inside and inside[0][1] <= cycle), f"cycle {cycle}"
        assert ready == (len(inside) < depth), f"cycle {cycle}"
        if valid:
            assert value == inside.popleft()[0]
            released.append(cycle)
        if ready:
            inside.append((cycle, cycle + latency))
            taken.append(cycle)
    assert released[0] == latency
    assert len(released) == (30 if depth == 1 else 60 - latency)


@pytest.mark.parametrize("depth, quick", KINDS)
@pytest.mark.parametrize("output_register", [False, True])
@pytest.mark.sampled(2)
async def test_every_cycle_against_a_deque(depth, quick, output_register, rng):
    """Both sides at random, from empty to full and back: what is full takes nothing, even as a
    value leaves it, and what is empty gives nothing."""
    dut = design(StreamFifo, unsigned(16), depth, quick=quick, output_register=output_register)
    latency = 1 if quick or depth <= SHORT_QUEUE else 2
    inside = deque()  # (value, cycle in which it can leave)
    full_and_leaving = 0
    ctx = await simulation(dut)
    rising = True
    for cycle in range(40 * depth + 100):
        if len(inside) in (0, depth):
            rising = not inside
        offers = rng.random() < (0.9 if rising else 0.3)
        willing = rng.random() < (0.3 if rising else 0.9)
        ctx.set(dut.i.valid, offers)
        ctx.set(dut.i.payload, cycle)
        ctx.set(dut.o.ready, willing)
        _, _, ready, valid, value, level = await ctx.tick().sample(
            dut.i.ready, dut.o.valid, dut.o.payload, dut.level
        )
        assert (ready, level) == (len(inside) < depth, len(inside)), f"{cycle=}"
        assert valid == bool(inside and inside[0][1] <= cycle), f"{cycle=}"
        if valid:
            assert value == inside[0][0], f"{cycle=}"
        full_and_leaving += offers and not ready and valid and willing
        if valid and willing:
            inside.popleft()
        if offers and ready:
            inside.append((cycle, cycle + latency))
    assert full_and_leaving


class Garbles(DistributedRam):
    """Shows the complement of the word that is being written, as it may."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        shown = m.submodules.words.read_ports[0].data
        collides = self.write_en & (self.write_addr == self.read_addr)
        m.d.comb += self.read_data.eq(Mux(collides, ~shown, shown))
        return m


@pytest.mark.parametrize("depth, quick", [(3, False), (SHORT_QUEUE, False), (40, True)])
@pytest.mark.parametrize("output_register", [False, True])
def test_no_word_is_shown_while_it_is_written(depth, quick, output_register, rng, monkeypatch):
    """The words are those that went in, whatever the memory shows of one that is written."""
    monkeypatch.setattr(fifo, "DistributedRam", Garbles)
    dut = design(StreamFifo, unsigned(14), depth, quick=quick, output_register=output_register)
    passes(dut, [rng.randrange(1 << 14) for _ in range(200)], rng, 0.6, 0.5)


@pytest.mark.parametrize("depth", [LEAST_WORDS - 1, LEAST_WORDS, SHORT_QUEUE])
@pytest.mark.parametrize("output_register", [False, True])
async def test_a_still_queue_shows_nothing_of_what_is_not_taken(
    depth, output_register, rng, monkeypatch
):
    """Where nothing comes, it shows the same in every cycle, whatever is offered, and whatever the
    memory shows of a word that is written."""
    monkeypatch.setattr(fifo, "DistributedRam", Garbles)
    dut = design(
        StreamFifo, unsigned(14), depth, stable_output=True, output_register=output_register
    )
    assert dut.direct
    assert dut.in_registers == (depth < LEAST_WORDS)
    ctx = await simulation(dut)
    for count in range(2 * depth):
        await put(ctx, dut.i, [value := rng.randrange(1 << 14)])
        assert await get(ctx, dut.o) == value
        await ctx.tick()
        shown = ctx.get(dut.o.payload)
        for _ in range(5):
            ctx.set(dut.i.payload, rng.randrange(1 << 14))
            await ctx.tick()
            assert ctx.get(dut.o.payload) == shown, f"after {count + 1} values"


@pytest.mark.parametrize(
    "width, depth, quick, kind",
    [
        (100, LEAST_WORDS - 1, False, "registers"),
        (LEAST_BITS // LEAST_WORDS - 1, LEAST_WORDS, False, "registers"),
        (LEAST_BITS // LEAST_WORDS, LEAST_WORDS, False, "distributed"),
        (8, SHORT_QUEUE, False, "distributed"),
        (8, SHORT_QUEUE + 1, False, "ram"),
        (8, SHORT_QUEUE + 1, True, "distributed"),
        (fifo.REGISTER_BITS, LEAST_WORDS, False, "ram"),
    ],
)
def test_where_the_words_are(width, depth, quick, kind):
    queue = StreamFifo(unsigned(width), depth, quick=quick)
    assert {
        "registers": queue.in_registers,
        "ram": queue.in_ram and not quick,
        "distributed": queue.in_distributed_ram,
    } == {name: name == kind for name in ("registers", "ram", "distributed")}


def test_queues_that_are_one_module():
    """Of values of the same width, depth and make; a shallow one is quick in any case."""

    def module(shape, depth, **kind):
        return StreamFifo(shape, depth, **kind).shared_parameters

    pair = data.StructLayout({"low": unsigned(5), "high": unsigned(9)})
    assert module(pair, 40) == module(unsigned(14), 40) != module(unsigned(13), 40)
    assert module(pair, 40) != module(pair, 40, quick=True)
    assert module(pair, SHORT_QUEUE) == module(pair, SHORT_QUEUE, quick=True)
    assert module(pair, 40) == module(pair, 40, stable_output=True)
    assert module(pair, 40, quick=True) != module(pair, 40, quick=True, stable_output=True)
    assert module(pair, 4) != module(pair, 4, output_register=True)
    assert module(pair, 2) == module(pair, 2, output_register=True), "all of it is in registers"
