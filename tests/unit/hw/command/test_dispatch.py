# amaranth: UnusedElaboratable=no
"""Commands on engines that the bench plays: what each is told, when it starts and ends, and what is
reported. All that moves is noted by its cycle, and checked afterwards."""

from dataclasses import dataclass, field
from itertools import pairwise, product

import pytest
from amaranth.hdl import Const

from diastole_hw.command.dispatch import Dispatch, require_waits
from diastole_hw.engine.product_control import STALLS
from diastole_hw.plan.modes import Mode
from diastole_sim.spec.command_table import Opcode
from diastole_sim.spec.registers import VECTOR_WAIT_CAUSES, WAIT_CAUSES
from support.bench import design, pulse, run, simulation
from support.plans import make_numerics, make_plan

SIZE_BITS, ADDRESS_BITS = 24, 40
ONE_IMAGE = make_plan(make_numerics(block=4))
TWO_IMAGES = make_plan(make_numerics(block=4, groupings=("4x4", "4x4", "1x8")))
PLANS = {"one image of dY": ONE_IMAGE, "two images of dY": TWO_IMAGES}
RESULTS = {Mode.FORWARD: ("y", "out_a"), Mode.DX: ("dx", "out_a"), Mode.DW: ("dw", "out_a")}
NEST = {"nest_t": 16, "nest_groups": 8, "nest_chunk": 16, "nest_outer": 1, "nest_keep": 2}
SINGLE = {Opcode.FORWARD: Mode.FORWARD, Opcode.DX: Mode.DX, Opcode.DW: Mode.DW}


KINDS = ("convert", "forward", "dx", "dw", "backward", "two products")
FLAG_NAMES = ("x_nan", "x_inf", "w_nan", "w_inf", "dy_nan", "dy_inf", "overflow", "inexact")
REPORT = ("amax",)


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


def command_of(rng, kind, ahead=0):
    """Of one of ``KINDS``."""
    opcode = Opcode.BACKWARD if kind == "two products" else Opcode[kind.upper()]
    command = random_command(rng, opcode)
    return command | {"ahead": ahead, "m": command["m"] & ~1 | (kind != "two products")}


def kind_of(command):
    opcode = Opcode(command["opcode"])
    both = opcode == Opcode.BACKWARD and not fits(command)
    return "two products" if both else opcode.name.lower()


def fits(command):
    """What the engine that is played here has room for."""
    return command["m"] & 1


def products_of(command, grouped):
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
    if fits(command):
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


@dataclass
class Life:
    """Of a command: the cycles in which it was offered first, its parts started and ended, and it
    was done. A part is a product, or all of a conversion."""

    command: dict
    number: int
    offered: int
    parts: list
    before: "Life | None"
    starts: list = field(default_factory=list)
    ends: list = field(default_factory=list)
    done: int | None = None

    @property
    def converts(self):
        return self.command["opcode"] == Opcode.CONVERT

    def may_start(self, cycle):
        """Its first part, if the engine takes it: behind the end of the command before it; where
        it is ahead, behind its last start."""
        before, last = self.before, None
        if before is not None:
            last = before.done
            if self.command["ahead"] and len(before.starts) == len(before.parts):
                last = before.starts[-1]
            if last is None:
                return False
            if before.before is not None:  # two are in flight at most
                if before.before.done is None:
                    return False
                last = max(last, before.before.done)
        return cycle >= self.offered and (last is None or cycle > last)


class Played:
    """The engines and the writer, and what the dispatcher must do with them in every cycle.

    ``batches``: (number of the first, commands), each behind the end of all before. ``chances``, in
    a cycle: that an engine is ready, that it ends its oldest work, and that all that a command has
    written is answered, if it was not before its work ended.
    """

    def __init__(self, dut, rng, batches, chances, grouped):
        self.dut, self.rng, self.batches, self.grouped = dut, rng, list(batches), grouped
        self.p_ready, self.p_end, self.p_answer = chances
        self.lives, self.products, self.conversion = [], [], None
        self.queue, self.offer = [], None
        self.answered = [1, 1]
        self.cycle = 0
        self.overlaps = set()  # kinds of commands that were at work together
        self.met = set()

    @property
    def here(self):
        return [life for life in self.lives if life.done is None]

    def chance(self, p):
        return int(self.rng.random() < p)

    def offers(self, ctx):
        """A command, until it is taken; numbers alternate, but those of batches."""
        dut = self.dut
        if not self.queue and self.batches and not self.here:
            first, commands = self.batches.pop(0)
            self.queue = [((first + n) % 2, command) for n, command in enumerate(commands)]
        if self.offer is None and self.queue and self.chance(0.8):
            self.offer = self.queue.pop(0)
            self.begins(*self.offer)
            ctx.set(dut.command.payload, self.offer[1])
        ctx.set(dut.command.valid, self.offer is not None)
        ctx.set(dut.number, self.offer[0] if self.offer else self.rng.randrange(2))

    def plays(self, ctx):
        """The engines, in this cycle; gives what they say."""
        control, convert, rng = self.dut.product, self.dut.convert, self.rng
        said = {
            "ready": len(self.products) <= 1 and self.chance(self.p_ready),
            "takes": self.conversion is None and self.chance(self.p_ready),
            "ends": bool(self.products) and self.chance(self.p_end),
            "converted": self.conversion is not None and self.chance(self.p_end),
            "report": {name: rng.getrandbits(31) for name in REPORT},
            "seen": {name: rng.randrange(2) for name in ("nan", "inf", "overflow", "inexact")},
            "stalls": {cause: rng.randrange(2) for cause, _ in STALLS},
            "slot": rng.randrange(2),
        }
        ctx.set(control.fits, fits({"m": ctx.get(control.operands.m)}))
        ctx.set(control.ready, said["ready"])
        ctx.set(control.done, said["ends"])
        ctx.set(control.done_command, self.products[0].number if said["ends"] else rng.randrange(2))
        ctx.set(control.stalls, said["stalls"])
        ctx.set(control.slot, said["slot"])
        ctx.set(convert.command.ready, said["takes"])
        ctx.set(convert.done, said["converted"])
        for name, value in (said["report"] | said["seen"]).items():
            unit = control if name in ("overflow", "inexact") else convert
            ctx.set(getattr(unit, name), value)
        if said["ends"]:
            self.products.pop(0).ends.append(self.cycle)
        return said

    def answers(self, ctx):
        """By number: while it is at work, in any cycle or not; then once it is, it stays so."""
        for number in range(2):
            mine = [life for life in self.here if life.number == number and life.starts]
            if not mine:
                self.answered[number] = 1
            elif len(mine[0].ends) < len(mine[0].parts) or mine[0].ends[-1] == self.cycle:
                self.answered[number] = self.rng.randrange(2)
            else:
                self.answered[number] |= self.chance(self.p_answer)
        ctx.set(self.dut.answered, self.answered[0] | self.answered[1] << 1)

    async def play(self, ctx):
        dut, quiet = self.dut, 0
        control, convert = dut.product, dut.convert
        while quiet < 5:
            self.offers(ctx)
            said = self.plays(ctx)
            converting = self.conversion
            if said["converted"]:
                self.conversion.ends.append(self.cycle)
                self.conversion = None
            self.answers(ctx)
            _, _, ready, done, events, flags, number, *told = await ctx.tick().sample(
                dut.command.ready, dut.done, dut.events, dut.flags, dut.convert_number,
                control.start, control.mode, control.operands, control.command,
                convert.command.valid, convert.command.payload,
            )  # fmt: skip
            self.check_starts(said, told)
            self.check_reports(said, converting, number, events, flags)
            self.check_end(done)
            last = self.lives[-1].starts if self.offer else []
            whole = bool(last) and len(last) == len(self.lives[-1].parts)
            starts = whole and last[-1] == self.cycle
            assert ready == starts, "taken with its last start"
            if ready:
                self.offer = None
            idle = not (self.here or self.offer or self.queue or self.batches)
            quiet = quiet + 1 if idle else 0
            self.cycle += 1

    def begins(self, number, command):
        parts = ["convert"]
        if command["opcode"] != Opcode.CONVERT:
            parts = products_of(command, self.grouped)
        before = self.lives[-1] if self.lives else None
        self.lives.append(Life(command, number, self.cycle, parts, before))

    def check_starts(self, said, told):
        """The next part in order starts as soon as it may and its engine is ready, and is told what
        its command says; nothing else starts."""
        starts, mode, operands, number, offered, conversion = told
        due = next((life for life in self.here if len(life.starts) < len(life.parts)), None)
        if due and not (due.starts or due.may_start(self.cycle)):
            due = None
        assert offered == (due is not None and due.converts)
        assert starts == (due is not None and not due.converts and said["ready"])
        if offered:
            wanted = conversion_of(due.command)
            assert {name: conversion[name] for name in wanted} == wanted
        if starts:
            wanted, given = due.parts[len(due.starts)]
            assert (Mode(mode), number) == (wanted, due.number)
            assert {name: operands[name] for name in given} == given
            self.products.append(due)
        if offered and said["takes"]:
            self.conversion = due
        if starts or (offered and said["takes"]):
            others = [life for life in self.here if life is not due and life.starts]
            self.overlaps |= {(kind_of(life.command), kind_of(due.command)) for life in others}
            due.starts.append(self.cycle)

    def check_reports(self, said, converting, number, events, flags):
        """What runs in this cycle, and what the engines say of it."""
        running = [life for life in self.here if life.starts or life.may_start(self.cycle)]
        multiplies = any(not life.converts for life in running)
        assert events.running == bool(running)
        assert events.converting == any(life.converts for life in running)
        assert events.multiplying == multiplies
        assert (events.read, events.written, events.saturated, events.underflowed) == (0, 0, 0, 0)
        stalls = {cause: multiplies and said["stalls"][cause] for cause, _ in STALLS}
        assert events.busy_slot == said["slot"]
        holds = dict.fromkeys(VECTOR_WAIT_CAUSES, False) | {
            "store": stalls["store"] or stalls["accumulator"],
            "load": stalls["load"],
            "convert": events.converting,
        }
        assert {cause: bool(events.waits[cause]) for cause in WAIT_CAUSES[:-1]} == holds
        assert converting is None or number == converting.number
        assert events.converted == said["converted"]
        raised = {name for name in ("overflow", "inexact") if multiplies and said["seen"][name]}
        if said["converted"]:
            name = ("x", "w", "dy")[converting.command["class_x"]]
            raised |= {f"{name}_{what}" for what in ("nan", "inf") if said["seen"][what]}
            assert {name: events[name] for name in REPORT} == said["report"]
        assert {name for name in FLAG_NAMES if flags[name]} == raised

    def check_end(self, done):
        """The oldest is done when its engine is, in the next cycle for a conversion, and all that
        it wrote is answered."""
        oldest = self.here[0] if self.here else None
        ended = (
            oldest is not None
            and len(oldest.ends) == len(oldest.parts)
            and self.cycle >= oldest.ends[-1] + oldest.converts
            and self.answered[oldest.number]
        )
        assert done == bool(ended)
        if done:
            if len(self.here) > 1 and len(self.here[1].ends) == len(self.here[1].parts):
                self.met.add("the second ended first")
            self.met.add("late" if self.cycle > oldest.ends[-1] + oldest.converts else "at once")
            oldest.done = self.cycle


PACES = {
    "at once": (1.0, 1.0, 1.0),
    "engines are slow": (0.5, 0.15, 1.0),
    "answers are slow": (1.0, 0.7, 0.05),
    "all is slow": (0.6, 0.2, 0.1),
}


def pairs(rng, count):
    """Batches in which every kind is beside every other, and is ahead of it or is not."""
    found = [
        (
            rng.randrange(2),
            [command_of(rng, first, rng.randrange(2)), command_of(rng, second, ahead)],
        )
        for first, second in product(KINDS, repeat=2)
        for ahead in (0, 1)
        for _ in range(count)
    ]
    rng.shuffle(found)
    return found


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("pace", PACES)
@pytest.mark.sampled(8)
def test_every_pair_of_commands(pace, name, rng):
    """The second begins in the cycle in which it may, whatever the two are."""
    plan = PLANS[name]
    dut = design(Dispatch, plan)
    count = 3 if pace == "all is slow" else 1
    played = Played(dut, rng, pairs(rng, count), PACES[pace], plan.grouped(2))
    run(dut, played.play)
    assert len(played.lives) == 2 * count * 2 * len(KINDS) ** 2
    if pace == "all is slow":
        assert played.overlaps == set(product(KINDS, repeat=2))
        assert played.met == {"the second ended first", "late", "at once"}


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("p_ahead", [0.0, 0.7, 1.0])
@pytest.mark.sampled(8)
def test_long_lists_of_commands(p_ahead, pace, name, rng):
    """Two are in flight at most, they start and end in their order."""
    plan = PLANS[name]
    dut = design(Dispatch, plan)
    batches = [
        (first, [command_of(rng, rng.choice(KINDS), rng.random() < p_ahead) for _ in range(length)])
        for first, length in ((0, 25), (1, 1), (1, 10), (0, 1), (0, 9))
    ]
    played = Played(dut, rng, batches, PACES[pace], plan.grouped(2))
    run(dut, played.play)
    for before, life in pairwise(played.lives):
        assert before.starts[-1] < life.starts[0]
        assert before.done < life.done
        assert life.command["ahead"] or before.done < life.starts[0]
    assert bool(played.overlaps) == (p_ahead > 0)


async def test_only_two_are_in_flight(rng):
    """Of three that are all ahead the third waits for the end of the first: two are in flight."""
    dut = design(Dispatch, ONE_IMAGE)
    commands = [command_of(rng, kind, 1) for kind in ("forward", "convert", "forward")]
    control = dut.product
    ctx = await simulation(dut)
    ctx.set(dut.answered, 3)
    ctx.set(control.ready, 1)
    ctx.set(dut.convert.command.ready, 1)
    for number, command in enumerate(commands):
        ctx.set(dut.command.payload, command)
        ctx.set(dut.number, number % 2)
        ctx.set(dut.command.valid, 1)
        if number < 2:
            _, _, ready = await ctx.tick().sample(dut.command.ready)
            assert ready
    await pulse(ctx, dut.convert.done)
    for _ in range(5):
        _, _, ready, starts, done = await ctx.tick().sample(
            dut.command.ready, control.start, dut.done
        )
        assert (ready, starts, done) == (0, 0, 0)
    ctx.set(control.done, 1)
    _, _, ready, done = await ctx.tick().sample(dut.command.ready, dut.done)
    assert (ready, done) == (0, 1)
    ctx.set(control.done, 0)
    _, _, ready, starts, number, done = await ctx.tick().sample(
        dut.command.ready, control.start, control.command, dut.done
    )
    assert (ready, starts, number, done) == (1, 1, 0, 1)


PLANES = make_plan(make_numerics(block=4, formats="fast", widths=(2, 4, 6, 8), fraction=30))


async def test_planes_are_told(rng):
    """Those of every operand of a product, of a conversion what it is to store; with its end comes
    what the monitor has counted of it."""
    dut = design(Dispatch, PLANES)
    improvement = ("improvement_num", "improvement_den")
    ctx = await simulation(dut)
    control, convert = dut.product, dut.convert
    ctx.set(control.ready, 1)
    ctx.set(control.fits, 1)
    ctx.set(convert.command.ready, 1)
    ctx.set(dut.answered, 3)
    for number in range(24):
        opcode = rng.choice([Opcode.CONVERT, *SINGLE, Opcode.BACKWARD])
        widths = {f"width_{name}": rng.randrange(4) for name in ("x", "w", "dy")}
        if opcode == Opcode.CONVERT:
            widths = {"width": rng.randrange(4)}
        ctx.set(dut.command.payload, random_command(rng, opcode) | widths)
        ctx.set(dut.number, number % 2)
        ctx.set(dut.command.valid, 1)
        told = None
        while told is None:
            _, _, starts, planes, converts, given = await ctx.tick().sample(
                control.start, control.operands.planes, convert.command.valid,
                convert.command.p.planes,
            )  # fmt: skip
            if converts:
                told = [given]
            elif starts:
                told = [planes[cls] for cls in range(3)]
        assert told == list(widths.values()), opcode.name
        ctx.set(dut.command.valid, 0)
        counted = {name: rng.getrandbits(32) for name in improvement}
        for name, value in counted.items():
            ctx.set(getattr(convert, name), value)
        ctx.set(convert.done if opcode == Opcode.CONVERT else control.done, 1)
        ctx.set(control.done_command, number % 2)
        events = (await ctx.tick().sample(dut.events))[2]
        ctx.set(convert.done, 0)
        ctx.set(control.done, 0)
        assert events.converted == (opcode == Opcode.CONVERT)
        if events.converted:
            assert {name: events[name] for name in improvement} == counted
        await ctx.tick().repeat(5)


def test_a_wait_cause_without_a_condition_is_refused():
    conditions = dict.fromkeys(WAIT_CAUSES[:-1], Const(0, 1))
    require_waits(conditions, has_vector=True)
    with pytest.raises(
        AssertionError, match=r"^conditions are needed for .*'load'.*, not .'store'"
    ):
        require_waits({"store": Const(0, 1), "convert": Const(0, 1)}, has_vector=False)
    with pytest.raises(AssertionError, match=r"^conditions are needed for"):
        require_waits(conditions, has_vector=False)
