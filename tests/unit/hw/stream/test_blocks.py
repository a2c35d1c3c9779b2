# amaranth: UnusedElaboratable=no
import pytest

from diastole_hw.stream.blocks import BlockBuffer
from support.bench import design, get, put, run
from support.texts import exactly

# D, bits of elements by kind, B, V.
SHAPES = [
    (64, (5, 5, 5), 8, 1),  # whole beats
    (64, (4, 6, 3), 4, 1),
    (64, (4, 6, 3), 2, 1),  # bits of the next block are left over
    (64, (9,), 16, 1),  # a vector is wider than a beat
    (32, (9, 4), 1, 1),  # several blocks in a beat, whose rest is dropped
    (32, (5, 8, 2), 2, 2),
    (128, (5, 9), 4, 2),
    (512, (5, 5, 9), 8, 8),
    (512, (3, 5), 2, 1),  # many blocks in a beat
    (256, (8,), 4, 4),
    (8, (3, 17), 2, 2),
]


class Parts:
    """Parts at random: what goes in, and by block the vectors that must come out."""

    def __init__(self, shape, rng, number=12, most=8):
        self.beat, self.elements, self.side, self.step = shape
        self.beats, self.blocks, self.vectors, self.drawn = [], [], [], []
        for _ in range(number):
            self._part(rng, rng.randrange(1, most + 1))

    def _part(self, rng, count):
        kind, turned = rng.randrange(len(self.elements)), rng.randrange(2)
        bits, at = 0, 0
        for number in range(count):
            block = [[rng.getrandbits(self.elements[kind]) for _ in range(self.side)]
                     for _ in range(self.side)]  # fmt: skip
            for element in (element for row in block for element in row):
                bits |= element << at
                at += self.elements[kind]
            drop = int(rng.random() < 0.2)
            self.blocks.append(
                {"kind": kind, "turned": turned, "drop": drop, "ends": int(number == count - 1)}
            )
            vectors = zip(*block, strict=True) if turned else block
            self.vectors.append(None if drop else [[self._aligned(kind, e) for e in vector]
                                                   for vector in vectors])  # fmt: skip
        beats = -(-at // self.beat)
        bits |= rng.getrandbits(beats * self.beat - at + 1) << at  # anything fills the last beat
        for k in range(beats):
            beat = bits >> (k * self.beat) & (1 << self.beat) - 1
            self.beats.append({"bits": beat, "last": int(k == beats - 1)})
        self.drawn.append((kind, count, beats))

    def _aligned(self, kind, element):
        low = self.elements[kind] - 1
        return element % 2**low + (element >> low << max(self.elements) - 1)


def buffer(shape):
    beat, elements, side, vectors = shape
    return design(BlockBuffer, beat=beat, elements=elements, side=side, vectors=vectors)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("p", [(1.0, 1.0, 1.0), (0.5, 0.7, 0.6), (1.0, 0.2, 1.0)], ids=str)
@pytest.mark.sampled(3)
def test_vectors_in_order(shape, p, rng):
    parts, dut = Parts(shape, rng), buffer(shape)
    may_send, may_cut, may_take = (lambda share=share: rng.random() < share for share in p)
    steps = parts.side // parts.step

    async def send(ctx):
        await put(ctx, dut.i, parts.beats, willing=may_send)

    async def cut(ctx):
        await put(ctx, dut.blocks, parts.blocks, willing=may_cut)

    async def take(ctx):
        for number, vectors in enumerate(parts.vectors):
            if vectors is None:
                got = await get(ctx, dut.o, willing=may_take)
                assert (got.index, got.last) == (0, 1), f"block {number} is dropped"
                continue
            for index in range(steps):
                got = await get(ctx, dut.o, willing=may_take)
                assert (got.index, got.last) == (index, index == steps - 1), f"block {number}"
                want = vectors[index * parts.step :][: parts.step]
                assert [list(vector) for vector in got.vectors] == want, f"block {number}"
        await ctx.tick().repeat(3)
        assert not ctx.get(dut.o.valid)

    run(dut, send, cut, take)


def cycles_of(parts):
    """When beats are taken, blocks move on, and vectors are given, where nothing ever waits."""
    taken, moved, given = [], [], []
    most = max(parts.elements) * parts.side**2
    blocks = iter(parts.blocks)
    bits, cycle, free = 0, 0, 0  # left over at the start of the cycle; when the last block is out
    for kind, count, beats in parts.drawn:
        size, left = parts.elements[kind] * parts.side**2, count
        while left:
            if bits >= size and cycle >= free:
                block = next(blocks)
                steps = 1 if block["drop"] else parts.side // parts.step
                moved.append(cycle)
                given.extend(range(cycle + 1, cycle + 1 + steps))
                free, left, bits = cycle + steps, left - 1, bits - size
            if left == 0:
                bits = 0
                break  # the next part may begin in this cycle
            if beats and bits < most:
                taken.append(cycle)
                beats, bits = beats - 1, bits + parts.beat
            cycle += 1
        assert not beats
    return taken, moved, given


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_cycles(shape, rng):
    parts, dut = Parts(shape, rng), buffer(shape)
    want, got = cycles_of(parts), ([], [], [])

    async def send(ctx):
        await put(ctx, dut.i, parts.beats)

    async def cut(ctx):
        await put(ctx, dut.blocks, parts.blocks)

    async def watch(ctx):
        ctx.set(dut.o.ready, 1)
        moves = [stream.valid & stream.ready for stream in (dut.i, dut.blocks, dut.o)]
        for cycle in range(want[2][-1] + 10):
            _, _, *moved = await ctx.tick().sample(*moves)
            for cycles, move in zip(got, moved, strict=True):
                cycles.extend([cycle] * move)

    run(dut, send, cut, watch)
    assert got == want


def test_a_block_per_cycle():
    """V = B, and the bus brings as much: a block of eight beats' parts in each cycle."""
    dut = buffer((512, (8,), 8, 8))
    cycles = []

    async def send(ctx):
        await put(ctx, dut.i, [{"bits": 0, "last": k % 8 == 7} for k in range(32)])

    async def cut(ctx):
        await put(ctx, dut.blocks, [{"ends": k % 8 == 7} for k in range(32)])

    async def watch(ctx):
        ctx.set(dut.o.ready, 1)
        for cycle in range(40):
            _, _, valid = await ctx.tick().sample(dut.o.valid)
            cycles.extend([cycle] * valid)

    run(dut, send, cut, watch)
    assert cycles == list(range(2, 34))


@pytest.mark.parametrize(
    "change, message",
    [
        ({"beat": 4}, "beat must be an integer in 8..1024, not 4"),
        ({"elements": ()}, "len(elements) must be an integer in 1..4, not 0"),
        ({"elements": (5, 1)}, "elements[1] must be an integer in 2..64, not 1"),
        ({"side": 33}, "side must be an integer in 1..32, not 33"),
        ({"vectors": 3}, "vectors must be a power of two up to side 8, not 3"),
        ({"vectors": 16}, "vectors must be a power of two up to side 8, not 16"),
    ],
)
def test_bad_parameters(change, message):
    good = {"beat": 64, "elements": (5,), "side": 8, "vectors": 1}
    with pytest.raises(ValueError, match=exactly(message)):
        BlockBuffer(**good | change)
