"""Registers and commands on a machine that notes every access."""

from types import SimpleNamespace

import pytest

from diastole_sim.host.control import RESET_CYCLES, Control, control_bit
from diastole_sim.host.errors import CommandError, HardwareError, HardwareHang, ProtocolError
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.limits import Limits
from support.fake_machine import BASE, FakeMachine, parameters_of
from support.numerics import make_numerics
from support.texts import exactly

NUMERICS = make_numerics(block=4, headroom=4)
LIMITS = Limits.of(NUMERICS, data_width=64)
CONTROL, STATUS, COUNT, SEED = 0x0C, 0x10, 0x1C, 0x28
START, RESET, CLEAR, IRQ = 1, 2, 4, 0x100
BUSY, DONE = 1, 2
AT, SOURCE, IMAGE = BASE + 4096, BASE, BASE + 1024
READS, WRITES = (SOURCE, SOURCE + 64), (IMAGE, IMAGE + 256)


class Machine(FakeMachine):
    """``writes``: (offset, value) of every register written. ``busy_cycles``: how long it is busy
    after a reset, in cycles that :meth:`idle` counts. ``deaf``: an offset that cannot be read."""

    deaf = None
    busy_cycles = 0

    def __init__(self):
        manifest = {"config_sha256": "0123456789abcdef"}
        parameters = parameters_of(NUMERICS.to_dict(), 64)
        super().__init__(
            SimpleNamespace(manifest=manifest, parameters=parameters, data_width=64),
            memory_bytes=8192,
        )
        self.writes = []

    def read(self, address):
        if address == self.deaf:
            raise HardwareError("no answer", "pins")
        if address == STATUS and self.cycle < self.busy_cycles:
            return BUSY
        return super().read(address)

    def write(self, address, value):
        self.writes.append((address, value))
        super().write(address, value)

    def idle(self, cycles):
        self.cycle += cycles


@pytest.fixture
def machine():
    return Machine()


@pytest.fixture
def control(machine):
    return Control(machine, LIMITS)


def good(**changes):
    given = {"rows": 2, "cols": 3, "source": SOURCE, "destination": IMAGE, "tag": 0, "step": 0}
    return Command.convert("x", **given | changes)


BAD = Command(opcode=9)


def execute(control, commands, **options):
    return control.execute(commands, at=AT, reads=READS, writes=[WRITES], **options)


# Registers.


def test_bits_of_control():
    bits = [control_bit(name) for name in ("start", "reset", "clear", "irq_enable")]
    assert bits == [START, RESET, CLEAR, IRQ]


def test_wide_registers_are_two_words(control, machine):
    control.write("read_base", 0x12_3456_789A)
    assert machine.writes == [(0x30, 0x3456_789A), (0x34, 0x12)]
    assert control.read("read_base") == 0x12_3456_789A
    control.write("seed", 0xDEADBEEF)
    assert machine.writes[2:] == [(SEED, 0xDEADBEEF)]
    assert control.read("seed") == 0xDEADBEEF


def test_settings_are_written_when_they_change(control, machine):
    for value in (5, 5, 6, 6, 5):
        control.set("seed", value)
    assert machine.writes == [(SEED, 5), (SEED, 6), (SEED, 5)]
    control.set("command_count", 5)
    assert machine.writes[3:] == [(COUNT, 5)]


@pytest.mark.parametrize("value", range(8))
def test_status(control, machine, value):
    machine.registers[STATUS] = value
    found = [control.status(name) for name in ("busy", "done", "error")]
    assert found == [bool(value & bit) for bit in (1, 2, 4)]


# Commands.


def test_commands_run(control, machine):
    first, second = good(), good(source=SOURCE + 32, rows=1)
    assert execute(control, [first, second.encode()]) == 123
    assert machine.executed == [first, second]
    assert machine.bytes_at(AT, 128).tobytes() == first.encode() + second.encode()
    assert (machine.get("command_count"), machine.get("command_address")) == (2, AT)
    # The commands are read too: the window reaches to their end.
    assert (machine.get("read_base"), machine.get("read_limit")) == (SOURCE, AT + 128)
    assert (machine.get("write_base"), machine.get("write_limit")) == WRITES
    assert machine.allowed == (WRITES,)
    last = [write for write in machine.writes if write[0] in (CONTROL, STATUS)]
    assert last == [(CONTROL, CLEAR | IRQ), (CONTROL, START | IRQ), (STATUS, DONE)]
    assert machine.get("status") == 0


def test_the_read_window_begins_with_the_commands_where_they_come_first(control, machine):
    source = AT + 1024
    control.execute([good(source=source)], at=AT, reads=(source, source + 64), writes=[WRITES])
    assert (machine.get("read_base"), machine.get("read_limit")) == (AT, source + 64)


@pytest.mark.parametrize("order", [1, -1])
def test_the_write_window_is_the_hull(control, machine, order):
    writes = [WRITES, (IMAGE + 1024, IMAGE + 1088)][::order]
    control.execute([good()], at=AT, reads=READS, writes=writes)
    assert (machine.get("write_base"), machine.get("write_limit")) == (IMAGE, IMAGE + 1088)
    assert machine.allowed == tuple(writes)


def test_a_command_has_64_bytes(control, machine):
    for wrong in (b"", bytes(63), bytes(128)):
        with pytest.raises(ValueError, match=exactly("every command must have 64 bytes")):
            execute(control, [good(), wrong])
    assert not machine.writes


def test_a_refused_command(control, machine):
    with pytest.raises(CommandError) as caught:
        execute(control, [good(), BAD, good()])
    error = caught.value
    assert (error.code, error.index) == (ErrorCode.BAD_OPCODE, 1)
    assert error.message == "command 1 was refused with error 1: unknown opcode"
    assert "status = 0x4" in error.report.splitlines()
    assert machine.writes[-1] == (CONTROL, RESET | IRQ)
    assert execute(control, [good()]) == 123  # ready again


DIFFERENT = {
    "wrong code": "command 1 was refused with error 2: command version is not 1",
    "wrong index": "command 2 was refused with error 1: unknown opcode",
    "accepts all": "no command was refused",
}


@pytest.mark.parametrize("sabotage", DIFFERENT)
def test_refusals_that_are_not_in_the_table(control, machine, sabotage):
    machine.sabotage = sabotage
    with pytest.raises(ProtocolError) as caught:
        execute(control, [good(), BAD, good()])
    expected = "by the table of commands, command 1 was refused with error 1: unknown opcode"
    assert caught.value.message == f"{DIFFERENT[sabotage]}; {expected}"
    assert "command_count = 0x3" in caught.value.report.splitlines()


def test_a_good_command_that_is_refused(control, machine):
    machine.sabotage = "refuses"
    with pytest.raises(ProtocolError) as caught:
        execute(control, [good()])
    assert caught.value.message.endswith("; by the table of commands, no command was refused")


def fails(machine, code, index):
    """Let the machine stop with an error, whatever the commands are."""

    def run(limit):
        machine.put("status", 4)
        machine.put("error_code", code)
        machine.put("error_index", index)
        return 123

    machine.run = run


@pytest.mark.parametrize(
    "commands, error", [("gg", CommandError), ("gb", CommandError), ("bg", ProtocolError)]
)
def test_the_bus_fails_while_a_command_runs(control, machine, commands, error):
    """No table foretells that; but a malformed command before that one must have been refused."""
    fails(machine, ErrorCode.READ_RESPONSE, 0 if commands == "gb" else 1)
    with pytest.raises(error):
        execute(control, [good() if letter == "g" else BAD for letter in commands])


def test_an_unknown_error(machine):
    fails(machine, 99, 7)
    with pytest.raises(CommandError) as caught:
        execute(Control(machine), [good()])
    assert caught.value.message == "command 7 was refused with error 99: an unknown error"


def test_without_limits_nothing_is_compared(machine):
    machine.sabotage = "refuses"
    with pytest.raises(CommandError):
        execute(Control(machine), [good()])


def test_strays(control, machine):
    machine.sabotage = "stray"
    with pytest.raises(ProtocolError) as caught:
        execute(control, [good(destination=IMAGE + 128)])
    place = IMAGE + 128 + 64
    assert caught.value.message == (
        f"1 beats were written outside of the results, the first at {place:#x}"
    )


def test_old_strays_do_not_count(control, machine):
    machine.written_areas = [(0, 8)]
    assert execute(control, [good()]) == 123


def test_the_limit_is_handed_on(control, machine):
    limits = []
    machine.run = lambda limit: limits.append(limit) or 5
    assert execute(control, [good()], limit=77) == 5
    assert limits == [77]


def test_a_hang_carries_the_registers(control, machine):
    machine.sabotage = "hang"
    with pytest.raises(HardwareHang) as caught:
        execute(control, [good()])
    assert caught.value.message == "the hardware hangs"
    assert caught.value.report.splitlines()[:2] == ["pins", "magic = 0x53414944"]


# Reset and report.


def test_reset_waits(control, machine):
    machine.busy_cycles = 950
    control.reset()
    assert machine.writes == [(CONTROL, RESET | IRQ)]
    assert machine.cycle == 1000


def test_a_reset_without_end(control, machine):
    machine.cycle, machine.busy_cycles = 5, 10**9
    with pytest.raises(HardwareHang) as caught:
        control.reset()
    assert caught.value.message == "the machine is still busy 100000 cycles after a reset"
    assert RESET_CYCLES + 5 < machine.cycle <= RESET_CYCLES + 205


def test_report(control, machine):
    machine.put("cycles", 0x1_0000_0002)
    lines = control.report().splitlines()
    assert lines[:2] == ["magic = 0x53414944", "version = 0x0"]
    assert "cycles = 0x100000002" in lines
    assert lines[-2:] == ["wait_command = 0x0", "busy_slots = 0x0"]
    machine.deaf = 8
    assert control.report().splitlines() == [
        "magic = 0x53414944",
        "version = 0x0",
        "config_hash cannot be read: no answer",
    ]
