"""Beats told apart, against the layout of the memory image: maxima, exponent fields, elements."""

from dataclasses import dataclass

import pytest

from diastole_hw.load.parse import RegionParse
from diastole_hw.schedule.lengths import longest_lengths
from diastole_hw.schedule.tokens import Region
from support.bench import design, put, simulation
from support.plans import plan_of
from support.unit_bench import Unit
from support.unit_values import differences

MACHINES = {
    "squares": {"block": 4, "formats": ("bfp3", "bfp5", "bfp2")},
    "edge": {"block": 2, "formats": ("bfp3", "bfp5", "bfp2"), "in_place": False},
    "textbook": {"block": 1, "formats": ("bfp8", "bfp7", "bfp8"), "data_width": 32},
    "wide bus": {"block": 4, "formats": ("bfp8", "bfp3", "bfp2"), "data_width": 512},
    "vectors": {"block": 4, "groupings": ("1x8", "1x16", "1x4"), "data_width": 32},
    "long vectors": {"block": 2, "groupings": ("1x32", "1x16", "1x128"), "data_width": 32},
    "mixed": {"block": 4, "groupings": ("1x8", None, "1x64")},
    "nvfp4": {"block": 4, "formats": "nvfp4", "fraction": 3, "headroom": 8},
    "nvfp4, wide bus": {"block": 2, "formats": "nvfp4", "fraction": 3, "data_width": 256},
}
MEMORIES = {
    Region.MAXIMA_SOUTH: 0, Region.MAXIMA_EAST: 1, Region.MAXIMA_WEST: 2, Region.MAXIMA_NORTH: 3,
}  # fmt: skip
WRITE = ("enable", "memory", "addr", "data")


def make(name):
    return plan_of(**{"rows": 2, "cols": 3} | MACHINES[name])


@dataclass
class Tensor:
    """How a class lies in memory, as the image's text has it."""

    side: int  # B
    bits: int  # of an element
    vector: int | None  # length of its groups, None for squares
    width: int  # of a beat

    @classmethod
    def of(cls, plan, number):
        chosen = plan.numerics.to_dict()[("x", "w", "dy")[number]]
        kind, length = chosen["grouping"].split("x")
        vector = int(length) if kind == "1" and plan.block > 1 else None
        return cls(plan.block, plan.formats[number].element_bits, vector, plan.data_width)

    @property
    def block_bits(self):
        return self.side**2 * self.bits

    @property
    def exponent_bytes(self):
        """That mean something: Q = max(1, 8 B / g) runs of B bytes, or one per block."""
        return self.side * max(1, 8 * self.side // self.vector) if self.vector else 8

    @property
    def exponent_beats(self):
        return -(-8 * self.exponent_bytes // self.width)

    @property
    def granule(self):
        """Blocks after which one begins with a beat."""
        return next(n for n in (1, 2, 4, 8) if n == 8 or n * self.block_bits % self.width == 0)

    def exponents_from(self, field, block):
        """Bytes of a field from those of a block on."""
        return (
            field[block * self.side // self.vector * self.side :] if self.vector else field[block:]
        )


class Case:
    """Regions as they may come, their beats, and what must be made of them, in order."""

    def __init__(self, plan, rng):
        self.plan, self.rng = plan, rng
        self.regions, self.beats, self.events = [], [], []
        self.cycles = []  # of each event, where nothing ever waits
        self.cycle = 1  # the first region is taken before

    def beat(self):
        self.beats.append(self.rng.getrandbits(self.plan.data_width))
        return self.beats[-1]

    def happens(self, *event):
        self.events.append(event)
        self.cycles.append(self.cycle)

    def region(self, members):
        """Everything that goes through, at random, beside what matters."""
        rng, plan = self.rng, self.plan
        shared = {
            "base": rng.randrange(plan.stream_blocks), "tile": rng.randrange(4),
            "stride": rng.randint(0, longest_lengths(plan)["stationary_stride"]),
            "last": rng.randrange(2),
            "by_column": rng.randrange(2), "transposed": rng.randrange(2),
            "stream_offset": rng.randrange(plan.beat_bytes),
        }  # fmt: skip
        self.regions.append(shared | members)
        return self.regions[-1]

    def maxima(self, kind, fused):
        plan = self.plan
        held = kind in (Region.MAXIMA_EAST, Region.MAXIMA_NORTH)
        words = plan.stationary_maxima_words if held else plan.stream_maxima_words
        slot = next(2**n for n in range(20) if 2**n >= words)
        region = self.region(
            {"kind": kind, "fused": fused, "beats": self.rng.randrange(1, words + 1)}
        )
        first = 0 if held and fused else region["tile"] * slot
        for k in range(region["beats"]):
            ends = k == region["beats"] - 1 and region["last"]
            self.happens("maxima", MEMORIES[kind], first + k, self.beat(), ends)
            self.cycle += 1

    def blocks(self, kind, cls):
        plan, rng, tensor = self.plan, self.rng, Tensor.of(self.plan, cls)
        rows = rng.randrange(1, 4)
        cols = rng.choice([1, rng.randrange(1, 9), rng.randrange(1, min(24, plan.tile_blocks) + 1)])
        offset = rng.randrange(0, 8, tensor.granule)
        region = self.region(
            {"kind": kind, "cls": cls, "rows": rows, "cols": cols, "offset": offset}
        )
        for row in range(rows):
            col = 0
            while col < cols:
                first = (offset + col) % 8
                count = min(8 - first, cols - col)
                self.part(region, tensor, row, col, first, count)
                col += count

    def part(self, region, tensor, row, col, first, count):
        size = tensor.width // 8
        field = b"".join(
            self.beat().to_bytes(size, "little") for _ in range(tensor.exponent_beats)
        )[: tensor.exponent_bytes]  # fmt: skip
        whole = -(-count // tensor.granule) * tensor.granule
        begin = first * tensor.block_bits // tensor.width
        beats = -(-(first + whole) * tensor.block_bits // tensor.width) - begin
        group = {"row": row, "col": col, "blocks": whole, "place": first}
        self.cycle += tensor.exponent_beats - 1
        self.happens("part", region, group, tensor.exponents_from(field, first))
        self.cycle += 1
        for k in range(beats):
            self.happens("elements", self.beat(), k == beats - 1)
            self.cycle += 1


def make_case(plan, rng):
    case = Case(plan, rng)
    sides = {"east": "south", "north": "west"}
    kinds = [
        Region.STATIONARY,
        *(Region[sides[direction].upper()] for direction in plan.directions),
    ]
    for _ in range(6):
        for number, direction in enumerate(plan.directions):
            for name in ((sides[direction], direction), (direction, sides[direction]))[number]:
                if rng.random() < 0.5:
                    case.maxima(Region[f"MAXIMA_{name.upper()}"], rng.randrange(2))
        for cls in rng.sample(range(3), 3):
            case.blocks(rng.choice(kinds), cls)
    return case


def check_part(group, want):
    region, part, exponents = want
    assert not differences({"region": region}, group)
    expected = {name: part[name] for name in part if name in group}
    assert not differences(expected, group)
    low = group["exponents"] & (1 << 8 * len(exponents)) - 1
    assert low.to_bytes(len(exponents), "little") == exponents


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("p_data, p_out", [(1.0, 1.0), (0.6, 0.5)], ids=["free", "stalled"])
@pytest.mark.sampled(2)
def test_beats_are_told_apart(machine, p_data, p_out, rng):
    plan = make(machine)
    case = make_case(plan, rng)
    dut = design(RegionParse, plan)
    unit = Unit(dut, rng)
    unit.give(dut.regions, case.regions, p_data)
    unit.give(dut.data, case.beats, p_data)
    parts, elements = unit.collect(dut.groups, p_out), unit.collect(dut.mantissas, p_out)
    written = []

    def watch(cycle, loaded, en, *write):
        written.extend([(cycle, "maxima", (*write, loaded))] * en)
        assert en or not loaded, "maxima loaded, and none written"

    unit.each_cycle(watch, dut.maxima_loaded, *(getattr(dut.maxima, name) for name in WRITE))
    unit.run(silence=20, limit=60_000)
    moved = [(cycle, "part", item) for cycle, item in zip(parts.cycles, parts.items, strict=True)]
    both = zip(elements.cycles, elements.items, strict=True)
    moved += [(cycle, "elements", (item["bits"], item["last"])) for cycle, item in both]
    events = sorted(written + moved, key=lambda event: event[0])
    cycles = [cycle for cycle, *_ in events]
    assert len({*cycles}) == len(cycles) == len(case.events)
    for (_, kind, got), (wanted, *want) in zip(events, case.events, strict=True):
        assert kind == wanted
        if kind == "part":
            check_part(got, want)
        else:
            assert got == (*want,)
    if p_out == 1.0:
        assert cycles == case.cycles


async def test_the_last_exponents_wait_for_the_group():
    """The beats before them do not; a group comes with its last beat, and not before."""
    plan = make("vectors")
    dut = design(RegionParse, plan)
    cls = next(cls for cls in range(3) if plan.group_layouts[cls].exponent_beats > 1)
    ctx = await simulation(dut)
    region = {"kind": Region.SOUTH, "cls": cls, "rows": 1, "cols": 1}
    await put(ctx, dut.regions, [region])
    await put(ctx, dut.data, range(plan.group_layouts[cls].exponent_beats - 1))
    for valid, ready in [(0, 0), (0, 1), (1, 0), (1, 1)]:
        ctx.set(dut.data.valid, valid)
        ctx.set(dut.groups.ready, ready)
        assert ctx.get(dut.groups.valid) == valid
        assert ctx.get(dut.data.ready) == ready
        await ctx.tick()
    ctx.set(dut.data.valid, 0)
    assert not ctx.get(dut.groups.valid)
    assert not ctx.get(dut.data.ready)  # elements wait for ``mantissas.ready``
