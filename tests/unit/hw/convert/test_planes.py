"""Groups once for every plane, against loops over lists: order, beats, stalls and cycles."""

import pytest

from diastole_hw.convert.planes import PlaneTurns
from support.bench import design, get, put, run

FLAGS = ("copy", "line_end", "copy_end", "first_row", "first_col", "last_row", "last_col")
WIDTH = 32
MOST_EXPONENTS, MOST_ELEMENTS = 2, 5


def make(planes, exponent_beats=MOST_EXPONENTS, element_beats=MOST_ELEMENTS):
    sizes = {"exponent_beats": exponent_beats, "element_beats": element_beats}
    return design(PlaneTurns, data_width=WIDTH, planes=planes, **sizes)


class Group:
    """What it is, beats of exponents, and of elements, each with a part for every plane."""

    def __init__(self, rng, planes, exponent_beats, element_beats):
        self.flags = {name: rng.randrange(2) for name in FLAGS}
        self.exponents = [rng.getrandbits(WIDTH) for _ in range(exponent_beats)]
        self.elements = [
            [rng.getrandbits(WIDTH) for _ in range(planes)] for _ in range(element_beats)
        ]


def beats_in(group):
    """Of both streams; plane 0 in the lowest bits."""
    wide = [sum(part << WIDTH * n for n, part in enumerate(parts)) for parts in group.elements]
    for beats in (group.exponents, wide):
        yield [{"beat": b, "last": n == len(beats) - 1} for n, b in enumerate(beats)]


def beats_out(groups, count):
    """(beat, last) of both streams: of every group, plane after plane."""
    exponents, elements = [], []
    for group in groups:
        for plane in range(count):
            for out, beats in (
                (exponents, group.exponents),
                (elements, [parts[plane] for parts in group.elements]),
            ):
                out += [(beat, n == len(beats) - 1) for n, beat in enumerate(beats)]
    return exponents, elements


def run_through(dut, groups, count, rng, p_in, p_out):
    """The three streams, each with stalls of its own."""
    exponents_in, elements_in = (
        [beat for group in groups for beat in list(beats_in(group))[side]] for side in (0, 1)
    )
    exponents, elements = beats_out(groups, count)

    def source(port, items):
        async def give(ctx):
            ctx.set(dut.planes_less_1, count - 1)
            await put(ctx, port, items, lambda: rng.random() < p_in)

        return give

    def sink(port, wanted):
        async def take(ctx):
            for number, want in enumerate(wanted):
                got = await get(ctx, port, lambda: rng.random() < p_out)
                assert (got.beat, got.last) == want, f"beat {number}"
            for _ in range(5):
                assert not (await ctx.tick().sample(port.valid))[-1], "extra output"

        return take

    async def take_groups(ctx):
        for group in groups:
            for plane in range(count):
                got = await get(ctx, dut.group_o, lambda: rng.random() < p_out)
                want = group.flags | {"plane": plane, "last_plane": plane == count - 1}
                assert {name: got[name] for name in want} == want

    run(
        dut,
        source(dut.group, [group.flags for group in groups]),
        source(dut.exponents, exponents_in),
        source(dut.elements, elements_in),
        take_groups,
        sink(dut.exponents_o, exponents),
        sink(dut.elements_o, elements),
    )


@pytest.mark.parametrize("p_in, p_out", [(1.0, 1.0), (0.4, 1.0), (1.0, 0.4), (0.6, 0.6)])
@pytest.mark.parametrize(
    "planes, count", [(2, 1), (2, 2), (3, 2), (3, 3), (4, 1), (4, 2), (4, 3), (4, 4)]
)
def test_every_plane_of_every_group(planes, count, p_in, p_out, rng):
    """Groups of one beat and of the most; elements may end before those of the field."""
    sizes = [(1, 1), (MOST_EXPONENTS, MOST_ELEMENTS), (1, MOST_ELEMENTS), (MOST_EXPONENTS, 1)]
    sizes += [(rng.choice([1, 2]), rng.randrange(1, MOST_ELEMENTS + 1)) for _ in range(6)]
    groups = [Group(rng, planes, *size) for size in sizes]
    run_through(make(planes), groups, count, rng, p_in, p_out)


def test_counts_from_tensor_to_tensor(rng):
    """In how many planes a tensor is changes between groups: nothing stays behind."""
    dut = make(4)

    async def bench(ctx):
        for count in (1, 4, 2, 2, 3, 1, 4):
            group = Group(rng, 4, 1, 1)
            _, (beat,) = beats_in(group)
            ctx.set(dut.planes_less_1, count - 1)
            ctx.set(dut.elements.payload, beat)
            ctx.set(dut.elements.valid, 1)
            got = []
            ctx.set(dut.elements_o.ready, 1)
            while len(got) < count:
                _, _, taken, valid, payload = await ctx.tick().sample(
                    dut.elements.ready, dut.elements_o.valid, dut.elements_o.payload
                )
                got += [(payload.beat, payload.last)] * valid
                if taken:
                    ctx.set(dut.elements.valid, 0)
            assert got == beats_out([group], count)[1]

    run(dut, bench)


@pytest.mark.parametrize("most", [MOST_ELEMENTS, 16])
@pytest.mark.parametrize("beats", [1, 2, MOST_ELEMENTS])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_cycles(beats, count, most, rng):
    """The first plane passes through; the others follow a beat per cycle, and not before what waits
    has left its queue, which is a memory."""
    dut = make(4, element_beats=most)
    groups = [Group(rng, 4, 1, beats) for _ in range(2)]
    given = []

    async def drive(ctx):
        ctx.set(dut.planes_less_1, count - 1)
        for group in groups:
            await put(ctx, dut.elements, list(beats_in(group))[1])

    async def watch(ctx):
        ctx.set(dut.elements_o.ready, 1)
        for cycle in range(60):
            _, _, valid = await ctx.tick().sample(dut.elements_o.valid)
            given.extend([cycle] * valid)

    run(dut, drive, watch)
    wanted, cycle = [], 0
    for _ in groups:
        for plane in range(count):
            wanted += range(cycle, cycle + beats)
            cycle += beats if plane == count - 1 else max(beats, 2)
    assert given == wanted
