# amaranth: UnusedElaboratable=no
"""Counters against sums in Python."""

from diastole_hw.command.counters import COUNTERS, Counters
from diastole_sim.spec.registers import BY_NAME
from support.bench import design, run

STALLS = ("load", "store", "accumulator", "turn")
SINGLE_BITS = ("running", "converting", "multiplying", "read", "written", "converted")


ELEMENTS = ("saturated", "underflowed")
"""Counted a cycle earlier than what is counted in cycles."""


def amounts(events):
    """What one cycle adds to each counter."""
    running = events["multiplying"]
    return {
        "cycles_total": events["running"],
        "cycles": running,
        "convert_cycles": events["converting"],
        "read_beats": running and events["read"],
        "write_beats": running and events["written"],
        "saturated": events["saturated"],
        "underflowed": events["underflowed"],
    } | {f"stall_{cause}": running and events["stalls"][cause] for cause in STALLS}


def random_events(rng):
    events = {name: rng.randrange(2) for name in SINGLE_BITS}
    events["stalls"] = {cause: rng.randrange(2) for cause in STALLS}
    for name in ("saturated", "underflowed"):
        events[name] = rng.choice([0, 0, rng.randrange(1000), 2**31 - 1])
    return events | {"amax": rng.randrange(2**31)}


def test_counts_until_cleared(rng):
    dut = design(Counters)

    async def bench(ctx):
        totals = dict.fromkeys(COUNTERS, 0)
        late = dict.fromkeys(COUNTERS, 0)
        amax = 0  # of the tensor converted last
        for _ in range(400):
            events = random_events(rng)
            clear = rng.random() < 0.02
            ctx.set(dut.events, events)
            ctx.set(dut.clear, clear)
            await ctx.tick()
            for name, amount in amounts(events).items():
                now = amount if name in ELEMENTS else late[name]
                totals[name] = 0 if clear else (totals[name] + now) % 2 ** BY_NAME[name].bits
                late[name] = 0 if clear else amount
            amax = events["amax"] if events["converted"] else amax
            amax = 0 if clear else amax
            got = {name: ctx.get(getattr(dut, name)) for name in COUNTERS}
            assert (got, ctx.get(dut.amax)) == (totals, amax)

    run(dut, bench)


def test_every_counter_is_as_wide_as_its_register():
    dut = design(Counters)
    names = (*COUNTERS, "amax")
    widths = {name: len(getattr(dut, name)) for name in names}
    assert widths == {name: BY_NAME[name].bits for name in names}


def test_what_the_monitor_counted(rng):
    """Of the tensor converted last, until it is cleared; other machines have none."""
    dut = design(Counters, planes=True)
    names = ("improvement_num", "improvement_den")
    assert [len(getattr(dut, name)) for name in names] == [BY_NAME[name].bits for name in names]
    assert not any(hasattr(design(Counters), name) for name in names)

    async def bench(ctx):
        last = dict.fromkeys(names, 0)
        for _ in range(150):
            events = random_events(rng) | {name: rng.getrandbits(32) for name in names}
            clear = rng.random() < 0.05
            ctx.set(dut.events, events)
            ctx.set(dut.clear, clear)
            await ctx.tick()
            if events["converted"]:
                last = {name: events[name] for name in names}
            if clear:
                last = dict.fromkeys(names, 0)
            assert {name: ctx.get(getattr(dut, name)) for name in names} == last

    run(dut, bench)


WAITS = ("vector", "store", "load", "update", "chain", "convert", "command")
"""Of which the first that holds is counted; the last always does."""


def test_every_cycle_is_one_of_a_slot_or_of_a_wait(rng):
    dut = design(Counters, vector=True)
    names = ["busy_slots", *(f"wait_{cause}" for cause in WAITS)]
    assert [len(getattr(dut, name)) for name in names] == [64] * 8
    assert not any(hasattr(design(Counters), name) for name in names)

    async def bench(ctx):
        totals = dict.fromkeys(names, 0)
        late = None
        for cycle in range(600):
            events = random_events(rng) | {"busy_slot": rng.random() < 0.2}
            events["waits"] = {cause: rng.random() < 0.25 for cause in WAITS[:-1]}
            ctx.set(dut.events, events)
            ctx.set(dut.clear, cycle == 50)
            await ctx.tick()
            if cycle == 50:
                totals, late = dict.fromkeys(names, 0), None
                continue
            if late:
                totals[late] += 1
            holds = events["waits"] | {"command": 1}
            first = next(f"wait_{cause}" for cause in WAITS if holds[cause])
            late = ("busy_slots" if events["busy_slot"] else first) if events["running"] else None
            assert {name: ctx.get(getattr(dut, name)) for name in names} == totals
            assert sum(totals.values()) == ctx.get(dut.cycles_total)
        assert all(totals.values())

    run(dut, bench)
