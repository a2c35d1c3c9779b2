# amaranth: UnusedElaboratable=no
"""The vector unit whole against the golden machine: memory, to the byte, and what it says."""

from dataclasses import replace

import numpy as np
import pytest

from diastole_sim.spec.command import Command
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.limits import VectorTable
from diastole_sim.spec.micro import Instruction, MicroOp, Source
from diastole_sim.spec.patches import PatchLimits
from diastole_sim.spec.stream_table import DESCRIPTOR_BYTES, Descriptor, Kind, PanelOrder
from support.random_programs import random_scene
from support.sweep import sweep
from support.vector_engine import (
    Job,
    do_jobs,
    engine_of,
    golden_bench,
    job_of,
    job_of_scene,
)
from support.vector_scenes import crowded_scene, small_scene

SHAPES = [(1, 32), (2, 64), (4, 32), (4, 128), (8, 64), (8, 512)]
WALKS = ("rows", "columns")


@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize("block, data_width", SHAPES)
@pytest.mark.sampled(12)
def test_random_chains(block, data_width, walk, rng):
    """One after the other, each with all that it needs."""
    jobs = [
        job_of_scene(small_scene(rng, block, length=8, walk=walk), data_width, rng, step)
        for step in (0, 3)
    ]
    stalls = (walk == "rows") == (data_width in (32, 512))
    do_jobs(engine_of(block, data_width), jobs, rng, stalls=stalls)


@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize("block, data_width", SHAPES)
@pytest.mark.sampled(6)
def test_random_chains_with_random_numbers(block, data_width, walk, rng):
    """Chains without random numbers between them, on the same unit."""
    scenes = [
        random_scene(rng, block, walk=walk, length=8, draws=draws) for draws in (True, False, True)
    ]
    jobs = [job_of_scene(each, data_width, rng, rng.choice((0, 1, 5))) for each in scenes]
    do_jobs(engine_of(block, data_width, draws=True), jobs, rng, stalls=rng.random() < 0.5)


@pytest.mark.parametrize("number", [0, 1])
def test_a_chain_has_one_input_of_random_numbers(number, rng):
    """``number``: of them less 1. Another stream of random numbers that nothing names is free."""
    source, twice = (
        Descriptor(kind=Kind.DRAWS, pitch=9),
        Instruction(op=MicroOp.ADD, a=16, c=18, o=0),
    )
    chain = Chain(source=source, program=(twice if number else MOVE,))
    job = chain.job(streams={2: Descriptor(kind=Kind.DRAWS, pitch=10)})
    assert job.error == (ErrorCode.BAD_STREAM if number else ErrorCode.NONE)
    do_jobs(engine_of(4, 64, draws=True), [job], rng)


@pytest.mark.sweep
@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("stalls", [False, True], ids=["free", "stalled"])
@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize("block, data_width", [*SHAPES, (16, 64)])
def test_many_random_chains(block, data_width, walk, stalls, number, rng):
    scenes = [random_scene(rng, block, walk=walk), crowded_scene(rng, block)]
    jobs = [job_of_scene(each, data_width, rng, rng.choice((0, 1, 5))) for each in scenes]
    do_jobs(engine_of(block, data_width), jobs, rng, stalls=stalls, limit=1_000_000)


SIZE = (7, 13)
MOVE = Instruction(op=MicroOp.MOV, a=Source.S0, o=0)
TENSOR = np.arange(91, dtype=np.float32).reshape(SIZE) - 40
NAN = 0x7FC00000


class Chain:
    """A chain from input 0, floats in memory, to output 0, its tables loaded by commands."""

    def __init__(
        self,
        *,
        output=None,
        program=(MOVE,),
        source=None,
        tensor=TENSOR,
        data_width=64,
        decides=False,
    ):
        self.bench = bench = golden_bench(4, data_width, decides=decides)
        self.rows = [row.tobytes() for row in tensor]
        address, pitch = bench.put_rows(self.rows)
        self.out = bench.take(pitch * len(self.rows)), pitch
        self.source = source or Descriptor(kind=Kind.F32, address=address, pitch=pitch)
        self.output = output or self.stored()
        self.program, self.tensor = program, tensor
        self.place = bench.load(program)

    def stored(self, **others):
        address, pitch = self.out
        return Descriptor(kind=Kind.F32, address=address, pitch=pitch, **others)

    def loads(self, streams=()):
        """Commands that load program and streams. ``streams``: further ones, by number."""
        slots = [Descriptor()] * 8
        for number, each in {0: self.source, 4: self.output, **dict(streams)}.items():
            slots[number] = each
        words = b"".join(each.encode().to_bytes(8, "little") for each in self.program)
        table = b"".join(each.encode() for each in slots)
        assert len(table) == 8 * DESCRIPTOR_BYTES
        return [
            Command.load(
                VectorTable.INSTRUCTIONS,
                address=self.bench.put(words),
                first=0,
                count=len(self.program),
            ),
            Command.load(VectorTable.DESCRIPTORS, address=self.bench.put(table), first=0, count=8),
        ]

    def command(self):
        return Command.chain(self.place, m=self.tensor.shape[0], n=self.tensor.shape[1])

    def job(self, **streams):
        return job_of(self.bench, [*self.loads(**streams), self.command()])


IMAGE = Descriptor(kind=Kind.IMAGE, address=64, offset=64, pitch=5, tensor_class=2)
BAD_STREAM = Descriptor(kind=Kind.F32, pitch=4)
BAD_PROGRAM = (replace(MOVE, b=1),)


@pytest.mark.parametrize(
    "chain, error",
    [
        ({"output": BAD_STREAM}, ErrorCode.BAD_STREAM),
        ({"program": BAD_PROGRAM}, ErrorCode.BAD_PROGRAM),
        ({"output": BAD_STREAM, "program": BAD_PROGRAM}, ErrorCode.BAD_STREAM),
    ],
    ids=["stream", "program", "both"],
)
def test_what_is_refused_does_nothing(chain, error, rng):
    job = Chain(**chain).job()
    assert job.error == error
    assert job.after == job.before
    do_jobs(engine_of(4, 64), [job], rng)


@pytest.mark.parametrize(
    "value, watch",
    [
        (np.inf, 1),
        *(sweep(value, 1) for value in (1.5, np.nan)),
        *(sweep(value, 0) for value in (1.5, np.inf, np.nan)),
    ],
)
def test_a_constant_that_is_watched_stops_the_unit(value, watch, rng):
    """After the chain is finished, and what it wrote has left."""
    tensor = TENSOR.copy()
    tensor[-3, -1] = value  # row slot 0, lane 0 of the last block
    chain = Chain(
        tensor=tensor,
        program=(MOVE, replace(MOVE, o=1)),
    )
    constant = Descriptor(kind=Kind.CONSTANT, address=200, watch=watch)
    job = chain.job(streams={5: constant})
    stops = bool(watch) and not np.isfinite(value)
    assert job.error == (ErrorCode.NOT_FINITE if stops else ErrorCode.NONE)
    assert not job.overflow
    assert job.after != job.before
    do_jobs(engine_of(4, 64), [job], rng)


@pytest.mark.parametrize("watch", [sweep(0), 1])
def test_what_is_watched_in_memory(watch, rng):
    """Tells of it, and goes on."""
    tensor = TENSOR.copy()
    tensor[2, 3] = np.inf
    chain = Chain(tensor=tensor)
    chain.output = chain.stored(watch=watch)
    job = chain.job()
    assert job.overflow == bool(watch)
    do_jobs(engine_of(4, 64), [job, job], rng)


@pytest.mark.parametrize("watched", [sweep(None), 0, sweep(1)])
def test_what_is_watched_in_the_panel(watched, rng):
    """Of two outputs there the one that is watched."""
    tensor = TENSOR.copy()
    tensor[2, 3] = np.nan
    program = (replace(MOVE, o=1, when=3), replace(MOVE, a=Source.ONE, o=2), MOVE)
    streams = {
        5 + n: Descriptor(
            kind=Kind.PANEL, address=4 * n, aux=PanelOrder.BLOCK_COLUMN, watch=int(watched == n)
        )
        for n in range(2)
    }
    job = Chain(tensor=tensor, program=program).job(streams=streams)
    assert job.overflow == (watched == 0)
    do_jobs(engine_of(4, 64), [job], rng)


def blocks_of(tensor, side):
    """Blocks of a walk by rows, bits. Outside the tensor ones are 7.0."""
    rows, cols = tensor.shape
    high, wide = -(-rows // side), -(-cols // side)
    padded = np.full((high * side, wide * side), 7, np.float32)
    padded[:rows, :cols] = tensor
    blocks = padded.reshape(high, side, wide, side).swapaxes(1, 2).reshape(-1, side, side)
    return blocks.view(np.uint32).tolist()


def test_rows_of_a_product(rng):
    """As if they came from memory."""
    job = Chain(program=(replace(MOVE, op=MicroOp.ADD, c=Source.COLUMN),)).job()
    chain = Chain(
        source=Descriptor(kind=Kind.PRODUCT),
        program=(replace(MOVE, op=MicroOp.ADD, c=Source.COLUMN),),
    )
    loads = chain.loads()
    memory = chain.bench.machine.memory
    before = bytes(memory.read(0, memory.size))
    product = [row for block in blocks_of(TENSOR, 4) for row in block]
    address, pitch = chain.out
    after = bytearray(before)
    after[address : address + pitch * 7] = job.after[address : address + pitch * 7]
    given = replace(
        job,
        commands=[*loads, chain.command()],
        before=before,
        after=bytes(after),
        product=product,
        fields={"of_product": 1},
    )
    do_jobs(engine_of(4, 64), [given, given], rng)


SLOTTED = replace(IMAGE, aux=9, by_slot=1)


@pytest.mark.parametrize(
    "stalls, image",
    [
        (False, IMAGE),
        (True, SLOTTED),
        *(sweep(stalls, replace(SLOTTED, by_slot=0, decides=1)) for stalls in (False, True)),
        sweep(True, IMAGE),
        sweep(False, SLOTTED),
    ],
)
def test_images_leave_for_the_converter(stalls, image, rng):
    decides = image != IMAGE
    chain = Chain(program=(MOVE, replace(MOVE, o=2)), decides=decides)
    loads = chain.loads({6: image})
    memory = chain.bench.machine.memory
    before = memory.read(0, memory.size).tobytes()
    chain.bench.machine.execute(loads[0])
    job = job_of(chain.bench, [*loads, chain.command()])
    address, pitch = chain.out
    after = bytearray(before)  # the golden machine writes the image too
    after[address : address + pitch * 7] = job.after[address : address + pitch * 7]
    given = replace(job, before=before, after=bytes(after))
    seen = do_jobs(engine_of(4, 64, decides=decides), [given], rng, stalls=stalls)
    asked, *rows = seen.images
    wanted = {"cls": 2, "rows": 7, "cols": 13, "address": 64, "offset": 64, "tag": 5}
    wanted |= {"slot": image.aux}
    if decides:
        wanted |= {"by_slot": image.by_slot, "decides": image.decides}
    assert {name: asked[name] for name in wanted} == wanted
    expected = [row for block in blocks_of(TENSOR, 4) for row in block]
    for number, (found, row) in enumerate(zip(rows, expected, strict=True)):
        block, slot = divmod(number, 4)
        i, j = divmod(block, 4)
        width = min(4, 13 - 4 * j)
        if 4 * i + slot < 7:
            assert found[:width] == row[:width]


PATCHES = PatchLimits(tiles=((1, 2), (2, 2), (1, 4)), kept_rows=2)


@pytest.mark.parametrize(
    "cls, tile, by_columns, limits, error",
    [
        (0, (1, 2), 0, {}, ErrorCode.NONE),
        (0, (1, 2), 1, {}, ErrorCode.NONE),
        (0, (1, 2), 1, {"patches": replace(PATCHES, kept_rows=1)}, ErrorCode.NEST),
        (0, (1, 3), 0, {}, ErrorCode.NEST),
        (0, (1, 4), 0, {"widest": 8}, ErrorCode.NONE),  # whole rows
        (0, (1, 2), 0, {"widest": 12}, ErrorCode.BAD_STREAM),
        (0, (1, 2), 0, {"patches": None}, ErrorCode.NEST),
        (1, (2, 2), 0, {}, ErrorCode.NONE),
        (1, (3, 2), 0, {}, ErrorCode.NONE),  # all rows
        (1, (1, 2), 0, {}, ErrorCode.NEST),
        (2, (1, 2), 0, {}, ErrorCode.NEST),
        (3, (1, 2), 0, {}, ErrorCode.NEST),
    ],
)
@pytest.mark.sampled(12)
def test_images_in_patches(cls, tile, by_columns, limits, error, rng):
    """Of a product of 2 x 4 blocks, in such tiles: as :class:`PatchLimits` has it, and asked for
    so."""
    chain = Chain(source=Descriptor(kind=Kind.PRODUCT), output=replace(IMAGE, tensor_class=cls))
    loads = chain.loads()
    memory = bytes(chain.bench.machine.memory.read(0, chain.bench.machine.memory.size))
    high, wide = tile
    given = Job(
        [*loads, chain.command()],
        0,
        memory,
        memory,
        error=error,
        product=[row for block in blocks_of(TENSOR, 4) for row in block],
        fields={"of_product": 1},
        tiles={"t_step": high, "l_step": wide, "lanes_outermost": by_columns},
    )
    limits = {"patches": PATCHES, "widest": 13} | limits
    seen = do_jobs(engine_of(4, 64, **limits), [given], rng)
    assert bool(seen.images) == (error == ErrorCode.NONE)
    patches = limits["patches"]
    if wide < 4 and cls < 3 and limits["widest"] == 13:
        taken = patches is not None and patches.accepts(
            cls, (2, 4), tile, by_columns=bool(by_columns)
        )
        assert taken == (error == ErrorCode.NONE)
    if seen.images:
        cut = seen.images[0]["cut"]
        assert cut["cut"] == (wide < 4)
        assert (cut["high"], cut["wide"], cut["by_columns"]) == (high, wide, by_columns)


CONVERSION = 1500
"""Cycles of a converter that is slower than any chain of the next test."""


@pytest.mark.parametrize(
    "output, error, early",
    [
        (None, ErrorCode.NONE, True),
        (IMAGE, ErrorCode.NONE, False),
        (Descriptor(kind=Kind.F32, pitch=4), ErrorCode.BAD_STREAM, False),
        (Descriptor(kind=Kind.CONSTANT, address=200, watch=1), ErrorCode.NOT_FINITE, False),
    ],
    ids=["tensor", "image", "refused", "stopped"],
)
@pytest.mark.sampled(4)
def test_the_chain_behind_an_image(output, error, early, rng):
    """It is done while the image is converted; an error, and another image, wait for that."""
    tensor = np.full(SIZE, np.inf, np.float32) if error == ErrorCode.NOT_FINITE else TENSOR
    chain = Chain(output=output, tensor=tensor)
    loads = chain.loads()
    machine = chain.bench.machine
    for load in loads:
        machine.execute(load)
    before = machine.memory.read(0, machine.memory.size).tobytes()
    job = job_of(chain.bench, [chain.command()])
    assert job.error == error
    image = Chain(output=IMAGE)
    commands = [*image.loads(), image.command()]
    given = image.bench.machine.memory.read(0, machine.memory.size).tobytes()
    first = Job(commands, 0, given, given)
    after = before if output == IMAGE else job.after
    second = replace(job, commands=[*loads, *job.commands], before=before, after=after)
    seen = do_jobs(engine_of(4, 64), [first, second], rng, conversion=CONVERSION)
    assert len(seen.cycles) == 6
    assert (seen.cycles[-1] < CONVERSION - 500) == early
    assert seen.cycles[2] < CONVERSION


def test_scales_and_constants_from_outside(rng):
    """Constants between commands; scales at any time."""
    dut = engine_of(4, 64)
    bench = golden_bench(4, 64)
    constants, scales = bench.take(16), bench.take(16)
    tables = bench.machine.tables
    tables.constants[100:104] = tables.amax[251:255, 0] = (1, 2, 3, 4)
    places = {VectorTable.CONSTANTS: (constants, 100), VectorTable.AMAX: (scales, 251)}
    stores = [
        Command.store(table, address=address, first=first, count=4)
        for table, (address, first) in places.items()
    ]
    job = job_of(bench, stores)

    async def outside(ctx):
        for number in range(4):
            bits = int(np.float32(number + 1).view(np.uint32))
            ctx.set(dut.constant_put, {"valid": 1, "index": 100 + number, "value": bits})
            ctx.set(dut.amax_put_en, 1)
            ctx.set(dut.amax_put_at, 251 + number)
            ctx.set(dut.amax_put, number + 1)
            await ctx.tick()
        ctx.set(dut.constant_put.valid, 0)
        ctx.set(dut.amax_put_en, 0)
        for number in range(40):
            ctx.set(dut.amax_at, 251 + number % 4)
            ctx.set(dut.amax_en, 1)
            await ctx.tick()
            ctx.set(dut.amax_en, 0)
            assert ctx.get(dut.amax) == number % 4 + 1
            await ctx.tick()

    do_jobs(dut, [job], rng, first=outside)


@pytest.mark.parametrize("block, data_width", [(4, 64), (8, 128)])
def test_floors_of_the_losss_scale(block, data_width, rng):
    """A load of constant 255 gives the exponent field of its float, whatever is loaded before it;
    loads of other constants and of other tables, and stores, give none."""
    bench = golden_bench(block, data_width)
    values = np.array([3.0, 7.0, 0.0, 2.0**13, -1.5, 2.0**15], np.float32)
    address = bench.put(values.tobytes())
    scales, beat = VectorTable.AMAX, data_width // 8
    commands = [
        Command.load(VectorTable.CONSTANTS, address=address, first=252, count=4),
        Command.load(VectorTable.CONSTANTS, address=address, first=250, count=5),
        Command.load(scales, address=address, first=252, count=3),
        Command.store(VectorTable.CONSTANTS, address=bench.take(beat), first=255, count=1),
        Command.load(VectorTable.CONSTANTS, address=address + beat, first=255, count=1),
    ]
    seen = do_jobs(engine_of(block, data_width), [job_of(bench, commands)], rng)
    second = {64: 0, 128: 127}[data_width]  # of 0.0, or of -1.5
    assert seen.floors == [127 + 13, second]


def test_cycles_of_a_chain(rng):
    """Where its beats are no more than its instructions' cycles, nothing but those of its
    beginning and end is added to them."""
    blocks = 2 * 4
    program = (MOVE, *[replace(MOVE, a=Source.ONE, d=1, o=7)] * 2)
    job = Chain(program=program).job()
    seen = do_jobs(engine_of(4, 64), [job], rng, stalls=False)
    assert seen.counts["working"] == blocks * len(program) * 8
    assert seen.counts["input"] + seen.counts["output"] < 40
    assert seen.cycles[-1] < blocks * len(program) * 8 + 100
