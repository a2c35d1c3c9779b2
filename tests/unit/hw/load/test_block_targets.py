"""Where blocks go and what is said of them, by the definitions; maxima from tables."""

from collections import defaultdict

import pytest

from diastole_hw.load.block_targets import BlockTargets
from diastole_hw.plan.modes import Mode
from diastole_hw.schedule.lengths import longest_lengths
from diastole_hw.schedule.tokens import Region
from support.bench import design, members_of
from support.plans import plan_of
from support.sweep import alternating
from support.unit_bench import Unit
from support.uses import pieces

NVFP4 = {"formats": "nvfp4", "fraction": 1, "headroom": 8}
FP8 = {"formats": ("fp8_e4m3", "bfp3", "fp8_e5m2"), "fraction": 2, "headroom": 8}
MACHINES = {
    "squares": {"block": 4, "fraction": 3, "formats": ("bfp3", "bfp5", "bfp2")},
    "edge": {"block": 2, "fraction": 3, "formats": ("bfp3", "bfp5", "bfp2"), "in_place": False},
    "textbook": {"block": 1, "formats": ("bfp8", "bfp7", "bfp8"), "data_width": 32, "rows": 3},
    "vectors": {"block": 4, "groupings": ("1x8", "1x16", "1x4"), "rows": 3},
    "long vectors": {"block": 2, "groupings": ("1x32", "1x16", "1x128"), "data_width": 32},
    "vectors of X": {
        "block": 4,
        "groupings": ("1x8", None, None),
        "special": "poison",
        "data_width": 32,
    },
    "vectors of W": {"block": 8, "groupings": (None, "1x16", None), "rows": 1, "data_width": 32},
    "vectors of dY": {"block": 2, "groupings": (None, None, "1x8"), "cols": 3},
    "vectors of X, edge": {"block": 4, "groupings": ("1x64", None, None), "in_place": False},
    "windowed": FP8 | {"block": 4, "special": "poison"},
    "nvfp4": NVFP4 | {"block": 4, "groupings": ("1x16",) * 3, "special": "poison", "rows": 1},
    "nvfp4, W in squares": NVFP4
    | {"block": 2, "groupings": ("1x16", "16x16", "1x16"), "data_width": 256, "cols": 3},
}
PLANES = {"formats": "fast", "widths": (2, 4, 6, 8), "fraction": 30}
MACHINES |= {
    "planes": PLANES | {"block": 4},
    "planes in vectors": PLANES | {"block": 2, "groupings": "1x16", "widths": (2, 4)},
    "planes of X in vectors": PLANES
    | {"block": 4, "groupings": ("1x8", None, None), "rows": 3, "data_width": 32},
}
FUSED = (
    "squares", "textbook", "vectors of X", "vectors of W", "windowed",
    "planes", "planes of X in vectors",
)  # fmt: skip
CASES = [(name, mode) for name in MACHINES for mode in Mode if mode != Mode.FUSED or name in FUSED]
SIDES = {Region.SOUTH: "south", Region.WEST: "west"}
MEMORIES = {
    Region.MAXIMA_SOUTH: "south", Region.MAXIMA_EAST: "east",
    Region.MAXIMA_WEST: "west", Region.MAXIMA_NORTH: "north",
}  # fmt: skip


def make(name):
    return plan_of(**{"rows": 2, "cols": 2} | MACHINES[name])


def vectors_of(name):
    """By class, the length of its vector groups; None for squares."""
    groupings = MACHINES[name].get("groupings", ("",) * 3)
    groupings = (groupings,) * 3 if isinstance(groupings, str) else groupings
    return tuple(int(each[2:]) if (each or "").startswith("1x") else None for each in groupings)


def test_fused_where_it_should_be():
    """So that no case above is left out unseen."""
    assert tuple(name for name in MACHINES if make(name).fused) == FUSED


class Chunk:
    """The blocks of one chunk: groups as they come, and what must be said of each block."""

    def __init__(self, name, plan, mode, number, maxima, rng):
        self.plan, self.mode, self.maxima, self.rng = plan, mode, maxima, rng
        self.name, self.fused = name, mode == Mode.FUSED
        self.vectors = vectors_of(name)
        self.nvfp4 = name.startswith("nvfp4")
        self.nan = 0x7F if self.nvfp4 else 255
        self.in_place = MACHINES[name].get("in_place", True)
        self.sizes = {"t": rng.randrange(1, 4), "l": rng.randrange(1, 10), "c": rng.randrange(1, 9)}
        self.first = {"t": rng.randrange(100), "l": rng.randrange(100), "c": 8 * rng.randrange(3)}
        if self.fused:  # all of N; a chunk is a slice of M
            self.sizes = {
                "t": rng.randrange(1, plan.fused_tile_blocks + 1),
                "l": rng.randrange(1, min(plan.fused_blocks_n, 20) + 1),
                "c": rng.randrange(1, plan.cols + 1),
            }
            self.first |= {"l": 0, "c": rng.randrange(plan.fused_slices_m) * plan.cols}
        self.shared = {
            "tile": number % 4, "fused": self.fused,
        }  # fmt: skip
        self.groups, self.want = [], []  # for each group, what is said of its blocks
        found = pieces(mode, [length is not None for length in self.vectors], self.in_place)
        self.memories = {MEMORIES[piece.kind]: piece for piece in found if piece.side}
        blocks = [piece for piece in found if not piece.side]
        for piece in blocks:
            self._region(piece, last=piece is blocks[-1])

    def _region(self, piece, last):
        rng, beat = self.rng, self.plan.beat_bytes
        per_block = self.plan.block if self.vectors[piece.cls] else 1
        rows, cols = self.sizes[piece.rows], self.sizes[piece.cols]
        granule = rng.choice([1, 2, 4, 8])
        offset = rng.randrange(0, 8, granule)
        region = self.shared | {
            "kind": piece.kind, "cls": piece.cls, "rows": rows, "cols": cols, "offset": offset,
            "by_column": piece.by_column, "transposed": piece.transposed, "last": last,
            "stream_offset": self.first["t"] * per_block % beat,
            "stationary_offset": self.first["c"] if self.fused else
            self.first["l"] * per_block % beat,
        } | self._room(piece, rows, cols)  # fmt: skip
        if "planes" in self.name:
            region["plane"] = rng.randrange(max(self.plan.max_planes))
        for row in range(rows):
            col = 0
            while col < cols:
                first = (offset + col) % 8
                count = min(8 - first, cols - col)
                whole = -(-count // granule) * granule
                self._group(piece, region, row, col, first, whole)
                col += count

    def _room(self, piece, rows, cols):
        """A place that holds all slices, and a stride that need not be that of a nest."""
        plan, rng = self.plan, self.rng
        across, within = (cols, rows) if piece.by_column else (rows, cols)
        banks = plan.rows if piece.kind == Region.WEST else plan.cols
        blocks = plan.stationary_blocks if piece.kind == Region.STATIONARY else plan.stream_blocks
        later = -(-across // banks) - 1  # slices behind the first
        longest = longest_lengths(plan)
        longest = max(longest["t_step"], longest["stationary_stride"])
        most = min((blocks - within) // max(later, 1), 40, longest)
        stride = min(rng.randrange(within, max(most, within) + 1), longest)
        return {"base": rng.randrange(blocks - later * stride - within + 1), "stride": stride}

    def _group(self, piece, region, row, col, first, blocks):
        """Blocks side by side; above the exponents that come first stands anything."""
        plan, vector = self.plan, self.vectors[piece.cls]
        if vector:
            runs = max(1, 8 * plan.block // vector)
            field = [self._scale() for _ in range(runs * plan.block)]
            at = [(first + k) * plan.block // vector * plan.block for k in range(blocks)]
            scales = [field[start : start + plan.block] for start in at]
            field = field[at[0] :]
        else:
            field = [self._scale() for _ in range(8 - first)]
            scales = [[field[k]] * plan.block for k in range(blocks)]
        low = int.from_bytes(bytes(field), "little")
        exponents = self.rng.getrandbits(1024) << 8 * len(field) | low
        group = {"region": region, "row": row, "col": col, "blocks": blocks}
        group |= {"exponents": exponents, "place": first}
        self.groups.append(group)
        self.want.append(
            [
                self._block(piece, region, row, col + k, scales[k], k == blocks - 1)
                for k in range(blocks)
            ]
        )

    def _scale(self):
        """Small, so that no maximum is less; zero and NaN now and then."""
        low, high = (8, 40) if self.nvfp4 else (90, 110)
        least = [1] if "planes" in self.name else []  # so far below that no byte has the deficit
        return self.rng.choice(
            [0, self.nan, *least, *(self.rng.randrange(low, high) for _ in range(8))]
        )

    def _block(self, piece, region, row, col, scales, ends):
        p, q = (col, row) if piece.by_column else (row, col)
        last = region["last"] and ends and row == region["rows"] - 1 and col >= region["cols"] - 1
        want = {
            "kind": piece.kind, "cls": piece.cls, "transposed": piece.transposed,
            "drop": col >= region["cols"], "ends": ends, "last": last,
            "scale": scales, "plane": region.get("plane", 0),
        }  # fmt: skip
        if not want["drop"]:
            want |= self._place(piece.kind, region, p, q)
            sides = [SIDES[piece.kind]] if piece.kind in SIDES else ["east", "north"]
            for side in sides:
                if side in self.memories:
                    entry = {"t": q, "l": p if side == "north" else q, "c": p}
                    member = "maximum_north" if side == "north" else "maximum"
                    want[member] = self._maxima(side, entry[self.memories[side].side])
        return want

    def _place(self, kind, region, p, q):
        """p counts across the banks, q within them."""
        plan = self.plan
        banks = plan.rows if kind == Region.WEST else plan.cols
        block = region["base"] + p // banks * region["stride"] + q
        vector = block * plan.block
        return {"bank": p % banks, "word": vector // plan.fill_vectors}

    def _maxima(self, side, block):
        """Of the rows of a block that is number ``block`` along the side of its maxima."""
        plan, piece = self.plan, self.memories[side]
        vector = self.vectors[piece.cls]
        held = side in ("east", "north")
        words = plan.stationary_maxima_words if held else plan.stream_maxima_words
        slot = next(2**n for n in range(20) if 2**n >= words) * plan.beat_bytes
        first = self.first[piece.side]
        start = self.shared["tile"] * slot
        start += first * (plan.block if vector else 1) % plan.beat_bytes
        if self.fused and held:  # those of all of dY stay, from the first one on
            start = first
        entries = [start + (block * plan.block + k if vector else block) for k in range(plan.block)]
        return [self.maxima[side][entry] for entry in entries]


def table_of_maxima(name, rng):
    """Any byte that may be the maximum of the scales above."""
    low, high = (40, 0x7F) if name.startswith("nvfp4") else (110, 200)
    most = [254] if "planes" in name else []
    return defaultdict(
        lambda: rng.choice([rng.randrange(low, low + 20), rng.randrange(low, high), *most])
    )


def look_up(plan, table, index, entries):
    at = index.word * plan.beat_bytes + index.byte
    rows = getattr(index, "by_row", entries > 1)
    return [table[at + k if rows else at] for k in range(entries)]


class Memories:
    """What the unit looks up, in the cycle after it asks; anything once it may not look."""

    def __init__(self, dut, maxima, rng):
        self.plan, self.rng = dut.plan, rng
        self.lookups = {
            name: (getattr(dut.lookup, name), maxima[name])
            for name in MEMORIES.values()
            if hasattr(dut.lookup, name)
        }
        self.enable, self.taken = dut.lookup.enable, dut.blocks.valid & dut.blocks.ready

    async def serve(self, ctx):
        indices = [lookup.index for lookup, _ in self.lookups.values()]
        watched = (self.enable, self.taken, *indices)
        async for _, _, enable, taken, *asked in ctx.tick().sample(*watched):
            for index, (lookup, table) in zip(asked, self.lookups.values(), strict=True):
                entries = len(lookup.value)
                if enable:
                    ctx.set(lookup.value, look_up(self.plan, table, index, entries))
                elif taken:
                    ctx.set(lookup.value, list(self.rng.randbytes(entries)))


def members_of_block(plan, payload, want):
    """What is said of a block, as the unit has it: once where its rows cannot differ."""
    found = {}
    for name, value in want.items():
        if not hasattr(payload, name):
            assert (name, plan.planar) == ("plane", False), f"no {name}"
        elif isinstance(value, list) and len(getattr(payload, name)) == 1:
            assert len({*value}) == 1
            found[name] = value[:1]
        else:
            found[name] = value
    return found


@pytest.mark.parametrize(
    "name, mode, p_move", alternating(CASES, {"free": (1.0,), "stalled": (0.4,)})
)
@pytest.mark.sampled(9)
def test_blocks_of_chunks(name, mode, p_move, rng):
    plan = make(name)
    maxima = {memory: table_of_maxima(name, rng) for memory in MEMORIES.values()}
    tile = rng.randrange(4)
    chunks = [Chunk(name, plan, mode, tile + k, maxima, rng) for k in range(6)]
    groups = [group for chunk in chunks for group in chunk.groups]
    want = [blocks for chunk in chunks for blocks in chunk.want]
    unit = Unit(dut := design(BlockTargets, plan), rng, pace=p_move)
    exponents = (1 << len(dut.groups.p.exponents)) - 1
    groups = [group | {"exponents": group["exponents"] & exponents} for group in groups]
    given = unit.give(dut.groups, members_of(dut.groups, groups))
    flat = [block for blocks in want for block in blocks]
    blocks = unit.take(dut.blocks, [members_of_block(plan, dut.blocks.p, each) for each in flat])
    asked = unit.record(dut.lookup.enable)
    unit.background.append(Memories(dut, maxima, rng).serve)
    unit.run(limit=60_000)
    assert len(asked.cycles) == len(flat), "one look-up for each block"
    if p_move == 1.0:
        assert (given.cycles, asked.cycles, blocks.cycles) == cycles_of(want)
    check_variety(flat)


def cycles_of(want):
    """When groups are taken, blocks looked up and given, where nothing waits."""
    cycle, found = 0, ([], [], [])
    for blocks in want:
        found[0].append(cycle)
        for k in range(len(blocks)):
            found[1].append(cycle + 1 + k)
            found[2].append(cycle + 2 + k)
        cycle += len(blocks)
    return found


def check_variety(flat):
    """That the draws had what this test is for."""
    assert {block["last"] for block in flat} == {False, True}
    assert any(block["drop"] for block in flat)
    maxima = {value for block in flat for value in block.get("maximum", [])}
    maxima |= {value for block in flat for value in block.get("maximum_north", [])}
    assert len(maxima) > 3
    assert len({value for block in flat for value in block["scale"]}) > 3
