# amaranth: UnusedElaboratable=no
"""Tiles in a buffer to elements and exponents of groups: numbers from the golden model, places and
orders from loops."""

from fractions import Fraction

import numpy as np
import pytest

from diastole_hw.convert.image.exponents import field_banks
from diastole_hw.convert.lanes.tile_quantiser import TileQuantiser
from diastole_sim.device.conversion import Conversion
from diastole_sim.golden.convert import quantise
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes
from oracle.formats import scale_code
from support.bench import design, get, put, run
from support.sweep import alternating
from support.tiles import (
    MACHINES,
    class_of,
    finds,
    joined,
    machine,
    piece_cols,
    tile_shape,
    tiles_of,
)

NAMES = list(MACHINES)
SEED, AT = 0xC0FF_EE11, {"tag": 0x1234_5678, "step": 77}
WHERE = {"seed": SEED, **AT}
POISON = 255


def random_values(shape, rng, p_special):
    """Signed numbers of some binades, with zeros, NaN, Inf and subnormals among them."""
    draw = np.random.default_rng(rng.getrandbits(32))
    exponents = draw.integers(-5, 4, shape) - 9 * (draw.random(shape) < 0.2)
    values = np.ldexp(draw.standard_normal(shape), exponents).astype(np.float32)
    odd = np.array([0, -0.0, np.nan, np.inf, -np.inf, 1e-40, 1e-9], np.float32)
    return np.where(draw.random(shape) < p_special, draw.choice(odd, shape), values)


class Tensor:
    """A tensor, its golden conversion, and what stands in the way to it: tiles, the exponents of
    units before folding, groups."""

    def __init__(self, numerics, cls, shape, rng, p_special=0.1):
        self.numerics, self.cls, self.shape, self.rng = numerics, cls, shape, rng
        self.chosen = class_of(numerics, cls)
        self.values = random_values(shape, rng, p_special)
        self.bits = self.values.view(np.uint32)
        self.golden = quantise(self.values, Conversion(CLASS_NAMES[cls], **AT), numerics, seed=SEED)
        self.tiles = tiles_of(numerics, cls, *shape)
        self.vectors = self.chosen.grouping.kind == "vector"
        tensor = self.chosen.grouping.kind == "tensor"
        self.side = numerics.block if tensor else self.chosen.grouping.size

    @property
    def scale(self):
        """Of the command."""
        exponent = self.golden.tensor_exponent
        offset = 138 if self.chosen.format.scale == "e4m3" else 127
        return 0 if exponent is None else exponent + offset

    def stored(self, copy, row, col):
        """The exponent in an image of the unit in which an element of the tensor lies; 0 beside
        the blocks."""
        exponents = self.golden.copies[copy].exponents
        if copy:
            row, col = col, row
        at = row if self.vectors else row // self.numerics.block
        of = col // (self.side if self.vectors else self.numerics.block)
        inside = at < exponents.shape[0] and of < exponents.shape[1]
        return int(exponents[at, of]) if inside else 0

    def measured(self, copy, row, col):
        """That exponent as it is before folding: of the largest number that the unit has. Only for
        units with an element in the tensor."""
        if self.chosen.format.scale == "e4m3":
            return self.measured_code(copy, row, col)
        rows, cols = self._place(copy, row, col)
        fields = (self.bits[rows, cols] >> 23 & 255).astype(int)
        nan = self.numerics.special == "poison" and self.chosen.format.nan_code is None
        if nan and (fields == 255).any():
            return POISON
        largest = int(np.where(fields == 255, 0, fields).max(initial=0))
        if self.chosen.has_tensor_scale:
            return self.scale if largest or self.infinite_counts(rows, cols) else 0
        return largest if largest > self.chosen.format.lowest_exponent + 126 else 0

    def measured_code(self, copy, row, col):
        """Of NVFP4: where any class has two scales to choose from that for 6 above that for 4; in
        classes that have not, the same twice."""
        code = self.stored(copy, row, col)
        if not finds(self.numerics, self.cls):
            return code * 257 if any(finds(self.numerics, cls) for cls in range(3)) else code
        values = np.abs(self.values[self._place(copy, row, col)]).astype(np.float64)
        if self.numerics.special == "poison" and not np.isfinite(values).all():
            return 0x7F7F
        largest = np.where(np.isfinite(values) & (values >= 2.0**-126), values, 0).max()
        if not largest:
            return 0
        wanted = Fraction(float(largest)) / Fraction(2) ** self.golden.tensor_exponent
        six, four = (scale_code("nearest", wanted / becomes) for becomes in (6, 4))
        assert code in (six, four)
        return six << 8 | four

    def _place(self, copy, row, col):
        """Of the unit of an element: its rows and columns."""
        if self.vectors and copy:
            return self._unit(row), slice(col, col + 1)
        if self.vectors:
            return slice(row, row + 1), self._unit(col)
        return self._unit(row), self._unit(col)

    def infinite_counts(self, rows, cols):
        """An Inf needs no number beside it where the exponent does not hang on them."""
        magnitudes = self.bits[rows, cols] & 0x7FFF_FFFF
        return self.numerics.special == "flag" and bool((magnitudes == 0x7F80_0000).any())

    def _unit(self, at):
        first = at // self.side * self.side
        return slice(first, first + self.side)

    def squares(self, tile, piece, count):
        """Of every piece the exponents of its squares, by their numbers modulo ``count``; 0 for
        those that lie beside the tensor."""
        if self.vectors:
            yield [self.rng.randrange(256) for _ in range(count)]  # mean nothing
            return
        known = self.numerics.folds(CLASS_NAMES[self.cls])
        of = self.top if known else self.measured
        for left in range(0, tile.cols, piece):
            squares = [0] * count
            for col in range(left, min(left + piece, tile.cols), self.side):
                squares[col // self.side % count] = of(0, tile.row, tile.col + col)
            yield squares

    def top(self, copy, row, col):
        """What a block is folded by, 0 of one of zeros, 255 of one that is no number."""
        at = row // self.numerics.block, col // self.numerics.block
        golden = self.golden.copies[copy]
        byte, by = int(golden.exponents[at]), int(golden.folds[at])
        nan = self.numerics.special == "poison" and self.chosen.format.nan_code is None
        if byte == POISON and nan:
            return POISON
        return self.chosen.format.depth + 1 - by if byte else 0

    def code(self, copy, row, col):
        """A stored element, by its place in the tensor; 0 beside the blocks."""
        codes = self.golden.copies[copy].codes
        if copy:
            row, col = col, row
        inside = row < codes.shape[0] and col < codes.shape[1]
        return int(codes[row, col]) if inside else 0

    def groups(self, copy):
        """(tile, places, flags) in order: of the first copy the groups, of the second the strips,
        each with the places in the tensor where its groups begin."""
        block = self.numerics.block
        for tile in self.tiles if self.vectors or not copy else []:
            edges = tile.fields()
            edges = {key: edges[key] for key in ("first_row", "first_col", "last_row", "last_col")}
            tops = range(tile.row, tile.row + tile.rows, 8 * block if copy else block)
            lefts = range(tile.col, tile.col + tile.cols, block if copy else 8 * block)
            for top in tops:
                places = [(top, left) for left in lefts]
                for each in [places] if copy else [[place] for place in places]:
                    ends = {"line_end": each[-1] == places[-1], "copy": copy}
                    ends["copy_end"] = each[-1] == (tops[-1], lefts[-1])
                    yield tile, each, edges | ends

    def field(self, copy, top, left):
        """A group's exponents in the order of the image."""
        block = self.numerics.block
        if not self.vectors:
            return [self.stored(0, top, left + j * block) for j in range(8)]
        first = (top if copy else left) // self.side
        runs = sorted({((top if copy else left) + j * block) // self.side for j in range(8)})
        assert runs[0] == first
        field = []
        for vector in runs:
            for row in range(block):
                at = (vector * self.side, left + row) if copy else (top + row, vector * self.side)
                field.append(self.stored(copy, *at))
        return field


class Memories:
    """What takes the groups of a copy; it gives halves back some time after they were filled."""

    def __init__(self, bench, copy):
        self.bench, self.copy = bench, copy
        self.port = bench.dut.second if copy else bench.dut.first
        self.banks = field_banks(bench.dut.sizes, copy)
        self.elements, self.fields = {}, [{}, {}]
        self.written = []  # elements and exponents of every half
        self.held = [0, 0]  # halves of the reorder memory, and of the memory of exponents

    async def watch(self, ctx):
        port, lanes, bits = self.port, self.bench.lanes, self.bench.bits
        while True:
            _, _, write, at, word, field_en, half, field, filled = await ctx.tick().sample(
                port.write_en, self.bench.dut.write_at, port.write_data,
                port.field_en, port.field_half, port.field, port.filled,
            )  # fmt: skip
            if field_en:
                assert self.held[1] < 2, "exponents where there is no room"
                bytes_ = self.fields[half].setdefault(field.group, {})
                for n in range(self.banks):
                    if field.enable >> n & 1:
                        place = field.row * self.banks + n
                        assert place not in bytes_, "an exponent is written twice"
                        bytes_[place] = field.values[n]
            if write:
                assert self.held[0] < 2, "elements where there is no room"
                for n in range(lanes):
                    place = (at.row, at.word * lanes + n)
                    assert place not in self.elements, "an element is written twice"
                    self.elements[place] = word >> n * bits & 2**bits - 1
            if filled:
                number = len(self.written) % 2
                self.written.append((self.elements, self.fields[number]))
                self.elements, self.fields[number] = {}, {}
                self.held = [count + 1 for count in self.held]

    async def free(self, ctx):
        bench = self.bench
        while True:
            now = [count > 0 and bench.rng.random() < bench.p_free for count in self.held]
            ctx.set(self.port.freed, now[0])
            ctx.set(self.port.field_freed, now[1])
            self.held = [count - freed for count, freed in zip(self.held, now, strict=True)]
            await ctx.tick()

    async def take_groups(self, ctx, tensor):
        """Everything that is said of the groups of a tensor, before they are written."""
        for number, (*_, flags) in enumerate(tensor.groups(self.copy)):
            got = await get(ctx, self.port.group, self.bench.willing)
            said = {key: getattr(got, key) for key in flags}
            assert said == flags, f"copy {self.copy} group {number}"

    def check(self, tensor, first):
        """The halves written from number ``first`` on are those of a tensor."""
        block, lanes = tensor.numerics.block, self.bench.lanes
        for number, (tile, places, _) in enumerate(tensor.groups(self.copy)):
            elements, fields = self.written[first + number]
            top, left = places[0]
            where = f"class {tensor.cls} {tensor.shape}: copy {self.copy} at {top}, {left}"
            wide = len(places) * block if self.copy else 8 * block
            high = 8 * block if self.copy else block
            unit = max(block, lanes)
            bottom = min(top + high, tile.row - (-tile.rows // block) * block)
            right = min(left + wide, tile.col - (-tile.cols // unit) * unit)
            wanted = {
                (row - tile.row, col - tile.col): tensor.code(self.copy, row, col)
                for row in range(top, bottom)
                for col in range(left, right)
            }
            assert elements == wanted, where
            assert sorted(fields) == list(range(len(places))), where
            for group, place in enumerate(places):
                bytes_ = tensor.field(self.copy, *place)
                field = fields[group]
                assert field == dict(enumerate(bytes_[: len(field)])), where
                assert not any(bytes_[len(field) :]), where


class Bench:
    """The buffer and the exponents around a :class:`TileQuantiser`, and its :class:`Memories`."""

    def __init__(self, name, rng, p=1.0, p_free=1.0):
        self.numerics, data_width = machine(name)
        self.dut = design(
            TileQuantiser, ConverterSizes(numerics=self.numerics, data_width=data_width)
        )
        self.rng, self.p, self.p_free = rng, p, p_free
        self.lanes = self.dut.sizes.lanes
        self.bits = max(class_of(self.numerics, cls).format.element_bits for cls in range(3))
        self.tensor = None
        self.cycle, self.reads, self.done, self.counts = 0, [], 0, [0, 0, 0, 0]
        self.copies = [Memories(self, copy) for copy in range(1 + self.dut.sizes.two_copies)]
        self.begun = self.tiles_read = 0

    def willing(self):
        return self.rng.random() < self.p

    def word(self, at, tile):
        """What the buffer and the memories of exponents have for a word."""
        tensor, rng, lanes = self.tensor, self.rng, self.lanes
        row, cols = at.row, [at.word * lanes + n for n in range(lanes)]
        begins = row < tile.rows and cols[0] < tile.cols
        if not begins:
            noise = [rng.randrange(256) for _ in range(lanes)]
            return rng.getrandbits(32 * lanes), rng.randrange(256), noise
        inside = [col < tile.cols for col in cols]
        places = [(tile.row + row, tile.col + col) for col in cols]
        floats = [
            int(tensor.bits[at]) if there else 0 for at, there in zip(places, inside, strict=True)
        ]
        if not tensor.vectors:
            return joined(floats, 32), rng.randrange(256), [rng.randrange(256)] * lanes
        down = [
            tensor.measured(1, *at) if there else 0
            for at, there in zip(places, inside, strict=True)
        ]
        return joined(floats, 32), tensor.measured(0, *places[0]), down

    async def memory(self, ctx):
        """A word the cycle after ``read_en``, and then until the next."""
        dut = self.dut
        while True:
            _, _, read, at, done = await ctx.tick().sample(dut.read_en, dut.read_at, dut.read_done)
            self.cycle += 1
            if read:
                self.reads.append(self.cycle)
                tile = self.tensor.tiles[self.done]
                half = self.tiles_read % 2 if self.dut.sizes.buffered_tiles == 2 else 0
                assert at.half == half
                data, along, down = self.word(at, tile)
                ctx.set(dut.read_data, data)
                if self.dut.sizes.two_copies:
                    ctx.set(dut.row_value, along)
                    ctx.set(dut.column_values, down)
            if done:
                assert read
                self.done += 1
                self.tiles_read += 1  # of all tensors

    async def count(self, ctx):
        dut = self.dut
        while True:
            _, _, *counts = await ctx.tick().sample(
                dut.nan, dut.inf, dut.saturated, dut.underflowed
            )
            self.counts = [a + b for a, b in zip(self.counts, counts, strict=True)]

    async def tensor_through(self, ctx, tensor):
        dut = self.dut
        self.tensor, self.done, self.counts = tensor, 0, [0, 0, 0, 0]
        ctx.set(dut.cls, tensor.cls)
        ctx.set(dut.scale, tensor.scale)
        ctx.set(dut.cols, tensor.shape[1])
        for port, key in ((dut.seed, "seed"), (dut.tag, "tag"), (dut.step, "step")):
            ctx.set(port, WHERE[key])
        await ctx.tick()
        self.begun += 1
        firsts = [len(copy.written) for copy in self.copies]
        counts = [len(list(tensor.groups(copy.copy))) for copy in self.copies]
        for copy, first, count in zip(self.copies, firsts, counts, strict=True):
            while len(copy.written) < first + count:
                await ctx.tick()
        for _ in range(4):
            await ctx.tick()
        for copy, first, count in zip(self.copies, firsts, counts, strict=True):
            assert len(copy.written) == first + count
            copy.check(tensor, first)
        what = f"class {tensor.cls} {tensor.shape}"
        golden = tensor.golden
        assert [bool(n) for n in self.counts[:2]] == [golden.nan, golden.inf], what
        assert self.counts[2:] == [golden.saturated, golden.underflowed], what
        assert self.done == len(tensor.tiles)

    def run(self, tensors):
        def source(port, items):
            async def give(ctx):
                for number, tensor in enumerate(tensors):
                    while self.begun <= number:
                        await ctx.tick()
                    await put(ctx, port, items(tensor), self.willing)

            return give

        def groups(copy):
            async def take(ctx):
                for number, tensor in enumerate(tensors):
                    while self.begun <= number:
                        await ctx.tick()
                    await copy.take_groups(ctx, tensor)

            return take

        async def main(ctx):
            for tensor in tensors:
                await self.tensor_through(ctx, tensor)

        benches = [main, source(self.dut.tile, lambda tensor: [t.fields() for t in tensor.tiles])]
        benches.append(source(self.dut.squares, self.squares))
        benches += [groups(copy) for copy in self.copies]
        background = [self.memory, self.count]
        background += [each for copy in self.copies for each in (copy.watch, copy.free)]
        run(self.dut, *benches, background=background, limit=60_000)

    def squares(self, tensor):
        piece = piece_cols(self.numerics, self.dut.sizes.data_width, tensor.cls)
        count = self.dut.sizes.piece_squares
        for tile in tensor.tiles:
            yield from tensor.squares(tile, piece, count)


def shape_of(numerics, cls, rng):
    """More than one tile, clipped; few rows where tiles are large."""
    height, width = tile_shape(numerics, cls)
    rows = height + 1 if height * width <= 256 else rng.randrange(2, 6)
    return rows, width + rng.randrange(1, 6)


@pytest.mark.parametrize(
    "name, p, p_free", alternating(NAMES, {"free": (1.0, 0.2), "stalled": (0.5, 0.03)})
)
@pytest.mark.sampled(4)
def test_tensors(name, p, p_free, rng):
    """Of all classes, one after the other; in one run groups mostly wait for room."""
    bench = Bench(name, rng, p, p_free)
    tensors = [
        Tensor(bench.numerics, cls, shape_of(bench.numerics, cls, rng), rng) for cls in range(3)
    ]
    tensors.append(Tensor(bench.numerics, 2, (3, 5), rng, p_special=0.5))
    tensors += [Tensor(bench.numerics, 2, (1, 3), rng) for _ in range(2)]  # draws of one hash
    rng.shuffle(tensors)
    bench.run(tensors)


@pytest.mark.parametrize(
    "name, passes", [("squares", 1), ("long vectors", 1), ("two scales", 2), ("two levels", 1)]
)
def test_timing(name, passes, rng):
    """A word per cycle, as long as groups find room; some cycles between passes."""
    bench = Bench(name, rng)
    tensor = Tensor(bench.numerics, 0, (bench.numerics.block, 8 * bench.numerics.block), rng)
    assert len(tensor.tiles) == 1
    bench.run([tensor])
    steps = len(bench.reads)
    gaps = [after - before - 1 for before, after in zip(bench.reads, bench.reads[1:], strict=False)]
    waits = [gap for gap in gaps if gap]
    groups = len(bench.copies[0].written)
    assert len(waits) <= passes - 1 + groups // 2
    assert sum(waits) <= 20 * passes + groups, (steps, waits)
