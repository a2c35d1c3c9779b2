"""Commands of the golden machine against the device, the judge, and by hand."""

from dataclasses import replace

import numpy as np
import pytest

from diastole_sim.golden.convert import quantise
from diastole_sim.golden.device import GoldenDevice
from diastole_sim.golden.machine import GoldenMachine, Outcome, StoppedError
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.command_table import Opcode
from diastole_sim.spec.image import image_layouts, round_up
from diastole_sim.spec.limits import Limits, VectorTable
from diastole_sim.spec.micro import Instruction, MicroOp, Source
from diastole_sim.spec.nest import Nest
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.stream_table import Descriptor, Kind, PanelOrder
from oracle import vector_words as w
from oracle.vector_program import Output
from support.golden_machines import UNTOUCHED, Bench, PlacedScene
from support.golden_scenes import floats, judged_outputs, patterns
from support.numerics import make_numerics
from support.random_programs import random_scene
from support.texts import exactly

NO_UNIT = "limits must be those of a machine with a vector unit and nests"
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
    """The scene, with outputs that its order of blocks cannot have as floats, and with no scale of
    the loss."""
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
    constants = list(scene.constants)
    constants[252:254] = [0x3F800000] * 2
    return replace(scene, outputs=outputs, constants=constants)


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


# Commands by hand.

MOVE = Instruction(op=MicroOp.MOV, a=Source.S0, o=0)
INF, NAN = np.float32(np.inf), np.float32(np.nan)


def small(tensor, *, output, program=(MOVE,), numerics=None, **others):
    """A bench with a chain over a tensor, from input 0 to output 0; its command."""
    bench = Bench(numerics or make_numerics(), **others)
    address = bench.put_floats(tensor)
    pitch = bench.layout(tensor.shape).pitch_bytes
    source = Descriptor(kind=Kind.F32, address=address, pitch=pitch)
    place = bench.load(program, streams={0: source, 4: output})
    return bench, Command.chain(place, m=tensor.shape[0], n=tensor.shape[1])


def refused(bench, command):
    """The error of a command that changes nothing."""
    before = bench.machine.memory.read(0, bench.machine.memory.size).copy()
    with pytest.raises(StoppedError) as raised:
        bench.machine.execute(command)
    assert np.array_equal(before, bench.machine.memory.read(0, bench.machine.memory.size))
    return raised.value.code


ONES = np.ones((3, 5), np.float32)
PANEL_ROW = Descriptor(kind=Kind.PANEL, aux=PanelOrder.BLOCK_ROW)


def test_bad_streams_and_programs_are_refused():
    bench, command = small(ONES, output=Descriptor(kind=Kind.F32, pitch=1))
    assert refused(bench, command) == ErrorCode.BAD_STREAM
    bench, command = small(ONES, output=PANEL_ROW, program=(MOVE, replace(MOVE, b=1)))
    assert refused(bench, command) == ErrorCode.BAD_PROGRAM
    # Of both the stream is reported.
    bench, command = small(ONES, output=Descriptor(), program=(replace(MOVE, b=1),))
    assert refused(bench, command) == ErrorCode.BAD_STREAM


def test_what_was_sound_is_looked_at_again_when_tables_change():
    bench, command = small(ONES, output=PANEL_ROW)
    bench.machine.execute(command)
    bench.load_streams({4: Descriptor()})
    assert refused(bench, command) == ErrorCode.BAD_STREAM
    bench.load_streams({4: PANEL_ROW})
    bench.machine.execute(command)


def test_malformed_commands_are_refused():
    bench, command = small(ONES, output=PANEL_ROW)
    assert refused(bench, replace(command, m=0)) == ErrorCode.ZERO_SIZE
    data = bytearray(command.encode())
    data[63] = 1
    assert refused(bench, bytes(data)) == ErrorCode.RESERVED


def test_memory_that_is_not_there():
    bench, command = small(ONES, output=Descriptor(kind=Kind.ROW, address=1 << 20))
    assert refused(bench, command) == ErrorCode.WINDOW
    assert bench.machine.run_at(1 << 20, 1) == Outcome(error=ErrorCode.WINDOW)


def test_a_run_ends_at_the_first_error():
    bench, command = small(ONES, output=PANEL_ROW)
    bad = replace(command, m=0)
    table = bench.put(b"".join(each.encode() for each in (command, command, bad, command)))
    assert bench.machine.run_at(table, 4) == Outcome(error=ErrorCode.ZERO_SIZE, index=2, done=2)
    bench.machine.command_first = 1
    assert bench.machine.run_at(table, 4) == Outcome(error=ErrorCode.ZERO_SIZE, index=2, done=1)
    bench.machine.command_first = 3
    assert bench.machine.run_at(table, 4) == Outcome(done=1)


@pytest.mark.parametrize("value", [NAN, INF, np.float32(2)])
@pytest.mark.parametrize("watch", [0, 1])
def test_a_watched_constant_stops_the_machine(value, watch):
    output = Descriptor(kind=Kind.CONSTANT, address=200, watch=watch)
    tensor = np.full((3, 5), value, np.float32)
    bench, command = small(tensor, output=output)
    stopped = bool(watch) and not np.isfinite(value)
    outcome = bench.machine.run([command, command])
    if stopped:
        assert outcome == Outcome(error=ErrorCode.NOT_FINITE)
    else:
        assert outcome == Outcome(done=2)
    assert not bench.machine.overflow
    assert patterns(bench.machine.tables.constants[200]) == patterns(value)


@pytest.mark.parametrize("watch", [0, 1])
def test_what_is_watched_sets_the_overflow_bit_and_then_updates_are_skipped(watch):
    tensor = ONES.copy()
    tensor[2, 4] = INF
    bench, command = small(tensor, output=replace(PANEL_ROW, watch=watch))
    machine = bench.machine
    machine.execute(command)
    assert machine.overflow == bool(watch)
    machine.tables.panel[:] = 0
    machine.execute(replace(command, skip=1))
    assert machine.tables.panel.any() != machine.overflow
    machine.execute(Command.next(0))
    assert not machine.overflow
    machine.execute(replace(command, skip=1))
    assert machine.tables.panel.any()


def test_a_product_that_is_skipped_is_not_done(np_rng):
    numerics = make_numerics()
    bench = Bench(numerics)
    converted = Converted(bench, tensors(np_rng))
    machine = bench.machine
    machine.run(converted.commands)
    place = bench.load((MOVE,), streams={0: Descriptor(kind=Kind.PRODUCT), 4: PANEL_ROW})
    command = converted.product(Opcode.FORWARD_CHAIN, numerics, program=place, skip=True)
    machine.overflow = True
    machine.execute(command)
    assert not machine.tables.panel.any()
    machine.overflow = False
    machine.execute(command)
    assert machine.tables.panel.any()


@pytest.mark.parametrize("name", CLASS_NAMES)
@pytest.mark.parametrize("value", [NAN, INF])
def test_gradients_that_are_not_finite_set_the_overflow_bit(name, value):
    tensor = ONES.copy()
    tensor[1, 1] = value
    bench = Bench(make_numerics())
    source, image = bench.put_floats(tensor), bench.take(4096)
    machine = bench.machine
    machine.execute(
        Command.convert(name, rows=3, cols=5, source=source, destination=image, tag=0, step=0)
    )
    assert machine.overflow == (name == "dy")
    assert machine.seen.flags == {f"{name}_{'nan' if np.isnan(value) else 'inf'}"}


def test_products_that_are_too_large_set_the_overflow_bit():
    numerics = make_numerics(formats="bf16")
    bench = Bench(numerics)
    large = np.full((4, 4), 2.0**100, np.float32)
    data = {"X": large, "W": large, "dY": large}
    converted = Converted(bench, data)
    bench.machine.run(converted.commands)
    assert not bench.machine.overflow
    command = converted.product(Opcode.FORWARD, numerics, out_a=bench.take_floats((4, 4)))
    bench.machine.execute(replace(command, m=4, n=4, k=4))
    assert bench.machine.overflow
    assert "overflow" in bench.machine.seen.flags


def test_steps_repeat_until_their_end_and_sources_move_with_them():
    bench, command = small(ONES, output=Descriptor(kind=Kind.CONSTANT, address=200))
    machine = bench.machine
    rows = [np.full((1, 2), step, np.float32) for step in range(9)]
    first = bench.put_rows([row.tobytes() for row in rows])[0]
    stored = bench.take(10 * 8)
    add = Instruction(op=MicroOp.ADD, a=Source.CONSTANT, k=130, c=Source.CONSTANT, o=0)
    doubled = {4: Descriptor(kind=Kind.CONSTANT, address=130)}
    place = bench.load((add,), first=20, streams=doubled, at=8)
    machine.tables.constants[131] = 5
    program = [
        Command.load(VectorTable.CONSTANTS, address=first, first=130, count=1, advance=8),
        Command.chain(place, m=1, n=1),
        Command.store(VectorTable.CONSTANTS, address=stored, first=130, count=2, advance=8),
        Command.next(0),
        command,
    ]
    machine.step, machine.step_end = 2, 6
    outcome = machine.run([each.encode() for each in program])
    assert outcome == Outcome(done=4 * 4 + 1)
    assert machine.step == 6
    assert machine.tables.constants[200] == 1
    found = machine.memory.read(stored, 80).copy().view("<f4").reshape(10, 2)
    assert found[2:6].tolist() == [[2.0 * step, 5.0] for step in range(2, 6)]
    untouched = bytes([UNTOUCHED] * 4)
    assert found[0].tobytes() == found[6].tobytes() == untouched * 2


def test_a_next_that_leaves_the_commands_ends_the_run():
    bench, command = small(ONES, output=PANEL_ROW)
    machine = bench.machine
    machine.step_end = 5
    assert machine.run([command, Command.next(7), command]) == Outcome(done=2)
    machine.command_first = 1
    assert machine.run([command, Command.next(0), command]) == Outcome(done=1)
    machine.step = 5
    assert machine.run([command, Command.next(0), command]) == Outcome(done=2)
    assert machine.step == 6


def test_the_scale_of_the_loss_is_a_constant():
    scaled = Instruction(op=MicroOp.MUL, a=Source.S0, b=Source.CONSTANT, k=252, o=0)
    bench, command = small(ONES, output=PANEL_ROW, program=(scaled,))
    machine = bench.machine
    machine.loss.set_register(3 | 0 << 8 | 10 << 16 | 1 << 31)
    machine.loss.window = 1
    machine.execute(command)
    assert machine.tables.panel[0, 0] == 8
    machine.execute(Command.next(0))
    machine.execute(command)
    assert machine.tables.panel[0, 0] == 16
    machine.overflow = True
    machine.execute(Command.next(0))
    stored = bench.take(8)
    store = Command.store(VectorTable.CONSTANTS, address=stored, first=252, count=2)
    machine.execute(store)
    assert machine.memory.read(stored, 8).view("<f4").tolist() == [8.0, 0.125]


# Scales of tensors.


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


def test_an_odd_machine_is_refused():
    numerics = make_numerics()
    limits = Limits.of(numerics, data_width=64)
    with pytest.raises(ValueError, match=exactly(NO_UNIT)):
        GoldenMachine(numerics, limits, memory_bytes=64)
