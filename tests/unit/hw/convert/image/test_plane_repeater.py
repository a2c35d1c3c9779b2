"""Groups once for every plane, against loops over lists: order, beats, stalls and cycles."""

import pytest

from diastole_hw.convert.image.plane_repeater import PlaneRepeater
from support.bench import design
from support.unit_bench import Unit

FLAGS = ("copy", "line_end", "copy_end", "first_row", "first_col", "last_row", "last_col")
WIDTH = 32
MOST_EXPONENTS, MOST_ELEMENTS = 2, 5


def make(planes, exponent_beats=MOST_EXPONENTS, element_beats=MOST_ELEMENTS):
    sizes = {"exponent_beats": exponent_beats, "element_beats": element_beats}
    return design(PlaneRepeater, data_width=WIDTH, planes=planes, **sizes)


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
    """Those of both streams: of every group, plane after plane."""
    exponents, elements = [], []
    for group in groups:
        for plane in range(count):
            for out, beats in (
                (exponents, group.exponents),
                (elements, [parts[plane] for parts in group.elements]),
            ):
                last = len(beats) - 1
                out += [{"beat": beat, "last": n == last} for n, beat in enumerate(beats)]
    return exponents, elements


def run_through(dut, groups, count, rng, p_in, p_out):
    """The three streams, each with stalls of its own."""
    unit = Unit(dut, rng)
    unit.hold(planes_less_1=count - 1)
    unit.give(dut.group, [group.flags for group in groups], p_in)
    for port, side in ((dut.exponents, 0), (dut.elements, 1)):
        unit.give(port, [beat for group in groups for beat in [*beats_in(group)][side]], p_in)
    of_planes = [
        group.flags | {"plane": plane, "last_plane": plane == count - 1}
        for group in groups
        for plane in range(count)
    ]
    unit.take(dut.group_o, of_planes, p_out)
    exponents, elements = beats_out(groups, count)
    unit.take(dut.exponents_o, exponents, p_out)
    unit.take(dut.elements_o, elements, p_out)
    unit.run()


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
    unit = Unit(make(4))
    given, taken = unit.give(unit.dut.elements), unit.take(unit.dut.elements_o)

    async def script(ctx):
        for count in (1, 4, 2, 2, 3, 1, 4):
            group = Group(rng, 4, 1, 1)
            unit.set(ctx, planes_less_1=count - 1)
            given.add([*beats_in(group)][1])
            taken.add(beats_out([group], count)[1])
            await unit.settled(ctx)

    unit.run(script)


@pytest.mark.parametrize("most", [MOST_ELEMENTS, 16])
@pytest.mark.parametrize("beats", [1, 2, MOST_ELEMENTS])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_cycles(beats, count, most, rng):
    """The first plane passes through; the others follow a beat per cycle, and not before what waits
    has left its queue, which is a memory."""
    unit = Unit(make(4, element_beats=most))
    groups = [Group(rng, 4, 1, beats) for _ in range(2)]
    unit.hold(planes_less_1=count - 1)
    unit.give(unit.dut.elements, [beat for group in groups for beat in [*beats_in(group)][1]])
    given = unit.collect(unit.dut.elements_o).cycles
    unit.run()
    wanted, cycle = [], 0
    for _ in groups:
        for plane in range(count):
            wanted += range(cycle, cycle + beats)
            cycle += beats if plane == count - 1 else max(beats, 2)
    assert given == wanted
