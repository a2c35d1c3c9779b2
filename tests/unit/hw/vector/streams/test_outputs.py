"""Outputs of a chain: rows of blocks to bytes in memory, against their definition."""

import numpy as np
import pytest

from diastole_hw.vector.streams.outputs import OutputStreams
from diastole_sim.golden.vector.streams import pack_mask
from diastole_sim.spec.stream_table import Kind
from support.bench import design, get, put, run, simulation
from support.bus import ServiceMemory
from support.unit_bench import Unit, until
from support.vector_streams import Layout, Stream, float_of, some_number, vector_shape, walked

BF16_NAN = 0x7FC0


def to_bf16(bits):
    """16 bits: to nearest even, NaN 7fc0, subnormals zeros of their sign."""
    if bits & 0x7FFF_FFFF > 0x7F80_0000:
        return BF16_NAN
    if is_zero(bits):
        return bits >> 31 << 15
    whole, rest = divmod(bits, 2**16)
    return whole + (rest > 2**15 or (rest == 2**15 and whole % 2))


def to_u8(bits):
    """To nearest even, 0 to 255; NaN 0."""
    number = float_of(bits)
    if number != number:
        return 0
    return round(min(max(number, 0.0), 255.0))


def is_zero(bits):
    return bits >> 23 & 255 == 0


def not_finite(bits):
    return bits >> 23 & 255 == 255


class Model:
    """What memory, the converter and the constants have in the end."""

    def __init__(self, memory, side):
        self.memory, self.side = bytearray(memory), side
        self.constants, self.not_finite = [], []

    def store(self, at, value, size):
        self.memory[at : at + size] = value.to_bytes(size, "little")

    def write(self, stream, block, rows):
        """A block of an output."""
        kind, watched = stream.kind, []
        if kind == Kind.MASK:
            self.mask(stream, block, rows)
        elif kind == Kind.CONSTANT:
            if block.end:
                self.constants.append((stream.address, rows[0][0]))
                watched.append(not_finite(rows[0][0]))
        else:
            for r in range(block.rows):
                for c in range(block.cols):
                    watched.append(self.element(stream, block, r, c, rows[r][c]))
        if stream.watch and any(watched):
            self.not_finite.append(kind)

    def element(self, stream, block, r, c, bits):
        """Of a block; returns whether a NaN or Inf is written."""
        kind, side = stream.kind, self.side
        row, col = block.i * side + r, block.j * side + c
        at = stream.address + row * stream.pitch
        odd = not_finite(bits)
        if kind == Kind.IMAGE:
            return odd
        if kind == Kind.F32:
            self.store(at + 4 * col, bits, 4)
            return odd
        if kind == Kind.BF16:
            self.store(at + 2 * col, to_bf16(bits), 2)
            return not_finite(to_bf16(bits) << 16)
        if kind == Kind.U8:
            self.store(at + col, to_u8(bits), 1)
            return False
        if kind == Kind.COLUMN and block.last and r == 0:
            self.store(stream.address + 4 * col, bits, 4)
            return odd
        if kind == Kind.ROW and block.last and c == 0:
            self.store(stream.address + 4 * row, bits, 4)
            return odd
        return False

    def mask(self, stream, block, rows):
        """Whole blocks, and whole bytes of a row of blocks; zeros outside the tensor."""
        side, first = self.side, block.j * self.side**2
        at = stream.address + block.i * stream.pitch
        for place in range(first, first + side**2):
            r, c = divmod(place - first, side)
            inside = r < block.rows and c < block.cols
            bit = int(inside and not is_zero(rows[r][c]))
            if place % 8 == 0:
                self.memory[at + place // 8] = 0
            self.memory[at + place // 8] |= bit << place % 8


class Case:
    """Outputs of some kinds; what is given to them."""

    def __init__(self, kinds, rows, cols, side, data_width, rng, by_columns=False):
        beat = data_width // 8
        self.side, self.beat, self.rng = side, beat, rng
        layout = Layout(rows, cols, side, beat, rng)
        self.streams = []
        for kind in kinds:
            if kind == Kind.CONSTANT:
                stream = Stream(kind=kind, address=rng.randrange(256))
            elif kind == Kind.IMAGE:
                stream = Stream(kind=kind, pitch=rng.getrandbits(32))
            else:
                stream = layout.stream(kind)
            self.streams.append(stream.watched(rng.randrange(2)))
        self.before = bytes(rng.randrange(256) for _ in range(layout.end + beat))
        model = self.model = Model(self.before, side)
        self.given = []
        for block in walked(rows, cols, side, by_columns):
            for number, stream in enumerate(self.streams):
                often = stream.kind in (Kind.COLUMN, Kind.ROW, Kind.CONSTANT) and rng.random() < 0.5
                for _ in range(1 + often):
                    tame = rng.random() < 0.5  # or hardly a block were finite
                    values = [[some_number(rng, tame) for _ in range(side)] for _ in range(side)]
                    self.given.append((number, block, values))
                    model.write(stream, block, values)


def check(case, data_width, stalls):
    """Run it; returns the requests that were made, and the cycles."""
    rng, side = case.rng, case.side
    dut = design(OutputStreams, vector_shape(side, data_width))
    unit = Unit(dut, rng, pace=0.6 if stalls else 1)
    memory = ServiceMemory(0, case.beat, lambda: stalls and rng.random() < 0.4)
    memory.bytes = bytearray(case.before)
    unit.serve(memory.write, dut.write.requests, dut.write.beats)
    blocks = [{"stream": n, "block": block.fields()} for n, block, _ in case.given]
    given = unit.give(dut.output_block, blocks)
    images = [each for each in case.given if case.streams[each[0]].kind == Kind.IMAGE]
    unit.take(dut.image, [row for _, _, values in images for row in values])
    constants, not_finite = [], set()

    def notice(cycle, room, ready, en, at, value, odd, kind):
        assert room == ready
        constants.extend([(at, value)] * en)
        not_finite.update([kind] * odd)

    unit.each_cycle(
        notice, dut.space, dut.output_block.ready, dut.constant_en, dut.constant_at, dut.constant,
        dut.not_finite, dut.not_finite_kind,
    )  # fmt: skip
    busy = unit.record(~dut.idle)

    async def rows(ctx):
        """Those of a block from the cycle on after it was given."""
        for number, stream in enumerate(case.streams):
            ctx.set(dut.streams[number], stream.fields())
        for number, (_, _, values) in enumerate(case.given):
            for row in values:
                while len(given.items) <= number or (stalls and rng.random() < 0.4):
                    await ctx.tick()
                await unit.pulse(ctx, "row_en", row=row)
        await until(ctx, dut.idle)

    unit.run(rows, limit=200_000)
    assert memory.bytes == case.model.memory, differences(memory.bytes, case)
    assert constants == case.model.constants
    assert not_finite == set(case.model.not_finite)
    return memory.writes, len(busy.cycles)


def differences(got, case):
    """Where memory is not what it should be, for people."""
    wanted, before = case.model.memory, case.before
    places = [at for at in range(len(got)) if got[at] != wanted[at]]
    lines = [f"{at:#x}: {got[at]:02x}, not {wanted[at]:02x}, was {before[at]:02x}" for at in places]
    return "\n".join([str(case.streams), *lines[:20]])


SIZES = {1: (3, 21), 2: (5, 19), 4: (7, 13), 8: (11, 21), 16: (17, 20), 32: (20, 33)}
GROUPS = (
    ((Kind.F32, Kind.BF16, Kind.U8, Kind.MASK), False),
    ((Kind.MASK, Kind.ROW, Kind.MASK, Kind.CONSTANT), False),
    ((Kind.COLUMN, Kind.CONSTANT, Kind.U8, Kind.F32), True),
    ((Kind.IMAGE, Kind.ROW, Kind.F32), False),
)
WRITTEN = sorted({kind for kinds, _ in GROUPS for kind in kinds})
SHAPES = [(side, width) for side in (1, 2, 4, 8, 16) for width in (32, 64, 128, 512)] + [(32, 128)]


@pytest.mark.parametrize("side, data_width", SHAPES)
@pytest.mark.sampled(21)
def test_memory_holds_what_was_given(side, data_width, rng):
    for number, (kinds, by_columns) in enumerate(GROUPS):
        case = Case(kinds, *SIZES[side], side, data_width, rng, by_columns)
        check(case, data_width, stalls=number != 1)


@pytest.mark.parametrize("kinds, by_columns", GROUPS, ids=["rows", "masks", "columns", "image"])
def test_odd_sizes(kinds, by_columns, rng):
    for size in ((1, 1), (1, 37), (9, 1), (8, 16)):
        check(Case(kinds, *size, 8, 128, rng, by_columns), 128, stalls=False)
    for side, data_width in ((4, 512), (2, 32)):
        check(Case(kinds, 1, 9, side, data_width, rng, by_columns), data_width, stalls=True)


@pytest.mark.parametrize("kind", WRITTEN, ids=lambda kind: kind.name.lower())
@pytest.mark.sampled(2)
def test_what_is_not_finite_is_noticed_where_it_is_written(kind, rng):
    for watch in (1, 1, 1, 0):
        for value in (0x7F80_0000, 0xFFC0_0000, 0x7F7F_8000, 0x7F7F_7FFF, 0xFF7F_FFFF):
            case = Case([kind], 5, 6, 8, 128, rng, by_columns=kind == Kind.COLUMN)
            [stream], [block] = case.streams, walked(5, 6, 8)
            case.streams = [stream.watched(watch)]
            values = [[0x3F80_0000] * 8 for _ in range(8)]
            row, col = rng.choice([(0, 0), (0, 3), (4, 0), (2, 5), (0, 6), (5, 0), (4, 5)])
            values[row][col] = value
            case.given = [(0, block, values)]
            case.model = Model(case.before, 8)
            case.model.write(case.streams[0], block, values)
            check(case, 128, stalls=False)


def test_a_beat_of_f32_every_cycle(rng):
    case = Case([Kind.F32] * 2, 24, 24, 8, 128, rng)
    requests, cycles = check(case, 128, stalls=False)
    assert len(requests) == 2 * 9 * 8
    assert cycles <= 2 * 9 * 16 + 8, "pauses"


async def test_what_is_behind_an_image_does_not_wait_for_the_converter(rng):
    """Rows of images wait in a queue of their own, and leave after the chain."""
    case = Case([Kind.IMAGE, Kind.F32], 8, 16, 8, 128, rng)
    dut = design(OutputStreams, vector_shape(8, 128))
    memory = ServiceMemory(0, case.beat, lambda: False)
    memory.bytes = bytearray(case.before)

    async def write(ctx):
        await memory.write(ctx, dut.write.requests, dut.write.beats)

    ctx = await simulation(dut, background=(write,), limit=2_000)
    for number, stream in enumerate(case.streams):
        ctx.set(dut.streams[number], stream.fields())
    for number, block, values in case.given:
        await put(ctx, dut.output_block, [{"stream": number, "block": block.fields()}])
        for row in values:
            ctx.set(dut.row, row)
            ctx.set(dut.row_en, 1)
            await ctx.tick()
        ctx.set(dut.row_en, 0)
    while not (await ctx.tick().sample(dut.idle))[-1]:
        pass
    assert memory.bytes == case.model.memory, differences(memory.bytes, case)
    for number, _, values in case.given:
        for row in values if case.streams[number].kind == Kind.IMAGE else ():
            assert list(await get(ctx, dut.image)) == row


def test_requests_and_beats_do_not_wait_for_each_other(rng):
    """A block's requests leave without its rows; its beats leave before its requests."""
    dut = design(OutputStreams, vector_shape(8, 128))
    block = walked(8, 8, 8)[0].fields()

    async def give(ctx):
        for number in range(4):
            ctx.set(dut.streams[number], Stream(kind=Kind.F32, address=64, pitch=64).fields())
        await put(ctx, dut.output_block, [{"stream": 1, "block": block}])

    async def requests(ctx):
        for row in range(8):
            got = await get(ctx, dut.write.requests)
            assert (got.addr, got.beats) == (64 + 64 * row, 2)

    async def rows(ctx):
        while not (await ctx.tick().sample(dut.output_block.valid & dut.output_block.ready))[-1]:
            pass
        ctx.set(dut.row_en, 1)
        await ctx.tick().repeat(8)
        ctx.set(dut.row_en, 0)

    async def beats(ctx):
        for _ in range(16):
            await get(ctx, dut.write.beats)

    run(dut, give, requests)
    run(dut, give, rows, beats)


@pytest.mark.parametrize("side", [1, 2, 4, 8, 16])
def test_masks_are_those_of_the_golden_machine(side, rng):
    rows, cols = SIZES[side]
    bits = [[some_number(rng) for _ in range(16 * 8)] for _ in range(32)]
    values = np.array(bits, np.uint32)[:rows, :cols].view(np.float32)
    wanted = pack_mask(values, side)
    pitch = wanted.shape[1]
    model = Model(bytes([255]) * wanted.size, side)
    for block in walked(rows, cols, side):
        first, left = block.i * side, block.j * side
        of_block = [row[left : left + side] for row in bits[first : first + side]]
        model.write(Stream(kind=Kind.MASK, pitch=pitch), block, of_block)
    assert model.memory == wanted.tobytes()
