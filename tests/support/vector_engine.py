"""Commands on the vector unit whole, beside the golden machine's: memory, tables and errors."""

from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from diastole_hw.vector.stream_layouts import VectorShape
from diastole_hw.vector.vector_engine import VectorEngine
from diastole_sim.golden.golden_machine import StoppedError
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.command_table import Opcode
from diastole_sim.spec.limits import VectorTable
from diastole_sim.spec.micro import INVERSE, SCALE
from oracle import vector_words as w
from oracle.vector_program import Output
from support.bench import design, get, put, run
from support.bus import ServiceMemory
from support.golden_machines import LIST_SLOT, Bench, PlacedScene
from support.golden_scenes import instructions
from support.numerics import make_numerics

PANEL_VECTORS = 256
MEMORY_BYTES = 1 << 16
SEED = 0xC0FF_EE77
FED = (1000, 1000, 1000)
"""Columns that the converter takes."""
ONE = 0x3F800000
FORMATS = {False: "bfp4", True: "fast"}
LATE = 20
"""Cycles after the last command in which nothing may happen."""


def shape_of(block, data_width, specials=None, *, decides=False, draws=False):
    return VectorShape(
        block=block,
        data_width=data_width,
        specials=specials or max(1, block // 4),
        panel_vectors=PANEL_VECTORS,
        choices=(decides, decides, decides),
        draws=draws,
    )


def engine_of(block, data_width, specials=None, *, decides=False, draws=False, **patches):
    shape = shape_of(block, data_width, specials, decides=decides, draws=draws)
    return design(VectorEngine, shape, FED, **patches)


def golden_bench(block, data_width, *, decides=False):
    """A golden machine with the same sizes."""
    return Bench(
        make_numerics(block=block, headroom=8 if decides else 10, formats=FORMATS[decides]),
        data_width=data_width,
        panel_vectors=PANEL_VECTORS,
        memory_bytes=MEMORY_BYTES,
        seed=SEED,
    )


def asked(command, **chain):
    """A command as the unit is given it; ``chain``: fields of a chain beside the command's."""
    return {
        "transfer": command.opcode in (Opcode.LOAD, Opcode.STORE),
        "store": command.opcode == Opcode.STORE,
        "which": command.which,
        "first": command.first,
        "count": command.count,
        "address": command.address_x,
        "advance": command.advance,
        "chain": {
            "first": command.program,
            "length": command.program_length,
            "streams": command.streams,
            "rows": command.m,
            "cols": command.n,
            "by_columns": command.columns,
            **chain,
        },
    }


def on_chains_alone(scene):
    """The scene, with outputs as floats that a walk over memory does not have or that need the
    converter, and with no scale of the loss."""
    bits = scene.walk != "columns" or scene.block**2 % 8 == 0
    outputs = [
        Output(w.KIND_F32)
        if each and (each.kind == w.KIND_IMAGE or (each.kind == w.KIND_MASK and not bits))
        else each
        for each in scene.outputs
    ]
    constants = list(scene.constants)
    constants[252:254] = [ONE] * 2
    return replace(scene, outputs=outputs, constants=constants)


def transfers(bench, placed):
    """Commands that load what a chain uses, and those that store what it leaves."""
    tables = bench.machine.tables
    place, vectors = placed.place, len(placed.scene.panel)
    areas = [
        (VectorTable.INSTRUCTIONS, place.first, place.length),
        (VectorTable.CONSTANTS, 0, 256),
        (VectorTable.DESCRIPTORS, place.streams, 8),
        (VectorTable.DESCRIPTORS, LIST_SLOT, 4),
    ] + [(VectorTable.PANEL, 0, vectors)] * bool(vectors)
    loads, stores = [], []
    for table, first, count in areas:
        address = bench.put(tables.bytes_of(table, first, count).tobytes())
        step, advance = bench.machine.step, bench.beat * placed.rng.randrange(3)
        if step * advance > address:
            advance = 0
        moved = {"first": first, "count": count, "advance": advance}
        loads.append(Command.load(table, address=address - step * advance, **moved))
        if table in (VectorTable.CONSTANTS, VectorTable.PANEL):
            address = bench.take(count * tables.entry_bytes(table))
            if step * advance > address:
                moved["advance"] = advance = 0
            stores.append(Command.store(table, address=address - step * advance, **moved))
    placed.rng.shuffle(loads)
    return loads, stores


@dataclass
class Job:
    """Commands, memory before them and after them, and what the unit says. ``product``: rows that
    come from a product, in ``tiles``; ``fields``: of chains beside those of commands."""

    commands: list
    step: int
    before: bytes
    after: bytes
    overflow: bool = False
    error: int = 0
    product: list = field(default_factory=list)
    fields: dict = field(default_factory=dict)
    tiles: dict = field(default_factory=lambda: {"t_step": 100, "l_step": 100})
    name: str = ""


def job_of(bench, commands, name=""):
    """What the golden machine makes of commands."""
    machine = bench.machine
    before = machine.memory.read(0, MEMORY_BYTES).tobytes()
    error = ErrorCode.NONE
    for command in commands:
        try:
            machine.execute(command)
        except StoppedError as stopped:
            error = stopped.code
            break
    after = machine.memory.read(0, MEMORY_BYTES).tobytes()
    return Job(commands, machine.step, before, after, machine.overflow, error, name=name)


def job_of_scene(scene, data_width, rng, step=0):
    """A chain with all that it needs, loaded before it and stored after it."""
    bench = golden_bench(scene.block, data_width)
    placed = PlacedScene(bench, on_chains_alone(scene), rng, step=step)
    loads, stores = transfers(bench, placed)
    return job_of(bench, [*loads, placed.command(), *stores], name=named(placed))


def named(placed):
    """What a message says of a chain."""
    scene = placed.scene
    lines = [f"{each}" for each in instructions(scene.words)]
    return f"B {scene.block} size {scene.size} {scene.walk} {placed.streams} " + "\n".join(lines)


@dataclass
class Seen:
    """Of a run: images that were asked for, and their rows; cycles of instructions and of waiting;
    cycles from the command to its end, by command; exponent fields of floors of the loss's
    scale."""

    images: list = field(default_factory=list)
    counts: dict = field(default_factory=lambda: dict.fromkeys(COUNTED, 0))
    cycles: list = field(default_factory=list)
    floors: list = field(default_factory=list)


COUNTED = ("working", "input", "output", "special")


class EngineRun:
    """Jobs on one unit, one after the other."""

    def __init__(self, dut, jobs, rng, stalls, conversion=None):
        self.dut, self.jobs, self.rng, self.stalls = dut, jobs, rng, stalls
        self.conversion = conversion
        self.memory = ServiceMemory(0, dut.shape.beat_bytes, self.stalled)
        self.seen, self.overflow = Seen(), False
        self.waiting_product = []

    def stalled(self):
        return self.stalls and self.rng.random() < 0.4

    def willing(self):
        return not self.stalled()

    async def commands(self, ctx):
        control = self.dut.control
        if self.dut.shape.draws:
            ctx.set(self.dut.seed, SEED)
        for _ in range(LATE):
            await ctx.tick()
        for index in (SCALE, INVERSE):  # of the loss, as the machine has them
            ctx.set(self.dut.constant_put, {"valid": 1, "index": index, "value": ONE})
            await ctx.tick()
        ctx.set(self.dut.constant_put.valid, 0)
        for job in self.jobs:
            self.memory.bytes, self.overflow = bytearray(job.before), False
            ctx.set(control.step, job.step)
            self.waiting_product = list(job.product)
            error = 0
            for command in job.commands:
                fields = asked(command, **job.fields)
                await put(ctx, control.command, [fields], self.willing)
                error = await self.end(ctx)
                if error:
                    break
            for _ in range(LATE):
                *_, done, ready = await ctx.tick().sample(control.done, control.command.ready)
                assert not done, job.name
                assert ready == (not error), job.name
            assert error == job.error, job.name
            self.compare(job)

    def compare(self, job):
        found = self.memory.bytes
        wrong = [(hex(n), found[n], job.after[n]) for n in differ(found, job.after)]
        assert not wrong, f"{len(wrong)} bytes (place, found, expected): {wrong[:8]} {job.name}"
        assert self.overflow == job.overflow, job.name

    async def end(self, ctx):
        """The error, or 0."""
        control, cycles = self.dut.control, 0
        while True:
            *_, done, error = await ctx.tick().sample(control.done, control.error_code)
            cycles += 1
            if done or error:
                assert not (done and error)
                self.seen.cycles.append(cycles)
                return error

    async def watch(self, ctx):
        dut = self.dut
        waits = dut.control.waits
        signals = dut.working, waits.input, waits.output, waits.special
        async for *_, floor, overflow, working, i, o, s in ctx.tick().sample(
            dut.floor, dut.control.overflow, *signals
        ):
            if floor.valid:
                self.seen.floors.append(floor.field)
            self.overflow |= bool(overflow)
            for name, bit in zip(COUNTED, (working, i, o, s), strict=True):
                self.seen.counts[name] += bit

    async def products(self, ctx):
        while True:
            if not self.waiting_product:
                await ctx.tick()
            else:
                rows, self.waiting_product = self.waiting_product, []
                await put(ctx, self.dut.product, rows, self.willing)

    async def tiles(self, ctx):
        """How each product is cut."""
        for job in self.jobs:
            if job.product:
                chain = asked(job.commands[-1])["chain"]
                size = {name: chain[name] for name in ("rows", "cols")}
                await put(ctx, self.dut.tiles, [size | job.tiles], self.willing)
        while True:
            await ctx.tick()

    async def images(self, ctx):
        """The converter: what it is asked for, then the rows, then it is done."""
        dut = self.dut
        while True:
            given = await get(ctx, dut.image_requested, self.willing)
            self.seen.images.append(given)
            block = dut.shape.block
            blocks = -(-given.rows // block) * -(-given.cols // block)
            for _ in range(blocks * block):
                row = await get(ctx, dut.image, self.willing)
                self.seen.images.append([row[lane] for lane in range(block)])
            for _ in range(self.conversion or self.rng.randrange(1, 20)):
                await ctx.tick()
            ctx.set(dut.image_done, 1)
            await ctx.tick()
            ctx.set(dut.image_done, 0)


def do_jobs(dut, jobs, rng, *, stalls=True, first=None, limit=40_000, conversion=None):
    """Do them; what was seen. Everything must be as the golden machine leaves it. ``first``: a
    bench beside them; the first command waits a few cycles for it. ``conversion``: cycles of the
    converter after the last row of an image, a few if None."""
    it = EngineRun(dut, jobs, rng, stalls, conversion)
    reads, writes = dut.read, dut.write
    background = (
        partial(it.memory.read, requests=reads.requests, data=reads.beats),
        partial(it.memory.write, requests=writes.requests, beats=writes.beats),
        it.watch,
        it.products,
        it.tiles,
        it.images,
    )
    benches = (it.commands, first) if first else (it.commands,)
    run(dut, *benches, background=background, limit=limit)
    return it.seen


def differ(found, expected):
    """Places of bytes."""
    return np.flatnonzero(np.frombuffer(found, np.uint8) != np.frombuffer(expected, np.uint8))


def numbers(row, block):
    """Of a row's bits."""
    return np.array([row >> 32 * lane & 0xFFFFFFFF for lane in range(block)], np.uint32)
