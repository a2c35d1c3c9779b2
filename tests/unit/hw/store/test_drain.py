# amaranth: UnusedElaboratable=no
"""One direction's drain: from accumulators to rows of floats in memory, by the definition."""

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.plan.modes import Mode
from diastole_hw.store.drain import Drain
from diastole_hw.store.float_pipe import FloatPipe
from oracle.product import binary32_bits
from support.bench import design, get, members_of, put, simulation
from support.bus import ServiceMemory
from support.plans import make_numerics, make_plan, plan_of, with_vector
from support.sweep import alternating


class DrainAndLanes(wiring.Component):
    """A drain with the lanes to itself: what it wants of floats is there."""

    def __init__(self, plan, *, north):
        self.plan, self.north = plan, north
        members = dict(Drain(plan, north=north).signature.members)
        del members["floats"]
        super().__init__(members | {"overflow": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.drain = drain = Drain(self.plan, north=self.north)
        m.submodules.pipe = pipe = FloatPipe(self.plan)
        wiring.connect(m, drain.floats, getattr(pipe, drain.direction))
        m.d.comb += self.overflow.eq(pipe.overflow)
        for name, member in self.signature.members.items():
            if name == "overflow":
                continue
            outer, inner = getattr(self, name), getattr(drain, name)
            if member.is_signature:
                wiring.connect(m, wiring.flipped(outer), inner)
            else:
                m.d.comb += inner.eq(outer) if member.flow == In else outer.eq(inner)
        return m


BASE, SIZE = 4096, 1 << 17
SLOTS = 4  # of maxima
NVFP4 = {"formats": ("nvfp4",) * 3, "fraction": 3, "headroom": 8}
FP8 = {"formats": ("fp8_e4m3", "bfp3", "fp8_e5m2"), "fraction": 2, "headroom": 8}
MACHINES = {
    "squares": {"block": 4, "fraction": 3, "formats": ("bfp3", "bfp5", "bfp2")},
    "edge": {"block": 2, "fraction": 3, "formats": ("bfp3", "bfp5", "bfp2"), "in_place": False},
    "textbook": {"block": 1, "formats": ("bfp8", "bfp7", "bfp8"), "data_width": 32},
    "vectors": {"block": 4, "groupings": ("1x8", "1x16", "1x4"), "data_width": 32},
    "vectors of X": {"block": 2, "groupings": ("1x8", None, None), "special": "poison"},
    "vectors of W": {"block": 8, "groupings": (None, "1x16", None), "data_width": 32},
    "windowed": FP8 | {"block": 4, "special": "poison", "data_width": 128},
    "nvfp4": NVFP4 | {"block": 4, "special": "poison"},
    "words of two": {"block": 4, "data_width": 256, "special": "poison"},
    "words of four": {"block": 2, "data_width": 512, "rows": 5, "cols": 4},
    "words of vectors": {"block": 4, "groupings": ("1x8", "1x16", "1x4"), "data_width": 256,
                         "special": "poison"},
    "looked up late": {"block": 4, "data_width": 256, "special": "poison", "output_register": True},
}  # fmt: skip


def make(name):
    return plan_of(**{"block": 4, "rows": 2, "cols": 3} | MACHINES[name])


CASES = [
    (name, mode, north)
    for name in MACHINES
    for mode in Mode
    for north in (False, True)
    if (make(name).fused if mode == Mode.FUSED else make(name).use(mode).north == north)
]


class Result:
    """A matrix on its way out: tiles, the sums of each, the maxima, and the floats it becomes.

    t counts vectors, l lanes (in the fused pass to the north: lanes of the contraction of dW).
    """

    def __init__(self, plan, mode, north, rng, t_count, lanes):
        self.plan, self.mode, self.north, self.rng = plan, mode, north, rng
        self.transposed = mode == Mode.FUSED and north
        self.classes = {  # by hand: what streams and what is held
            Mode.FORWARD: (0, 1), Mode.DX: (2, 1), Mode.DW: (0, 2),
            Mode.FUSED: (1, 2) if north else (0, 2),
        }[mode]  # fmt: skip
        numerics = plan.numerics.to_dict()
        self.groupings = [numerics[name]["grouping"] for name in ("x", "w", "dy")]
        self.ports = plan.cols if north else plan.rows
        self.t_count, self.lanes = t_count, lanes
        self.tensor_exponents = [rng.randint(-40, 40) * plan.significands for _ in range(3)]
        per_row = [plan.block if self.by_row(cls) else 1 for cls in self.classes]
        blocks = [-(-count // plan.block) for count in (t_count, lanes)]
        middle = 50 if plan.significands else 127
        self.maxima = [
            [rng.randint(middle - 40, middle + 40) for _ in range(count * entries)]
            for count, entries in zip(blocks, per_row, strict=True)
        ]
        self.tiles, self.sums = [], {}  # (port, address) to (sums, poison)
        self.bytes = [{}, {}]  # of the two memories of maxima, by their place
        self._tiles(*blocks)
        self.rows, self.cols = (lanes, t_count) if self.transposed else (t_count, lanes)

    def by_row(self, cls):
        """Whether there is a maximum for each row of elements."""
        return self.plan.block > 1 and self.groupings[cls].startswith("1x")

    def _tiles(self, t_blocks, l_blocks):
        plan, fused = self.plan, self.mode == Mode.FUSED
        t_step = plan.fused_tile_blocks if fused else plan.tile_blocks
        l_step = plan.cols if self.transposed else plan.groups * self.ports
        if fused and not self.transposed:
            l_step = plan.fused_blocks_n
        number = 0
        for t0 in range(0, t_blocks, t_step):
            for l0 in range(0, l_blocks, l_step):
                count = min(t_step * plan.block, self.t_count - t0 * plan.block)
                lanes = min(l_step, l_blocks - l0)
                tile = {
                    "t0": t0, "t_blocks": -(-count // plan.block), "t_count": count,
                    "l0": l0, "l_blocks": lanes, "tile": number % SLOTS,
                }  # fmt: skip
                if self.transposed:
                    tile |= {"l0": 0, "l_blocks": 9, "c0": l0, "c_blocks": lanes}
                    tile["first_c"] = l0 == 0
                tile |= {"first_t": t0 == 0, "first_l": tile["l0"] == 0}
                self.tiles.append(tile)
                number += 1

    def accumulate(self, number):
        """Sums of a tile and its maxima, as they are when it leaves; later ones replace them."""
        plan, rng, tile = self.plan, self.rng, self.tiles[number]
        words = plan.fused_tile_words if self.mode == Mode.FUSED else plan.tile_words
        first, count = (
            (tile["c0"], tile["c_blocks"]) if self.transposed else (tile["l0"], tile["l_blocks"])
        )
        sums = {}
        for lane in range(count):
            for t in range(tile["t_blocks"] * plan.block):
                at = (
                    lane % self.ports,
                    (number % 2) * plan.sum_words // 2 + lane // self.ports * words + t,
                )
                half = 2 ** (plan.accumulator_bits - 1)
                values = [rng.randrange(-half, half) >> rng.randrange(plan.accumulator_bits)
                          for _ in range(plan.block)]  # fmt: skip
                poison = rng.getrandbits(plan.block) & rng.getrandbits(plan.block)
                self.sums[at] = values, poison * plan.poison
                sums[tile["t0"] * plan.block + t, first + lane] = self.sums[at]
        stationary_at = 0 if self.mode == Mode.FUSED else tile["l0"]
        self._store(0, self.maxima[0], tile["t0"], tile["tile"], plan.stream_maxima_words)
        slot = 0 if self.mode == Mode.FUSED else tile["tile"]
        self._store(1, self.maxima[1], stationary_at, slot, plan.stationary_maxima_words)
        return sums

    def _store(self, which, values, first_block, slot, words):
        """From a beat's start in memory that the tile's first maximum is in."""
        entries = self.plan.block if self.by_row(self.classes[which]) else 1
        words = 1 << (words - 1).bit_length()
        first = first_block * entries
        beat = self.plan.beat_bytes
        for k, value in enumerate(values[first:]):
            self.bytes[which][(slot * words) * beat + first % beat + k] = value

    def floats(self, sums):
        """By (row, column) of the result."""
        plan = self.plan
        names = [("x", "w", "dy")[cls] for cls in self.classes]
        for (t, block), (values, poison) in sums.items():
            for k, total in enumerate(values):
                lane = block * plan.block + k
                if t >= self.t_count or lane >= self.lanes:
                    continue
                exponents = [self._exponent(0, t), self._exponent(1, lane)]
                below = plan.fraction + plan.numerics.product_bits(*names) - 2
                scale = sum(exponents) - below - 6 * plan.significands
                bits, overflow = binary32_bits(total, scale)
                if poison >> k & 1:
                    bits, overflow = 0x7FC00000, False
                yield ((lane, t) if self.transposed else (t, lane)), bits, overflow

    def _exponent(self, which, element):
        cls = self.classes[which]
        entry = element if self.by_row(cls) else element // self.plan.block
        stored = self.maxima[which][entry]
        if self.plan.significands:
            return max(stored >> 3, 1) - 7 + 2 + self.tensor_exponents[cls]
        return stored - 127

    def look_up(self, which, index, entries):
        at = index.word * self.plan.beat_bytes + index.byte
        rows = self.plan.block if hasattr(index, "by_row") else 1
        blocks = entries // rows
        if getattr(index, "by_row", 0):
            places = [at + k for k in range(entries)]
        else:
            places = [at - at % blocks + (at + k) % blocks for k in range(blocks)]
            places = [place for place in places for _ in range(rows)]
        return [self.bytes[which].get(place, 99) for place in places]


def ask(ctx, dut, result, pitch):
    """Tell the drain of the result whose tiles come."""
    plan, fused = result.plan, result.mode == Mode.FUSED
    ctx.set(dut.mode, result.mode)
    ctx.set(dut.t_step, plan.fused_tile_blocks if fused else plan.tile_blocks)
    ctx.set(dut.whole, 1)
    ctx.set(dut.exponents, result.tensor_exponents)
    shape = {"base": BASE, "pitch": pitch, "rows": result.rows, "cols": result.cols}
    shape["tile_pitch"] = pitch * (plan.fused_tile_words if fused else plan.tile_words)
    ctx.set(dut.result, shape)


async def drained(ctx, dut, tile):
    """Give a tile, and wait until its bank is free again: the next one may change everything."""
    await put(ctx, dut.tiles, members_of(dut.tiles, [tile]))
    freed = False
    while not freed:
        _, _, freed = await ctx.tick().sample(dut.freed)
    if dut.plan.output_register:  # the last scale is here, a cycle after the last sums
        await ctx.tick()


async def ended(ctx, dut):
    busy = True
    while busy:
        _, _, busy = await ctx.tick().sample(dut.busy)


def accumulators(dut, result, padded=False):
    """A bench: the accumulators, for one cycle after the enable, and the maxima, until the next
    one; ``padded``: there are words that are not read."""
    plan, lookup = result.plan, dut.lookup
    indices = lookup.enable, lookup.stream.index, lookup.stationary.index
    addrs = dut.read.addr, getattr(dut.read, "wrapped_addr", dut.read.addr)
    watched = (dut.read.en, dut.read.port, *addrs, *indices)
    found = []  # what was looked up last, of what streams and is held

    def show(ctx, values):
        for one, value in zip((lookup.stream, lookup.stationary), values, strict=True):
            ctx.set(one.value, value)

    async def read(ctx):
        async for _, _, enable, port, addr, wrapped, looks, stream, stationary in ctx.tick().sample(
            *watched
        ):
            assert looks == (enable != 0) or (padded and looks)
            for k, word in enumerate(dut.read.data):
                number = (port + k) % result.ports
                place = number, (wrapped if number < port else addr)
                asked = enable >> k & 1
                sums, poison = result.sums[place] if asked else ([0] * plan.block, 0)
                ctx.set(word.sums, sums)
                if plan.poison:
                    ctx.set(word.poison, poison)
            if found and plan.output_register:
                show(ctx, found)
            if not looks:
                continue
            held_entries = len(lookup.stationary.value)
            found[:] = [result.look_up(0, stream, 1), result.look_up(1, stationary, held_entries)]
            if not plan.output_register:
                show(ctx, found)

    return read


@pytest.mark.parametrize(
    "machine, mode, north, p_stall", alternating(CASES, {"free": (0,), "stalled": (0.5,)})
)
@pytest.mark.sampled(12)
async def test_rows_of_floats(machine, mode, north, p_stall, rng):
    plan = make(machine)
    side = plan.block
    lanes = side * rng.randrange(13, 17) - rng.randrange(side)
    if mode == Mode.FUSED and not north:
        lanes = side * min(plan.fused_blocks_n, 9)
    t_count = plan.fused_tile_words + 3
    if mode != Mode.FUSED:  # some of them beyond a tile, which is long
        t_count = plan.tile_words + 3 if machine in ("textbook", "vectors") and not p_stall else 5
    result = Result(plan, mode, north, rng, t_count, lanes)
    pitch = -(-result.cols * 4 // plan.beat_bytes) * plan.beat_bytes
    dut = design(DrainAndLanes, plan, north=north)
    memory = ServiceMemory(SIZE, plan.beat_bytes, lambda: rng.random() < p_stall)
    memory.bytes[:] = b"\xa5" * SIZE
    want, overflows, seen = {}, [], []

    async def write(ctx):
        await memory.write(ctx, dut.requests, dut.beats)

    async def watch(ctx):
        async for _, _, overflow in ctx.tick().sample(dut.overflow):
            seen.append(overflow)

    background = (accumulators(dut, result), write, watch)
    ctx = await simulation(dut, background=background, limit=60_000)
    ask(ctx, dut, result, pitch)
    await ctx.tick()
    for number, tile in enumerate(result.tiles):
        for place, bits, overflow in result.floats(result.accumulate(number)):
            want[place] = bits
            overflows.append(overflow)
        await drained(ctx, dut, tile)
    await ended(ctx, dut)
    for _ in range(40):
        _, _, *valid = await ctx.tick().sample(dut.busy, dut.requests.valid, dut.beats.valid)
        assert valid == [0, 0, 0], "something after the drain was done"
    assert len(want) == result.rows * result.cols
    for (row, col), bits in want.items():
        at = BASE + row * pitch + col * 4
        got = int.from_bytes(memory.bytes[at : at + 4], "little")
        assert got == bits, f"row {row}, column {col}: {got:08x}, not {bits:08x}"
    end = BASE + result.rows * pitch
    assert set(memory.bytes[:BASE] + memory.bytes[end:]) == {0xA5}
    assert any(seen) == any(overflows)


@pytest.mark.parametrize(
    "machine, mode, north, p_stall",
    alternating(
        [case for case in CASES if case[1] != Mode.FUSED], {"free": (0,), "stalled": (0.6,)}
    ),
)
@pytest.mark.sampled(12)
async def test_blocks_for_a_chain(machine, mode, north, p_stall, rng):
    """A vector of B floats for every row of a block; nothing is written, and rows beyond the result
    are zeros whatever stands in the accumulators."""
    plan = with_vector(make(machine))
    side = plan.block
    result = Result(plan, mode, north, rng, side + 1, side * rng.randrange(13, 17) - side // 2)
    dut = design(DrainAndLanes, plan, north=north)
    wanted, taken, overflows, seen = [], [], [], []

    async def take(ctx):
        while True:
            taken.append(list(await get(ctx, dut.chain, lambda: rng.random() >= p_stall)))

    async def watch(ctx):
        watched = (dut.overflow, dut.requests.valid, dut.beats.valid)
        async for _, _, overflow, *written in ctx.tick().sample(*watched):
            seen.append(overflow)
            assert not any(written)

    background = (accumulators(dut, result, padded=True), take, watch)
    ctx = await simulation(dut, background=background, limit=60_000)
    ask(ctx, dut, result, plan.beat_bytes)
    ctx.set(dut.chained, 1)
    for number, tile in enumerate(result.tiles):
        floats = {}
        for place, bits, overflow in result.floats(result.accumulate(number)):
            floats[place] = bits
            overflows.append(overflow)
        wanted.extend(rows_of_blocks(result, tile, floats))
        await drained(ctx, dut, tile)
    await ended(ctx, dut)
    assert len(taken) == len(wanted), "busy until the last row has left"
    for _ in range(20):
        _, _, valid = await ctx.tick().sample(dut.chain.valid)
        assert not valid
    for number, (got, want) in enumerate(zip(taken, wanted, strict=True)):
        assert got[: len(want)] == want, f"row {number}"
    assert any(seen) == any(overflows)


def rows_of_blocks(result, tile, floats):
    """Of a tile, without the lanes that the result does not have."""
    side, top, left = result.plan.block, tile["t0"], tile["l0"]
    for i in range(top, top + tile["t_blocks"]):
        for j in range(left, left + tile["l_blocks"]):
            lanes = range(j * side, min((j + 1) * side, result.cols))
            for row in range(i * side, (i + 1) * side):
                inside = row < result.rows
                yield [floats[row, lane] if inside else 0 for lane in lanes]


@pytest.mark.parametrize("poison", [False, True])
async def test_overflow_is_reported_but_not_of_poison(poison):
    plan = make_plan(make_numerics(block=1, special="poison"), data_width=32)
    dut = design(DrainAndLanes, plan, north=False)
    memory = ServiceMemory(1 << 12, plan.beat_bytes)
    seen = []

    async def read(ctx):
        async for _, _, enable in ctx.tick().sample(dut.read.en):
            ctx.set(dut.read.data[0].sums, [enable << 30])
            ctx.set(dut.read.data[0].poison, poison and enable)

    async def write(ctx):
        await memory.write(ctx, dut.requests, dut.beats)

    ctx = await simulation(dut, background=(read, write))
    ctx.set(dut.result, {"base": 64, "pitch": 4, "rows": 1, "cols": 1})
    ctx.set(dut.lookup.stream.value, [254])
    ctx.set(dut.lookup.stationary.value, [254])
    sizes = {"t_count": 1, "l_blocks": 1, "first_t": 1, "first_l": 1}
    await put(ctx, dut.tiles, [sizes])
    for _ in range(40):
        _, _, overflow = await ctx.tick().sample(dut.overflow)
        seen.append(overflow)
    assert sum(seen) == (not poison)
    bits = int.from_bytes(memory.bytes[64:68], "little")
    assert bits == (0x7FC00000 if poison else 0x7F800000)
