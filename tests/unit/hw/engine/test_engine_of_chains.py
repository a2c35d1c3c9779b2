# amaranth: UnusedElaboratable=no
"""Products whose results go to a chain, among others, against the golden model."""

import numpy as np
import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.engine.product_engine import ProductEngine
from diastole_hw.plan.modes import OPERATION_OF, Mode, product_of
from diastole_hw.ports import of_ports
from diastole_hw.vector.stream_layouts import visited_layout
from diastole_hw.vector.streams.product_walk import ProductWalk
from diastole_sim.golden.drain_order import tile_order
from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.spec.command_table import NEST_FIELDS
from diastole_sim.spec.image import FloatLayout
from diastole_sim.spec.nest import KEEP_VALUES, OUTER, Nest
from diastole_sim.spec.stream_table import Walk
from support.bench import design, get, pulse, run
from support.bus import ServiceMemory
from support.engines import GUARD, READ, asked_of, image_of, random_nest, tensors
from support.plans import make_numerics, make_plan, with_vector
from support.sweep import sweep

PRODUCTS = [Mode.FORWARD, Mode.DX, Mode.DW]


class EngineAndWalk(wiring.Component):
    """An engine, and the walk over blocks that who takes its rows has."""

    def __init__(self, plan):
        self.plan = plan
        members = dict(ProductEngine(plan).signature.members)
        del members["chain_tiles"]
        super().__init__(members | {"blocks": Out(stream.Signature(visited_layout(plan.vector)))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.engine = engine = ProductEngine(self.plan)
        m.submodules.walk = walk = ProductWalk(self.plan.vector)
        tiles, walks = engine.chain_tiles, Signal()
        kept = Signal(tiles.payload.shape())
        m.d.comb += [
            tiles.ready.eq(~walks),
            walk.start.eq(tiles.valid & ~walks),
            walk.tiles.eq(kept),
        ]
        with m.If(walk.start):
            m.d.sync += [kept.eq(tiles.payload), walks.eq(1)]
        with m.If(walk.blocks.valid & walk.blocks.ready & walk.blocks.p.end):
            m.d.sync += walks.eq(0)
        wiring.connect(m, walk.blocks, wiring.flipped(self.blocks))
        for name, member in self.signature.members.items():
            if name == "blocks":
                continue
            outer, inner = getattr(self, name), getattr(engine, name)
            if member.is_signature:
                wiring.connect(m, wiring.flipped(outer), inner)
            else:
                m.d.comb += inner.eq(outer) if member.flow == In else outer.eq(inner)
        return m


class Scene:
    """Operands in memory, and the results that products of them have."""

    def __init__(self, plan, numerics, sizes, stall):
        self.plan, self.sizes = plan, sizes
        self.golden = NumpyDevice(numerics, seed=1)
        given = tensors(*sizes, 5, special=numerics.special == "poison")
        classes = (("X", "x"), ("W", "w"), ("dY", "dy"))
        self.operands = [
            self.golden.convert(given[name], cls, tag=tag)
            for tag, (name, cls) in enumerate(classes)
        ]
        self.memory = ServiceMemory(1 << 18, plan.beat_bytes, stall)
        self.memory.bytes[:] = b"\xa5" * len(self.memory.bytes)
        self.at, self.sources = 4096, {}
        for (_, cls), q in zip(classes, self.operands, strict=True):
            for copy in range(2):
                image = image_of(q, copy, plan.data_width).tobytes()
                self.memory.bytes[self.at : self.at + len(image)] = image
                self.sources[cls, copy] = self.at
                self.at += len(image) + GUARD
        self.expected = bytearray(self.memory.bytes)

    def results(self, mode):
        """Its results, by name."""
        results = asked_of(self.golden, mode, *self.operands)
        return {name: getattr(result, name).view(np.uint32) for name, result in results.items()}

    def layout(self, name):
        axes = {"y": (0, 1), "dw": (2, 1), "dx": (0, 2)}[name]
        rows, cols = (self.sizes[axis] for axis in axes)
        return FloatLayout(rows=rows, cols=cols, data_width=self.plan.data_width)

    def places(self):
        """Of results, whichever a product has."""
        places = {}
        for name in ("y", "dw", "dx"):
            places[name] = self.at
            self.at += self.layout(name).total_bytes + GUARD
        return places

    def written(self, name, at):
        """A result that is in memory; its bytes are expected to have changed."""
        layout = self.layout(name)
        place = slice(at, at + layout.total_bytes)
        self.expected[place] = self.memory.bytes[place]
        got = layout.unpack(np.frombuffer(bytes(self.memory.bytes[place]), np.uint8))
        return got.view(np.uint32)


def asked(scene, mode, nest, chained, places):
    """The operands of a product."""
    m, n, k = scene.sizes
    given = {"m": m, "n": n, "k": k, "chain": chained} | places
    given |= {name: scene.sources[name, copy] for name, copy in READ[mode].items()}
    given |= {field: getattr(nest, name) for name, field in NEST_FIELDS.items()}
    return given | {
        "nest_outer": OUTER.index(nest.outer),
        "nest_keep": KEEP_VALUES.index(nest.keep),
    }


def order_of(scene, mode, nest):
    """Of the blocks, by the golden model."""
    limits = scene.plan.nests.of(OPERATION_OF[mode].name)
    nest = limits.with_defaults(nest)
    rows, cols = (scene.sizes["mnk".index(axis)] for axis in product_of(mode).result.axes)
    walk = Walk(rows=rows, cols=cols, block=scene.plan.block)
    return tile_order(walk, nest.t_blocks, nest.groups * limits.lane_side, nest.outer)


def run_chained(plan, numerics, products, sizes, rng, p_stall):
    """``products``: (mode, nest, whether it is chained), given as soon as the engine takes them.
    ``p_stall``: how often whoever has the chain does not take a row, and memory a beat half as
    often. Returns whether results have waited for memory, and for the chain."""
    scene = Scene(plan, numerics, sizes, lambda: rng.random() < p_stall / 2)
    dut, memory, side = design(EngineAndWalk, plan), scene.memory, plan.block
    places = [scene.places() for _ in products]
    taken = []  # results of chains, so far
    whole = []
    waits = {"memory": 0, "chain": 0}

    async def starts(ctx):
        control = dut.control
        for number, ((mode, nest, chained), at) in enumerate(zip(products, places, strict=True)):
            while not ctx.get(control.ready):
                await ctx.tick()
            ctx.set(control.mode, mode)
            ctx.set(control.command, number & 1)
            for name, value in asked(scene, mode, nest, chained, at).items():
                ctx.set(control.operands[name], value)
            await pulse(ctx, control.start)
            ctx.set(control.operands, {})

    async def take(ctx):
        """Every block of every chain, in the order that the walk says."""

        def willing():
            return rng.random() >= p_stall

        for mode, nest, chained in products:
            if not chained:
                continue
            order = order_of(scene, mode, nest)
            got = np.zeros((max(order.i + 1) * side, max(order.j + 1) * side), np.uint32)
            taken.append(got)
            for i, j, first, last in zip(order.i, order.j, order.first, order.last, strict=True):
                block = await get(ctx, dut.blocks)
                assert (block.i, block.j) == (i, j), f"{mode.name}, {nest}"
                assert (block.first, block.last) == (first, last), f"{mode.name}, {nest}"
                for row in range(i * side, (i + 1) * side):
                    got[row, j * side : (j + 1) * side] = list(await get(ctx, dut.chain, willing))
            whole.append(mode)

    async def ends(ctx):
        chains = 0
        for number, (mode, _, chained) in enumerate(products):
            done = False
            while not done:
                _, _, done, owner_tag = await ctx.tick().sample(
                    dut.control.done, dut.control.done_command
                )
            assert owner_tag == number & 1
            chains += chained
            assert len(whole) >= chains, f"{mode.name} is done before its last row is taken"
        await ctx.tick()
        assert not ctx.get(dut.busy)

    async def watch(ctx):
        async for _, _, store, chain in ctx.tick().sample(
            dut.control.stalls.store, dut.chain_stalled
        ):
            waits["memory"] |= store
            waits["chain"] |= chain

    def served(read, requests, beats):
        async def reads(ctx):
            await memory.read(ctx, read.requests, read.beats)

        async def writes(ctx):
            await memory.write(ctx, requests, beats)

        return reads, writes

    async def headers(ctx):
        await memory.read(ctx, dut.headers.requests, dut.headers.beats)

    names = ("read", "requests", "beats")
    ports = zip(*(of_ports(dut, name, plan.ports) for name in names), strict=True)
    background = [watch, *(each for port in ports for each in served(*port))]
    background += [headers] if plan.significands else []
    run(dut, starts, take, ends, background=background, limit=200_000)
    rest = iter(taken)
    for (mode, nest, chained), at in zip(products, places, strict=True):
        for name, want in scene.results(mode).items():
            got = scene.written(name, at[name]) if not chained else next(rest)
            same = got[: want.shape[0], : want.shape[1]] == want
            assert same.all(), f"{mode.name}, {nest}: {(~same).sum()} of {same.size} differ"
    assert memory.bytes == scene.expected, "memory outside the results changed"
    return waits


MACHINES = {
    "1x1": ({"block": 8}, {}),
    "textbook": ({"block": 1, "formats": "bfp8"}, {"rows": 2, "cols": 2, "data_width": 32}),
    "3x2": ({"block": 2, "special": "poison"}, {"rows": 3, "cols": 2}),
    "edge": ({"block": 4}, {"rows": 2, "in_place": False}),
    "words of two": ({"block": 4}, {"rows": 3, "cols": 2, "data_width": 256}),
    "vectors": ({"block": 4, "groupings": "1x16"}, {"rows": 2}),
    "nvfp4": ({"block": 2, "formats": "nvfp4", "fraction": 4}, {"cols": 2, "data_width": 32}),
    "two ports": ({"block": 2}, {"rows": 2, "cols": 4, "ports": 2}),
    "floats": (
        {"block": 4, "accumulator": {"kind": "float", "mantissa": 9, "chunk": 16}},
        {"rows": 1, "cols": 1},
    ),
}


def make(name):
    numbers, shape = MACHINES[name]
    numerics = make_numerics(**numbers)
    return with_vector(make_plan(numerics, **shape)), numerics


@pytest.mark.parametrize("machine", [name if name == "3x2" else sweep(name) for name in MACHINES])
@pytest.mark.parametrize("p_stall", [0, sweep(0.5)], ids=["free", "stalled"])
def test_every_product_in_any_nest(machine, p_stall, rng):
    """All chained, one after the other in flight, the machine's own nest and others."""
    plan, numerics = make(machine)
    sizes = tuple(rng.randrange(1, 3 * plan.block + 8) for _ in range(3))
    products = [
        (mode, nest, True)
        for mode in PRODUCTS
        for nest in (Nest(), random_nest(plan, mode, sizes, rng))
    ]
    rng.shuffle(products)
    run_chained(plan, numerics, products, sizes, rng, p_stall)


@pytest.mark.parametrize(
    "machine, sizes, count",
    [
        ("3x2", (5, 7, 6), 5),
        *(
            sweep(machine, (9, 13, 10), 9)
            for machine in ("3x2", "words of two", "vectors", "two ports")
        ),
    ],
)
def test_among_products_that_are_written(machine, sizes, count, rng):
    """Chains that are slow, beside products that leave in the other direction, and nothing of them
    is passed by a later one."""
    plan, numerics = make(machine)
    products = []
    for _ in range(count):
        mode = rng.choice([*PRODUCTS, *[Mode.FUSED] * plan.fused])
        nest = Nest() if mode == Mode.FUSED else random_nest(plan, mode, sizes, rng)
        products.append((mode, nest, mode != Mode.FUSED and rng.random() < 0.7))
    run_chained(plan, numerics, products, sizes, rng, 0.7)


@pytest.mark.parametrize(
    "modes, sizes",
    [
        ((Mode.FORWARD, Mode.DX), (9, 11, 8)),
        sweep((Mode.FORWARD, Mode.DX), (14, 15, 16)),
        sweep((Mode.DX, Mode.DW), (14, 15, 16)),
    ],
)
def test_a_later_chain_waits_for_an_earlier_one(modes, sizes, rng):
    """Its first tile is there, in the other direction, while rows of the earlier one are left."""
    plan, numerics = make("3x2")
    assert plan.use(modes[0]).north != plan.use(modes[1]).north
    products = [(mode, Nest(), True) for mode in modes]
    waits = run_chained(plan, numerics, products, sizes, rng, 0.8)
    assert waits == {"memory": 0, "chain": 1}


@pytest.mark.parametrize("chained, p_stall", [(True, 0.0), (False, 0.9), sweep(False, 0.0)])
def test_what_results_wait_for(chained, p_stall, rng):
    """A chain never makes them wait where its queue has room for them all: 24 rows of blocks."""
    plan, numerics = make("3x2")
    sizes = (5, 7, 4) if chained else (14, 19, 4)
    waits = run_chained(plan, numerics, [(Mode.FORWARD, Nest(), chained)], sizes, rng, p_stall)
    assert waits == {"memory": not chained and p_stall > 0, "chain": 0}
