# amaranth: UnusedElaboratable=no
import pytest

from diastole_hw.stream.blocks import BlockBuffer
from support.bench import design
from support.unit_bench import Unit

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
        kind, transposed = rng.randrange(len(self.elements)), rng.randrange(2)
        bits, at = 0, 0
        for number in range(count):
            block = [[rng.getrandbits(self.elements[kind]) for _ in range(self.side)]
                     for _ in range(self.side)]  # fmt: skip
            for element in (element for row in block for element in row):
                bits |= element << at
                at += self.elements[kind]
            drop = int(rng.random() < 0.2)
            self.blocks.append(
                {
                    "kind": kind,
                    "transposed": transposed,
                    "drop": drop,
                    "ends": int(number == count - 1),
                }
            )
            vectors = zip(*block, strict=True) if transposed else block
            self.vectors.append(None if drop else [[self._aligned(kind, e) for e in vector]
                                                   for vector in vectors])  # fmt: skip
        beats = -(-at // self.beat)
        bits |= rng.getrandbits(beats * self.beat - at + 1) << at  # anything fills the last beat
        for k in range(beats):
            beat = bits >> (k * self.beat) & (1 << self.beat) - 1
            self.beats.append({"bits": beat, "last": int(k == beats - 1)})
        self.drawn.append((kind, count, beats))

    def words(self):
        """Of a block that is dropped there is one, of anything."""
        for vectors in self.vectors:
            for index in range(0, self.side if vectors else 1, self.step):
                last = vectors is None or index + self.step == self.side
                word = {"index": index // self.step, "last": last}
                yield word | ({"vectors": vectors[index : index + self.step]} if vectors else {})

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
    p_send, p_cut, p_take = p
    unit = Unit(dut, rng)
    unit.give(dut.i, parts.beats, p_send)
    unit.give(dut.blocks, parts.blocks, p_cut)
    unit.take(dut.o, parts.words(), p_take)
    unit.run()


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
    assert moves(dut, parts.beats, parts.blocks) == cycles_of(parts)


def moves(dut, beats, blocks):
    """The cycles in which beats, blocks and vectors move where nothing waits."""
    unit = Unit(dut)
    ports = unit.give(dut.i, beats), unit.give(dut.blocks, blocks), unit.collect(dut.o)
    unit.run()
    return tuple(port.cycles for port in ports)


def test_a_block_per_cycle():
    """V = B, and the bus brings as much: a block of eight beats' parts in each cycle."""
    beats = [{"bits": 0, "last": k % 8 == 7} for k in range(32)]
    *_, given = moves(buffer((512, (8,), 8, 8)), beats, [{"ends": k % 8 == 7} for k in range(32)])
    assert given == list(range(2, 34))
