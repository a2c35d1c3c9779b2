# amaranth: UnusedElaboratable=no
"""The shared lanes between two drains that want words at once, and a bus that takes them slowly."""

from collections import deque

import pytest

from diastole_hw.memory.maxima import drain_entries
from diastole_hw.store.float_pipe import FloatPipe
from diastole_sim.spec.sizes.queues import FLOAT_WORDS
from oracle.product import binary32_bits
from support.bench import design, pulse, simulation
from support.floats import encoded, nearest
from support.plans import make_numerics, make_plan, with_vector

TO_COLUMNS, TO_ROWS = 5, 7  # cycles from a word's read
NAN = 0x7FC0_0000
MACHINES = {  # numerics; rows, columns, bits of the bus
    "alike": ({"block": 2}, 2, 2, 64),
    "one direction": ({"block": 2, "in_place": False}, 2, 2, 64),
    "words of two and of one": ({"block": 2, "special": "poison"}, 1, 2, 256),
    "words of one and of four": ({"block": 2}, 4, 1, 256),
    "by row": ({"block": 4, "groupings": (None, "1x8", None), "special": "poison"}, 2, 2, 256),
    "floats": ({"block": 2, "accumulator": {"kind": "float", "mantissa": 9, "chunk": 8}}, 2, 2, 64),
    "words of two parts": (
        {"block": 4, "groupings": (None, None, "1x8"), "special": "poison"},
        2,
        2,
        64,
    ),
    "words of four parts, by row": (
        {"block": 8, "groupings": ("1x8", "1x8", "1x8"), "special": "poison"},
        2,
        2,
        64,
    ),
    "floats of two parts": (
        {
            "block": 2,
            "in_place": False,
            "accumulator": {"kind": "float", "mantissa": 9, "chunk": 8},
        },
        2,
        2,
        32,
    ),
    "looked up late": ({"block": 2, "special": "poison", "late": True}, 1, 2, 256),
    "looked up late, words of four parts": (
        {"block": 8, "groupings": ("1x8", "1x8", "1x8"), "late": True},
        2,
        2,
        64,
    ),
}

CHAINED = {"alike", "words of one and of four"}
"""Those that have a vector unit: it is told whether words are inside."""


def make(name):
    numerics, rows, cols, data_width = MACHINES[name]
    numerics = dict(numerics)
    in_place = numerics.pop("in_place", True)
    late = numerics.pop("late", False)
    plan = make_plan(
        make_numerics(**numerics), rows, cols, in_place, data_width, output_register=late
    )
    return with_vector(plan) if name in CHAINED else plan


class Side:
    """A drain that wants words, in every cycle with some probability, and checks its floats."""

    def __init__(self, dut, plan, direction, rng, *, p_want, p_ready, transposed=0.0):
        self.port = getattr(dut, direction)
        self.plan, self.rng = plan, rng
        self.north = direction == "north"
        self.turned_at_all = hasattr(self.port, "transposed")
        self.p_want, self.p_ready, self.p_turned = p_want, p_ready, transposed
        self.offset = rng.randrange(-100, 300)
        self.rows, self.columns = deque(), deque()  # (cycle of the read, floats, vectors)
        self.inside = 0  # words of rows that were read, and have not left
        self.granted = self.overflows = self.waited = 0
        self.free = 0  # when another word may be read
        self.looked_up = None  # what streams, and is held, of the last word

    def draw(self, ctx):
        """What is wanted in the next cycle."""
        port, rng = self.port, self.rng
        self.wanted = (
            rng.randrange(1, 1 << len(port.requested)) if rng.random() < self.p_want else 0
        )
        self.transposed = self.turned_at_all and rng.random() < self.p_turned
        ctx.set(port.requested, self.wanted)
        if self.turned_at_all:
            ctx.set(port.transposed, self.transposed)
        self.last_part = rng.randrange(self.plan.word_parts)
        if self.plan.word_parts > 1:
            ctx.set(port.last_part, self.last_part)
        self.ready = rng.random() < self.p_ready
        ctx.set(port.rows.ready, self.ready)
        ctx.set(port.offset, self.offset)

    def show(self, ctx, granted, cycle):
        """The word of a read, in the cycle after it; noise, and no sums, if there was none."""
        port, rng, plan = self.port, self.rng, self.plan
        lanes, vectors = len(port.sums), len(port.requested)
        half = 1 << (plan.accumulator_bits - 1)
        per_vector = lanes // vectors
        read = [granted and self.wanted >> (n // per_vector) & 1 for n in range(lanes)]
        if granted:
            self.free = cycle + 1 + self.last_part
            self.wanted_lanes = lanes * (1 + self.last_part) // plan.word_parts
        sums = [
            rng.randrange(-half, half) >> rng.randrange(plan.accumulator_bits) if here else 0
            for here in read
        ]
        poison = [bool(here and plan.poison and rng.random() < 0.1) for here in read]
        if plan.floats:
            sums = [nearest(total, 9) for total in sums]
        ctx.set(port.sums, [encoded(total, 9) for total in sums] if plan.floats else sums)
        stream, stationary = rng.randrange(256), [rng.randrange(256) for _ in port.stationary]
        before = self.looked_up
        if granted or plan.word_parts == 1:  # they stay for all parts of a word
            self.looked_up = stream, stationary
        shown = before if plan.output_register else self.looked_up
        if shown is not None:
            ctx.set(port.stream, shown[0])
            ctx.set(port.stationary, shown[1])
        if plan.poison:
            ctx.set(port.poison, sum(bit << n for n, bit in enumerate(poison)))
        if not granted:
            return
        floats, too_large = [], False
        for n in range(lanes):
            scale = stream + stationary[n * len(stationary) // lanes] - self.offset
            bits, overflow = binary32_bits(sums[n], scale)
            floats.append(NAN if poison[n] else bits)
            too_large |= overflow and not poison[n] and bool(read[n]) and n < self.wanted_lanes
        self.granted += 1
        self.overflows += too_large
        queue = self.columns if self.transposed else self.rows
        queue.append((cycle + self.last_part, floats[: self.wanted_lanes]))
        self.inside += not self.transposed

    def check(self, cycle, shown, word, columns):
        """What leaves in a cycle."""
        if shown and self.ready:
            read, floats = self.rows.popleft()
            assert list(word)[: len(floats)] == floats
            assert cycle - read >= TO_ROWS
            self.inside -= 1
        elif not shown and self.rows:
            assert cycle - self.rows[0][0] < TO_ROWS + 2, "a word is there, and not shown"
        if columns is not None:
            due = bool(self.columns) and cycle - self.columns[0][0] == TO_COLUMNS
            assert columns.valid == due, "nothing holds a column up"
            if due:
                _, floats = self.columns.popleft()
                assert list(columns.floats)[: len(floats)] == floats


RATES = {  # by direction: wanted, taken; of the words to the north so many columns
    "free": ((1.0, 1.0), (0.7, 1.0), 0.5),
    "slow bus": ((1.0, 0.2), (1.0, 0.1), 0.0),
    "columns beside slow rows": ((1.0, 0.1), (0.6, 0.2), 1.0),
    "gaps": ((0.3, 0.6), (0.4, 0.5), 0.5),
    "north stands still": ((1.0, 1.0), (1.0, 0.0), 0.0),
    "east stands still": ((1.0, 0.0), (0.5, 1.0), 0.3),
}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("rates", RATES)
@pytest.mark.sampled(18)
async def test_every_word_in_its_place(machine, rates, rng):
    plan = make(machine)
    dut = design(FloatPipe, plan)
    of_east, of_north, transposed = RATES[rates]
    rates_of = {"east": of_east, "north": of_north}
    sides = [
        Side(dut, plan, name, rng, p_want=want, p_ready=take, transposed=transposed)
        for name in plan.directions
        for want, take in [rates_of[name]]
    ]
    overflows = []
    ctx = await simulation(dut)
    for side in sides:
        side.draw(ctx)
        side.show(ctx, False, 0)
    for cycle in range(200 + 100 * plan.word_parts):
        watched = [dut.overflow]
        for side in sides:
            port = side.port
            watched += [port.may, port.granted, port.full, port.rows.valid, port.rows.payload]
            watched.append(port.columns if side.turned_at_all else port.granted)
            watched.append(getattr(port, "inside", port.full))
        _, _, overflow, *seen = await ctx.tick().sample(*watched)
        overflows.append(overflow)
        # the lanes are at a word, or a side that goes first is granted
        before = any(cycle < side.free for side in sides)
        for number, side in reversed(list(enumerate(sides))):
            may, granted, full, shown, word, columns, inside = seen[7 * number :][:7]
            if plan.vector is not None:
                assert inside == (side.inside > 0)
            assert full == (side.inside == FLOAT_WORDS)
            assert may == (not full and not before)
            assert granted == (side.wanted != 0 and may)
            before |= granted
            side.check(cycle, shown, word, columns if side.turned_at_all else None)
            side.show(ctx, granted, cycle)
            side.draw(ctx)
    for side in sides:
        if side.p_ready == 0.0:
            assert side.inside == FLOAT_WORDS, "no more than the queue has room for"
        else:
            assert side.granted > 30
    still_inside = 2 * (TO_COLUMNS + plan.word_parts)
    assert sum(overflows) >= sum(side.overflows for side in sides) - still_inside
    assert any(overflows)


@pytest.mark.parametrize("machine", ["alike", "words of two parts", "words of four parts, by row"])
async def test_a_word_as_often_as_it_has_parts(machine):
    """In one direction, to its rows; the first after their latency."""
    plan = make(machine)
    parts = {"alike": 1, "words of two parts": 2, "words of four parts, by row": 4}[machine]
    assert plan.word_parts == parts
    dut = design(FloatPipe, plan)
    port = getattr(dut, plan.directions[0])
    grants, shown = [], []
    ctx = await simulation(dut)
    ctx.set(port.requested, 1)
    ctx.set(port.rows.ready, 1)
    if parts > 1:
        ctx.set(port.last_part, parts - 1)
    for _ in range(100):
        _, _, granted, valid = await ctx.tick().sample(port.granted, port.rows.valid)
        grants.append(granted)
        shown.append(valid)
    rhythm = [1, *[0] * (parts - 1)] * 100
    latency = TO_ROWS + parts - 1
    assert grants == rhythm[:100]
    assert shown == ([0] * latency + rhythm)[:100]


@pytest.mark.parametrize("direction", ["east", "north"])
async def test_offsets_go_with_their_direction(direction):
    """The same sum and exponents in both, and offsets one apart: results that differ by half."""
    plan = make("alike")
    dut = design(FloatPipe, plan)
    got = []
    ctx = await simulation(dut)
    for name, offset in (("east", 200), ("north", 201)):
        port = getattr(dut, name)
        ctx.set(port.offset, offset)
        ctx.set(port.stream, 100)
        ctx.set(port.stationary, [100] * drain_entries(plan, name)["stationary"].count)
        ctx.set(port.rows.ready, 1)
    port = getattr(dut, direction)
    await pulse(ctx, port.requested)
    ctx.set(port.sums, [4] * len(port.sums))
    for _ in range(12):
        _, _, valid, word = await ctx.tick().sample(port.rows.valid, port.rows.payload)
        ctx.set(port.sums, [0] * len(port.sums))
        got.extend(list(word) * valid)
    assert set(got) == {binary32_bits(4, 0 if direction == "east" else -1)[0]}
