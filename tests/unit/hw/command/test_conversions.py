# amaranth: UnusedElaboratable=no
"""Conversions of commands and of chains on a converter that the bench plays: their order, what it
is told, and the scales of slots."""

from dataclasses import dataclass, replace

import pytest

from diastole_hw.command.conversions import Conversions
from diastole_sim.device.conversion import Conversion
from diastole_sim.golden.convert import quantise
from diastole_sim.golden.improvement import Improvement
from diastole_sim.spec.command import scale_field
from diastole_sim.spec.scales import amax_exponent
from support.bench import design, get, pulse, put, simulation
from support.plans import make_numerics, make_plan, with_vector
from support.unit_bench import Unit, until

NUMERICS = make_numerics(
    block=4,
    formats=("fp8_e4m3", "bfp4", "fp8_e5m2"),
    groupings=(None, "1x8", None),
    source="delayed",
)
ONE = 0x3F800000


@pytest.fixture(scope="module")
def plan():
    return with_vector(make_plan(NUMERICS))


@dataclass
class Slots:
    """The table of magnitudes, read one cycle late."""

    dut: Conversions
    words: dict

    async def play(self, ctx):
        signals = [
            getattr(self.dut, name)
            for name in ("amax_en", "amax_at", "amax_put_en", "amax_put_at", "amax_put")
        ]
        async for _, _, en, at, put_en, put_at, value in ctx.tick().sample(*signals):
            if en:
                ctx.set(self.dut.amax, self.words.get(at, 0))
            if put_en:
                self.words[put_at] = value


def field_of(plan, cls, magnitude):
    """The field ``scale`` that a slot's magnitude gives, or None, no slot, of the scale 1; 0 where
    the class has none."""
    chosen = plan.tensor_class(cls)
    if not chosen.has_tensor_scale:
        return 0
    if magnitude is None:
        return scale_field(chosen.format.unit_exponent, chosen.format)
    return scale_field(amax_exponent(magnitude or ONE, chosen), chosen.format)


def test_it_is_the_scale_of_the_golden_model():
    """What a slot gives is what a conversion would measure."""
    import numpy as np

    data = np.array([[3.0, -100.0]], np.float32)
    for name in ("x", "dy"):
        measured = quantise(
            data, Conversion(name, tag=0, step=0), replace(NUMERICS, source="current"), seed=0
        )
        chosen = NUMERICS.tensor_class(name)
        assert measured.tensor_exponent == amax_exponent(measured.amax, chosen)


@pytest.mark.parametrize("images", [False, True], ids=["commands", "both"])
async def test_conversions(plan, images, rng):
    dut = design(Conversions, plan)
    slots = Slots(dut, {11: 0x42C80000})
    jobs = [
        {
            "cls": rng.randrange(3), "rows": rng.randrange(1, 99), "cols": rng.randrange(1, 99),
            "tag": rng.getrandbits(32), "slot": rng.choice([0, 4, 8, 255]),
        }
        for _ in range(24)
    ]  # fmt: skip
    commands = [
        job
        | {
            "source": 8 * n,
            "destination": 16 * n,
            "destination_t": 5,
            "step": 3 + n // 3,
            "scale": n,
        }
        for n, job in enumerate(jobs[:12])
    ]
    cuts = [{"cut": n % 2, "high": n, "wide": 2 * n, "by_columns": n // 2 % 2} for n in range(12)]
    chains = [
        job | {"address": 32 * n, "offset": 64, "cut": cuts[n]} for n, job in enumerate(jobs[12:])
    ]
    told, done = [], {"done": 0, "image_done": 0}

    async def converter(ctx, stream):
        while True:
            given = await get(ctx, stream, lambda: rng.random() < 0.5)
            told.append({name: given[name] for name in given.shape().members})
            told[-1]["cut"] = {name: given.cut[name] for name in cuts[0]}
            for _ in range(rng.randrange(4)):
                await ctx.tick()
            magnitude = rng.getrandbits(31)
            ctx.set(dut.converter.amax, magnitude)
            ctx.set(dut.converter.done, 1)
            assert ctx.get(dut.cls) == given.cls
            for name in done:
                done[name] += ctx.get(getattr(dut, name))
            await ctx.tick()
            ctx.set(dut.converter.done, 0)
            told[-1]["left"] = magnitude

    unit = Unit(dut, rng, pace=0.5)
    unit.hold(step=9)
    unit.give(dut.requested, commands)
    unit.give(dut.image, chains if images else [])
    unit.serve(converter, dut.converter.command)
    unit.background.append(slots.play)
    ctx = await unit.simulation()
    while sum(done.values()) < len(commands) + images * len(chains):
        await ctx.tick()
    await unit.end()
    waiting = {0: list(commands), 1: list(chains) if images else []}
    kept = {3: [0, 0, 0x42C80000]}  # largest, step, that of the step before
    for each in told:
        asked = waiting[each["streamed"]].pop(0)
        for name in ("cls", "rows", "cols", "tag"):
            assert each[name] == asked[name]
        slot = asked["slot"] - 1
        two = plan.tensor_class(asked["cls"]).two_copies
        if each["streamed"]:
            assert each["destination"] == asked["address"]
            assert each["destination_t"] == (asked["address"] + 64 if two else 0)
            assert each["step"] == 9
            assert each["cut"] == asked["cut"]
        else:
            assert each["cut"] == dict.fromkeys(cuts[0], 0)
            assert each["destination_t"] == 5
            assert each["step"] == asked["step"]
        if slot >= 0:
            largest, step, before = kept.get(slot, [0, 0, 0])
            if step != each["step"]:
                largest, before = 0, largest
            assert each["scale"] == field_of(plan, asked["cls"], before)
            kept[slot] = [max(largest, each["left"]), each["step"], before]
        elif each["streamed"]:
            assert each["scale"] == field_of(plan, asked["cls"], None)
        else:
            assert each["scale"] == asked["scale"]
    assert not waiting[0]
    assert not waiting[1]
    for slot, words in kept.items():
        assert [slots.words.get(3 * slot + n, 0) for n in range(3)] == words
    assert done == {"done": len(commands), "image_done": images * len(chains)}


async def test_an_image_without_a_slot_has_the_scale_1(plan):
    """And nothing of the slot before."""
    dut = design(Conversions, plan)
    slots = Slots(dut, {9: 0x42C80000, 10: 5})
    job = {"cls": 0, "rows": 1, "cols": 1, "address": 0, "offset": 0, "tag": 0}
    unit = Unit(dut)
    unit.give(dut.image, [job | {"slot": 4}, job | {"slot": 0}])
    commands = unit.collect(dut.converter.command)
    unit.background.append(slots.play)
    ctx = await unit.simulation()
    for _ in range(2):
        await until(ctx, dut.converter.command.valid)
        ctx.set(dut.converter.amax, 0x42C80000)
        await pulse(ctx, dut.converter.done)
    await unit.end()
    told = [command["scale"] for command in commands.items]
    assert told == [field_of(plan, 0, 0x42C80000), field_of(plan, 0, None)]
    assert told[0] != told[1]


FAST = make_numerics(block=4, formats=("fast", "bfp2", "fast"), headroom=8)


async def test_widths_of_slots(rng):
    """By the slot's next; the decision, of what was counted, is the one after that."""
    dut = design(Conversions, with_vector(make_plan(FAST)))
    eps = dict(enumerate(rng.sample([0, 2**15, 2**18 - 1], 3)))
    widths = {slot: rng.randrange(4) for slot in range(3)}
    jobs = [
        {
            "cls": rng.choice([0, 2]), "rows": 1, "cols": 1, "slot": rng.randrange(1, 4),
            "by_slot": rng.randrange(2), "decides": rng.randrange(2),
        }
        for _ in range(40)
    ]  # fmt: skip
    jobs.append({"cls": 1, "rows": 1, "cols": 1, "slot": 0, "by_slot": 0, "decides": 0})
    chosen = [rng.randrange(2) for _ in jobs]
    images = [rng.random() < 0.5 for _ in jobs]
    counted = [(rng.randrange(100), rng.randrange(100)) for _ in jobs]
    amax = {}

    async def slots(ctx):
        signals = [
            dut.amax_en, dut.amax_at, dut.amax_put_en, dut.amax_put_at, dut.amax_put,
            dut.width_put_en, dut.width_put,
        ]  # fmt: skip
        async for _, _, en, at, put_en, put_at, value, width_put_en, width in ctx.tick().sample(
            *signals
        ):
            ctx.set(dut.eps, rng.getrandbits(18))
            ctx.set(dut.widths, rng.getrandbits(2))
            if en:
                ctx.set(dut.eps, eps[at])
                ctx.set(dut.widths, widths[at])
            if put_en:
                amax[put_at] = value
            if width_put_en:
                assert put_en
                widths[put_at] = width

    ctx = await simulation(dut, background=[slots], limit=5000)
    for number, job in enumerate(jobs):
        before = dict(widths)
        if images[number]:
            await put(ctx, dut.image, [job])
        else:
            await put(ctx, dut.requested, [job | {"planes": chosen[number]}])
        given = await get(ctx, dut.converter.command)
        slot = job["slot"] - 1
        planes = chosen[number]
        if images[number]:
            planes = 0 if job["cls"] == 1 else 1  # the most
        if job["by_slot"]:
            planes = before[slot] >> 1
        assert given.planes == planes
        num, den = counted[number]
        ctx.set(dut.converter.improvement_num, num)
        ctx.set(dut.converter.improvement_den, den)
        ctx.set(dut.converter.amax, number)
        done = dut.image_done if images[number] else dut.done
        other = dut.done if images[number] else dut.image_done
        ctx.set(dut.converter.done, 1)
        cycles = 0
        while not ctx.get(done):
            assert not ctx.get(dut.amax_put_en)
            await ctx.tick()
            ctx.set(dut.converter.done, 0)
            cycles += 1
        assert not ctx.get(other)
        assert cycles == (19 if job["decides"] else 0)
        await ctx.tick()
        ctx.set(dut.converter.done, 0)
        await ctx.tick()  # until the table has it
        if slot < 0:
            continue
        last, following = before[slot] & 1, before[slot] >> 1
        last = following if job["by_slot"] else last
        if job["decides"]:
            seen = Improvement(num=num, den=4 * den)
            following = int(seen.exceeds(eps[slot]))
        assert widths == before | {slot: last | following << 1}
        assert amax[slot] == number
