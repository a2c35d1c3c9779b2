"""Bad input to the hardware: it says what and where, writes nothing else, and works again."""

from dataclasses import replace

import pytest

from diastole_sim.host.control import control_bit
from diastole_sim.host.errors import CommandError
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.command_table import COMMAND_BYTES
from diastole_sim.spec.image import FloatLayout
from diastole_sim.spec.registers import BY_NAME
from support.scenario import SIZES, Scenario

TOP_ADDRESS = 2**40
PRODUCTS = ["forward", "dx", "dw", "backward"]
ALL = ["convert", *PRODUCTS]
INPUT = {"convert": "X", "forward": "W", "dx": "dY", "dw": "X", "backward": "dY"}
FIELD = {"X": "address_x", "W": "address_w", "dY": "address_dy"}


@pytest.fixture(params=["pico", "mixed", "pico-stalled", "mixed-stalled", "ports", "ports-stalled"])
def scenario(request, devices, goldens, np_rng):
    """On a bus of 32, of 128 and of twice 128 bits."""
    name, _, stalled = request.param.partition("-")
    made = Scenario(devices(name, 5 if stalled else None), goldens(name), np_rng)
    yield made
    made.machine.fail_reads()
    made.machine.fail_writes()
    made.close()


def longest(scenario):
    return scenario.device.numerics.max_contraction


def raw(command, *, clear=0, put=0):
    """The bytes of a command with some bits changed."""
    bits = int.from_bytes(command.encode(), "little") & ~clear | put
    return bits.to_bytes(COMMAND_BYTES, "little")


MALFORMED = {
    "opcode 0": (lambda s: s.changed("forward", opcode=0), ErrorCode.BAD_OPCODE),
    "opcode 6": (lambda s: s.changed("forward", opcode=6), ErrorCode.BAD_OPCODE),
    "opcode 255": (lambda s: s.changed("forward", opcode=255), ErrorCode.BAD_OPCODE),
    "empty memory": (lambda s: bytes(COMMAND_BYTES), ErrorCode.BAD_OPCODE),
    "version 0": (lambda s: s.changed("dx", version=0), ErrorCode.BAD_VERSION),
    "version 2": (lambda s: s.changed("convert", version=2), ErrorCode.BAD_VERSION),
    "version 17": (lambda s: s.changed("dw", version=17), ErrorCode.BAD_VERSION),
    "a nest of the fused pass": (lambda s: s.changed("backward", nest_t=2), ErrorCode.RESERVED),
    "reserved bit": (lambda s: raw(s.commands["dw"], put=1 << 31), ErrorCode.RESERVED),
    "41 address bits": (lambda s: raw(s.commands["dw"], put=1 << 32 * 11 + 8), ErrorCode.RESERVED),
    "unused field": (lambda s: s.changed("forward", out_b=64), ErrorCode.RESERVED),
    "tag of a product": (lambda s: s.changed("dx", tag=1), ErrorCode.RESERVED),
    "class of nothing": (lambda s: s.changed("convert", class_x=3), ErrorCode.BAD_CLASS),
    "gradient as X": (lambda s: s.changed("forward", class_x=2), ErrorCode.BAD_CLASS),
    "weight as dY": (lambda s: s.changed("backward", class_dy=1), ErrorCode.BAD_CLASS),
    "M = 0": (lambda s: s.changed("dw", m=0), ErrorCode.ZERO_SIZE),
    "N = 0": (lambda s: s.changed("forward", n=0), ErrorCode.ZERO_SIZE),
    "K = 0": (lambda s: s.changed("backward", k=0), ErrorCode.ZERO_SIZE),
    "no rows": (lambda s: s.changed("convert", m=0), ErrorCode.ZERO_SIZE),
    "no columns": (lambda s: s.changed("convert", n=0), ErrorCode.ZERO_SIZE),
    "M of 2^24": (lambda s: s.changed("forward", m=1 << 24), ErrorCode.TOO_LARGE),
    "too many columns": (
        lambda s: s.changed("convert", n=4096 * s.device.numerics.block + 1),
        ErrorCode.TOO_LARGE,
    ),
    "K too long": (lambda s: s.changed("forward", k=longest(s) + 1), ErrorCode.TOO_LONG),
    "N too long": (lambda s: s.changed("backward", n=longest(s) + 1), ErrorCode.TOO_LONG),
    "X off the beat": (
        lambda s: s.changed("forward", address_x=s.operands["X"].address(0) + 1),
        ErrorCode.MISALIGNED,
    ),
    "dX off the beat": (
        lambda s: s.changed("backward", out_b=s.commands["backward"].out_b + 2),
        ErrorCode.MISALIGNED,
    ),
    "a T tile of no power of two": (lambda s: s.changed("forward", nest_t=3), ErrorCode.NEST),
    "a T tile too long": (lambda s: s.changed("dx", nest_t=1 << 15), ErrorCode.NEST),
    "too many slices of lanes": (lambda s: s.changed("dw", nest_groups=255), ErrorCode.NEST),
    "a chunk too long": (lambda s: s.changed("forward", nest_chunk=1 << 15), ErrorCode.NEST),
}


@pytest.mark.parametrize("fault", MALFORMED)
def test_malformed_command(fault, scenario):
    make, code = MALFORMED[fault]
    commands = scenario.commands
    with pytest.raises(CommandError) as caught:
        scenario.run([commands["convert"], commands["dw"], make(scenario), commands["forward"]])
    assert (caught.value.code, caught.value.index) == (code, 2)
    scenario.assert_right("convert", "dw")
    scenario.assert_untouched("dx", "forward", "backward")
    scenario.assert_works()


def test_longest_contraction_is_not_refused(scenario):
    """It runs into the end of the read window instead: the check before it was passed."""
    reads = (scenario.reads[0], scenario.at)
    with pytest.raises(CommandError) as caught:
        scenario.run([scenario.changed("forward", k=longest(scenario))], reads=reads)
    assert (caught.value.code, caught.value.index) == (ErrorCode.WINDOW, 0)
    scenario.assert_works()


def test_no_commands(scenario):
    device = scenario.device
    device.control.set("command_count", 0)
    with pytest.raises(CommandError) as caught:
        device.control.start(scenario.ranges("forward"), limit=100_000)
    assert (caught.value.code, caught.value.index) == (ErrorCode.ZERO_SIZE, 0)
    scenario.assert_works()


def test_commands_off_the_beat(scenario):
    device = scenario.device
    device.control.set("command_count", 1)
    device.control.set("command_address", device.machine.memory_base + 2)
    with pytest.raises(CommandError) as caught:
        device.control.start(scenario.ranges("forward"), limit=100_000)
    assert (caught.value.code, caught.value.index) == (ErrorCode.MISALIGNED, 0)
    scenario.assert_works()


# Windows.


@pytest.mark.parametrize("op", ALL)
def test_operand_outside_the_read_window(op, scenario):
    outside = scenario.reads[1]  # inside the memory
    bad = scenario.changed(op, **{FIELD[INPUT[op]]: outside})
    with pytest.raises(CommandError) as caught:
        scenario.run([scenario.commands["convert"], bad, scenario.commands["forward"]])
    assert (caught.value.code, caught.value.index) == (ErrorCode.WINDOW, 1)
    if op != "convert":
        scenario.assert_right("convert")
    scenario.assert_untouched(*({"dx", "dw", "forward"} - {op}))
    scenario.assert_works()


@pytest.mark.parametrize("op", ["convert", "forward", "backward"])
def test_operand_at_the_end_of_all_addresses(op, scenario):
    bad = scenario.changed(op, address_x=TOP_ADDRESS - 64)
    with pytest.raises(CommandError) as caught:
        scenario.run([bad], reads=(scenario.reads[0], TOP_ADDRESS - 1))
    assert (caught.value.code, caught.value.index) == (ErrorCode.WINDOW, 0)
    scenario.assert_works()


@pytest.mark.parametrize("op", ALL)
def test_result_that_ends_outside_the_write_window(op, scenario):
    """Only the last beat is outside: nothing beyond the window is written."""
    last = scenario.results[op][-1]
    writes = [(last.range[0], last.range[1] - scenario.floats.data_width // 8)]
    if op == "backward":
        writes = [scenario.results[op][0].range, *writes]
    with pytest.raises(CommandError) as caught:
        scenario.run([scenario.commands[op], scenario.commands["forward"]], writes=writes)
    assert (caught.value.code, caught.value.index) == (ErrorCode.WINDOW, 0)
    scenario.assert_works()


@pytest.mark.parametrize("op", ALL)
def test_result_before_the_write_window(op, scenario):
    first = scenario.results[op][0]
    writes = [(first.range[1], first.range[1] + 64)]
    with pytest.raises(CommandError) as caught:
        scenario.run([scenario.commands[op]], writes=writes)
    assert (caught.value.code, caught.value.index) == (ErrorCode.WINDOW, 0)
    scenario.assert_untouched(*ALL)
    scenario.assert_works()


def test_commands_outside_the_read_window(scenario):
    device = scenario.device
    device.control.set("command_count", 2)
    device.control.set("command_address", scenario.reads[1] - COMMAND_BYTES)
    device.control.set_windows(scenario.reads, scenario.ranges("dw")[0])
    at = device.machine.bytes_at(scenario.reads[1] - COMMAND_BYTES, 2 * COMMAND_BYTES)
    at[:] = bytearray(scenario.commands["dw"].encode() * 2)
    with pytest.raises(CommandError) as caught:
        device.control.start(scenario.ranges("dw"), limit=1_000_000)
    assert (caught.value.code, caught.value.index) == (ErrorCode.WINDOW, 1)
    scenario.assert_right("dw")
    scenario.assert_works()


# Answers of the bus.


@pytest.mark.parametrize("part", ["first beat", "maxima"])
@pytest.mark.parametrize("op", PRODUCTS)
def test_error_answer_to_a_read(op, part, scenario):
    operand = scenario.copy_of(INPUT[op])
    layout, first = operand.images[0].layout, operand.address(0)
    if part == "maxima":
        first += layout.row_max_offset if op == "dx" else layout.col_max_offset
    check_read_error(scenario, op, operand.address(0), first)


@pytest.mark.parametrize("part", ["first beat", "last beat"])
def test_error_answer_to_a_read_of_floats(part, scenario):
    address, size = scenario.source, scenario.floats.total_bytes
    check_read_error(scenario, "convert", address, address + (size - 4 if "last" in part else 0))


def check_read_error(scenario, op, address, bad):
    """An operand at ``address``, whose word at ``bad`` cannot be read."""
    scenario.machine.fail_reads((bad, bad + 4))
    before, behind = [name for name in PRODUCTS if name != op][:2]
    command = scenario.changed(op, **{FIELD[INPUT[op]]: address})
    commands = scenario.commands
    with pytest.raises(CommandError) as caught:
        scenario.run([commands[before], command, commands[behind]])
    assert (caught.value.code, caught.value.index) == (ErrorCode.READ_RESPONSE, 1)
    scenario.assert_right(before)
    scenario.assert_untouched(behind)
    scenario.machine.fail_reads()
    scenario.assert_works()


@pytest.mark.parametrize("part", ["first", "last"])
@pytest.mark.parametrize("op", ALL)
def test_error_answer_to_a_write(op, part, scenario):
    first, end = scenario.results[op][-1].range
    scenario.machine.fail_writes((first, first + 4) if part == "first" else (end - 4, end))
    others = [name for name in ALL if name != op][:2]
    with pytest.raises(CommandError) as caught:
        scenario.run([scenario.commands[name] for name in (others[0], op, others[1])])
    assert (caught.value.code, caught.value.index) == (ErrorCode.WRITE_RESPONSE, 1)
    scenario.assert_right(others[0])
    scenario.assert_untouched(others[1])
    scenario.machine.fail_writes()
    scenario.assert_works()


@pytest.mark.parametrize("scenario", ["ports", "ports-stalled"], indirect=True)
@pytest.mark.parametrize("op", ["dx", "dw"])
def test_error_answers_to_the_second_port(op, scenario):
    """Which alone reads the second row of blocks, and writes the second row of a result."""
    operand = scenario.copy_of(INPUT[op])
    (image,) = operand.images
    check_read_error(scenario, op, image.address, image.address + image.layout.group_offset(1, 0))
    first = scenario.results[op][-1].address
    floats = FloatLayout(rows=1, cols=SIZES["k" if op == "dx" else "n"], data_width=128)
    scenario.machine.fail_writes((first + floats.pitch_bytes, first + floats.pitch_bytes + 4))
    with pytest.raises(CommandError) as caught:
        scenario.run([scenario.commands[op], scenario.commands["forward"]])
    assert (caught.value.code, caught.value.index) == (ErrorCode.WRITE_RESPONSE, 0)
    scenario.assert_untouched("forward")
    scenario.machine.fail_writes()
    scenario.assert_works()


@pytest.mark.parametrize("index", [0, 2])
def test_error_answer_to_a_command_fetch(index, scenario):
    commands = [scenario.commands[op] for op in ("convert", "dw", "forward")]
    end = scenario.at + COMMAND_BYTES * (index + 1)
    scenario.machine.fail_reads((end - 4, end))
    with pytest.raises(CommandError) as caught:
        scenario.run(commands)
    assert (caught.value.code, caught.value.index) == (ErrorCode.READ_RESPONSE, index)
    (scenario.assert_right if index else scenario.assert_untouched)("convert", "dw")
    scenario.assert_untouched("forward")
    scenario.machine.fail_reads()
    scenario.assert_works()


# Interrupt and reset.


def start(scenario, command, *, irq=True):
    """Start one command by its registers alone."""
    device, control = scenario.device, scenario.device.control
    at = scenario.at
    device.machine.bytes_at(at, COMMAND_BYTES)[:] = bytearray(command.encode())
    control.set("command_count", 1)
    control.set("command_address", at)
    ranges = scenario.ranges(*scenario.results)
    control.set_windows(scenario.reads, (min(r[0] for r in ranges), max(r[1] for r in ranges)))
    device.machine.allow_writes(*ranges)
    device.machine.traffic(clear=True)
    enable = control_bit("irq_enable") if irq else 0
    control.write("control", control_bit("clear") | enable)
    control.write("control", control_bit("start") | enable)


def status(scenario):
    value, layout = scenario.device.control.read("status"), BY_NAME["status"].layout
    return {bit.name for bit in layout if value >> bit.low & 1}


def test_interrupt_stays_until_the_reset(scenario):
    machine, control = scenario.machine, scenario.device.control
    scenario.clear()
    start(scenario, replace(scenario.commands["forward"], opcode=9))
    machine.run(100_000)
    assert machine.state.irq == 1
    assert status(scenario) == {"error"}
    assert control.read("error_code") == ErrorCode.BAD_OPCODE
    before = machine.traffic().read_beats
    start(scenario, scenario.commands["forward"])  # is ignored while there is an error
    machine.idle(2000)
    assert machine.traffic().read_beats == 0 < before
    assert machine.state.irq == 1
    assert status(scenario) == {"error"}
    scenario.assert_untouched("forward")
    control.reset()
    assert machine.state.irq == 0
    assert status(scenario) == set()
    assert (control.read("error_code"), control.read("error_index")) == (0, 0)
    scenario.assert_works()


def test_no_interrupt_unless_enabled(scenario):
    start(scenario, replace(scenario.commands["forward"], version=7), irq=False)
    scenario.machine.idle(3000)
    assert scenario.machine.state.irq == 0
    assert status(scenario) == {"error"}
    scenario.device.control.reset()
    scenario.assert_works()


@pytest.mark.parametrize("op", ALL)
def test_reset_in_the_middle(op, scenario):
    """At many moments of a command, and at once again: what is open on the bus ends in order."""
    machine, control = scenario.machine, scenario.device.control
    scenario.clear()
    for cycles in (0, 40, 75, 110, 160, 230, 300, 450):
        start(scenario, scenario.commands[op])
        machine.idle(cycles)
        control.write("control", control_bit("reset") | control_bit("irq_enable"))
        control.reset()
        assert status(scenario) == set()
        assert (machine.state.open_reads, machine.state.open_writes) == (0, 0)
        assert machine.traffic().strays == 0
    scenario.assert_works()


def test_settings_survive_the_reset(scenario):
    control = scenario.device.control
    scenario.assert_works()
    names = ["seed", "command_address", "read_base", "read_limit", "write_base", "write_limit"]
    before = {name: control.read(name) for name in names}
    control.reset()
    assert {name: control.read(name) for name in names} == before
    assert before["seed"] == scenario.device.seed
    assert before["read_limit"] > before["read_base"]
