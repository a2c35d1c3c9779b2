"""The slots and held words of passes against what a pass promises, cycle by cycle."""

import itertools

import pytest

from diastole_hw.execute.slots import PassRun
from diastole_hw.schedule.tokens import CHUNK_ENDS, pass_layout
from support.bench import put, simulation
from support.plans import make_numerics, make_plan

PLACES = ("stream", "stationary", "west")
SHORTEST = 4  # cycles between two swaps
USES = {"east": (1, 0), "north": (0, 1), "both": (1, 1)}
SIZES = [(1, 1, 1), (1, 1, 4), (2, 3, 2), (3, 2, 4)]  # rows, columns, B


NOTHING = dict.fromkeys(("valid", "done_east", "done_north"), 0)
NOTHING |= {"frees": dict.fromkeys(PLACES, 0)}


FLOATS = {"kind": "float", "mantissa": 9, "chunk": 24}


def runner(rows, cols, block, **options):
    return PassRun(make_plan(make_numerics(block=block, **options), rows=rows, cols=cols))


def random_pass(rng, plan, uses, t_count):
    most_held = plan.stationary_words - plan.rows * plan.block
    most_sum = plan.sum_words - plan.tile_words
    east, north = uses
    return {
        "t_count": t_count,
        "stationary_addr": rng.randrange(most_held + 1),
        "rows_valid": rng.randrange(1, plan.rows + 1),
        "cols_valid": rng.randrange(1, plan.cols + 1),
        "south_addr": rng.randrange(most_sum),
        "west_addr": rng.randrange(most_sum),
        "east_addr": rng.randrange(most_sum),
        "north_addr": rng.randrange(most_sum),
        "use_east": east,
        "use_north": north,
    } | {
        name: rng.randrange(2)
        for name in ("fresh_east", "fresh_north", "done_east", "done_north", *CHUNK_ENDS)
        if name in pass_layout(plan).members
    } | {"frees": {place: rng.randrange(2) for place in PLACES}}  # fmt: skip


def slots_of(given):
    """What the slots of a pass say: first all of one direction, then all of the other."""
    for north in (0, 1):
        if not given[("use_east", "use_north")[north]]:
            continue
        side, name = (("south", "east"), ("west", "north"))[north]
        for t in range(given["t_count"]):
            last = t == given["t_count"] - 1
            ends = last and (north or not given["use_north"])
            yield {
                "valid": 1,
                "direction": north,
                f"{side}_addr": given[f"{side}_addr"] + t,
                "sum_addr": given[f"{name}_addr"] + t,
                "fresh": given[f"fresh_{name}"],
                **{
                    what: given[f"{what}_{name}"]
                    for what in ("begins", "ends")
                    if f"{what}_{name}" in given
                },
                "frees": given["frees"] if ends else NOTHING["frees"],
                "done_east": not north and last and given["done_east"],
                "done_north": north and last and given["done_north"],
            }


class Record:
    """What a run of passes did, and the cycles of it: by cycle slots, held words and flags; by pass
    the cycles in which it was taken, swapped in, and loaded."""

    def __init__(self, dut, given):
        self.dut, self.plan, self.given = dut, dut.plan, given
        self.slots, self.stationary, self.flags, self.taken = [], [], [], []

    async def watch(self, ctx, cycles):
        dut = self.dut
        watched = (
            dut.slot,
            dut.stationary,
            dut.busy,
            dut.starved,
            dut.passes.valid,
            dut.passes.ready,
        )
        for cycle in range(cycles):
            _, _, slot, word, busy, starved, valid, ready = await ctx.tick().sample(*watched)
            self.slots.append(slot)
            self.stationary.append(word)
            self.flags.append((busy, starved))
            self.taken += [cycle] * (valid and ready)
        assert not ctx.get(dut.busy), "not at its end"

    @property
    def swaps(self):
        return [cycle for cycle, slot in enumerate(self.slots) if slot.swap]

    @property
    def loads(self):
        """By pass: the cycles of its held words."""
        words = self.plan.rows * self.plan.block
        cycles = [cycle for cycle, word in enumerate(self.stationary) if word.valid]
        assert len(cycles) == words * len(self.given)
        return [cycles[k : k + words] for k in range(0, len(cycles), words)]

    @property
    def costs(self):
        words = self.plan.rows * self.plan.block
        return [
            max(one["t_count"] * (one["use_east"] + one["use_north"]), words, SHORTEST)
            for one in self.given
        ]

    def check(self):
        self._check_slots()
        self._check_loads()
        self._check_times()

    def _check_slots(self):
        wanted = dict.fromkeys(range(len(self.slots)), NOTHING)
        for one, swap in zip(self.given, self.swaps, strict=True):
            wanted |= enumerate(slots_of(one), start=swap + 1)
        for cycle, want in wanted.items():
            slot = self.slots[cycle]
            got = {name: slot[name] for name in want}
            got["frees"] = {place: slot.frees[place] for place in PLACES}
            assert got == want, f"cycle {cycle}"

    def _check_loads(self):
        for number, (one, cycles) in enumerate(zip(self.given, self.loads, strict=True)):
            for word, cycle in enumerate(cycles):
                want = {name: one[name] for name in ("rows_valid", "cols_valid")}
                want |= {"row": word // self.plan.block, "index": word % self.plan.block}
                want |= {"addr": one["stationary_addr"] + word}
                got = {name: self.stationary[cycle][name] for name in want}
                assert got == want, f"pass {number}, {word=}"

    def _check_times(self):
        """A pass is loaded at once, but not over one that waits, and runs as soon as it may."""
        swaps, last_cycles = self.swaps, []
        before = SHORTEST + 1  # reset counts as a pass
        for number, (taken, cycles) in enumerate(zip(self.taken, self.loads, strict=True)):
            assert cycles == list(range(taken + 1, taken + 1 + len(cycles))), f"pass {number}"
            assert not number or cycles[0] >= swaps[number - 1], f"pass {number} over a waiting one"
            assert swaps[number] == max(cycles[-1] + 1, before), f"swap of pass {number}"
            before = swaps[number] + self.costs[number]
            last_cycles.append(swaps[number] + sum(1 for _ in slots_of(self.given[number])) - 1)
        inside = {
            cycle
            for taken, last in zip(self.taken, last_cycles, strict=True)
            for cycle in range(taken + 1, last + 1)
        }
        for cycle, flags in enumerate(self.flags):
            assert flags == (cycle in inside, cycle not in inside), f"busy, starved, cycle {cycle}"


async def test_ends_of_chunks_go_with_their_direction(rng):
    dut = runner(2, 3, 2, accumulator=FLOATS)
    record = Record(dut, [random_pass(rng, dut.plan, (1, 1), 4) for _ in range(12)])
    ctx = await simulation(dut, lambda ctx: put(ctx, dut.passes, record.given))
    await record.watch(ctx, sum(record.costs) + 30)
    record.check()


@pytest.mark.parametrize("uses", USES.values(), ids=USES)
@pytest.mark.parametrize("rows, cols, block", SIZES)
@pytest.mark.sampled(3)
async def test_passes_follow_each_other_without_bubbles(rows, cols, block, uses, rng):
    """A pass costs max(slots, R B, 4) cycles, and the next is loaded from its swap on."""
    dut = runner(rows, cols, block)
    counts = [1, 2, 3, 4, 5, 1, 11, 12, 13, 1, 1, 30, 1, dut.plan.tile_words, 2]
    record = Record(dut, [random_pass(rng, dut.plan, uses, count) for count in counts])
    ctx = await simulation(dut, lambda ctx: put(ctx, dut.passes, record.given))
    await record.watch(ctx, sum(record.costs) + rows * block + 20)
    record.check()
    swaps = record.swaps
    assert [b - a for a, b in itertools.pairwise(swaps)] == record.costs[:-1]
    first_words = [cycles[0] for cycles in record.loads]
    assert first_words[1:] == swaps[:-1], "the first word of a pass comes with the swap"


@pytest.mark.parametrize("p_put", [0.5, 0.1])
@pytest.mark.parametrize("rows, cols, block", SIZES)
@pytest.mark.sampled(2)
async def test_passes_of_every_kind_that_come_late(rows, cols, block, p_put, rng):
    dut = runner(rows, cols, block)
    given = [
        random_pass(rng, dut.plan, rng.choice([*USES.values()]), rng.randrange(1, 20))
        for _ in range(15)
    ]
    record = Record(dut, given)
    ctx = await simulation(
        dut, lambda ctx: put(ctx, dut.passes, given, lambda: rng.random() < p_put)
    )
    await record.watch(ctx, 900)
    record.check()


async def test_one_pass_streams_and_one_waits(rng):
    """A third is taken with the next swap."""
    dut = runner(2, 1, 2)
    record = Record(dut, [random_pass(rng, dut.plan, (1, 1), 40) for _ in range(3)])
    ctx = await simulation(dut, lambda ctx: put(ctx, dut.passes, record.given))
    await record.watch(ctx, 300)
    first, second, _ = record.swaps  # each shown a cycle late
    assert record.taken == [0, first - 1, second - 1]
