"""Commands of the golden machine against the device, the judge, and by hand."""

from dataclasses import replace

import numpy as np
import pytest

from diastole_sim.golden.convert import quantise
from diastole_sim.golden.device import GoldenDevice
from diastole_sim.golden.machine import Outcome
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_table import Opcode
from diastole_sim.spec.image import image_layouts, round_up
from diastole_sim.spec.nest import Nest
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.stream_table import Kind
from oracle import vector_words as w
from oracle.vector_program import Output
from support.golden_machines import UNTOUCHED, Bench, PlacedScene
from support.golden_scenes import floats, judged_outputs, patterns
from support.numerics import make_numerics
from support.random_programs import random_scene

M, N, K = 9, 13, 21
SHAPES = {"X": (M, K), "W": (K, N), "dY": (M, N)}
FORMATS = {
    "squares": {"formats": "bfp4"},
    "vectors": {"formats": "bfp4", "groupings": "1x8"},
    "nvfp4": {"formats": "nvfp4", "groupings": "1x16"},
    "tensor": {"formats": "fp8_e4m3"},
    "mixed": {"formats": ("bf16", "mxfp8_e4m3", "bfp4"), "groupings": (None, "1x8", None)},
}


def tensors(np_rng):
    """The operands, with an Inf and a NaN in dY now and then."""
    return {name: np_rng.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}


class Converted:
    """The operands in a machine, by convert commands; ``images``: by name, two addresses."""

    def __init__(self, bench, data, step=0, planes=1, **fields):
        self.images, self.commands = {}, []
        for number, (name, values) in enumerate(data.items()):
            source = bench.put_floats(values)
            self.images[name] = bench.take(8192), bench.take(8192)
            self.commands.append(
                Command.convert(
                    CLASS_NAMES[number],
                    rows=values.shape[0],
                    cols=values.shape[1],
                    source=source,
                    destination=self.images[name][0],
                    second=self.images[name][1],
                    tag=4 + number,
                    step=step,
                    planes=planes,
                    **fields,
                )
            )

    def product(self, opcode, numerics, program=None, **others):
        """A product command that reads the right copies; ``program``: of its chain."""

        def at(name, copy):
            two = numerics.tensor_class({"X": "x", "W": "w", "dY": "dy"}[name]).two_copies
            return self.images[name][copy if two else 0]

        addresses = {
            "forward": {"address_x": at("X", 0), "address_w": at("W", 1)},
            "dx": {"address_dy": at("dY", 0), "address_w": at("W", 0)},
            "dw": {"address_x": at("X", 1), "address_dy": at("dY", 1)},
        }
        addresses["backward"] = addresses["dx"] | {
            "address_x": at("X", 1),
            "address_dy_m": at("dY", 1) if at("dY", 0) != at("dY", 1) else 0,
        }
        name = Opcode(opcode).name.lower().removesuffix("_chain")
        sizes = {"m": M, "n": N, "k": K}
        if program is None:
            return Command.product(opcode, **sizes, **addresses[name], **others)
        return Command.chained(opcode, program, **sizes, **addresses[name], **others)


@pytest.mark.parametrize("disturbed", [False, True], ids=["kept", "packed"])
@pytest.mark.parametrize("given", FORMATS.values(), ids=FORMATS.keys())
def test_products_are_those_of_the_device(given, disturbed, np_rng):
    numerics = make_numerics(**given, headroom=14)
    bench, data = Bench(numerics), tensors(np_rng)
    machine = bench.machine
    machine.step = 3
    converted = Converted(bench, data, step=2**32 - 1)
    assert machine.run(converted.commands) == Outcome(done=3)
    device = GoldenDevice(numerics, machine.seed)
    operands = {
        name: device.convert(values, CLASS_NAMES[number], tag=4 + number, step=2)
        for number, (name, values) in enumerate(data.items())
    }
    if disturbed:  # what is written again is read from its bytes
        size = machine.memory.size
        machine.memory.write(0, machine.memory.read(0, size).copy())
    x, weights, dy = operands.values()
    both = device.backward(x, weights, dy)
    results = {
        Opcode.FORWARD: {"out_a": device.forward(x, weights).y},
        Opcode.DX: {"out_a": both.dx},
        Opcode.DW: {"out_a": both.dw},
        Opcode.BACKWARD: {"out_b": both.dx, "out_a": both.dw},
    }
    for opcode, expected in results.items():
        places = {name: bench.take_floats(values.shape) for name, values in expected.items()}
        machine.execute(converted.product(opcode, numerics, **places))
        for name, values in expected.items():
            assert patterns(bench.floats(places[name], values.shape)) == patterns(values), opcode


def test_images_are_those_of_the_converter(np_rng):
    numerics = make_numerics(groupings="1x8")
    bench, data = Bench(numerics), tensors(np_rng)
    converted = Converted(bench, data, step=5)
    bench.machine.run(converted.commands)
    for number, (name, values) in enumerate(data.items()):
        tensor = quantise(
            values, CLASS_NAMES[number], numerics, seed=bench.machine.seed, tag=4 + number, step=5
        )
        layouts = image_layouts(tensor.chosen, tensor.shape, block=4, data_width=64)
        for copy, layout in enumerate(layouts):
            image = bench.machine.memory.read(converted.images[name][copy], layout.total_bytes)
            assert np.array_equal(image, layout.pack(tensor.copies[copy]))


@pytest.mark.parametrize("block, data_width", [(1, 64), (4, 32), (4, 64), (4, 256), (2, 128)])
def test_what_a_result_has_beyond_its_rows_end(block, data_width, np_rng):
    numerics = make_numerics(block=block, headroom=14)
    bench = Bench(numerics, data_width=data_width)
    converted = Converted(bench, tensors(np_rng))
    bench.machine.run(converted.commands)
    out = bench.take_floats((M, N))
    bench.machine.execute(converted.product(Opcode.FORWARD, numerics, out_a=out))
    layout = bench.layout((M, N))
    rows = bench.machine.memory.read(out, layout.total_bytes).reshape(M, -1)
    zeros = round_up(4 * N, min(4 * block, data_width // 8)) - 4 * N
    assert (rows[:, 4 * N :][:, :zeros] == 0).all()
    assert (rows[:, 4 * N :][:, zeros:] == UNTOUCHED).all()


def sound(scene):
    """The scene, with outputs that its order of blocks cannot have as floats."""
    blocks = tuple(-(-length // scene.block) for length in scene.size)
    whole = scene.walk != "tiles" or scene.tile == blocks
    bits = scene.walk != "columns" or scene.block**2 % 8 == 0
    images = scene.walk != "columns" and whole
    outputs = [
        Output(w.KIND_F32)
        if each
        and ((each.kind == w.KIND_IMAGE and not images) or (each.kind == w.KIND_MASK and not bits))
        else each
        for each in scene.outputs
    ]
    return replace(scene, outputs=outputs)


def as_judged(placed, judged):
    """Memory, tables and the overflow bit are as the judge has them."""
    scene, machine = placed.scene, placed.bench.machine
    assert patterns(machine.tables.panel[: len(scene.panel)]) == judged.panel
    constants = patterns(machine.tables.constants)
    expected = list(judged.constants)
    expected[252:254] = [0x3F800000] * 2
    assert constants == expected
    overflow = False
    for number, stream in placed.outputs.items():
        kind = stream.kind
        held = judged.outputs[number]
        overflow |= bool(stream.watch) and number in judged.not_finite
        if kind in (Kind.PANEL, Kind.CONSTANT):
            continue
        if kind == Kind.IMAGE:
            overflow |= _image_as_judged(placed, stream, judged_outputs(scene, judged)[number])
            continue
        rows = placed.expected_rows(number, held)
        length, count = placed.row_bytes(kind)
        pitch = stream.pitch or length
        start = stream.address + stream.per_step * placed.step * stream.offset
        found = machine.memory.read(start, pitch * count).reshape(count, pitch)
        untouched = bytes([UNTOUCHED])
        for place, row in enumerate(found):
            row_expected = rows[place] if rows else untouched * length
            assert row.tobytes() == row_expected + untouched * (pitch - length), f"output {number}"
    assert machine.overflow == overflow


def _image_as_judged(placed, stream, values):
    """Whether it holds a NaN or Inf in class dy."""
    machine, array = placed.bench.machine, floats(values)
    name = CLASS_NAMES[stream.tensor_class]
    tensor = quantise(
        array, name, machine.numerics, seed=machine.seed, tag=stream.pitch, step=placed.step
    )
    layouts = image_layouts(
        tensor.chosen, tensor.shape, block=machine.numerics.block, data_width=64
    )
    for copy, layout in enumerate(layouts):
        image = machine.memory.read(stream.address + copy * stream.offset, layout.total_bytes)
        assert np.array_equal(image, layout.pack(tensor.copies[copy]))
    return name == "dy" and not np.isfinite(array).all()


def checked_chain(placed, command, judged):
    """Do a chain and see that it did what the judge says, and nothing outside its areas."""
    machine = placed.bench.machine
    before = machine.memory.read(0, machine.memory.size).copy()
    areas = machine.written(command)
    machine.execute(command)
    as_judged(placed, judged)
    after = machine.memory.read(0, machine.memory.size)
    touched = np.zeros(machine.memory.size, np.bool_)
    for area in areas:
        if area.which is None:
            for row in range(area.count):
                touched[area.first + row * area.pitch :][: area.length] = True
    assert not ((before != after) & ~touched).any()


@pytest.mark.parametrize("walk", ["rows", "columns"])
@pytest.mark.parametrize("block", [1, 2, 4, 8])
def test_chains_over_memory_are_as_judged(block, walk, rng):
    groupings = "1x8" if block <= 8 and rng.random() < 0.5 else None
    numerics = make_numerics(block=block, groupings=groupings, headroom=10)
    for _ in range(8):
        scene = sound(random_scene(rng, block, walk=walk))
        placed = PlacedScene(Bench(numerics), scene, rng, step=rng.choice((0, 3)))
        checked_chain(placed, placed.command(), scene.judged())


PRODUCTS = {
    Opcode.FORWARD_CHAIN: ("X", "W", (M, N)),
    Opcode.DX_CHAIN: ("W", "dY", (M, K)),
    Opcode.DW_CHAIN: ("X", "dY", (K, N)),
}


@pytest.mark.parametrize("opcode", PRODUCTS)
def test_chains_at_the_drain_are_as_judged(opcode, rng, np_rng):
    size = PRODUCTS[opcode][2]
    for number in range(8):
        numerics = make_numerics(groupings="1x8" if number % 2 else None)
        scene = sound(random_scene(rng, 4, walk="tiles", size=size))
        bench, data = Bench(numerics), tensors(np_rng)
        converted = Converted(bench, data)
        bench.machine.run(converted.commands)
        plain = Opcode(opcode - Opcode.FORWARD_CHAIN + Opcode.FORWARD)
        out = bench.take_floats(size)
        bench.machine.execute(converted.product(plain, numerics, out_a=out))
        result = patterns(bench.floats(out, size))
        for stream in scene.inputs:
            if stream and stream.kind == w.KIND_PRODUCT:
                stream.data = result
        bench.machine.seen.flags.clear()
        placed = PlacedScene(bench, scene, rng, step=2)
        nest = Nest(
            t_blocks=scene.tile[0],
            groups=scene.tile[1],
            outer="l" if scene.down else "t",
        )
        command = converted.product(opcode, numerics, program=placed.place, nest=nest)
        checked_chain(placed, command, scene.judged())
