# amaranth: UnusedElaboratable=no
"""Commands on a small machine: conversions and a product of what they wrote, over one bus."""

import numpy as np
import pytest

from diastole_hw.command.decoder import command_layout
from diastole_hw.core import Core
from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_table import Opcode
from diastole_sim.spec.image import FloatLayout, image_layouts
from support.bench import design, put, run
from support.bus import ServiceMemory
from support.plans import make_numerics, make_plan
from support.sweep import sweep

M, N, K = 5, 3, 6
SEED, STEP = 0xC0FFEE11, 9
SHAPES = {"x": (M, K), "w": (K, N), "dy": (M, N)}
TAGS = {"x": 4, "w": 5, "dy": 6}
GUARD = 64  # bytes between any two tensors
UNTOUCHED = 0x5C
RESPONSE_CYCLES = 20


def payload(command):
    return {name: int(getattr(command, name)) for name in command_layout().members}


class Bench:
    """Three tensors in memory, the golden model's conversions, and the core that is to make them.

    ``log``: for each command that ended, its cycles, the flags and events seen during it, and the
    requests that were made.
    """

    def __init__(self, rng, stall):
        self.numerics = make_numerics(block=2, formats=("bfp4", "bfp5", "bfp3"))
        self.dut = design(Core, make_plan(self.numerics, rows=2, cols=1))
        self.memory = ServiceMemory(1 << 14, 8, stall)
        self.memory.bytes[:] = bytes([UNTOUCHED]) * len(self.memory.bytes)
        golden = NumpyDevice(self.numerics, seed=SEED)
        generator = np.random.default_rng(rng.getrandbits(32))
        self.top, self.places, self.data, self.wanted = 4096, {}, {}, {}
        for name, shape in SHAPES.items():
            values = generator.standard_normal(shape).astype(np.float32)
            values[0, 0] *= 8
            self.data[name] = values
            self.wanted[name] = golden.convert(values, name, tag=TAGS[name], step=STEP)
            floats = FloatLayout(rows=shape[0], cols=shape[1], data_width=64)
            self.place(f"{name} floats", floats.pack(values))
            self.place(f"{name} image", self.image(name), empty=True)
        self.product = golden.forward(self.wanted["x"], self.wanted["w"])
        self.result = FloatLayout(rows=M, cols=N, data_width=64)
        self.place("y", self.result.pack(self.product.y), empty=True)
        self.log = []

    def image(self, name):
        (layout,) = image_layouts(
            self.numerics.tensor_class(name), SHAPES[name], block=2, data_width=64
        )
        return layout.pack(self.wanted[name].copies[0], None)

    def place(self, name, data, empty=False):
        self.places[name] = (self.top, self.top + data.size)
        if not empty:
            self.memory.bytes[self.top : self.top + data.size] = data.tobytes()
        self.top += data.size + GUARD

    def found(self, name):
        first, end = self.places[name]
        return np.frombuffer(bytes(self.memory.bytes[first:end]), np.uint8)

    def convert(self, name):
        return Command.convert(
            name,
            rows=SHAPES[name][0],
            cols=SHAPES[name][1],
            source=self.places[f"{name} floats"][0],
            destination=self.places[f"{name} image"][0],
            tag=TAGS[name],
            step=STEP,
        )

    def forward(self):
        return Command.product(
            Opcode.FORWARD,
            m=M,
            n=N,
            k=K,
            address_x=self.places["x image"][0],
            address_w=self.places["w image"][0],
            out_a=self.places["y"][0],
        )

    def run(self, commands):
        dut, memory = self.dut, self.memory

        async def drive(ctx):
            ctx.set(dut.seed, SEED)
            for number, command in enumerate(commands):
                ctx.set(dut.number, number & 1)
                await put(ctx, dut.command, [payload(command)])

        async def watch(ctx):
            for _ in commands:
                seen = {"converting": 0, "multiplying": 0, "converted": 0, "flags": 0, "both": 0}
                memory.reads, memory.writes = [], []
                done = False
                while not done:
                    _, _, done, flags, events = await ctx.tick().sample(
                        dut.done, dut.flags.as_value(), dut.events
                    )
                    assert events.running == (events.converting or events.multiplying)
                    for name in ("converting", "multiplying", "converted"):
                        seen[name] += events[name]
                    seen["both"] += events.converting and events.multiplying
                    seen["flags"] |= flags
                    if events.converted:
                        seen["amax"] = events.amax
                self.log.append(seen | {"reads": memory.reads, "writes": memory.writes})

        async def reads(ctx):
            await memory.read(ctx, dut.requests, dut.read)

        async def writes(ctx):
            answer = dut.answered, dut.answered_command
            await memory.write(ctx, dut.write_requests, dut.write, answer, RESPONSE_CYCLES)

        before = bytes(memory.bytes)
        run(dut, drive, watch, background=(reads, writes))
        return before

    def spans(self, requests):
        """The tensors that requests lie in, by name; anything else fails."""
        names = set()
        for address, beats in requests:
            (name,) = (
                name
                for name, (first, end) in self.places.items()
                if first <= address and address + 8 * beats <= end
            )
            names.add(name)
        return names


@pytest.mark.parametrize("p_stall", [sweep(0), 0.4], ids=["free", "stalled"])
def test_conversions_and_their_product(p_stall, rng):
    bench = Bench(rng, stall=lambda: rng.random() < p_stall)
    classes = ["x", "w", "dy"]
    commands = [*map(bench.convert, classes), bench.forward()]
    before = bench.run(commands)
    for name in classes:
        assert (bench.found(f"{name} image") == bench.image(name)).all(), name
    got = bench.result.unpack(bench.found("y"))
    assert (got.view(np.uint32) == bench.product.y.view(np.uint32)).all()
    for name, seen in zip(classes, bench.log, strict=False):
        assert bench.spans(seen["reads"]) == {f"{name} floats"}
        assert bench.spans(seen["writes"]) == {f"{name} image"}
        assert (seen["converted"], seen["multiplying"]) == (1, 0)
        assert seen["converting"] > 10
        assert seen["amax"] == int(abs(bench.data[name]).max().view(np.uint32))
    seen = bench.log[-1]
    assert bench.spans(seen["reads"]) == {"x image", "w image"}
    assert bench.spans(seen["writes"]) == {"y"}
    assert (seen["converted"], seen["converting"]) == (0, 0)
    assert seen["multiplying"] > 10
    changed = {n for n, old in enumerate(before) if bench.memory.bytes[n] != old}
    written = [bench.places[name] for name in (*(f"{name} image" for name in classes), "y")]
    assert all(any(first <= n < end for first, end in written) for n in changed)


def test_flags_come_from_the_engine_that_runs(rng):
    bench = Bench(rng, stall=lambda: False)
    bench.data["w"][1, 1] = np.inf
    floats = FloatLayout(rows=K, cols=N, data_width=64)
    first, end = bench.places["w floats"]
    bench.memory.bytes[first:end] = floats.pack(bench.data["w"]).tobytes()
    # Far from 1, so that groups meet beyond F.
    bench.data["x"][2:] *= np.float32(2.0**-30)
    bench.data["x"][:2, 4:] *= np.float32(2.0**-30)
    floats = FloatLayout(rows=M, cols=K, data_width=64)
    first, end = bench.places["x floats"]
    bench.memory.bytes[first:end] = floats.pack(bench.data["x"]).tobytes()
    bench.run([bench.convert("w"), bench.convert("x"), bench.forward()])
    assert [seen["flags"] for seen in bench.log] == [1 << 3, 0, 1 << 7]  # w_inf, none, inexact
