"""Chains on the core of the vector unit, in Amaranth's simulator: all that surrounds it, and two
judges: the oracle, of every row, and the golden interpreter, of what a chain leaves."""

import math
from dataclasses import dataclass, field

import numpy as np

from diastole_hw.vector.core.vector_core import VectorCore
from diastole_hw.vector.stream_layouts import VectorShape
from diastole_sim.golden.vector.chain_output import ChainOutput
from diastole_sim.golden.vector.chain_run import run_chain
from oracle import vector_program as judge
from oracle import vector_words as w
from support.bench import design, put, run
from support.golden_scenes import floats, golden_chain, patterns

BUFFERED = 4
"""Blocks of a stream that may be there."""


class Judge(judge.Chain):
    """The oracle, which also notes the rows of every output block, and of every block of an input,
    in their order."""

    def __init__(self, scene):
        panel = [list(vector) for vector in scene.panel]
        super().__init__(
            scene.words,
            scene.block,
            scene.size,
            scene.constants,
            scene.inputs,
            scene.outputs,
            panel,
        )
        self.given, self.slots_used = [], 0
        self.walk(scene.lines)

    def result_of(self, each, at, first):
        self.slots_used += 1
        return super().result_of(each, at, first)

    def write(self, number, at, values, last, final):
        if self.outputs[number].kind != w.KIND_PANEL:
            self.given.append((number, at, rows_of(values, self.block)))
        super().write(number, at, values, last, final)

    def block_of(self, stream, at):
        block = range(self.block)
        values = {(r, lane): self.from_stream(stream, at, r, lane) for r in block for lane in block}
        return rows_of(values, self.block)


def rows_of(values, block):
    return [[values[r, lane] for lane in range(block)] for r in range(block)]


def number_of(row):
    """A row as the bits of a signal."""
    return sum(value << 32 * lane for lane, value in enumerate(row))


def shape_of(block, specials=None, panel_vectors=1024):
    specials = specials or max(1, block // 4)
    return VectorShape(block=block, data_width=128, specials=specials, panel_vectors=panel_vectors)


def core_of(block, specials=None):
    return design(VectorCore, shape_of(block, specials))


@dataclass
class Rates:
    """How often, in a cycle, a block of the walk or of a stream comes, and there is room."""

    walk: float = 1.0
    blocks: float = 1.0
    room: float = 1.0


FREE = Rates()


@dataclass
class Record:
    """What a run showed. ``cycles``: from start to done; ``counted``: by counter, its cycles."""

    given: list = field(default_factory=list)
    rows: list = field(default_factory=list)
    releases: int = 0
    cycles: int = 0
    counted: dict = field(default_factory=dict)


COUNTERS = ("working", "waits_inputs", "waits_outputs", "waits_specials")


class Around:
    """Everything around the core, for one chain after another."""

    def __init__(self, dut, rng, rates):
        self.dut, self.rng, self.rates = dut, rng, rates
        self.size = dut.shape.block
        self.judge = None
        self.record = Record()

    def begin(self, scene):
        self.scene, self.judge = scene, Judge(scene)
        self.order = [at for line in scene.lines for at in line]
        self.panel = [number_of(vector) for vector in scene.panel]
        self.first = self.rng.randrange(257 - len(scene.words))
        self.arrived = [0] * 4
        self.record = Record(counted=dict.fromkeys(COUNTERS, 0))
        sources = {s for word in scene.words for s in w.decoded(word).sources.values()}
        outputs = {w.decoded(word).o for word in scene.words if w.decoded(word).op != w.NOP}
        self.streams = [
            self.described(each, number + 16 in sources) for number, each in enumerate(scene.inputs)
        ] + [self.described(each, number in outputs) for number, each in enumerate(scene.outputs)]
        self.in_buffers = [
            number for number in range(4)
            if self.streams[number]["used"] and scene.inputs[number].kind != w.KIND_PANEL
        ]  # fmt: skip
        self.stored = {
            number: [list(map(number_of, self.judge.block_of(scene.inputs[number], at)))
                     for at in self.order]
            for number in self.in_buffers
        }  # fmt: skip

    def described(self, stream, used):
        """As its descriptor became; what is not used is anything."""
        rng = self.rng
        if stream is None or not used:
            return {"used": 0, "kind": rng.getrandbits(4), "aux": rng.getrandbits(8),
                    "address": rng.getrandbits(40), "pitch": rng.getrandbits(32)}  # fmt: skip
        panel = stream.kind == w.KIND_PANEL
        return {
            "used": 1,
            "kind": stream.kind,
            "aux": stream.aux if panel else rng.getrandbits(8),
            "address": stream.first if panel else rng.getrandbits(40),
            "pitch": stream.pitch if panel else rng.getrandbits(32),
        }

    def visited(self):
        rows, columns = self.scene.size
        for line in self.scene.lines:
            for place, (i, j) in enumerate(line):
                yield {
                    "i": i,
                    "j": j,
                    "rows": min(self.size, rows - i * self.size),
                    "cols": min(self.size, columns - j * self.size),
                    "first": place == 0,
                    "last": place == len(line) - 1,
                    "first_row": i == 0,
                    "end": (i, j) == self.order[-1],
                }

    async def chain(self, ctx, scene):
        """Start it, and give it its blocks until it is done."""
        self.begin(scene)
        dut, rng = self.dut, self.rng
        ctx.set(dut.streams, self.streams)
        ctx.set(dut.program_first, self.first)
        ctx.set(dut.program_length, len(scene.words))
        ctx.set(dut.start, 1)
        await ctx.tick()
        ctx.set(dut.start, 0)
        await put(ctx, dut.blocks, self.visited(), lambda: rng.random() < self.rates.walk)
        while not self.record.cycles:
            await ctx.tick()
        self.check()

    def check(self):
        record, expected = self.record, self.judge
        blocks = [(number, at) for number, at, _ in expected.given]
        rows = [number_of(row) for _, _, rows in expected.given for row in rows]
        assert record.given == blocks
        for number, (got, want) in enumerate(zip(record.rows, rows, strict=True)):
            block, r = divmod(number, self.size)
            assert got == want, f"row {r} of {blocks[block]}: {got:#x}, not {want:#x}"
        panel = [number_of(vector) for vector in expected.panel]
        for vector, (got, want) in enumerate(zip(self.panel, panel, strict=True)):
            assert got == want, f"vector {vector}: {got:#x}, not {want:#x}"
        assert record.releases == len(self.order)
        self.check_by_golden()

    def check_by_golden(self):
        """What memory holds of the rows, and the panel, as the golden interpreter has them."""
        scene, side = self.scene, self.size
        if len(self.order) != math.prod(-(-size // side) for size in scene.size):
            return  # a walk of some blocks only, which it does not take
        chain = golden_chain(scene)
        result = run_chain(chain)
        assert list(map(number_of, patterns(chain.panel))) == self.panel
        written = ChainOutput(chain.order, chain.outputs, chain.arithmetic)
        for number in chain.outputs:
            given = [n for n, (to, _) in enumerate(self.record.given) if to == number]
            blocks = np.array([self.order.index(self.record.given[n][1]) for n in given], int)
            rows = [self.record.rows[n * side + r] for n in given for r in range(side)]
            values = [row >> 32 * lane & 2**32 - 1 for row in rows for lane in range(side)]
            written.write(number, blocks, floats(values).reshape(-1, side, side))
        found, wanted = (
            {number: patterns(values) for number, values in each.values.items()}
            for each in (written.result(), result)
        )
        assert found == wanted

    async def memories(self, ctx):
        """Program, constants, panel: words a cycle after they were asked for."""
        dut, rng = self.dut, self.rng
        while True:
            _, _, *seen = await ctx.tick().sample(
                dut.program_en, dut.program_at, dut.constant_en, dut.constant_at,
                dut.panel_read_en, dut.panel_read_at,
                dut.panel_write_en, dut.panel_write_at, dut.panel_write.as_value(),
            )  # fmt: skip
            asked, at, constant, k, reads, vector, writes, to, row = seen
            if asked:
                number = at - self.first & 255
                known = number < len(self.scene.words)
                ctx.set(
                    dut.program_word, self.scene.words[number] if known else rng.getrandbits(64)
                )
            if constant:
                ctx.set(dut.constant_word, self.scene.constants[k])
            if reads:
                ctx.set(dut.panel_read.as_value(), self.panel[vector])
                assert not (writes and vector == to)
            if writes:
                self.panel[to] = row

    async def inputs(self, ctx):
        """Blocks that come late; what is no block, or of a stream that is not read, is anything."""
        dut, rng = self.dut, self.rng
        while True:
            if self.judge:
                for number in self.in_buffers:
                    level = self.arrived[number] - self.record.releases
                    more = level < BUFFERED and self.arrived[number] < len(self.order)
                    self.arrived[number] += more and rng.random() < self.rates.blocks
                    ctx.set(dut.level[number], self.arrived[number] - self.record.releases)
            _, _, at, releases = await ctx.tick().sample(dut.row_at, dut.release_block)
            for number in range(4):
                row = rng.getrandbits(32 * self.size)
                here = self.judge and number in self.in_buffers
                if here and self.arrived[number] > self.record.releases:
                    row = self.stored[number][self.record.releases][at]
                ctx.set(dut.rows[number].as_value(), row)
            self.record.releases += releases

    async def outputs(self, ctx):
        dut, rng = self.dut, self.rng
        room = cycles = 0
        while True:
            if rng.random() < 0.2:
                room = rng.random() < self.rates.room
            ctx.set(dut.space, room)
            ctx.set(dut.output_block.ready, room)
            _, _, started, given, to, valid, row, done, *counts = await ctx.tick().sample(
                dut.start, dut.output_block.valid, dut.output_block.payload, dut.out_row.valid,
                dut.out_row.row.as_value(), dut.done, *(getattr(dut, name) for name in COUNTERS),
            )  # fmt: skip
            cycles = 0 if started else cycles + 1
            if given:
                self.record.given.append((to.stream, (to.block.i, to.block.j)))
            if valid:
                self.record.rows.append(row)
            if self.judge:
                for name, count in zip(COUNTERS, counts, strict=True):
                    self.record.counted[name] += count
            if done:
                self.record.cycles = cycles


def run_scenes(dut, scenes, rng, rates=FREE, limit=100_000):
    """One after the other, each right to the bit; a :class:`Record` of each."""
    around, records = Around(dut, rng, rates), []

    async def bench(ctx):
        for scene in scenes:
            await around.chain(ctx, scene)
            records.append(around.record)
        for _ in range(20):
            await ctx.tick()
        assert around.record.rows == records[-1].rows, "rows after the end"

    benches = (around.memories, around.inputs, around.outputs)
    run(dut, bench, limit=limit, background=benches)
    return records
