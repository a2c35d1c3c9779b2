# amaranth: UnusedElaboratable=no
"""Regions of memory on their way into the banks: every vector, and what is said of it.

The loader with the memories of maxima, as the engine connects them, against the definitions: where
a block stands in its region, what the bytes of its group mean, what a deficit is.
"""

from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest
from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.load.write_scratchpads import WriteScratchpads
from diastole_hw.memory.maxima import Maxima
from diastole_hw.plan.modes import Mode
from diastole_hw.schedule.lengths import longest_lengths
from diastole_hw.schedule.tokens import Region, region_layout, scratch_write_layout
from support.bench import design
from support.elements import array_element, exponent_drop, precision, stored_value
from support.plans import plan_of
from support.sweep import alternating
from support.unit_bench import Unit
from support.unit_values import differences

NVFP4 = {"formats": ("nvfp4",) * 3, "fraction": 3, "headroom": 8}
FP8 = {"formats": ("fp8_e4m3", "bfp3", "fp8_e5m2"), "fraction": 2, "headroom": 8}
MACHINES = {
    "squares": {"block": 4, "fraction": 3, "formats": ("bfp3", "bfp5", "bfp2")},
    "edge": {"block": 2, "fraction": 3, "formats": ("bfp3", "bfp5", "bfp2"), "in_place": False},
    "textbook": {"block": 1, "formats": ("bfp8", "bfp7", "bfp8"), "data_width": 32},
    "vectors": {"block": 4, "groupings": ("1x8", "1x16", "1x4"), "rows": 3},
    "long vectors": {"block": 2, "groupings": ("1x32", "1x16", "1x128"), "data_width": 32},
    "vectors of X": {"block": 4, "groupings": ("1x8", None, None), "special": "poison"},
    "vectors of W": {"block": 8, "groupings": (None, "1x16", None), "data_width": 32},
    "vectors one by one": {"block": 1, "groupings": ("1x8", "1x2", "1x4")},
    "windowed": FP8 | {"block": 4, "special": "poison"},
    "flagged": FP8 | {"block": 2},
    "nvfp4": NVFP4 | {"block": 4, "special": "poison"},
    "nvfp4, wide bus": NVFP4 | {"block": 2, "data_width": 256},
    "squares, even rows": {"block": 8, "fraction": 3, "cols": 4, "ports": 2},
    "squares, odd rows": {"block": 8, "fraction": 3, "cols": 4, "ports": 2},
    "vectors, even rows": {"block": 4, "groupings": ("1x8", "1x16", "1x4"), "rows": 4, "ports": 2},
    "vectors, odd rows": {"block": 4, "groupings": ("1x8", "1x16", "1x4"), "rows": 4, "ports": 2},
    "registered": {"output_register": True},
    "registered, odd rows": NVFP4 | {"cols": 4, "ports": 2, "output_register": True},
}  # fmt: skip


def make(name):
    return plan_of(**{"rows": 2, "cols": 2, "block": 4} | MACHINES[name])


def port_of(machine):
    """Of several: which one brings the rows."""
    return int("odd rows" in machine)


CASES = [
    (name, mode.name)  # a name counts among what the sample shows
    for name in MACHINES
    for mode in Mode
    if mode != Mode.FUSED or make(name).fused
]


def vectors_of(write):
    """Of a word that is written: each vector's place, as B vectors of a block count, and itself."""
    for number, vector in enumerate(write["vectors"]):
        addr = write["word"] * len(write["vectors"]) + number
        yield {"kind": write["kind"], "bank": write["bank"], "addr": addr} | vector


class Loader(wiring.Component):
    """Without a port of its own, what is written is taken in any case."""

    def __init__(self, plan, port=0):
        self.plan, self.port = plan, port
        marks = dict.fromkeys(("blocks_loaded", "maxima_loaded", "maxima_written"), Out(1))
        streams = {
            "regions": In(stream.Signature(region_layout(plan))),
            "data": In(stream.Signature(plan.data_width)),
            "writes": Out(stream.Signature(scratch_write_layout(plan))),
        }
        super().__init__(streams | marks)

    def elaborate(self, platform):
        m = Module()
        fill, maxima = WriteScratchpads(self.plan, self.port), Maxima(self.plan)
        own = "_1" if self.port else ""
        m.submodules += [fill, maxima]
        for name in ("regions", "data"):
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(fill, name))
        wiring.connect(m, fill.maxima, getattr(maxima, f"write{own}"))
        wiring.connect(m, fill.lookup, getattr(maxima, f"load{own}"))
        m.d.comb += [self.writes.valid.eq(fill.write_en), self.writes.payload.eq(fill.write)]
        if self.port:
            m.d.comb += fill.write_ready.eq(self.writes.ready)
        m.d.comb += self.maxima_written.eq(fill.maxima.enable)
        for name in ("blocks_loaded", "maxima_loaded"):
            m.d.comb += getattr(self, name).eq(getattr(fill, name))
        return m


@dataclass
class Blocks:
    """A region of blocks: by (row, column), what is in them; and the bytes that memory gives."""

    plan: object
    cls: int
    rows: int
    cols: int
    offset: int  # of the first column in its group of eight
    codes: dict = field(default_factory=dict)  # B x B of (magnitude, sign)
    scales: dict = field(default_factory=dict)  # of the rows of each block
    beats: list = field(default_factory=list)  # of each row

    def draw(self, rng):
        plan, cls, side = self.plan, self.cls, self.plan.block
        name = plan.tensor_class(cls).format.name
        nan = 0x7F if name == "nvfp4" else 255
        low = rng.randrange(1, 100)
        run = plan.tensor_class(cls).grouping.size // side if plan.grouped(cls) else None
        most = 2 ** plan.tensor_class(cls).format.magnitude_bits

        def scale():
            return rng.choice([0, nan, *(low + rng.randrange(27) for _ in range(10))])

        def block():
            shown = rng.random()
            return [[(rng.randrange(most) if rng.random() < shown else 0, rng.randrange(2))
                     for _ in range(side)] for _ in range(side)]  # fmt: skip

        for row in range(self.rows):
            self.beats.append([])
            col = 0
            while col < self.cols:
                first = (col + self.offset) % 8
                count = min(8 - first, self.cols - col)
                if run is None:
                    stored = [scale() for _ in range(8)]
                    at = [[stored[place]] * side for place in range(8)]
                else:
                    runs = max(1, 8 // run)
                    stored = [scale() for _ in range(runs * side)]
                    at = [stored[place // run * side :][:side] if run < 8 else stored
                          for place in range(8)]  # fmt: skip
                group = [block() for _ in range(8)]
                for k in range(count):
                    self.codes[row, col + k] = group[first + k]
                    self.scales[row, col + k] = at[first + k]
                self.beats[-1] += self._beats(bytes(stored), group, first, count, most)
                col += count

    def _beats(self, stored, group, first, count, most):
        """Those of one group: its whole exponent field, and the beats of its elements."""
        width, beat = self.plan.data_width, self.plan.data_width // 8
        padded = stored + bytes(-len(stored) % beat)
        yield from (int.from_bytes(padded[k : k + beat], "little")
                    for k in range(0, len(padded), beat))  # fmt: skip
        bits, at = 0, 0
        for block in group:
            for row in block:
                for magnitude, sign in row:
                    bits |= (magnitude | sign * most) << at
                    at += most.bit_length()
        per_block = at // 8
        granule = next((n for n in (1, 2, 4) if n * per_block % width == 0), 8)
        assert first % granule == 0
        last = -(-(first + count) // granule) * granule
        for k in range(first * per_block // width, -(-last * per_block // width)):
            yield bits >> (k * width) & (1 << width) - 1

    @property
    def granule(self):
        return self.plan.group_layouts[self.cls].granule


def exponent(plan, stored):
    """Of a scale: as a number whose differences are those of exponents."""
    return max(stored >> 3, 1) if plan.significands else stored


class Case:
    """A chunk of one use: sizes in blocks, regions, beats, and the writes that must follow; of all
    rows, or of those that a port of several brings."""

    def __init__(self, plan, mode, tile, rng, port=0):
        self.plan, self.mode, self.rng, self.port = plan, mode, rng, port
        self.fused = mode == Mode.FUSED
        use = plan.use(Mode.DW if self.fused else mode)
        most = plan.cols if self.fused else plan.chunk(north=use.north)
        self.t, self.l = rng.randrange(1, 4), rng.randrange(1, 10)
        self.c = rng.randrange(1, min(most, 11) + 1)
        if self.fused:
            self.t = rng.randrange(1, plan.fused_tile_blocks + 1)
            self.l = rng.randrange(1, plan.fused_blocks_n + 1)
        self.at, self.c0 = {"tile": tile % 4, "fused": self.fused}, 0
        if self.fused:
            self.c0 = rng.randrange(plan.fused_slices_m) * plan.cols
        self.t0, self.l0 = rng.randrange(100), 0 if self.fused else rng.randrange(100)
        self.regions, self.beats, self.writes = [], [], []
        self.maxima, self.maxima_beats = {}, 0  # by their region: entry to value
        stream_blocks = self._streamed(use)
        sides = (self.l, self.c) if use.stationary_by_lanes else (self.c, self.l)
        held = self._blocks(use.stationary, *sides)
        west = None
        if self.fused:
            west = self._blocks(1, self.t, self.l)
            self._maxima(Region.MAXIMA_WEST, 1, self._rows(west, False), self.t0)
        north = use.north
        self._maxima(
            Region.MAXIMA_WEST if north else Region.MAXIMA_SOUTH,
            use.stream, self._rows(stream_blocks, use.stream_transposed), self.t0,
        )  # fmt: skip
        kind = Region.MAXIMA_NORTH if north else Region.MAXIMA_EAST
        self._maxima(kind, use.stationary, self._rows(held, not use.stationary_by_lanes), self.l0)
        if self.fused:
            c0 = self.c0
            rows = {entry + c0: value for entry, value in self._rows(held, False).items()}
            self._maxima(Region.MAXIMA_NORTH, use.stationary, rows, 0)
            self._region(Region.WEST, west, False, 0)
        self.regions[-1 - self.fused] |= {"last": 1}  # the west region may be behind it
        self._region(Region.STATIONARY, held, use.stationary_transposed, 0)
        self._region(
            Region.WEST if north else Region.SOUTH, stream_blocks, use.stream_transposed, 1
        )

    def _streamed(self, use):
        rows, cols = (self.c, self.t) if use.stream_transposed else (self.t, self.c)
        return self._blocks(use.stream, rows, cols)

    def _blocks(self, cls, rows, cols):
        offset = self.rng.randrange(0, 8, self.plan.group_layouts[cls].granule)
        made = Blocks(self.plan, cls, rows, cols, offset)
        made.draw(self.rng)
        return made

    def _rows(self, blocks, down):
        """The bytes whose maximum is each entry: of a row (column) of blocks, or of elements."""
        found = {}
        for (row, col), scales in blocks.scales.items():
            at = col if down else row
            if self.plan.grouped(blocks.cls):
                for k, stored in enumerate(scales):
                    found.setdefault(at * self.plan.block + k, []).append(stored)
            else:
                found.setdefault(at, []).append(scales[0])
        return found

    def _maxima(self, kind, cls, stored, first):
        """Beats of a run of maxima: at least each row's largest scale that is a number."""
        plan, rng = self.plan, self.rng
        nan = 0x7F if plan.significands else 255
        per_block = plan.block if plan.grouped(cls) else 1
        start = first * per_block % plan.beat_bytes
        values = {entry: min(max(b for b in (*those, 0) if b != nan) + rng.choice([0, 0, 7, 60]),
                             nan - 1) for entry, those in stored.items()}  # fmt: skip
        count = start + max(values) + 1
        content = [values.get(k - start, rng.randrange(256)) for k in range(count)]
        content += bytes(-count % plan.beat_bytes)
        for k in range(0, len(content), plan.beat_bytes):
            self.beats.append(int.from_bytes(bytes(content[k : k + plan.beat_bytes]), "little"))
        names = ("stream_offset", "stationary_offset")
        self.regions.append(
            {"kind": kind, "cls": cls, "beats": len(content) // plan.beat_bytes}
            | dict.fromkeys(names, first * per_block % plan.beat_bytes)
            | self.at
        )  # fmt: skip
        self.maxima[kind] = values
        self.maxima_beats += len(content) // plan.beat_bytes

    def _region(self, kind, blocks, transposed, last):
        plan = self.plan
        per_block = plan.block if plan.grouped(blocks.cls) else 1
        by_column = transposed if kind == Region.STATIONARY else not transposed
        place = self._room(kind, *((blocks.cols, blocks.rows)[:: 1 if by_column else -1]))
        self.regions.append(
            {
                "kind": kind, "cls": blocks.cls, "rows": blocks.rows, "cols": blocks.cols,
                "offset": blocks.offset, "by_column": by_column, "transposed": transposed,
                "stream_offset": self.t0 * per_block % plan.beat_bytes,
                "stationary_offset": self.c0 if self.fused else
                self.l0 * per_block % plan.beat_bytes, "last": last,
            } | self.at | place
        )  # fmt: skip
        own = range(self.port, blocks.rows, plan.ports)
        for row in own or [0]:  # which is dropped
            self.beats += blocks.beats[row]
        for row in own:
            for col in range(blocks.cols):
                for k in range(plan.block):
                    p, q = (col, row) if by_column else (row, col)
                    block, scale = blocks.codes[row, col], blocks.scales[row, col][k]
                    codes = [line[k] for line in block] if transposed else block[k]
                    self.writes.append(
                        self._place(kind, place, p, q, k)
                        | self._vector(blocks.cls, codes, scale)
                        | self._deficits(kind, blocks, scale, k, p, q)
                    )

    def _room(self, kind, across, within):
        """A place in the banks for all slices of a region, and how far they are apart."""
        plan, rng = self.plan, self.rng
        side = plan.rows if kind == Region.WEST else plan.cols
        blocks = plan.stationary_blocks if kind == Region.STATIONARY else plan.stream_blocks
        later = -(-across // side) - 1  # slices behind the first
        lengths = longest_lengths(plan)
        longest = max(lengths["t_step"], lengths["stationary_stride"])
        loose = (later + 1) * (within + 4) <= blocks and within + 4 <= longest
        stride = rng.randrange(within, within + 5) if loose else within
        return {"base": rng.randrange(blocks - later * stride - within + 1), "stride": stride}

    def _place(self, kind, place, p, q, k):
        """p counts across the banks, q within them."""
        side = self.plan.rows if kind == Region.WEST else self.plan.cols
        block = place["base"] + p // side * place["stride"] + q
        return {"kind": kind, "bank": p % side, "addr": block * self.plan.block + k}

    def _vector(self, cls, codes, scale):
        plan, names = self.plan, [f.name for f in self.plan.formats]
        name, poison = names[cls], plan.numerics.special == "poison"
        nan = 0x7F if name == "nvfp4" else 255
        nonzero = scale not in (0, nan)
        found = {
            "elements": [array_element(name, names, code, sign, poison) for code, sign in codes],
            "nonzero": nonzero,
        }
        if plan.significands:
            found["significand"] = scale % 8 + 8 * (scale >= 8)
        values = [stored_value(name, code) for code, _ in codes]
        special = [isinstance(value, str) for value in values]
        if poison:
            found["poison"] = sum((each or scale == nan) << a for a, each in enumerate(special))
        if plan.shape.extents:
            real = [array_element(name, names, code, 0, poison) for code, _ in codes]
            falls = [
                0 if other else exponent_drop(name, value)
                for value, other, bits in zip(values, special, real, strict=True)
                if bits
            ]
            found["extent"] = max((precision(name) + each for each in falls), default=0)
        return found

    def _deficits(self, kind, blocks, scale, k, p, q):
        """Those that the mode at hand uses."""
        plan = self.plan
        nan = 0x7F if plan.significands else 255

        def deficit(maxima, block):
            if scale in (0, nan):
                return 0
            entry = block * plan.block + k if plan.grouped(blocks.cls) else block
            difference = exponent(plan, maxima[entry]) - exponent(plan, scale)
            return min(difference, plan.numerics.block_sum_bits + plan.fraction)

        if kind != Region.STATIONARY:
            side = Region.MAXIMA_WEST if kind == Region.WEST else Region.MAXIMA_SOUTH
            return {"deficit": deficit(self.maxima[side], q)}
        found = {}
        if Region.MAXIMA_EAST in self.maxima:
            found["deficit"] = deficit(self.maxima[Region.MAXIMA_EAST], q)
        if Region.MAXIMA_NORTH in self.maxima:
            entry = p + self.c0 if self.fused else p
            found["deficit_north"] = deficit(self.maxima[Region.MAXIMA_NORTH], entry)
        return found


@pytest.mark.parametrize(
    "machine, mode, p_data", alternating(CASES, {"free": (1.0,), "stalled": (0.6,)})
)
@pytest.mark.sampled(3)
def test_chunks(machine, mode, p_data, rng):
    plan, port, mode = make(machine), port_of(machine), Mode[mode]
    tile = rng.randrange(4)  # their maxima lie apart; in the fused pass those of dY are loaded once
    count = 1 if mode == Mode.FUSED else 3
    cases = [Case(plan, mode, tile + number, rng, port) for number in range(count)]
    unit = Unit(dut := design(Loader, plan, port), rng)
    unit.give(dut.regions, [region for case in cases for region in case.regions])
    unit.give(dut.data, [beat for case in cases for beat in case.beats], p_data)
    words = unit.collect(dut.writes, 0.5 if port else 1)
    ends, maxima_ends = unit.record(dut.blocks_loaded), unit.record(dut.maxima_loaded)
    maxima = unit.record(dut.maxima_written)
    unit.run(silence=60, limit=60_000)
    writes = [vector for word in words.items for vector in vectors_of(word)]
    want = [write for case in cases for write in case.writes]
    for number, (got, expected) in enumerate(zip(writes, want, strict=True)):
        assert not differences(expected, got), f"write {number} of {len(want)}"
    written = [len(case.writes) // plan.fill_vectors for case in cases]
    assert written == events_until(ends.cycles, words.cycles)
    assert [case.maxima_beats for case in cases] == events_until(maxima_ends.cycles, maxima.cycles)


def events_until(ends, cycles):
    """How many of the cycles are before each end, or at it, and behind the one before."""
    counts = [sum(cycle <= end for cycle in cycles) for end in ends]
    return [count - before for before, count in pairwise([0, *counts])]


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("registered", [0, 1])
def test_cycles(transposed, registered):
    """A beat is taken in every cycle. A block is a beat and a word, which is written 2 cycles after
    it, 3 where there is a register before the banks; the beats between are exponents."""
    plan = replace(make("squares"), output_register=bool(registered))
    cls = next(cls for cls in range(3) if plan.group_layouts[cls].block_beats(1) == 1)
    region = {"kind": Region.SOUTH, "cls": cls, "rows": 3, "cols": 3, "transposed": transposed}
    unit = Unit(dut := design(Loader, plan))
    unit.give(dut.regions, [region, region | {"last": 1}])
    beats = unit.give(dut.data, [1] * 2 * 3 * 4)
    writes = unit.collect(dut.writes)
    unit.run()
    assert plan.fill_vectors == plan.block
    assert beats.cycles == list(range(1, 25))
    assert writes.cycles == [beat + 2 + registered for beat in beats.cycles if beat % 4 != 1]
