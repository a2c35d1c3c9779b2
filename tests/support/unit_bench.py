# amaranth: UnusedElaboratable=no
"""A bench for any unit, by its signature: streams are fed and checked, with stalls.

    def test_sums(rng):
        dut = design(Adder, width=8)
        pairs = [{"a": rng.randrange(256), "b": rng.randrange(256)} for _ in range(100)]
        unit = Unit(dut, rng, pace=0.5)  # each stream moves in half of the cycles
        unit.hold(negate=1)  # a plain input, from the first cycle on
        given = unit.give(dut.i, pairs)
        sums = unit.take(dut.o, [-(p["a"] + p["b"]) % 512 for p in pairs], of=given)
        unit.run()
        assert sums.cycles[0] == given.cycles[0] + 1  # cycles in which a stream moved

A test in which something happens in an order is a coroutine, and a script of the run:

    async def test_a_pause():
        ...
        ctx = await unit.simulation()
        await unit.settled(ctx)
        given.add(others)
        await unit.end()

What holds for every stream of a unit is checked without being asked for: an offer stays as it is
until it is taken, an output that no test names offers nothing, a value that an input is given fits
into it, and once all is given and taken, the unit stays silent. A mismatch names the unit, the
stream, the index, the members that differ and the operand that went in.

Units without handshakes are checked by :mod:`support.pipelines`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from amaranth.hdl import Cat, ShapeCastable, Value
from amaranth.lib import stream
from amaranth.lib.wiring import Out

from support.bench import LIMIT_CYCLES, end, requested, run
from support.unit_values import assign, differences, parts_of, plain, set_members, shown

SILENCE = 8  # cycles at the end


async def until(ctx, signal) -> int:
    """Wait for a cycle in which a signal is high; returns how many it was not in."""
    cycles, tick = 0, ctx.tick().sample(signal)
    while not (await tick)[2]:
        cycles += 1
    return cycles


def output_streams(signature, interface):
    """The ``valid`` of each stream that a unit offers, in whatever interface of its own it is."""
    for name, member in signature.members.items():
        if not member.is_signature:
            continue
        parts = [getattr(interface, name)]
        for _ in member.dimensions:
            parts = [each for part in parts for each in part]
        for part in parts:
            if member.flow == Out and isinstance(member.signature, stream.Signature):
                yield part.valid
            else:  # that of an input is turned around already
                yield from output_streams(member.signature, part)


@dataclass(eq=False)
class Port:
    """A stream: its values, in which cycles they moved, and how willing the bench is. More values
    may be added while the bench runs; None stands for any."""

    stream: stream.Interface
    values: list | None
    pace: Callable[[], bool]
    items: list = field(default_factory=list)  # that have moved
    cycles: list = field(default_factory=list)
    of: "Port | None" = None
    active: int = 0  # valid of a source, ready of a sink
    offered: Any = None  # what waits to be taken, in a sink its bits
    stable: bool = True  # an offer stays until it is taken
    needed: bool = True  # the run goes on until all has moved

    @property
    def name(self):
        return self.stream.valid.name.removesuffix("__valid")

    @property
    def done(self):
        return self.values is None or len(self.items) >= len(self.values)

    def add(self, values: Iterable):
        """Add values, of which a script's are offered from the next cycle on."""
        self.values = [*(self.values or ()), *values]

    def drop(self):
        """Withdraw what has not moved; what is being offered, from the next cycle on."""
        self.values = self.values[: len(self.items)]


@dataclass
class Record:
    """What a signal was in each cycle."""

    raw: list = field(default_factory=list)

    @property
    def values(self):
        return [plain(value) for value in self.raw]

    @property
    def cycles(self):
        """Those in which it was not 0."""
        return [cycle for cycle, value in enumerate(self.values) if value]


class Unit:
    """The bench of one unit. ``pace``: how often its streams may move, a number, or a function that
    is asked in each cycle."""

    def __init__(self, dut, rng=None, *, pace: float | Callable[[], bool] = 1.0):
        self.dut, self.rng, self.pace = dut, rng, pace
        self.held: list = []
        self.sources: list[Port] = []
        self.sinks: list[Port] = []
        self.watched: list = []  # (signals, function of the cycle and their values)
        self.outputs = list(output_streams(dut.signature, dut))  # that nobody takes
        self.background: list = []
        self.cycle = 0

    def hold(self, interface=None, **values):
        """Set plain inputs, of the unit or of an interface, from the first cycle on."""
        self.held.append((interface or self.dut, values))

    def give(self, into, values: Iterable = (), pace=None) -> Port:
        """Send values into a stream."""
        self.sources.append(Port(into, list(values), self._willing(pace)))
        return self.sources[-1]

    def take(self, out, wanted: Iterable = (), pace=None, of: Port | None = None) -> Port:
        """Take these values of a stream, and no others: of a structure the members that a wanted
        one names, of an integer as many parts as a wanted list has; None stands for anything.
        ``of``: the stream whose values they are the results of, one by one."""
        self.sinks.append(Port(out, list(wanted), self._willing(pace), of=of))
        self._leave(out)
        return self.sinks[-1]

    def collect(self, out, pace=None) -> Port:
        """Take any values of a stream; ``items`` has them. With a pace of 0 none is taken."""
        port = self.take(out, (), pace)
        port.values, port.needed = None, pace != 0
        return port

    def serve(self, server, *streams):
        """Leave streams to a coroutine, as a memory has, which runs as long as all else does."""
        for each in streams:
            self._leave(each)
        self.background.append(lambda ctx: server(ctx, *streams))

    def _leave(self, out):
        self.outputs = [valid for valid in self.outputs if valid is not out.valid]

    def record(self, signal) -> Record:
        """Note a signal, or an expression, in every cycle."""
        record = Record()
        self.each_cycle(lambda cycle, value: record.raw.append(value), signal)
        return record

    def each_cycle(self, function, *signals):
        """Call ``function(cycle, *values of signals)`` at the end of every cycle."""
        self.watched.append((signals, function))

    def set(self, ctx, **values):
        """Set plain inputs."""
        set_members(ctx, self.dut, **values)

    async def pulse(self, ctx, name, value=1, **settings):
        """Set plain inputs, and one of them for a cycle alone."""
        set_members(ctx, self.dut, **settings, **{name: value})
        await ctx.tick()
        ctx.set(Value.cast(getattr(self.dut, name)), 0)

    async def settled(self, ctx, silence=0):
        """Wait until all is given and taken, and so many cycles more."""
        while not self.done:
            await ctx.tick()
        for _ in range(silence):
            await ctx.tick()

    @property
    def done(self):
        return all(port.done or not port.needed for port in (*self.sources, *self.sinks))

    def run(self, *scripts, cycles=0, silence=SILENCE, limit=LIMIT_CYCLES):
        """Simulate until ``scripts``, coroutines of a context, have ended, all is given and taken,
        and ``cycles`` have passed; then some in silence."""
        left = [len(scripts)]

        def counted(script):
            async def bench(ctx):
                await script(ctx)
                left[0] -= 1

            return bench

        async def play(ctx):
            await ctx.delay(0)  # a fault below ends a simulation in which all benches have begun
            for interface, values in self.held:
                set_members(ctx, interface, **values)
            quiet = 0
            while quiet < silence or self.cycle < cycles:
                moved = await self._cycle(ctx)
                busy = left[0] or not self.done or self.cycle < cycles or moved
                quiet = 0 if busy else quiet + 1

        self.cycle = 0
        try:
            scripts = map(counted, scripts)
            run(self.dut, play, *scripts, background=self.background, limit=limit)
        except AssertionError as error:
            error.add_note(self._state())
            raise

    def simulation(self, *scripts, **options):
        """Begin a run in a test that is a coroutine, the last of its scripts; returns its context.
        The parameters are those of :meth:`run`."""
        return requested(partial(self.run, *scripts, **options))

    def end(self):
        """Wait in such a test until the run has ended."""
        return end()

    def _willing(self, pace):
        pace = self.pace if pace is None else pace
        if callable(pace):
            return pace
        return (lambda: pace > 0) if pace in (0, 1) else (lambda: self.rng.random() < pace)

    async def _cycle(self, ctx):
        """Play one cycle; returns whether anything was taken, or waits to be."""
        for port in self.sources:
            self._offer(ctx, port)
        for port in self.sinks:
            if port.active != (willing := int(port.pace())):
                ctx.set(port.stream.ready, willing)
                port.active = willing
        sampled = [port.stream.ready for port in self.sources]
        for port in self.sinks:
            sampled += [port.stream.valid, Value.cast(port.stream.payload)]
        sampled.append(Cat(self.outputs))
        for signals, _ in self.watched:
            sampled += signals
        _, _, *values = await ctx.tick().sample(*sampled)
        for port in self.sources:
            if values.pop(0) and port.active:
                port.items.append(port.offered)
                port.cycles.append(self.cycle)
                port.offered = None
        for port in self.sinks:
            self._check(port, values.pop(0), values.pop(0))
        if offers := values.pop(0):
            names = [valid.name for n, valid in enumerate(self.outputs) if offers >> n & 1]
            where = f"{type(self.dut).__name__}, cycle {self.cycle}"
            raise AssertionError(f"{where}: {', '.join(names)}, which no test takes")
        for signals, function in self.watched:
            function(self.cycle, *(values.pop(0) for _ in signals))
        self.cycle += 1
        moved = any(port.cycles[-1:] == [self.cycle - 1] for port in self.sinks)
        return moved or any(port.offered is not None and port.needed for port in self.sinks)

    def _offer(self, ctx, port):
        if port.done:
            port.offered = None
        elif port.offered is None and port.pace():
            port.offered = port.values[len(port.items)]
            assign(ctx, port.stream.payload, port.offered, port.name)
        if port.active != (active := int(port.offered is not None)):
            ctx.set(port.stream.valid, active)
            port.active = active

    def _check(self, port, valid, bits):
        """What an output offers in this cycle."""
        if port.offered is not None and port.stable:
            assert valid, f"{self._where(port)} is withdrawn before it is taken"
            assert bits == port.offered, f"{self._where(port)} changes before it is taken"
        port.offered = bits if valid and not port.active else None
        if not valid:
            return
        shape = port.stream.payload.shape()
        got = plain(shape.from_bits(bits)) if isinstance(shape, ShapeCastable) else bits
        if port.values is not None:
            assert not port.done, f"{self._where(port)}: extra output {shown(got)}"
            want = port.values[len(port.items)]
            seen = got if isinstance(want, dict | list | tuple) else bits
            if isinstance(want, list) and isinstance(seen, int):
                seen = parts_of(bits, len(port.stream.payload), len(want))
            found = differences(want, seen)
            assert not found, f"{self._where(port)}: {'; '.join(found)}; {self._operands(port)}"
        if port.active:
            port.items.append(got)
            port.cycles.append(self.cycle)

    def _where(self, port):
        return f"{type(self.dut).__name__}, cycle {self.cycle}: {port.name}[{len(port.items)}]"

    def _operands(self, port):
        """What went in: the operand of the same index, or the last of each stream."""
        number = len(port.items)
        if port.of and number < len(port.of.items):
            return f"{port.of.name}[{number}] was {shown(port.of.items[number])}"
        last = [each for each in self.sources if each.items]
        came = (f"{port.name}[{len(port.items) - 1}] {shown(port.items[-1])}" for port in last)
        return f"last came {', '.join(came)}"

    def _state(self):
        """How far the streams have come."""
        ports = (port for port in (*self.sources, *self.sinks) if port.values is not None)
        return ", ".join(f"{port.name} {len(port.items)} of {len(port.values)}" for port in ports)
