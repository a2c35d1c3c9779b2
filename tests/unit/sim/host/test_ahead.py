"""Which commands may overlap, against the bytes that they touch on a machine that performs them."""

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import pytest

from diastole_sim.host.ahead import areas_of, mark_overlaps
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_check import decode
from diastole_sim.spec.command_table import Opcode
from diastole_sim.spec.limits import Limits
from support.fake_machine import BASE, FakeMachine, parameters_of
from support.numerics import make_numerics

WIDTH = 64
BEAT = WIDTH // 8
KINDS = {
    "one image": {"formats": "bfp4"},
    "two images": {"formats": "bfp4", "groupings": "1x8"},
    "two images of dY": {"formats": "bfp4", "groupings": ("4x4", "4x4", "1x8")},
    "two images with a header": {"formats": "nvfp4"},
}
FIELDS = {
    "convert": ("address_x", "address_w", "address_dy"),
    "forward": ("address_x", "address_w", "out_a"),
    "dx": ("address_w", "address_dy", "out_a"),
    "dw": ("address_x", "address_dy", "out_a"),
    "backward": ("address_x", "address_w", "address_dy", "address_dy_m", "out_a", "out_b"),
}
STEP = 1 << 14
"""Between addresses of commands that touch nothing of each other."""


@cache
def numerics_of(kind):
    return make_numerics(block=4, **KINDS[kind])


def command_of(kind, operation, places):
    """``places``: by field, an address; of those that the numbers have no use for 0."""
    used = {field: places[field] for field in FIELDS[operation]}
    two = "two images" in kind
    if operation == "convert":
        second = used["address_dy"] if two else 0
        given = {"source": used["address_x"], "destination": used["address_w"], "second": second}
        return Command.convert("dy", rows=9, cols=5, tag=1, step=2, **given)
    if operation == "backward" and not two:
        used["address_dy_m"] = 0
    return Command.product(Opcode[operation.upper()], m=5, n=9, k=6, **used)


class Watched(FakeMachine):
    """Notes what is fetched and stored: (address, bytes)."""

    def __init__(self, numerics):
        parameters = parameters_of(numerics.to_dict(), WIDTH)
        manifest = {"config_sha256": "0123456789abcdef"}
        super().__init__(
            SimpleNamespace(manifest=manifest, parameters=parameters, data_width=WIDTH)
        )
        self.put("read_limit", 2**40 - 1)
        self.put("write_limit", 2**40 - 1)
        self.fetched, self.stored = set(), set()

    def fetch(self, address, count):
        self.fetched.add((address, count))
        return super().fetch(address, count)

    def store(self, address, data):
        self.stored.add((address, data.size))
        super().store(address, data)


@cache
def touched(kind, operation):
    """By field, (what is done there, bytes): of a command that was performed."""
    machine = Watched(numerics_of(kind))
    places = {field: BASE + n * STEP for n, field in enumerate(FIELDS[operation])}
    machine.perform(command_of(kind, operation, places))
    fields = {address: field for field, address in places.items()}
    found = {fields[address]: ("reads", count) for address, count in machine.fetched}
    return found | {fields[address]: ("writes", count) for address, count in machine.stored}


def bytes_of(kind, operation, command):
    """What it reads and what it writes."""
    found = {"reads": set(), "writes": set()}
    for field, (what, count) in touched(kind, operation).items():
        start = getattr(command, field)
        found[what] |= set(range(start, start + count))
    return found


def apart(kind, operation, number):
    """A command that touches nothing that one of another number does."""
    places = {field: BASE + (8 * number + n) * STEP for n, field in enumerate(FIELDS[operation])}
    return command_of(kind, operation, places)


def ahead_of(kind, *commands):
    return [each.ahead for each in mark_overlaps(commands, numerics_of(kind), WIDTH)]


@pytest.mark.parametrize("operation", FIELDS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sampled(3)
def test_areas_are_the_bytes_that_are_touched(kind, operation):
    command = apart(kind, operation, 0)
    wanted = bytes_of(kind, operation, command)
    areas = areas_of(command, numerics_of(kind), WIDTH)
    for what, ranges in (("reads", areas.reads), ("writes", areas.writes)):
        assert {byte for start, end in ranges for byte in range(start, end)} == wanted[what], what
    unused = {"address_dy_m"} if operation == "backward" else {"address_dy"}
    unused = unused if operation in ("backward", "convert") and "two images" not in kind else set()
    assert set(touched(kind, operation)) == set(FIELDS[operation]) - unused


def neighbours(start, count, mine):
    """Where ``mine`` bytes end just before ``count`` bytes at ``start``, or in the first beat of
    these; are just the same; begin in their last beat, or just behind them."""
    return start - mine, start - mine + BEAT, start, start + count - BEAT, start + count


@pytest.mark.parametrize("second", FIELDS)
@pytest.mark.parametrize("first", FIELDS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sampled(2)
def test_a_command_may_follow_if_it_touches_nothing_that_is_written(kind, first, second):
    """Every area of one beside and across every area of the other, one at a time."""
    before = apart(kind, first, 1)
    theirs = bytes_of(kind, first, before)
    free = apart(kind, second, 2)
    assert ahead_of(kind, before, free) == [0, 1]
    verdicts = set()
    for field, (_, count) in touched(kind, first).items():
        for own, (what, mine) in touched(kind, second).items():
            for place in neighbours(getattr(before, field), count, mine):
                command = replace(free, **{own: place})
                ours = bytes_of(kind, second, command)
                clash = ours["reads"] & theirs["writes"]
                clash |= ours["writes"] & (theirs["reads"] | theirs["writes"])
                got = ahead_of(kind, before, command)
                assert got == [0, not clash], f"{own} ({what}) at {place:#x}, beside {field}"
                verdicts.add(bool(clash))
    assert verdicts == {False, True}


def test_only_the_one_before_counts():
    """And a command that may be ahead is one that a machine takes."""
    kind = "one image"
    first, second, third = (apart(kind, "forward", number) for number in range(3))
    again = replace(first, out_a=third.out_a)
    commands = [first, second, again, again, third, first]
    found = mark_overlaps(commands, numerics_of(kind), WIDTH)
    assert [each.ahead for each in found] == [0, 1, 1, 0, 0, 1]
    assert [replace(each, ahead=0) for each in found] == commands
    limits = Limits.of(numerics_of(kind), data_width=WIDTH)
    assert [decode(each.encode(), limits) for each in found] == list(found)
    assert mark_overlaps([], numerics_of(kind), WIDTH) == ()


def test_what_was_said_before_does_not_count():
    kind = "one image"
    first, second = (replace(apart(kind, "dx", number), ahead=1) for number in range(2))
    assert ahead_of(kind, first, first) == [0, 0]
    assert ahead_of(kind, second, replace(first, ahead=0)) == [0, 1]


@pytest.mark.parametrize("groupings", [None, "1x8"])
def test_areas_have_all_planes(groupings):
    """5 x 9 in squares of 4: 2 rows of 8 + 48 bytes, and 2 beats of maxima; each plane as long. In
    vectors of 8: 4 runs of 4 bytes instead of 8, and 8 rows' maxima, of the transpose 3 rows of
    blocks and 12."""
    numerics = make_numerics(block=4, formats="fast", groupings=groupings, widths=(2, 4, 6))
    first = 2 * (16 + 48) + 8 if groupings else 2 * (8 + 48) + 16
    second = 3 * (16 + 48) + 16
    for planes in (1, 2, 3):
        command = Command.convert(
            "w", rows=5, cols=9, source=BASE, destination=BASE + STEP, tag=1, step=2,
            second=BASE + 2 * STEP if groupings else 0, planes=planes,
        )  # fmt: skip
        areas = areas_of(command, numerics, WIDTH)
        wanted = [(BASE + STEP, BASE + STEP + planes * first)]
        if groupings:
            wanted.append((BASE + 2 * STEP, BASE + 2 * STEP + planes * second))
        assert list(areas.writes) == wanted
        addresses = {"address_x": BASE, "address_w": BASE + STEP, "out_a": BASE + 3 * STEP}
        product = Command.product(
            Opcode.FORWARD, m=3, n=9, k=5, planes={"x": 1, "w": planes}, **addresses
        )
        _, (start, end) = areas_of(product, numerics, WIDTH).reads
        length = second if groupings else first
        assert (start, end) == (BASE + STEP, BASE + STEP + planes * length)


def test_areas_of_tensors_whose_width_a_slot_says():
    """As of two planes, of three that there are."""
    numerics = make_numerics(block=4, formats="fast", widths=(2, 4, 6))
    places = {"source": BASE, "destination": BASE + STEP, "tag": 1, "step": 2}
    convert = {"rows": 5, "cols": 9, **places}
    addresses = {"address_x": BASE, "address_w": BASE + STEP, "out_a": BASE + 3 * STEP}
    sizes = {"m": 3, "n": 9, "k": 5}
    pairs = (
        (
            Command.convert("w", **convert, planes=2),
            Command.convert("w", **convert, planes=1, slot=3, by_slot=True),
        ),
        (
            Command.product(Opcode.FORWARD, **sizes, planes={"w": 2}, **addresses),
            Command.product(Opcode.FORWARD, **sizes, slots={"w": 3}, **addresses),
        ),
    )
    for plain, by_slot in pairs:
        assert areas_of(plain, numerics, WIDTH) == areas_of(by_slot, numerics, WIDTH)
