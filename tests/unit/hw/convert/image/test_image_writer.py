# amaranth: UnusedElaboratable=no
"""Groups and maxima become the image that ``ImageLayout`` packs: every byte, every address."""

from itertools import pairwise

import numpy as np
import pytest

from diastole_hw.convert.image.image_writer import ImageWriter
from diastole_sim.spec.image import StoredCopy, image_layouts
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes
from support.bench import design, put, simulation
from support.bus import ServiceMemory
from support.numerics import make_numerics
from support.sweep import alternating
from support.tiles import MACHINES, class_of, machine, tile_shape, tiles_of
from support.unit_bench import Unit, until

NAMES = list(MACHINES)
MAX_COL_BLOCKS = 72
BIAS = 138  # of a two-level tensor's exponent in a command


def stored_copy(layout, nan, rng, rising):
    """Random codes and exponents, and their maxima by plain loops; ``nan``: a byte that counts as 0
    there, or None."""
    side, draw = layout.block, np.random.default_rng(rng.getrandbits(32))
    rows, cols = layout.row_blocks * side, layout.col_blocks * side
    top = rng.choice([3, 127, 256])
    shape = (rows, -(-cols // layout.vector)) if layout.vector else (rows // side, cols // side)
    exponents = draw.integers(0, top, shape).astype(np.uint8)
    if nan is not None:
        exponents[draw.random(shape) < 0.2] = nan
    if rising:
        exponents.sort(axis=1)
    counted = [[0 if byte == nan else int(byte) for byte in line] for line in exponents]
    columns = [] if layout.vector else list(zip(*counted, strict=True))
    return StoredCopy(
        codes=draw.integers(0, 2**layout.element_bits, (rows, cols)).astype(np.uint16),
        exponents=exponents,
        row_max=np.array([max(line) for line in counted], np.uint8),
        col_max=np.array([max(line) for line in columns], np.uint8),
    )


def groups_of(numerics, cls, shape):
    """(copy, row of blocks, group, flags) in the order of the tiles, for each copy: of the first
    rows of blocks, of the second strips, each from left to right."""
    block = numerics.block
    copies = [[], []]
    for tile in tiles_of(numerics, cls, *shape):
        edges = tile.fields()
        edges = {key: edges[key] for key in ("first_row", "first_col", "last_row", "last_col")}
        lines = [(tile.row, tile.rows, block), (tile.row, tile.rows, 8 * block)]
        across = [(tile.col, tile.cols, 8 * block), (tile.col, tile.cols, block)]
        for copy, groups in enumerate(copies):
            tops, lefts = (
                range(first // size, -(-(first + length) // size))
                for first, length, size in (lines[copy], across[copy])
            )
            for top in tops:
                for left in lefts:
                    ends = {"copy": copy, "line_end": left == lefts[-1]}
                    ends["copy_end"] = ends["line_end"] and top == tops[-1]
                    line, group = (left, top) if copy else (top, left)
                    groups.append((copy, line, group, edges | ends))
    return copies if class_of(numerics, cls).grouping.kind == "vector" else copies[:1]


def in_turn(copies, rng):
    """Groups of the copies in any order, the last of all one of the second, if there is one."""
    left = [list(groups) for groups in copies]
    while any(left):
        last = len(left) == 2 and len(left[1]) == 1 and left[0]
        choice = 0 if last else rng.choice([n for n, groups in enumerate(left) if groups])
        yield left[choice].pop(0)


class Job:
    """A tensor whose images are to be written: random, and where."""

    def __init__(self, numerics, data_width, cls, shape, rng, rising=False):
        chosen = class_of(numerics, cls)
        self.cls, self.shape, self.beat = cls, shape, data_width // 8
        self.layouts = image_layouts(chosen, shape, block=numerics.block, data_width=data_width)
        nan = None
        if numerics.special == "poison":
            nan = 0x7F if chosen.format.name == "nvfp4" else 255
        self.exponent = rng.randrange(-BIAS, 256 - BIAS) if self.layouts[0].header else None
        self.copies = [stored_copy(layout, nan, rng, rising) for layout in self.layouts]
        self.images = [
            layout.pack(copy, self.exponent)
            for layout, copy in zip(self.layouts, self.copies, strict=True)
        ]
        self.groups = list(in_turn(groups_of(numerics, cls, shape), rng))
        self.addresses, at = [], self.beat * rng.randrange(9)
        for image in self.images:
            self.addresses.append(at)
            at += len(image) + self.beat * rng.randrange(4)
        self.end = at

    def set_up(self, ctx, dut):
        ctx.set(dut.cls, self.cls)
        ctx.set(dut.rows, self.shape[0])
        ctx.set(dut.cols, self.shape[1])
        ctx.set(dut.destination, self.addresses[0])
        ctx.set(dut.destination_t, self.addresses[-1])
        ctx.set(dut.scale, 99 if self.exponent is None else self.exponent + BIAS)

    def group(self, copy, line, group):
        """The bytes of an exponent field that mean something, the beats of an element field."""
        layout, image = self.layouts[copy], self.images[copy]
        start = layout.group_offset(line, group)
        end = start + layout.exponent_bytes
        field = image[start : start + layout.group.exponent_entries].tolist()
        data = image[end : start + layout.group_bytes].tobytes()
        beats = [data[n : n + self.beat] for n in range(0, len(data), self.beat)]
        return field, [int.from_bytes(beat, "little") for beat in beats]

    def items(self):
        """What is given of each group, its bytes and its beats."""
        flags = [flags for *_, flags in self.groups]
        return flags, self.bytes_of_fields(), self.beats_of_elements()

    def bytes_of_fields(self):
        for copy, line, group, _ in self.groups:
            field, _ = self.group(copy, line, group)
            for n, byte in enumerate(field):
                yield {"byte": byte, "last": n == len(field) - 1}

    def beats_of_elements(self):
        """Up to the last of a group that isn't zero."""
        for copy, line, group, _ in self.groups:
            beats = self.group(copy, line, group)[1]
            count = max((n + 1 for n, beat in enumerate(beats) if beat), default=1)
            for n, beat in enumerate(beats[:count]):
                yield {"beat": beat, "last": n == count - 1}


def write(dut, jobs, rng, p_in=1.0, p_out=1.0):
    """Write tensors one after the other; everything that is written must be asked for."""
    beat = dut.sizes.data_width // 8
    memory = ServiceMemory(max(job.end for job in jobs) + beat, beat, lambda: rng.random() >= p_out)
    unit = Unit(dut, rng, pace=p_in)
    sources = [unit.give(port) for port in (dut.group, dut.exponents, dut.elements)]
    unit.serve(memory.write, dut.request, dut.o)

    async def script(ctx):
        for job in jobs:
            memory.bytes[:] = before = rng.randbytes(len(memory.bytes))
            want = bytearray(before)
            for address, image in zip(job.addresses, job.images, strict=True):
                want[address : address + len(image)] = image.tobytes()
            job.set_up(ctx, dut)
            for source, items in zip(sources, job.items(), strict=True):
                source.add(items)
            await unit.pulse(ctx, "start")
            await until(ctx, dut.done)
            await ctx.tick()
            what = f"class {job.cls} {job.shape}"
            wrong = [n for n in range(len(want)) if want[n] != memory.bytes[n]]
            assert not wrong, f"{what}: bytes {wrong[:8]}, images at {job.addresses}"
            beats = sum(count for _, count in memory.writes)
            assert beats * beat == sum(len(image) for image in job.images), what
            memory.writes.clear()

    unit.run(script, limit=100_000)


def make(name, max_col_blocks=MAX_COL_BLOCKS):
    numerics, data_width = machine(name)
    return numerics, design(
        ImageWriter,
        ConverterSizes(numerics=numerics, data_width=data_width),
        max_col_blocks=max_col_blocks,
    )


def shapes_of(numerics, cls, rng):
    """One element, and tiles clipped in both directions, as far as columns fit."""
    height, width = tile_shape(numerics, cls)
    most = numerics.block * MAX_COL_BLOCKS
    yield 1, 1
    rows = height + 1 if height * width <= 1024 else rng.randrange(2, 2 + 2 * numerics.block)
    yield rows, min(most, width + rng.randrange(1, width))
    yield rng.randrange(1, 2 * numerics.block + 1), most


@pytest.mark.parametrize(
    "name, p_in, p_out", alternating(NAMES, {"free": (1.0, 1.0), "stalled": (0.7, 0.5)})
)
@pytest.mark.sampled(3)
def test_images(name, p_in, p_out, rng):
    """Of all classes in turn: nothing of one tensor is left for the next."""
    numerics, dut = make(name)
    jobs = [
        Job(numerics, dut.sizes.data_width, cls, shape, rng)
        for cls in range(3)
        for shape in shapes_of(numerics, cls, rng)
    ]
    rng.shuffle(jobs)
    write(dut, jobs[: 3 if p_in < 1 else 6], rng, p_in, p_out)


@pytest.mark.parametrize("name", ["squares", "elements", "vectors of elements"])
def test_last_byte_is_the_largest(name, rng):
    """It has just come when the maxima go out."""
    numerics, dut = make(name)
    shape = (numerics.block, 8 * numerics.block)
    write(
        dut,
        [Job(numerics, dut.sizes.data_width, 2, shape, rng, rising=True) for _ in range(3)],
        rng,
    )


@pytest.mark.parametrize("name", ["squares", "two levels"])
@pytest.mark.parametrize(
    "p_in, p_out", [(1.0, 0.1), (0.1, 1.0)], ids=["slow memory", "slow groups"]
)
def test_one_slow_side(name, p_in, p_out, rng):
    numerics, dut = make(name)
    write(dut, [Job(numerics, dut.sizes.data_width, 0, (9, 40), rng)], rng, p_in, p_out)


@pytest.mark.parametrize("name", ["squares", "vectors", "two levels", "words shorter than blocks"])
def test_timing(name, rng):
    """A cycle per group besides its beats, 2 per beat of maxima and per header."""
    numerics, dut = make(name)
    job = Job(numerics, dut.sizes.data_width, 0, (numerics.block, 8 * numerics.block * 4), rng)
    unit = Unit(dut)
    for port, items in zip((dut.group, dut.exponents, dut.elements), job.items(), strict=True):
        unit.give(port, items)
    requests, beats = unit.collect(dut.request), unit.collect(dut.o)

    async def script(ctx):
        job.set_up(ctx, dut)
        await unit.pulse(ctx, "start")
        await until(ctx, dut.done)

    unit.run(script)
    asked = zip(requests.cycles, requests.items, strict=True)
    events = dict.fromkeys(range(unit.cycle), 0)  # of every cycle: beats asked for, or -1, a beat
    events |= {cycle: request["beats"] for cycle, request in asked}
    assert not {*requests.cycles} & {*beats.cycles}, "two things in one cycle"
    events = [*(events | dict.fromkeys(beats.cycles, -1)).values()]
    group_beats = job.layouts[0].group_bytes // job.beat
    entries = job.layouts[0].group.exponent_entries  # which come a byte per cycle
    starts = [cycle for cycle, event in enumerate(events) if event == group_beats]
    assert len(starts) == len(job.groups)
    for one, other in pairwise(starts):
        end = one + 1 + group_beats
        assert set(events[one + 1 : end]) == {-1}, "a gap in a group"
        if not any(events[end:other]):  # nothing else is written before the next group
            assert other - end <= max(0, entries - group_beats), "idle between groups"
    singles = [cycle for cycle, event in enumerate(events) if event == 1]
    assert all(events[cycle + 1] == -1 for cycle in singles)
    assert sum(events) == 0, "as many beats as were asked for"
    headers = 0 if job.exponent is None else len(job.images)
    assert singles[:headers] == [1, 3][:headers]


def test_zeros_need_no_elements(rng):
    """After the last beat that has any, the others of a group follow without a gap."""
    numerics, dut = make("squares")
    job = Job(numerics, dut.sizes.data_width, 0, (4, 32), rng)
    unit = Unit(dut)
    unit.give(dut.group, [job.groups[0][-1]])
    unit.give(dut.exponents, [*job.bytes_of_fields()][: job.layouts[0].group.exponent_entries])
    others = unit.give(dut.elements, [{"beat": 77, "last": 1}] * 2)
    others.needed = False
    unit.collect(dut.request)
    moved = unit.collect(dut.o)

    async def script(ctx):
        job.set_up(ctx, dut)
        await unit.pulse(ctx, "start")

    unit.run(script)
    assert len(others.items) == 1, "a beat of another group"
    moved = [(cycle, beat["data"]) for cycle, beat in zip(moved.cycles, moved.items, strict=True)]
    beats = job.layouts[0].group_bytes // job.beat
    assert [data for _, data in moved[1:beats]] == [77] + [0] * (beats - 2)


async def test_requests_wait_for_nobody(rng):
    """Neither valid depends on its ready."""
    numerics, dut = make("squares")
    job = Job(numerics, dut.sizes.data_width, 0, (4, 32), rng)
    ctx = await simulation(dut)
    job.set_up(ctx, dut)
    ctx.set(dut.start, 1)
    await ctx.tick()
    ctx.set(dut.start, 0)
    await put(ctx, dut.group, [job.groups[0][-1]])
    await put(ctx, dut.exponents, job.bytes_of_fields())
    for _ in range(4):
        await ctx.tick()
    assert ctx.get(dut.request.valid)
    assert ctx.get(dut.request.p.addr) == job.addresses[0]
    ctx.set(dut.request.ready, 1)
    await ctx.tick()
    ctx.set(dut.request.ready, 0)
    assert ctx.get(dut.o.valid)
    assert not ctx.get(dut.request.valid)


class PlanarJob(Job):
    """Planes with codes of their own, behind each other; exponents and maxima are the same."""

    def __init__(self, numerics, data_width, cls, shape, rng, planes):
        super().__init__(numerics, data_width, cls, shape, rng)
        self.planes, self.images, self.addresses = planes, [], []
        draw, at = np.random.default_rng(rng.getrandbits(32)), self.beat * rng.randrange(9)
        for layout, copy in zip(self.layouts, self.copies, strict=True):
            each = [
                StoredCopy(
                    **vars(copy) | {"codes": draw.integers(0, 8, copy.codes.shape, np.uint16)}
                )
                for _ in range(planes)
            ]
            self.images.append(np.concatenate([layout.pack(plane) for plane in each]))
            self.addresses.append(at)
            at += len(self.images[-1]) + self.beat * rng.randrange(4)
        self.end = at

    def set_up(self, ctx, dut):
        super().set_up(ctx, dut)
        ctx.set(dut.planes, self.planes - 1)

    def beats_of_elements(self):
        """Those of all planes side by side, up to the last in which any has something."""
        for copy, line, group, _ in self.groups:
            layout, image = self.layouts[copy], self.images[copy]
            start = layout.group_offset(line, group) + layout.exponent_bytes
            count = layout.group_bytes - layout.exponent_bytes
            fields = [image[start + n * layout.total_bytes :][:count] for n in range(self.planes)]
            beats = [
                sum(
                    int.from_bytes(field[at : at + self.beat].tobytes(), "little")
                    << 8 * self.beat * number
                    for number, field in enumerate(fields)
                )
                for at in range(0, count, self.beat)
            ]
            last = max((n for n, beat in enumerate(beats) if beat), default=0)
            for n, beat in enumerate(beats[: last + 1]):
                yield {"beat": beat, "last": n == last}


@pytest.mark.parametrize("p_in, p_out", [(1.0, 1.0), (0.5, 0.5)])
@pytest.mark.parametrize("groupings", [None, ("1x8", "2x2", "1x16")])
@pytest.mark.sampled(4)
def test_planes(groupings, p_in, p_out, rng):
    """From the first cycle on, when it is not yet known how far planes lie apart: their groups, and
    maxima that are there early, wait."""
    keys = {"formats": "fast", "widths": (2, 4, 6, 8), "fraction": 30}
    numerics = make_numerics(block=2, groupings=groupings, **keys)
    dut = design(
        ImageWriter,
        ConverterSizes(numerics=numerics, data_width=512),
        max_col_blocks=MAX_COL_BLOCKS,
    )
    jobs = [
        PlanarJob(numerics, 512, n % 3, shape, rng, planes)
        for n, (shape, planes) in enumerate(
            [((40, 20), 4), ((1, 1), 1), ((1, 1), 3), ((33, 5), 2), ((3, 140), 4), ((70, 3), 3)]
        )
    ]
    write(dut, jobs, rng, p_in, p_out)
