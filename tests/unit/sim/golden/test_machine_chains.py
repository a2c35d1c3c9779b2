"""Chains of the golden machine, in its memory and at its products' drains, against the judge."""

import numpy as np
import pytest

from diastole_sim.device.conversion import Conversion
from diastole_sim.golden.convert import quantise
from diastole_sim.spec.command_table import Opcode
from diastole_sim.spec.image import image_layouts
from diastole_sim.spec.nest import Nest
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.stream_table import Kind
from oracle import vector_words as w
from support.golden_machines import UNTOUCHED, Bench, Converted, K, M, N, PlacedScene, tensors
from support.golden_scenes import floats, judged_outputs, patterns, scene_of_product, sound
from support.numerics import make_numerics
from support.random_programs import random_scene


def as_judged(placed, judged):
    """Memory, tables and the overflow bit are as the judge has them."""
    scene, machine = placed.scene, placed.bench.machine
    assert patterns(machine.tables.panel[: len(scene.panel)]) == judged.panel
    constants = patterns(machine.tables.constants)
    assert constants == list(judged.constants)
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
        array,
        Conversion(name, tag=stream.pitch, step=placed.step),
        machine.numerics,
        seed=machine.seed,
    )
    layouts = image_layouts(
        tensor.storage, tensor.shape, block=machine.numerics.block, data_width=64
    )
    for copy, layout in enumerate(layouts):
        image = machine.memory.read(stream.address + copy * stream.offset, layout.total_bytes)
        assert np.array_equal(image, layout.pack(tensor.copies[copy]))
    return name == "dy" and not np.isfinite(array).all()


def checked_chain(placed, command, judged):
    """Do a chain and see that it did what the judge says, and nothing outside its areas."""
    machine = placed.bench.machine
    before = machine.memory.read(0, machine.memory.size).copy()
    areas = machine.written_areas(command)
    machine.execute(command)
    as_judged(placed, judged)
    after = machine.memory.read(0, machine.memory.size)
    touched = np.zeros(machine.memory.size, np.bool_)
    for area in areas:
        if area.table is None:
            for row in range(area.count):
                touched[area.first + row * area.pitch :][: area.length] = True
    assert not ((before != after) & ~touched).any()


@pytest.mark.parametrize("draws", [False, True], ids=["", "draws"])
@pytest.mark.parametrize("walk", ["rows", "columns"])
@pytest.mark.parametrize("block", [1, 2, 4, 8])
def test_chains_over_memory_are_as_judged(block, walk, draws, rng):
    groupings = "1x8" if block <= 8 and rng.random() < 0.5 else None
    numerics = make_numerics(block=block, groupings=groupings, headroom=10)
    for _ in range(8):
        scene = sound(random_scene(rng, block, walk=walk, draws=draws))
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
        scene = scene_of_product(rng, 4, size, draws=number % 4 > 1)
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
        bench.machine.status.flags.clear()
        placed = PlacedScene(bench, scene, rng, step=2)
        nest = Nest(
            t_blocks=scene.tile[0],
            groups=scene.tile[1],
            outer="l" if scene.down else "t",
        )
        command = converted.product(opcode, numerics, program=placed.place, nest=nest)
        checked_chain(placed, command, scene.judged())
