"""Inputs of a chain: bytes in memory to blocks, against their definition in plain Python."""

import pytest

from diastole_hw.vector.streams.inputs import InputStreams
from diastole_sim.spec.sizes.queues import INPUT_BLOCKS
from diastole_sim.spec.stream_table import Kind
from support.bench import design, put, run
from support.bus import ServiceMemory
from support.sweep import sweep
from support.vector_streams import (
    DRAWN,
    LABELS,
    Layout,
    Memory,
    some_number,
    vector_shape,
    walked,
)

IN_MEMORY = (Kind.F32, Kind.BF16, Kind.U8, Kind.MASK, Kind.COLUMN, Kind.ROW, Kind.LABELS)
GATHERED = (Kind.GATHERED_F32, Kind.GATHERED_U8)
TABLE_ROWS = 19


class Case:
    """Streams of some kinds over a tensor, in a memory of anything."""

    def __init__(self, kinds, rows, cols, side, data_width, rng, by_columns=False):
        beat = data_width // 8
        layout = Layout(rows, cols, side, beat, rng)
        self.rows = rows
        self.side, self.beat, self.by_columns, self.rng = side, beat, by_columns, rng
        self.streams = [
            layout.stream(kind, table_rows=TABLE_ROWS if kind in GATHERED else 0) for kind in kinds
        ]
        size = layout.end + beat
        self.cols = cols
        self.memory = Memory(bytearray(size), side, cols)
        for at in range(0, size, 4):
            self.memory.data[at : at + 4] = some_number(rng).to_bytes(4, "little")
        for stream in self.streams:
            for row in range(rows):
                if stream.kind == Kind.LABELS:
                    label = rng.choice((*LABELS, rng.randrange(2**24), rng.getrandbits(32)))
                    self._word(stream.address + 4 * row, label)
                if stream.kind in GATHERED:
                    self._word(stream.index_list + 4 * row, rng.randrange(TABLE_ROWS))
        self.buffered = [n for n, each in enumerate(self.streams) if each.kind != Kind.PANEL]
        self.blocks = walked(rows, cols, side, by_columns)
        self.product = [
            [[some_number(rng) for _ in range(side)] for _ in range(side)] for _ in self.blocks
        ]

    def _word(self, at, value):
        self.memory.data[at : at + 4] = value.to_bytes(4, "little")

    def expected(self, number, stream):
        block = self.blocks[number]
        if stream.kind != Kind.PRODUCT:
            return self.memory.block(stream, block)
        return [
            [x if r < block.rows and c < block.cols else 0 for c, x in enumerate(row)]
            for r, row in enumerate(self.product[number])
        ]


class Bench:
    """Runs cases one after the other on one design."""

    def __init__(self, cases, data_width, *, stalls=False):
        self.cases, self.rng, self.stalls = cases, cases[0].rng, stalls
        draws = any(each.kind == Kind.DRAWS for case in cases for each in case.streams)
        self.dut = design(InputStreams, vector_shape(cases[0].side, data_width, draws=draws))
        self.memory = ServiceMemory(0, data_width // 8, self.stalled)
        self.memory.bytes = cases[0].memory.data
        self.pause = 0
        self.taken = []  # the cycles in which a beat was
        self.begun = self.ended = 0  # cases

    def stalled(self):
        return self.stalls and self.rng.random() < 0.25

    def pausing(self):
        """Memory that does nothing for long now and then; the core does not wait."""
        self.memory.stall = self.paused
        return self

    def paused(self):
        if not self.pause and self.rng.random() < 0.02:
            self.pause = self.rng.randrange(30, 200)
        self.pause = max(0, self.pause - 1)
        return self.pause > 0

    def willing(self):
        return not self.stalls or self.rng.random() < 0.75

    def run(self):
        run(
            self.dut,
            self.blocks,
            self.product,
            self.core,
            background=(self.read, self.watch),
            limit=200_000,
        )
        return self

    def begin(self, ctx, case):
        dut = self.dut
        self.memory.bytes = case.memory.data
        for number, stream in enumerate(case.streams):
            ctx.set(dut.streams[number], stream.fields())
            ctx.set(dut.lists[number], stream.index_list)
        for number in range(len(case.streams), 4):
            ctx.set(dut.streams[number], {"used": 0, "kind": self.rng.randrange(16)})
        ctx.set(dut.by_columns, case.by_columns)
        ctx.set(dut.by_lines, not case.by_columns)
        ctx.set(dut.rows_of_tensor, case.rows)
        if dut.shape.draws:
            ctx.set(dut.columns_of_tensor, case.cols)
            ctx.set(dut.seed, DRAWN["seed"])
            ctx.set(dut.step, DRAWN["step"])
        self.begun += 1

    async def blocks(self, ctx):
        for number, case in enumerate(self.cases):
            while self.ended < number:
                await ctx.tick()
            self.begin(ctx, case)
            blocks = [block.fields() for block in case.blocks]
            await put(ctx, self.dut.blocks, blocks, self.willing)

    async def product(self, ctx):
        for number, case in enumerate(self.cases):
            while self.begun <= number:
                await ctx.tick()
            if any(stream.kind == Kind.PRODUCT for stream in case.streams):
                rows = [row for block in case.product for row in block]
                await put(ctx, self.dut.product, rows, self.willing)

    async def read(self, ctx):
        await self.memory.read(ctx, self.dut.read.requests, self.dut.read.beats)

    async def watch(self, ctx):
        beats, cycle = self.dut.read.beats, 0
        while True:
            *_, valid, ready = await ctx.tick().sample(beats.valid, beats.ready)
            cycle += 1
            if valid and ready:
                self.taken.append(cycle)

    async def core(self, ctx):
        for case in self.cases:
            for number, block in enumerate(case.blocks):
                while True:
                    *_, levels = await ctx.tick().sample(self.dut.level)
                    levels = [levels[n] for n in case.buffered]
                    assert max(levels) <= INPUT_BLOCKS
                    if min(levels) > 0 and not self.stalled():
                        break
                found = await self.work(ctx, case)
                for n in case.buffered:
                    stream = case.streams[n]
                    got = [
                        [row[n] >> 32 * k & 0xFFFF_FFFF for k in range(case.side)] for row in found
                    ]
                    assert got == case.expected(number, stream), f"{stream} {block}"
            self.ended += 1
        await ctx.tick().repeat(20)
        assert not any(ctx.get(self.dut.level[n]) for n in self.cases[-1].buffered)

    async def work(self, ctx, case):
        """Read all rows of a block, some before, and give it back."""
        dut, rng, side = self.dut, self.rng, case.side
        found = {}
        order = [*rng.choices(range(side), k=2), *rng.sample(range(side), side)]
        for place, row in enumerate(order if self.stalls else range(side)):
            ctx.set(dut.row_at, row)
            ctx.set(dut.release_block, place == (side + 1 if self.stalls else side - 1))
            await ctx.tick()
            found[row] = {n: ctx.get(dut.rows[n].as_value()) for n in case.buffered}
        ctx.set(dut.release_block, 0)
        return [found[row] for row in range(side)]


@pytest.mark.parametrize(
    "kind, beats",
    [
        (Kind.U8, 11 * 3),
        (Kind.MASK, 2 * 3),
        (Kind.GATHERED_U8, 11 * 3 + 2 + 1),
        (Kind.LABELS, 2 + 1),
        (Kind.F32, 11 * 10),
    ],
    ids=lambda value: value.name.lower() if isinstance(value, Kind) else None,
)
@pytest.mark.sampled(2)
def test_what_blocks_of_a_line_share_is_read_once(kind, beats, rng):
    case = Case([kind, Kind.COLUMN], 11, 37, 8, 128, rng)
    bench = Bench([case], 128, stalls=True).run()
    assert len(beats_asked(bench.memory.reads, 16)) == beats + 2 * 10


def beats_asked(reads, beat):
    return [at + k * beat for at, count in reads for k in range(count)]


SIZES = {1: (3, 7), 2: (5, 9), 4: (7, 13), 8: (11, 21), 16: (17, 20), 32: (9, 33)}
GROUPS = (
    (Kind.F32, Kind.BF16, Kind.U8, Kind.MASK),
    (Kind.COLUMN, Kind.ROW, Kind.LABELS, Kind.PRODUCT),
    (Kind.GATHERED_F32, Kind.PRODUCT, Kind.GATHERED_U8, Kind.PRODUCT),
    (Kind.PANEL, Kind.GATHERED_F32),
)
SHAPES = [(side, width) for side in (1, 2, 4, 8, 16) for width in (32, 64, 128, 512)] + [(32, 128)]


@pytest.mark.parametrize("side, data_width", SHAPES)
@pytest.mark.sampled(11)
def test_blocks_are_those_in_memory(side, data_width, rng):
    rows, cols = SIZES[side]
    if 32 * side > 4 * data_width and side > 8:  # many beats make the test long
        rows = 5
    cases = [
        Case(kinds, rows, cols, side, data_width, rng, by_columns=number % 2 == 1)
        for number, kinds in enumerate(GROUPS)
    ]
    Bench(cases, data_width, stalls=True).run()


DRAWN_GROUPS = (
    (Kind.F32, Kind.DRAWS, Kind.PRODUCT),
    (Kind.DRAWS,),
    (Kind.COLUMN, Kind.PRODUCT),
    (Kind.DRAWS, Kind.PANEL, Kind.GATHERED_F32, Kind.MASK),
    (Kind.BF16, Kind.F32, Kind.U8, Kind.DRAWS),
)


@pytest.mark.parametrize("stalls", [True, False], ids=["stalls", "smooth"])
@pytest.mark.parametrize("side, data_width", SHAPES)
@pytest.mark.sampled(8)
def test_random_numbers_beside_other_inputs(side, data_width, stalls, rng):
    rows, cols = SIZES[side]
    groups = rng.sample(DRAWN_GROUPS, len(DRAWN_GROUPS))
    cases = [
        Case(kinds, rows, cols, side, data_width, rng, by_columns=rng.random() < 0.5)
        for kinds in groups
    ]
    Bench(cases, data_width, stalls=stalls).run()


@pytest.mark.parametrize("kinds", DRAWN_GROUPS, ids=lambda kinds: "-".join(k.name for k in kinds))
@pytest.mark.sampled(3)
def test_random_numbers_while_memory_pauses(kinds, rng):
    Bench([Case(kinds, 15, 22, 4, 64, rng)], 64).pausing().run()


@pytest.mark.parametrize(
    "side, data_width", [(1, 32), (2, 512), sweep(8, 64), sweep(8, 128), sweep(16, 128)]
)
@pytest.mark.sampled(2)
def test_without_stalls(side, data_width, rng):
    groups = rng.sample(GROUPS, len(GROUPS))
    cases = [Case(kinds, *SIZES[side], side, data_width, rng) for kinds in groups]
    Bench(cases, data_width).run()


@pytest.mark.parametrize(
    "kinds",
    [*GROUPS, (Kind.GATHERED_U8,), (Kind.F32, Kind.GATHERED_F32), (Kind.GATHERED_U8, Kind.MASK)],
    ids=lambda kinds: "-".join(kind.name.lower() for kind in kinds),
)
@pytest.mark.parametrize(
    "side, data_width, size", [(2, 128, (9, 13)), (4, 64, (15, 22)), sweep(8, 64, (30, 44))]
)
@pytest.mark.sampled(3)
def test_a_memory_that_pauses(side, data_width, size, kinds, rng):
    """What was asked for comes late, be it the list of the next line behind a block that the core
    is already done with."""
    Bench([Case(kinds, *size, side, data_width, rng)], data_width).pausing().run()


@pytest.mark.parametrize("kind", [*IN_MEMORY, *GATHERED], ids=lambda kind: kind.name.lower())
@pytest.mark.parametrize("side, data_width", [(4, 512), sweep(8, 128)])
@pytest.mark.sampled(3)
def test_nothing_else_is_asked_for(side, data_width, kind, rng):
    for size in ((1, 1), (1, 37), (9, 1), (8, 24)):
        case = Case([kind], *size, side, data_width, rng, by_columns=rng.random() < 0.5)
        bench = Bench([case], data_width, stalls=True).run()
        asked = set(beats_asked(bench.memory.reads, case.beat))
        assert asked == {at - at % case.beat for at in case.memory.touched}


@pytest.mark.parametrize(
    "side, data_width, inputs",
    [(4, 64, 1), (4, 128, 2), (8, 128, 1), sweep(8, 128, 3), sweep(8, 256, 2)],
)
def test_a_beat_of_f32_every_cycle(side, data_width, inputs, rng):
    kinds = [Kind.F32] * inputs
    case = Case(kinds, 3 * side, 3 * side, side, data_width, rng)
    beats = 9 * inputs * side * max(1, 32 * side // data_width)
    taken = Bench([case], data_width).run().taken
    assert len(taken) == beats
    assert taken[-1] - taken[0] == beats - 1, "pauses"


def test_no_more_is_asked_for_than_there_is_room_for(rng):
    case = Case((Kind.F32, Kind.PRODUCT, Kind.LABELS), 40, 40, 8, 128, rng)
    bench = Bench([case], 128)
    beats = []

    async def idle(ctx):
        for _ in range(400):
            *_, valid, ready = await ctx.tick().sample(
                bench.dut.read.beats.valid, bench.dut.read.beats.ready
            )
            beats.append(valid and ready)
        assert [ctx.get(bench.dut.level[n]) for n in range(3)] == [INPUT_BLOCKS] * 3

    async def blocks(ctx):
        bench.begin(ctx, case)
        ctx.set(bench.dut.blocks.valid, 1)
        ctx.set(bench.dut.blocks.payload, case.blocks[0].fields())

    async def product(ctx):
        ctx.set(bench.dut.product.valid, 1)

    run(bench.dut, idle, blocks, product, background=(bench.read,))
    assert sum(beats) == len(beats_asked(bench.memory.reads, 16)) == INPUT_BLOCKS * (16 + 2)


def test_a_block_is_there_the_cycle_after_its_last_beat(rng):
    """Of each input; the first one does not wait for the second. And its requests begin."""
    case = Case([Kind.F32] * 2, 8, 8, 8, 128, rng)
    bench = Bench([case], 128)
    seen = []

    async def watch(ctx):
        beats = bench.dut.read.beats
        while True:
            moves, level = beats.valid & beats.ready, bench.dut.level
            seen.append((await ctx.tick().sample(moves, level, asks))[2:])

    asks = bench.dut.read.requests.valid
    run(bench.dut, bench.blocks, bench.core, background=(bench.read, watch))
    assert [asked for _, _, asked in seen[:4]] == [0, 0, 1, 1]  # it is offered from the first on
    taken = [cycle for cycle, (beat, _, _) in enumerate(seen) if beat]
    for number, last in ((0, taken[15]), (1, taken[31])):
        assert min(cycle for cycle, (_, level, _) in enumerate(seen) if level[number]) == last + 1
