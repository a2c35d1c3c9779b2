"""The order of a tile's words, their maxima and their rows, against loops; every cycle of it."""

from dataclasses import dataclass
from functools import partial
from itertools import product

import pytest

from diastole_hw.plan.modes import Mode
from diastole_hw.store.drain_walk import DrainWalk
from support.bench import design, members_of, put, simulation
from support.plans import make_numerics, make_plan, with_vector

SLOTS = 4  # of maxima
NVFP4 = {"formats": ("nvfp4",) * 3, "fraction": 3, "headroom": 8}
MACHINES = {  # numerics, and rows, columns, D, and whether cells transpose
    "squares": ({"block": 4, "formats": ("bfp3", "bfp5", "bfp2")}, 2, 3, 64, True),
    "edge": ({"block": 2}, 2, 3, 128, False),
    "textbook": ({"block": 1, "formats": "bfp8"}, 3, 1, 32, True),
    "one cell": ({"block": 8}, 1, 1, 64, True),
    "vectors": ({"block": 4, "groupings": ("1x8", "1x16", "1x4")}, 2, 3, 32, True),
    "vectors of X": ({"block": 2, "groupings": ("1x8", None, None)}, 1, 4, 64, True),
    "vectors of W": ({"block": 4, "groupings": (None, "1x16", None)}, 3, 2, 32, True),
    "nvfp4": (NVFP4 | {"block": 2, "groupings": ("1x4", "4x4", "1x4")}, 1, 2, 32, True),
    "words of two": ({"block": 4}, 2, 2, 256, True),
    "words of two of three": ({"block": 4}, 3, 5, 256, True),
    "words of four and two": ({"block": 2}, 5, 3, 256, True),
    "words of W's vectors": ({"block": 4, "groupings": (None, "1x16", None)}, 3, 4, 512, True),
    "words of X's vectors": ({"block": 2, "groupings": ("1x8", None, None)}, 2, 6, 256, True),
    "words of vectors": ({"block": 2, "groupings": ("1x8", "1x4", "1x16")}, 2, 3, 256, True),
}
WORDS = {  # vectors in a word, east and north, where there are several
    "edge": (2, 1),
    "words of two": (2, 2),
    "words of two of three": (2, 2),
    "words of four and two": (4, 2),
    "words of W's vectors": (2, 4),
    "words of X's vectors": (2, 4),
    "words of vectors": (2, 2),
}
COLUMNS = {  # ports in a word of columns, where there are several
    "words of two": 2,
    "words of W's vectors": 4,
    "words of X's vectors": 2,
}
OPERANDS = {  # by hand: what streams and what is held, by direction in the fused pass
    (Mode.FORWARD, 0): "xw", (Mode.FORWARD, 1): "xw",
    (Mode.DX, 0): "dw", (Mode.DX, 1): "dw",
    (Mode.DW, 0): "xd", (Mode.DW, 1): "xd",
    (Mode.FUSED, 0): "xd", (Mode.FUSED, 1): "wd",
}  # fmt: skip


def make(name):
    numerics, rows, cols, data_width, in_place = MACHINES[name]
    return make_plan(make_numerics(**numerics), rows, cols, in_place, data_width)


def modes(name, north):
    """Those that have sums in this direction."""
    plan = make(name)
    return [m for m in Mode if (plan.fused if m == Mode.FUSED else plan.use(m).north == north)]


CASES = [(name, north) for name in MACHINES for north in (False, True) if modes(name, north)]


@dataclass
class Word:
    """One word of sums: where it is, the maxima it needs, and the span that begins with it."""

    present: int  # a bit for each vector
    port: int
    addr: int  # from the tile's first
    wrapped_addr: int  # of ports below, likewise
    stream: tuple  # beat and byte
    stationary: tuple  # beat, byte, and whether B entries of rows stand there
    span: dict | None
    padding: bool = False
    last_part: int = 0  # with floats of the result, where a word has parts


class Job:
    """One result: its tiles, and the words of each. ``rows``, ``cols`` of it in elements."""

    def __init__(self, name, mode, north, rng, per_word, chained=False):
        plan, groupings = make(name), MACHINES[name][0].get("groupings") or (None,) * 3
        self.name, self.plan, self.per_word = name, plan, per_word
        self.mode, self.north, self.chained = mode, north, chained
        self.fused = mode == Mode.FUSED
        self.transposed = self.fused and north
        self.ports = plan.cols if north else plan.rows
        self.tile_words = plan.fused_tile_words if self.fused else plan.tile_words
        self.lanes_outermost = False
        if not self.fused:  # any tile that the machine takes
            limits = plan.nests.of(mode.name.lower())
            self.tile_blocks, self.groups = rng.choice(limits.t_blocks), rng.choice(limits.groups)
            self.lanes_outermost = rng.random() < 0.5
        slices = plan.fused_slices_n if self.fused else self.groups
        words = (1 if self.transposed else slices) * self.t_step * plan.block
        self.whole = 2 * words > plan.tile_sums or rng.random() < 0.3  # a memory of sums
        names = OPERANDS[mode, north]
        self.by_row = [
            plan.block > 1 and (groupings["xwd".index(name)] or "").startswith("1x")
            for name in names
        ]
        side, most = plan.block, 3 * self.ports + 2
        t_step = self.tile_words if self.fused else self.tile_blocks * side
        t_count = rng.choice([t_step + rng.randrange(1, 5), rng.randrange(1, 8)])
        lanes = side * rng.randrange(1, most) - rng.randrange(side)
        if self.fused and not self.transposed:
            lanes = side * min(plan.fused_blocks_n, most)
        if not self.fused and t_count < 8:  # two tiles beside each other
            lanes = side * (self.groups * self.ports + rng.randrange(1, 3)) - rng.randrange(side)
        self.t_count, self.lanes = t_count, lanes
        self.rows, self.cols = (lanes, t_count) if self.transposed else (t_count, lanes)
        self.base = rng.randrange(1000) * plan.beat_bytes
        self.pitch = plan.beat_bytes * (-(-self.cols * 4 // plan.beat_bytes) + rng.randrange(3))
        self.tiles = list(self._tiles(rng))

    @property
    def result(self):
        where = {"base": self.base, "pitch": self.pitch, "rows": self.rows, "cols": self.cols}
        return where | {"tile_pitch": self.pitch * self.t_step * self.plan.block}

    @property
    def t_step(self):
        """Blocks of a T tile."""
        return self.tile_words // self.plan.block if self.fused else self.tile_blocks

    def _tiles(self, rng):
        plan = self.plan
        t_blocks, l_blocks = (-(-count // plan.block) for count in (self.t_count, self.lanes))
        if self.fused:
            l_step = plan.cols if self.transposed else plan.fused_blocks_n
        else:
            l_step = self.groups * self.ports
        first = rng.randrange(SLOTS)
        corners = list(product(range(0, t_blocks, self.t_step), range(0, l_blocks, l_step)))
        if self.lanes_outermost:
            corners.sort(key=lambda corner: corner[::-1])
        for number, (t0, l0) in enumerate(corners, first):
            count = min(self.t_step * plan.block, self.t_count - t0 * plan.block)
            lanes = min(l_step, l_blocks - l0)
            tile = {"t0": t0, "t_blocks": -(-count // plan.block), "t_count": count}
            tile |= {"tile": number % SLOTS, "last": 1}
            if self.transposed:
                n_blocks = rng.randrange(1, plan.fused_blocks_n + 1)  # of N, all of it
                tile |= {"c0": l0, "c_blocks": lanes, "l_blocks": n_blocks}
            else:
                tile |= {"l0": l0, "l_blocks": lanes, "c0": 0, "c_blocks": rng.randrange(1, 3)}
            tile |= {"first_t": t0 == 0, "first_l": tile.get("l0", 0) == 0}
            yield tile | {"first_c": tile["c0"] == 0}

    def words(self, tile):
        """In the order in which they are read."""
        if self.transposed:
            step = COLUMNS.get(self.name, 1)
            for port in range(0, tile["c_blocks"], step):
                for t in range(tile["t_count"]):
                    span = None if t else self._turned_span(tile, port, step)
                    yield self._word(tile, port, port, t, span)
            return
        if self.chained:
            yield from self._rows_of_blocks(tile)
            return
        for t in range(tile["t_count"]):
            for lane in range(0, tile["l_blocks"], self.per_word):
                first = t == lane == 0
                yield self._word(
                    tile, lane, lane % self.ports, t, self._span(tile) if first else None
                )

    def _rows_of_blocks(self, tile):
        """Words of one vector, whose port is counted from that of the word by rows."""
        side = self.plan.block
        for first_row in range(0, tile["t_count"], side):
            for block in range(tile["l_blocks"]):
                within = block % self.per_word
                for t in range(first_row, first_row + side):
                    first = block - within
                    word = self._word(tile, first, first % self.ports, t, None)
                    word.present = 1 << within
                    word.padding = t >= tile["t_count"]
                    yield word

    def _word(self, tile, block, port, t, span):
        group = 0 if self.transposed else block // self.ports
        tile_words = self.t_step * self.plan.block
        addr = group * tile_words + t
        if self.transposed:
            count = min(COLUMNS.get(self.name, 1), tile["c_blocks"] - block)
        else:
            count = min(self.per_word, tile["l_blocks"] - block)
        maxima = self._stream(tile, t), self._held(tile, block)
        word = Word((1 << count) - 1, port, addr, addr + tile_words, *maxima, span)
        if not self.transposed:
            side, lanes = self.plan.block, self.plan.data_width // 32
            word.last_part = (min(side, self.cols - (tile["l0"] + block) * side) - 1) // lanes
        return word

    def _span(self, tile):
        side = self.plan.block
        first = tile["l0"] * side
        return {
            "addr": self.base + tile["t0"] * side * self.pitch + 4 * first,
            "cols": min(self.cols - first, tile["l_blocks"] * side),
            "vectors": tile["l_blocks"],
            "repeat": tile["t_count"],
        }

    def _turned_span(self, tile, port, step):
        side = self.plan.block
        row, col = (tile["c0"] + port) * side, tile["t0"] * side
        return {
            "addr": self.base + row * self.pitch + 4 * col,
            "cols": tile["t_count"],
            "vectors": tile["t_blocks"],
            "repeat": min(self.rows - row, step * side),
        }

    def _stream(self, tile, t):
        """A slot begins with the beat of memory in which the tile's first maximum is."""
        side, beat = self.plan.block, self.plan.beat_bytes
        slot_beats = 1 << (self.plan.stream_maxima_words - 1).bit_length()
        first, entry = (tile["t0"] * side, t) if self.by_row[0] else (tile["t0"], t // side)
        return divmod(tile["tile"] * slot_beats * beat + first % beat + entry, beat)

    def _held(self, tile, block):
        side, beat = self.plan.block, self.plan.beat_bytes
        slot_beats = 1 << (self.plan.stationary_maxima_words - 1).bit_length()
        if self.fused:  # all of dY is there, from 0 on
            at = tile["c0"] + block if self.transposed else block
        else:
            entries = side if self.by_row[1] else 1
            at = tile["tile"] * slot_beats * beat + tile["l0"] * entries % beat + block * entries
        return (*divmod(at, beat), self.by_row[1])


class Watch:
    """Checks every cycle of the walk, of one job after the other."""

    def __init__(self, dut, jobs):
        self.dut = dut
        self.words = [(job, tile, list(job.words(tile))) for job in jobs for tile in job.tiles]
        self.number = 0  # of the tile
        self.started = self.freeing = False
        self.at = 0  # word of the tile
        self.freed = self.wraps = 0

    async def cycles(self, ctx, rng, p_granted, p_ready):
        dut = self.dut
        watched = (
            dut.tiles.valid, dut.tiles.ready, dut.spans.valid, dut.spans.ready, dut.spans.payload,
            dut.granted, dut.read_valid, dut.read_port, dut.read_addr, dut.freed,
            dut.index.stream, dut.index.stationary, dut.used_by_sums,
            getattr(dut, "read_wrapped_addr", dut.read_addr),
            getattr(dut, "padding", dut.read_valid), getattr(dut, "last_part", dut.read_valid),
        )  # fmt: skip
        total = len(self.words)
        while self.freed < total:
            ctx.set(dut.granted, rng.random() < p_granted)
            ctx.set(dut.spans.ready, rng.random() < p_ready)
            ctx.set(dut.used_by_sums, rng.randrange(4) & rng.randrange(4))
            self.cycle(*(await ctx.tick().sample(*watched))[2:])

    def cycle(self, waits, leaves, span_valid, span_ready, span, granted, valid, port, addr, freed,
              stream, stationary, taken, wrapped, padding, last_part):  # fmt: skip
        assert freed == self.freeing
        self.freed += freed
        self.freeing = False
        word = self.words[0][2][self.at] if waits and self.started else None
        if word is None:
            assert (valid, span_valid, leaves) == (0, 0, 0)
            self.started = bool(waits)
            return
        here = not taken >> self.number % 2 & 1
        assert valid == (word.present if here and (word.span is None or span_ready) else 0)
        assert span_valid == (here and word.span is not None and granted)
        if span_valid:
            assert {name: span[name] for name in word.span} == word.span, f"{self.words[0][1]}"
        if valid:
            plan = self.dut.plan
            whole = self.words[0][0].whole
            memory, half = self.number % 2, self.number // 2 % 2 * (not whole)
            first = memory * plan.tile_sums + half * plan.tile_sums // 2
            at = [first + each for each in (word.addr, word.wrapped_addr)]
            where = f"word {self.at} of {self.words[0][1]}"
            if hasattr(self.dut, "padding"):
                assert padding == word.padding, where
            if len(self.dut.last_part):
                assert last_part == word.last_part, where
            assert (port, addr) == (word.port, at[0]), where
            ports = range(word.port, word.port + word.present.bit_length())
            if ports[-1] >= self.dut.ports:  # some of them wrap
                assert wrapped == at[1], where
                self.wraps += 1
            assert (stream.word, stream.byte) == word.stream, where
            by_row = getattr(stationary, "by_row", word.stationary[2])
            assert (stationary.word, stationary.byte, by_row) == word.stationary, where
        last = self.at == len(self.words[0][2]) - 1
        assert leaves == (valid != 0 and granted and last)
        self.at += valid != 0 and granted
        if leaves:
            self.words.pop(0)
            self.at, self.started, self.freeing = 0, False, True
            self.number += 1


async def tiles_of(ctx, dut, jobs, willing):
    """The jobs' tiles, one after the other."""
    for job in jobs:
        ctx.set(dut.mode, job.mode)
        ctx.set(dut.result, job.result)
        ctx.set(dut.lanes_outermost, job.lanes_outermost)
        ctx.set(dut.t_step, job.t_step)
        ctx.set(dut.whole, job.whole)
        if hasattr(dut, "chained"):
            ctx.set(dut.chained, job.chained)
        await ctx.tick()
        await put(ctx, dut.tiles, members_of(dut.tiles, job.tiles), willing)


@pytest.mark.parametrize("name, north", CASES)
@pytest.mark.parametrize(
    "p_granted, p_ready", [(1.0, 1.0), (0.5, 0.5), (1.0, 0.2)], ids=["free", "both", "spans"]
)
@pytest.mark.sampled(8)
async def test_words_maxima_and_spans(name, north, p_granted, p_ready, rng):
    plan = make(name)
    chosen = modes(name, north)
    per_word = WORDS.get(name, (1, 1))[north]
    jobs = [Job(name, mode, north, rng, per_word) for mode in rng.sample(chosen, len(chosen))]
    dut = design(DrainWalk, plan, north=north)
    assert len(dut.read_valid) == per_word
    watch = Watch(dut, jobs)
    drive = partial(tiles_of, dut=dut, jobs=jobs, willing=lambda: rng.random() < p_granted)
    ctx = await simulation(dut, drive, limit=100_000)
    await watch.cycles(ctx, rng, p_granted, p_ready)
    assert not watch.words
    assert not watch.wraps or dut.ports % per_word


@pytest.mark.parametrize("name, north", CASES)
@pytest.mark.parametrize("p_granted", [1.0, 0.4], ids=["free", "stalled"])
@pytest.mark.sampled(8)
async def test_rows_of_blocks(name, north, p_granted, rng):
    """Results that are chained and others in turn, in a machine that has a vector unit."""
    plan = with_vector(make(name))
    per_word = WORDS.get(name, (1, 1))[north]
    chosen = [(mode, chained) for mode in modes(name, north) for chained in (0, 1)]
    rng.shuffle(chosen)
    jobs = [
        Job(name, mode, north, rng, per_word, chained=chained and mode != Mode.FUSED)
        for mode, chained in chosen
    ]
    dut = design(DrainWalk, plan, north=north)
    watch = Watch(dut, jobs)
    drive = partial(tiles_of, dut=dut, jobs=jobs, willing=lambda: rng.random() < p_granted)
    ctx = await simulation(dut, drive, limit=100_000)
    await watch.cycles(ctx, rng, p_granted, 0.7)
    assert not watch.words
