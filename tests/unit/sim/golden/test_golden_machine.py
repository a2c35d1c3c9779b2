"""Commands of the golden machine against the device, and by hand."""

from dataclasses import replace

import numpy as np
import pytest

from diastole_sim.device.conversion import Conversion
from diastole_sim.golden.convert import quantise
from diastole_sim.golden.golden_machine import Outcome, StoppedError
from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.command_table import Opcode
from diastole_sim.spec.image import image_layouts, round_up
from diastole_sim.spec.limits import VectorTable
from diastole_sim.spec.micro import Instruction, MicroOp, Source
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.stream_table import Descriptor, Kind, PanelOrder
from support.golden_machines import MOVE, UNTOUCHED, Bench, Converted, K, M, N, small, tensors
from support.golden_scenes import patterns
from support.numerics import make_numerics

FORMATS = {
    "squares": {"formats": "bfp4"},
    "vectors": {"formats": "bfp4", "groupings": "1x8"},
    "nvfp4": {"formats": "nvfp4", "groupings": "1x16"},
    "tensor": {"formats": "fp8_e4m3"},
    "mixed": {"formats": ("bf16", "mxfp8_e4m3", "bfp4"), "groupings": (None, "1x8", None)},
}


@pytest.mark.parametrize("disturbed", [False, True], ids=["kept", "packed"])
@pytest.mark.parametrize("given", FORMATS.values(), ids=FORMATS.keys())
def test_products_are_those_of_the_device(given, disturbed, np_rng):
    numerics = make_numerics(**given, headroom=14)
    bench, data = Bench(numerics), tensors(np_rng)
    machine = bench.machine
    machine.step = 3
    converted = Converted(bench, data, step=2**32 - 1)
    assert machine.run(converted.commands) == Outcome(done=3)
    device = NumpyDevice(numerics, machine.seed)
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
            values,
            Conversion(CLASS_NAMES[number], tag=4 + number, step=5),
            numerics,
            seed=bench.machine.seed,
        )
        layouts = image_layouts(tensor.storage, tensor.shape, block=4, data_width=64)
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


# Commands by hand.

INF, NAN = np.float32(np.inf), np.float32(np.nan)


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


def test_a_chain_is_checked_before_it_is_skipped():
    bench, command = small(ONES, output=Descriptor())
    bench.machine.overflow = True
    assert refused(bench, replace(command, skip=1)) == ErrorCode.BAD_STREAM


def test_a_stream_may_be_written_in_place():
    add = Instruction(op=MicroOp.ADD, a=Source.S0, c=Source.COLUMN, o=0)
    bench, command = small(ONES, output=Descriptor(), program=(add,))
    bench.load_streams({4: bench.machine.tables.descriptors[0]})
    bench.machine.execute(command)
    bench.machine.execute(command)
    assert bench.floats(0, ONES.shape).tolist() == [[1, 3, 5, 7, 9]] * 3


def test_a_chain_sees_the_constants_from_before_it():
    output = Descriptor(kind=Kind.CONSTANT, address=200)
    doubled = {"op": MicroOp.ADD, "a": Source.CONSTANT, "c": Source.CONSTANT, "k": 200}
    add = Instruction(**doubled, o=0)
    bench, command = small(ONES, output=output, program=(add, add))
    bench.machine.tables.constants[200] = 3
    bench.machine.execute(command)
    assert bench.machine.tables.constants[200] == 6


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
    assert machine.status.flags == {f"{name}_{'nan' if np.isnan(value) else 'inf'}"}


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
    assert "overflow" in bench.machine.status.flags


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


def test_a_load_of_constant_255_is_a_floor_of_the_scale():
    """A load of 253 to 255 is one, of 250 to 254 is none, nor is a load of another table."""
    bench, _ = small(ONES, output=PANEL_ROW)
    machine = bench.machine
    machine.loss.set_register(3 | 0 << 8 | 20 << 16 | 1 << 31)
    values = np.array([1.0, 2.0, 2.0**9, 4.0, 8.0], np.float32)
    address = bench.put(values.tobytes())
    for which, first, count, exponent, smallest in (
        (VectorTable.CONSTANTS, 250, 5, 3, 0),
        (VectorTable.AMAX, 252, 3, 3, 0),
        (VectorTable.CONSTANTS, 253, 3, 9, 9),
    ):
        machine.execute(Command.load(which, address=address, first=first, count=count))
        assert (machine.loss.exponent, machine.loss.smallest) == (exponent, smallest)
    assert machine.tables.constants[255] == 2.0**9


def test_the_scale_of_the_loss_is_a_constant():
    scaled = Instruction(op=MicroOp.MUL, a=Source.S0, b=Source.CONSTANT, k=252, o=0)
    bench, command = small(ONES, output=PANEL_ROW, program=(scaled,))
    machine = bench.machine
    machine.loss.set_register(3 | 0 << 8 | 10 << 16 | 1 << 31)
    machine.loss.window = 1
    ones = bench.put(np.ones(2, np.float32).tobytes())
    machine.execute(Command.load(VectorTable.CONSTANTS, address=ones, first=252, count=2))
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


# Several commands.


def test_a_layer_with_its_activation_and_the_next(np_rng):
    """relu(X W + b) as the next layer's X, and where it is positive; the next product of it."""
    numerics = make_numerics(groupings="1x8")
    bench = Bench(numerics)
    machine, device = bench.machine, NumpyDevice(numerics, 77)
    x, weights, bias, after = (
        np_rng.normal(size=shape).astype(np.float32) for shape in ((M, K), (K, N), (1, N), (N, K))
    )
    layer = Converted(bench, {"X": x, "W": weights}, step=2**32 - 1)
    images = {name: (bench.take(8192), bench.take(8192)) for name in ("hidden", "after")}
    mask = bench.take(4096)
    streams = {
        0: Descriptor(kind=Kind.PRODUCT),
        1: Descriptor(kind=Kind.COLUMN, address=bench.put(bias.tobytes())),
        4: Descriptor(
            kind=Kind.IMAGE,
            address=images["hidden"][0],
            offset=images["hidden"][1] - images["hidden"][0],
            pitch=8,
        ),
        5: Descriptor(kind=Kind.MASK, address=mask, pitch=16),
    }
    relu = (
        Instruction(op=MicroOp.ADD, a=Source.S0, c=Source.S1, d=0),
        Instruction(op=MicroOp.GT, a=0, c=Source.ZERO, d=1, o=1),
        Instruction(op=MicroOp.MAX, a=0, c=Source.ZERO, d=0, o=0),
    )
    place = bench.load(relu, streams=streams)
    source, out = bench.put_floats(after), bench.take_floats((M, K))
    convert = {"rows": N, "cols": K, "tag": 9, "step": 2**32 - 1}
    commands = [
        *layer.commands,
        layer.product(Opcode.FORWARD_CHAIN, numerics, program=place),
        Command.convert(
            "w",
            source=source,
            destination=images["after"][0],
            second=images["after"][1],
            **convert,
        ),
        Command.product(
            Opcode.FORWARD,
            m=M,
            n=K,
            k=N,
            address_x=images["hidden"][0],
            address_w=images["after"][1],
            out_a=out,
        ),
    ]
    machine.step = 5
    assert machine.run([each.encode() for each in commands]) == Outcome(done=len(commands))
    y = device.forward(x, weights, tags=(4, 5), step=4).y
    z = y + bias
    hidden = device.convert(np.where(z > 0, z, np.float32(0)), "x", tag=8, step=5)
    expected = device.forward(hidden, device.convert(after, "w", tag=9, step=4)).y
    assert patterns(bench.floats(out, (M, K))) == patterns(expected)
    bits = np.unpackbits(machine.memory.read(mask, 8), bitorder="little").reshape(4, 4, 4)
    assert np.array_equal(bits.swapaxes(0, 1).reshape(4, 16)[:, :N], z[:4] > 0)


def test_a_run_counts_what_it_converts():
    numerics = make_numerics(block=4)
    bench = Bench(numerics)
    machine = bench.machine
    values = np.zeros((4, 8), np.float32)
    values[0] = [1, 1e-6, 0, 0, 1, 1e-6, 1e-7, 0]
    machine.write(0, values.view(np.uint8).reshape(-1))
    convert = Command.convert("x", rows=4, cols=8, source=0, destination=0x1000, tag=0, step=0)
    place = 0x2000
    machine.write(place, np.frombuffer(convert.encode(), np.uint8))
    for _ in range(2):
        assert machine.run_at(place, 1) == Outcome(done=1)
        assert machine.reported() == {"saturated": 0, "underflowed": 3}
    assert machine.counters() == {}
