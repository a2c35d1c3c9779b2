"""Scales of tensors and widths of planes in the golden machine."""

from dataclasses import replace

import numpy as np
import pytest

from diastole_sim.golden.convert import quantise
from diastole_sim.golden.device import GoldenDevice
from diastole_sim.golden.machine import Outcome
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_table import Opcode
from diastole_sim.spec.image import image_layouts
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.stream_table import Descriptor, Kind
from support.golden_machines import Bench, Converted, M, N, small, tensors
from support.golden_scenes import patterns
from support.numerics import make_numerics


def test_scale_slots(np_rng):
    numerics = make_numerics(
        formats="fp8_e4m3", groupings="tensor", scales="floor", source="delayed"
    )
    tensor = np_rng.normal(size=(3, 5)).astype(np.float32) * np.float32(1000)
    image = Descriptor(kind=Kind.IMAGE, tensor_class=1, aux=8, pitch=9)
    bench, chain = small(tensor, output=image, numerics=numerics)
    machine = bench.machine
    place = bench.take(4096)
    bench.load_streams({4: replace(image, address=place)})
    convert = Command.convert(
        "w", rows=3, cols=5, source=0, destination=place, tag=9, step=0, slot=7
    )
    amax = int(np.abs(tensor).max().view(np.uint32))
    for command in (chain, convert):
        machine.tables.amax[7] = 0
        for before in (1.0, np.abs(tensor).max()):  # an empty slot counts as 1.0
            machine.execute(command)
            exponent = int(np.floor(np.log2(before)))
            expected = quantise(
                tensor, "w", numerics, seed=machine.seed, tag=9, step=0, scale=exponent
            )
            (layout,) = image_layouts(expected.chosen, (3, 5), block=4, data_width=64)
            found = machine.memory.read(place, layout.total_bytes)
            assert np.array_equal(found, layout.pack(expected.copies[0])), command
            assert machine.tables.amax[7] == amax
    assert not machine.tables.amax[:7].any()
    assert not machine.tables.amax[8:].any()


def test_images_without_a_slot_have_a_scale_of_1(np_rng):
    numerics = make_numerics(formats="fp8_e4m3", groupings="tensor")
    tensor = np_rng.normal(size=(3, 5)).astype(np.float32)
    place = 4096
    image = Descriptor(kind=Kind.IMAGE, tensor_class=0, pitch=1, address=place)
    bench, chain = small(tensor, output=image, numerics=numerics)
    bench.machine.execute(chain)
    chosen = numerics.tensor_class("x")
    expected = quantise(
        tensor, "x", numerics, seed=77, tag=1, step=0, scale=chosen.format.unit_exponent
    )
    (layout,) = image_layouts(chosen, (3, 5), block=4, data_width=64)
    found = bench.machine.memory.read(place, layout.total_bytes)
    assert np.array_equal(found, layout.pack(expected.copies[0]))


@pytest.mark.parametrize("width", [2, 4, 6])
def test_widths_of_planes(width, np_rng):
    numerics = make_numerics(formats="fast", groupings=None, widths=(2, 4, 6))
    bench, data = Bench(numerics), tensors(np_rng)
    converted = Converted(bench, data, planes=width // 2)
    machine = bench.machine
    assert machine.run(converted.commands) == Outcome(done=3)
    widths = dict.fromkeys(("x", "w"), width // 2)
    out = bench.take_floats((M, N))
    command = converted.product(Opcode.FORWARD, numerics, planes=widths, out_a=out)
    device = GoldenDevice(numerics, machine.seed)
    x, weights = (
        device.convert(data[name], CLASS_NAMES[number], tag=4 + number, width=width)
        for number, name in enumerate(("X", "W"))
    )
    expected = patterns(device.forward(x, weights).y)
    machine.execute(command)
    assert patterns(bench.floats(out, (M, N))) == expected
    size = machine.memory.size
    machine.memory.write(0, machine.memory.read(0, size).copy())
    machine.execute(command)
    assert patterns(bench.floats(out, (M, N))) == expected
