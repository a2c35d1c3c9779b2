# amaranth: UnusedElaboratable=no
"""Groups of two copies in turn: none is lost or mixed, and nothing waits for what has not come."""

import pytest

from diastole_hw.convert.image.copy_arbiter import CopyArbiter
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes
from support.bench import design
from support.tiles import machine
from support.unit_bench import Unit

EDGES = ("first_row", "first_col", "last_row", "last_col")


class Group:
    """A group of a copy, random: what is said of it, its bytes, its beats."""

    def __init__(self, copy, number, rng, flags):
        self.copy, self.number, self.flags = copy, number, {"copy": copy} | flags
        self.bytes = [rng.randrange(256) for _ in range(rng.randrange(1, 17))]
        self.beats = [rng.getrandbits(64) for _ in range(rng.randrange(1, 9))]


class Strip:
    """Groups that are described together: one of the first copy, some of the second."""

    def __init__(self, copy, number, rng, last):
        self.edges = {key: rng.randrange(2) for key in EDGES}
        self.ends = {"line_end": rng.randrange(2), "copy_end": rng.randrange(2)}
        if last:
            self.ends = {"line_end": 1, "copy_end": 1}
            self.edges |= {"last_row": 1, "last_col": 1}
        elif self.ends["copy_end"] and self.edges["last_row"]:
            self.edges["last_col"] = 0
        self.copy, count = copy, rng.randrange(1, 9) if copy else 1
        self.groups = [
            Group(copy, (number, n), rng, self.edges | self._ends(n + 1 == count))
            for n in range(count)
        ]

    def _ends(self, last):
        """Of a group: a strip's line ends with its last group, and the copy at most there."""
        if not self.copy:
            return self.ends
        return {"line_end": last, "copy_end": last and self.ends["copy_end"]}

    def described(self):
        return {"copy": self.copy, "line_end": 1} | self.edges | {"copy_end": self.ends["copy_end"]}

    def bytes_(self):
        for group in self.groups:
            for n, byte in enumerate(group.bytes):
                last = n + 1 == len(group.bytes)
                yield {"byte": byte, "last": last, "end": group is self.groups[-1]}

    def beats(self):
        for group in self.groups:
            for n, beat in enumerate(group.beats):
                yield {"beat": beat, "last": n + 1 == len(group.beats)}


def strips_of(copy, count, rng):
    return [Strip(copy, number, rng, number + 1 == count) for number in range(count)]


def through(dut, copies, rng, p_in=(1.0, 1.0), p_out=1.0):
    """Give strips of both copies, check all that comes out; the copies of the groups in order."""
    unit = Unit(dut, rng)
    for copy, port in enumerate((dut.first, dut.second)):
        said = [each.described() if copy else each.groups[0].flags for each in copies[copy]]
        unit.give(port.group, said, p_in[copy])
        unit.give(port.exponents, (b for each in copies[copy] for b in each.bytes_()), p_in[copy])
        unit.give(port.elements, (b for each in copies[copy] for b in each.beats()), p_in[copy])
    groups, exponents, elements = (
        unit.collect(port, p_out) for port in (dut.o.group, dut.o.exponents, dut.o.elements)
    )
    unit.run(limit=40_000)
    left = [[group for strip in strips for group in strip.groups] for strips in copies]
    order, bytes_, beats = [], [], []
    for cycle, said in zip(groups.cycles, groups.items, strict=True):
        group = left[said["copy"]].pop(0)
        assert {key: said[key] for key in group.flags} == group.flags, group.number
        order.append(group)
        bytes_ += ends_of(group.bytes)
        beats += [(cycle, *each) for each in ends_of(group.beats)]
    assert not any(left)
    assert [(each["byte"], each["last"]) for each in exponents.items] == bytes_
    assert [(each["beat"], each["last"]) for each in elements.items] == [
        tuple(each) for _, *each in beats
    ]
    passed = zip(beats, elements.cycles, strict=True)
    assert all(asked <= came for (asked, *_), came in passed), "elements before their group"
    return [group.copy for group in order]


def ends_of(values):
    """Each with whether it is the last."""
    return [(value, n + 1 == len(values)) for n, value in enumerate(values)]


def make():
    numerics, data_width = machine("vectors")
    return design(CopyArbiter, ConverterSizes(numerics=numerics, data_width=data_width))


@pytest.mark.parametrize("p_out", [1.0, 0.3])
@pytest.mark.parametrize("p_in", [(1.0, 1.0), (0.1, 1.0), (1.0, 0.1), (0.5, 0.5)])
def test_groups(p_in, p_out, rng):
    """The last of the second copy is the last of all, however late the first copy's come."""
    copies = [strips_of(0, 20, rng), strips_of(1, 5, rng)]
    order = through(make(), copies, rng, p_in, p_out)
    groups_of_last = len(copies[1][-1].groups)
    assert order[-groups_of_last:] == [1] * groups_of_last
    assert order.count(0) == 20


@pytest.mark.parametrize("copy", [0, 1])
def test_one_copy_alone(copy, rng):
    strips = [[], []]
    strips[copy] = strips_of(copy, 6, rng)
    assert set(through(make(), strips, rng)) == {copy}


def test_the_first_copy_goes_first(rng):
    """Where groups of both are complete."""
    copies = [strips_of(0, 12, rng), strips_of(1, 2, rng)]
    for strip in copies[0]:
        del strip.groups[0].beats[1:], strip.groups[0].bytes[1:]
    order = through(make(), copies, rng, p_in=(1.0, 0.2))
    assert order[:6] == [0] * 6


def test_waits_for_all_elements():
    """A group is not given before its last beat has come; then 2 cycles later at the latest."""
    unit = Unit(make())
    dut = unit.dut
    unit.give(dut.first.group, [{"line_end": 1}])
    unit.give(dut.first.exponents, [{"byte": 0, "last": 1}])
    beats = [{"beat": n, "last": n == 5} for n in range(6)]
    elements = unit.give(dut.first.elements, beats, pace=lambda: unit.cycle not in range(5, 20))
    outputs = [unit.collect(port) for port in (dut.o.group, dut.o.exponents, dut.o.elements)]
    unit.run()
    assert elements.cycles[-1] == 20
    assert 20 < outputs[0].cycles[0] <= 22


@pytest.mark.parametrize("count", [1, 2])
def test_room(count):
    """Two of the largest groups of a copy are taken while none goes on."""
    unit = Unit(make())
    largest = max(unit.dut.sizes.by_class(unit.dut.sizes.element_beats))
    beats = [{"beat": n, "last": n == largest - 1} for n in range(largest)]
    ports = (unit.dut.first.elements, unit.dut.second.elements)[:count]
    given = [unit.give(port, 3 * beats) for port in ports]
    for port in given:
        port.needed = False
    unit.run(cycles=4 * largest)
    assert {len(port.items) for port in given} == {2 * largest}
