# amaranth: UnusedElaboratable=no
"""Commands on engines that the bench plays: what each is told, when, and what is reported."""

import pytest

from diastole_hw.command.dispatch import Dispatch
from diastole_hw.plan.uses import Mode
from diastole_sim.spec.command import Opcode
from diastole_sim.spec.registers import STALL_CAUSES
from support.bench import design, put, run
from support.plans import make_numerics, make_plan

SIZE_BITS, ADDRESS_BITS = 24, 40
ONE_IMAGE = make_plan(make_numerics(block=4))
TWO_IMAGES = make_plan(make_numerics(block=4, groupings=("4x4", "4x4", "1x8")))
PLANS = {"one image of dY": ONE_IMAGE, "two images of dY": TWO_IMAGES}
RESULTS = {Mode.FORWARD: ("y", "out_a"), Mode.DX: ("dx", "out_a"), Mode.DW: ("dw", "out_a")}
NEST = {"nest_t": 16, "nest_groups": 8, "nest_chunk": 16, "nest_outer": 1, "nest_keep": 2}
SINGLE = {Opcode.FORWARD: Mode.FORWARD, Opcode.DX: Mode.DX, Opcode.DW: Mode.DW}


def random_command(rng, opcode):
    """A command with anything in its fields."""
    fields = {name: rng.randrange(1, 2**SIZE_BITS) for name in ("m", "n", "k")}
    for name in ("address_x", "address_w", "address_dy", "out_a"):
        fields[name] = rng.getrandbits(ADDRESS_BITS)
    if opcode == Opcode.CONVERT:
        fields |= {"class_x": rng.randrange(3), "scale": rng.getrandbits(8)}
        fields |= {"tag": rng.getrandbits(32), "step": rng.getrandbits(32)}
    if opcode in SINGLE:
        fields |= {name: rng.getrandbits(bits) for name, bits in NEST.items()}
    if opcode == Opcode.BACKWARD:
        fields |= {name: rng.getrandbits(ADDRESS_BITS) for name in ("out_b", "address_dy_m")}
    return {"opcode": opcode.value} | fields


def products_of(command, fits, grouped):
    """The products that a command is, each with the operands that count for it."""
    given = {name: command[f"address_{name}"] for name in ("x", "w", "dy")}
    given |= {name: command[name] for name in ("m", "n", "k")}
    given |= {name: command.get(name, 0) for name in NEST}
    opcode = Opcode(command["opcode"])
    if opcode in SINGLE:
        mode = SINGLE[opcode]
        result, field = RESULTS[mode]
        return [(mode, given | {result: command[field]})]
    gradients = {"dw": command["out_a"], "dx": command["out_b"]}
    if fits:
        return [(Mode.FUSED, given | gradients)]
    second = command["address_dy_m"] if grouped else command["address_dy"]
    return [(Mode.DX, given | gradients), (Mode.DW, given | gradients | {"dy": second})]


def conversion_of(command):
    """What the converter is told."""
    same = {name: command[name] for name in ("scale", "tag", "step")}
    return same | {
        "cls": command["class_x"],
        "rows": command["m"],
        "cols": command["n"],
        "source": command["address_x"],
        "destination": command["address_w"],
        "destination_t": command["address_dy"],
    }


async def when(ctx, condition, *values):
    """The values at the first edge at which the condition holds."""
    while True:
        _, _, holds, *found = await ctx.tick().sample(condition, *values)
        if holds:
            return found


class Played:
    """The engines and the writer, and what the dispatcher did with them, in order."""

    def __init__(self, dut, rng):
        self.dut, self.rng = dut, rng
        self.log = []

    async def product(self, ctx):
        """Takes its time; reports at random; must see its operands hold."""
        control, rng = self.dut.product, self.rng
        while True:
            watched = control.mode, control.operands, self.dut.converting
            mode, operands, converting = await when(ctx, control.start, *watched)
            self.log.append(("product", Mode(mode), operands))
            assert not converting, "the converter has the bus"
            for _ in range(rng.randrange(6)):
                ctx.set(control.overflow, rng.randrange(2))
                ctx.set(control.inexact, rng.randrange(2))
                await ctx.tick()
                assert ctx.get(control.operands) == operands, "operands move"
                assert not ctx.get(control.start), "started twice"
            ctx.set(control.overflow, 0)
            ctx.set(control.inexact, 0)
            ctx.set(control.done, 1)
            await ctx.tick()
            ctx.set(control.done, 0)
            self.log.append(("product ends",))

    async def convert(self, ctx):
        """Its last beats are in memory some time after its done."""
        control, rng, dut = self.dut.convert, self.rng, self.dut
        ctx.set(dut.writer_idle, 1)
        while True:
            while rng.random() < 0.5:
                await ctx.tick()
            ctx.set(control.command.ready, 1)
            (command,) = await when(ctx, control.command.valid, control.command.payload)
            ctx.set(control.command.ready, 0)
            ctx.set(dut.writer_idle, 0)
            report = {name: rng.randrange(2) for name in ("nan", "inf")}
            report |= {name: rng.getrandbits(31) for name in ("saturated", "underflowed", "amax")}
            self.log.append(("convert", {name: command[name] for name in CONVERSION}, report))
            for _ in range(rng.randrange(4)):
                await ctx.tick()
            for name, value in report.items():
                ctx.set(getattr(control, name), value)
            ctx.set(control.done, 1)
            await ctx.tick()
            ctx.set(control.done, 0)
            for _ in range(rng.randrange(4)):
                assert ctx.get(dut.converting), "the bus was taken away"
                await ctx.tick()
            ctx.set(dut.writer_idle, 1)
            self.log.append(("convert ends",))

    async def watch(self, ctx):
        """Ends of commands, conversions that are reported, flags."""
        dut = self.dut
        watched = (dut.done, dut.busy, dut.command.ready, dut.events, dut.flags)
        async for _, _, done, busy, ready, events, flags in ctx.tick().sample(*watched):
            assert busy == (not ready), "a command is taken while one is under way"
            assert not (events.converting and events.multiplying)
            if events.converted:
                seen = {
                    name: getattr(events, name) for name in ("saturated", "underflowed", "amax")
                }
                raised = {name for name in FLAG_NAMES if getattr(flags, name)}
                self.log.append(("reported", seen, raised))
            if done:
                self.log.append(("done",))


CONVERSION = (
    *("cls", "rows", "cols", "source", "destination", "destination_t", "tag", "step", "scale"),
)
FLAG_NAMES = ("x_nan", "x_inf", "w_nan", "w_inf", "dy_nan", "dy_inf", "overflow", "inexact")


def expected(commands, log, fits, grouped):
    """The log that the commands must leave; what was random is taken from ``log``."""
    reports = (entry[2] for entry in log if entry[0] == "convert")
    want = []
    for command in commands:
        if command["opcode"] != Opcode.CONVERT:
            for mode, operands in products_of(command, fits, grouped):
                want += [("product", mode, operands), ("product ends",)]
        else:
            report = next(reports)
            name = ("x", "w", "dy")[command["class_x"]]
            raised = {f"{name}_{what}" for what in ("nan", "inf") if report[what]}
            seen = {key: report[key] for key in ("saturated", "underflowed", "amax")}
            want += [("convert", conversion_of(command), report), ("convert ends",)]
            want += [("reported", seen, raised)]
        want.append(("done",))
    return want


def same(got, want):
    if got[0] != "product" or want[0] != "product":
        return got == want
    operands = got[2]
    return got[1] == want[1] and all(operands[name] == value for name, value in want[2].items())


@pytest.mark.parametrize("fits", [0, 1])
@pytest.mark.parametrize("name", PLANS)
def test_every_command_in_its_turn(name, fits, rng):
    plan = PLANS[name]
    dut = design(Dispatch, plan)
    played = Played(dut, rng)
    opcodes = list(Opcode) + [rng.choice(list(Opcode)) for _ in range(25)]
    commands = [random_command(rng, opcode) for opcode in opcodes]

    async def host(ctx):
        ctx.set(dut.product.fits, fits)
        await put(ctx, dut.command, commands, willing=lambda: rng.random() < 0.7)
        while ctx.get(dut.busy):
            await ctx.tick()
        for _ in range(5):
            await ctx.tick()

    run(dut, host, background=(played.product, played.convert, played.watch))
    want = expected(commands, played.log, fits, plan.grouped(2))
    assert len(played.log) == len(want)
    for number, (entry, other) in enumerate(zip(played.log, want, strict=True)):
        assert same(entry, other), f"entry {number}: {entry}, not {other}"


def test_flags_and_stalls_in_the_cycles_in_which_they_happen(rng):
    """Those of the product engine, and only while it runs."""
    dut = design(Dispatch, ONE_IMAGE)
    seen = []

    async def bench(ctx):
        control = dut.product
        ctx.set(dut.writer_idle, 1)
        ctx.set(control.overflow, 1)
        ctx.set(control.inexact, 1)
        await ctx.tick()
        assert not ctx.get(dut.flags.overflow)
        assert not ctx.get(dut.flags.inexact)
        await put(ctx, dut.command, [random_command(rng, Opcode.FORWARD)])
        for _ in range(20):
            overflow, inexact = rng.randrange(2), rng.randrange(2)
            stalls = {cause: rng.randrange(2) for cause in STALL_CAUSES}
            ctx.set(control.overflow, overflow)
            ctx.set(control.inexact, inexact)
            ctx.set(control.stalls, stalls)
            _, _, flags, events = await ctx.tick().sample(dut.flags, dut.events)
            assert (flags.overflow, flags.inexact) == (overflow, inexact)
            assert {cause: events.stalls[cause] for cause in STALL_CAUSES} == stalls
            assert events.multiplying
            seen.append(stalls)
        ctx.set(control.done, 1)
        _, _, done = await ctx.tick().sample(dut.done)
        assert done
        ctx.set(control.done, 0)
        _, _, busy, done, events = await ctx.tick().sample(dut.busy, dut.done, dut.events)
        assert (busy, done, events.multiplying) == (0, 0, 0)

    run(dut, bench)
    assert len(seen) == 20


def test_the_product_must_be_in_memory():
    """An engine that is done too early is stopped in simulation."""
    dut = design(Dispatch, ONE_IMAGE)

    async def bench(ctx):
        await put(ctx, dut.command, [{"opcode": Opcode.FORWARD.value}])
        await ctx.tick()
        ctx.set(dut.product.done, 1)
        await ctx.tick()
        await ctx.tick()

    with pytest.raises(AssertionError, match="done before the last response"):
        run(dut, bench)
