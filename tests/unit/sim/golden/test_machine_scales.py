"""Scales of tensors and widths of planes in the golden machine."""

from dataclasses import replace

import numpy as np
import pytest

from diastole_sim.device.conversion import Conversion
from diastole_sim.golden.convert import quantise
from diastole_sim.golden.golden_machine import Outcome
from diastole_sim.golden.numpy_device import NumpyDevice
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
        "w", rows=3, cols=5, source=0, destination=place, tag=9, step=0, slot=7, scale=140
    )
    amax = int(np.abs(tensor).max().view(np.uint32))
    for command in (chain, convert):
        machine.tables.amax[7] = 0
        for step, before in ((3, 1.0), (3, 1.0), (4, np.abs(tensor).max())):  # 1.0: an empty slot
            machine.step = step
            machine.execute(command)
            exponent = int(np.floor(np.log2(before)))
            expected = quantise(
                tensor,
                Conversion("w", tag=9, step=step, scale=exponent),
                numerics,
                seed=machine.seed,
            )
            (layout,) = image_layouts(expected.storage, (3, 5), block=4, data_width=64)
            found = machine.memory.read(place, layout.total_bytes)
            assert np.array_equal(found, layout.pack(expected.copies[0])), command
            assert machine.tables.amax[7].tolist() == [amax, step, 0 if step == 3 else amax]
    assert not machine.tables.amax[:7].any()
    assert not machine.tables.amax[8:].any()


@pytest.mark.parametrize("history, margin", [(1, 0), (3, 2)])
def test_a_program_and_a_host_have_the_same_scales(history, margin, np_rng):
    """Micro-batches whose largest magnitudes differ: a slot of the machine gives what a device
    chooses that a host drives, from the second step on."""
    numerics = make_numerics(
        formats="fp8_e4m3", groupings="tensor", source="delayed", history=history, margin=margin
    )
    device, machine = NumpyDevice(numerics, 77), Bench(numerics).machine
    rows, cols, place = 4, 8, 4096
    for step in range(6):
        machine.step = step
        for part in range(3):
            command = Command.convert(
                "x", rows=rows, cols=cols, source=0, destination=place, tag=8, step=0, slot=200,
                scale=3,
            )  # fmt: skip
            largest = np.float32(2.0 ** np_rng.integers(-9, 9))
            tensor = np_rng.uniform(-1, 1, (rows, cols)).astype(np.float32) * largest
            machine.memory.write(0, tensor.view(np.uint8).reshape(-1))
            machine.execute(command)
            wanted = device.convert(tensor, "x", tag=8, step=step)
            if step == 0:
                continue  # a host measures where a machine takes 1.0
            (layout,) = image_layouts(wanted.storage, (rows, cols), block=4, data_width=64)
            found = machine.memory.read(place, layout.total_bytes)
            assert np.array_equal(found, layout.pack(wanted.copies[0])), (step, part)


def test_images_without_a_slot_have_a_scale_of_1(np_rng):
    numerics = make_numerics(formats="fp8_e4m3", groupings="tensor")
    tensor = np_rng.normal(size=(3, 5)).astype(np.float32)
    place = 4096
    image = Descriptor(kind=Kind.IMAGE, tensor_class=0, pitch=1, address=place)
    bench, chain = small(tensor, output=image, numerics=numerics)
    bench.machine.execute(chain)
    chosen = numerics.tensor_class("x")
    expected = quantise(
        tensor, Conversion("x", tag=1, step=0, scale=chosen.format.unit_exponent), numerics, seed=77
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
    device = NumpyDevice(numerics, machine.seed)
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


def test_images_of_chains_have_the_widest_width(np_rng):
    numerics = make_numerics(formats="fast", widths=(2, 4, 6))
    tensor = np_rng.normal(size=(3, 5)).astype(np.float32)
    image = Descriptor(kind=Kind.IMAGE, tensor_class=0, pitch=1, address=4096)
    bench, chain = small(tensor, output=image, numerics=numerics)
    bench.machine.execute(chain)
    read = bench.machine.images.read(4096, "x", (3, 5), copy=0, width=6)
    expected = quantise(tensor, Conversion("x", tag=1, step=0, width=6), numerics, seed=77)
    assert np.array_equal(read.values(), expected.values())
    assert read.width == 6
