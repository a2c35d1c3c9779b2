"""A unit that fetches commands, for its benches: commands in memory, and engines that end them."""

from support.bench import always, pulse
from support.unit_bench import Unit


class Host:
    """Serves a fetch unit's requests from an array of commands at ``base``; a background bench."""

    def __init__(self, dut, commands, base=0, willing=always):
        self.dut, self.base, self.willing = dut, base, willing
        self.memory = b"".join(command.encode() for command in commands)
        self.requests = []

    async def serve(self, ctx, *_):
        """One request after the other; what stops the machine clears the reader."""
        dut, requests, beats = self.dut, self.dut.read.requests, self.dut.read.beats
        waiting: list = []
        ready = offered = False
        tick = ctx.tick().sample(
            requests.valid, requests.payload, beats.ready, dut.clear | dut.error_code.any()
        )
        while True:
            if ready != (ready := not waiting and self.willing()):
                ctx.set(requests.ready, ready)
            if offered != (offered := bool(waiting) and (offered or self.willing())):
                ctx.set(beats.valid, offered)
            if offered:
                ctx.set(beats.payload, waiting[0])
            _, _, asks, request, taken, stopped = await tick
            if offered and taken:
                waiting.pop(0)
                offered = False
                ctx.set(beats.valid, 0)
            if asks and ready:
                waiting = self._beats(request.addr, request.beats)
            if stopped:
                waiting = []

    def _beats(self, address, count):
        self.requests.append((address, count))
        size = self.dut.limits.data_width // 8
        first = address - self.base
        places = range(first, first + count * size, size)
        return [int.from_bytes(self.memory[at : at + size], "little") for at in places]


async def begin(ctx, dut, **settings):
    """Start; without other settings one command at address 0, in all of memory."""
    usual = {"address": 0, "count": 1, "base": 0, "limit": 2**40 - 1}
    for name, value in (usual | settings).items():
        ctx.set(getattr(dut, name), value)
    await pulse(ctx, dut.start)


def fields_of(command, signal):
    """A command as hardware has it in a signal."""
    return {name: getattr(command, name) for name in signal.shape().members}


class Machine(Unit):
    """A fetch unit with its host, the register of the step, and engines that take commands and end
    them in their order, each in the cycle after it was taken at the earliest; ``slow`` is the
    chance to wait. Notes the cycles of what happens."""

    def __init__(self, dut, commands, rng, *, base=0, slow=0.0, step=0):
        super().__init__(dut, rng)
        self.slow, self.step = slow, step
        self.host = Host(dut, commands, base, lambda: rng.random() >= slow / 2)
        self.serve(self.host.serve, dut.read.requests, dut.read.beats)
        self.taken = self.collect(dut.command, 1 - slow)
        self.asked: list = []  # first offer of each request
        self.offered: list = []  # likewise of each command
        self.fetched: list = []  # last beat
        self.ends: list = []
        self.finished: list = []
        self.stepped: list = []
        self.steps: list = []  # that were begun
        self.beats = 0
        self.before = (0, 0)
        beat = dut.read.beats.valid & dut.read.beats.ready
        watched = (dut.read.requests.valid, dut.command.valid, beat, dut.finished, dut.busy)
        self.each_cycle(self._note, *watched)
        self.background.append(self._engines)

    def _note(self, cycle, asks, offers, beat, finished, busy):
        assert busy or not (asks or offers)
        self.asked += [cycle] * (asks and not self.before[0])
        self.offered += [cycle] * (offers and not self.before[1])
        self.finished += [cycle] * finished
        self.before = asks, offers
        self.beats += beat
        if beat and self.beats % (512 // self.dut.limits.data_width) == 0:
            self.fetched.append(cycle)

    async def _engines(self, ctx):
        dut = self.dut
        has_steps = hasattr(dut, "step_set")
        stepped = (dut.step_set, dut.step_next) if has_steps else ()
        while True:
            ends = len(self.ends) < len(self.taken.items) and self.rng.random() >= self.slow
            ctx.set(dut.done, ends)
            if has_steps:
                ctx.set(dut.step, self.step)
            _, _, *step = await ctx.tick().sample(*stepped)
            if has_steps and step[0]:
                assert len(self.ends) == len(self.taken.items), "a step ended before its commands"
                self.step = (self.step + 1) % 2**32
                assert step[1] == self.step
                self.steps.append(self.step)
                self.stepped.append(self.cycle - 1)
            self.ends += [self.cycle - 1] * ends

    async def ended(self, ctx):
        """Wait until nothing runs."""
        while ctx.get(self.dut.busy):
            await ctx.tick()
