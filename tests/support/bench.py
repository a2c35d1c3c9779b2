# amaranth: UnusedElaboratable=no
"""Benches for Amaranth's simulator: a clock, a watchdog, and streams that may stall.

A test that drives a unit by hand is a coroutine. It begins a simulation, or one after the other;
what follows happens in that simulation:

    async def test_sums():
        dut = design(Adder, width=8)
        ctx = await simulation(dut)
        ctx.set(dut.a, 3)
        await ctx.tick()
        assert ctx.get(dut.sum) == 3

A design is compiled once, however often it is run: tests that run the same one with several inputs
get the same object from :func:`design`.
"""

from functools import lru_cache, partial
from inspect import CORO_CLOSED, CORO_SUSPENDED, getcoroutinestate
from types import coroutine
from weakref import WeakKeyDictionary

from amaranth.hdl import ClockDomain, Module, ShapeCastable, Value
from amaranth.sim import Simulator

LIMIT_CYCLES = 20_000
END = object()
MOST_BENCHES = 12
"""Of each kind that a design is run with."""


@lru_cache(maxsize=24)
def design(unit, *args, **parameters):
    """``unit(*args, **parameters)``, the same object for the same parameters."""
    return unit(*args, **parameters)


def run(dut, *benches, limit: int = LIMIT_CYCLES, background=()):
    """Simulate until every bench of ``benches`` has ended; fail after ``limit`` cycles."""

    async def watchdog(ctx):
        await ctx.delay(limit * 1e-8)
        raise AssertionError(f"the machine did not end within {limit} cycles")

    simulation = _simulations.pop(dut, None) or _Simulation(dut)
    simulation.run(benches, (watchdog, *background))
    _simulations[dut] = simulation  # unless it has failed


def simulation(dut, *benches, **options):
    """Begin a simulation in a test that is a coroutine; returns its context. The test is the last
    of the benches; other parameters are those of :func:`run`."""
    return requested(partial(run, dut, *benches, **options))


def end():
    """Wait in a test that is a coroutine until all other benches of its simulation have ended."""
    return requested(END)


@coroutine
def requested(request):
    """Ask :func:`simulate` for an end, or to call ``request`` with the rest of the test."""
    return (yield request)


def simulate(test):
    """Run a test that is a coroutine, one simulation after the other."""
    requests: list = []

    def resume(step, value):
        """What the test waits for, unless it has ended or asks for something."""
        try:
            request = step(value)
        except StopIteration:
            return None
        if isinstance(request, partial) or request is END:
            requests.append(request)
            return None
        return request

    @coroutine
    def bench(ctx):
        request = resume(test.send, ctx)
        while request is not None:
            request = resume(test.send, (yield request))

    resume(test.send, None)
    while requests:
        try:
            if (request := requests.pop()) is END:
                resume(test.send, None)
            else:
                request(bench)
        except Exception as error:  # of another bench, an assertion of the hardware, the watchdog
            if getcoroutinestate(test) != CORO_SUSPENDED:
                raise
            requests.clear()
            resume(test.throw, error)  # where the test waits, which may expect it
    assert getcoroutinestate(test) == CORO_CLOSED, "the test goes on in a simulation that has ended"


class _Simulation:
    """Of a design: what runs in it can be exchanged, and it begins anew each time."""

    def __init__(self, dut):
        top = Module()
        top.domains.sync = ClockDomain()  # also for what is combinational
        top.submodules.dut = dut
        self.sim = Simulator(top)
        self.sim.add_clock(1e-8)
        self.benches: list = []
        self.used = False
        for number in range(2 * MOST_BENCHES):
            bench = self._place(number)
            self.sim.add_testbench(bench, background=number >= MOST_BENCHES)

    def _place(self, number):
        async def bench(ctx):
            if (chosen := self.benches[number]) is not None:
                await chosen(ctx)

        return bench

    def run(self, benches, background):
        empty = [None] * MOST_BENCHES
        self.benches = [*benches, *empty[len(benches) :], *background, *empty[len(background) :]]
        assert len(self.benches) == 2 * MOST_BENCHES, "more benches than there are places"
        if self.used:
            self.sim.reset()  # not at the end: benches that begin and are never run are warned of
        self.used = True
        self.sim.run()
        self.benches = []


_simulations: WeakKeyDictionary[object, _Simulation] = WeakKeyDictionary()


def always() -> bool:
    return True


async def pulse(ctx, signal, value=1):
    """Set a signal for one cycle."""
    ctx.set(signal, value)
    await ctx.tick()
    ctx.set(signal, 0)


async def put(ctx, stream, items, willing=always):
    """Send ``items``; before each offer ``willing()`` says whether to wait a cycle."""
    offered, tick = 0, ctx.tick().sample(stream.ready)
    for item in items:
        while not willing():
            if offered:
                ctx.set(stream.valid, offered := 0)
            await ctx.tick()
        ctx.set(stream.payload, item)
        if not offered:
            ctx.set(stream.valid, offered := 1)
        while not (await tick)[2]:  # `until` would leave a generator behind where a test fails
            pass
    if offered:
        ctx.set(stream.valid, 0)


def members_of(stream, items):
    """Of each item, a structure by the names of its members, those that the stream has."""
    names = stream.p.shape().members
    return [{name: value for name, value in item.items() if name in names} for item in items]


async def get(ctx, stream, willing=always):
    """Receive one value; ready in the cycles in which ``willing()`` says so."""
    shape, bits, ready = stream.payload.shape(), Value.cast(stream.payload), 0
    while True:
        if ready != (ready := int(willing())):
            ctx.set(stream.ready, ready)
        _, _, valid, payload = await ctx.tick().sample(stream.valid, bits)
        if valid and ready:
            ctx.set(stream.ready, 0)
            return shape.from_bits(payload) if isinstance(shape, ShapeCastable) else payload
