"""The check of a product: what it must notice of every fault in its Verilog.

A scene drives the machine and notes what it sees: bits of results, every register after every
command, what was on the bus, cycles. Without a fault the golden model judges the results, and all
that was seen is recorded; with a fault the same must be seen again. So a fault is noticed by one
wrong bit, by a counter, or by a single cycle.

Scenes that notice most stand first.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

import numpy as np

from diastole_sim.golden.device import GoldenDevice
from diastole_sim.rtl import CommandError, Device, HardwareError, ProtocolError
from diastole_sim.rtl.control import control_bit
from diastole_sim.spec.command import COMMAND_BYTES, Command
from diastole_sim.spec.operations import OPERATIONS
from diastole_sim.spec.registers import BY_NAME, END, REGISTERS
from mutation.planted_units import said_once
from support import products as p
from support.scenario import Scenario

SEED = 0xC2B2_AE35
LIMIT = 400_000
"""Cycles of a command, after which it counts as hung."""
MEMORY_BYTES = 1 << 23
ADDRESSES = [field.name for field in fields(Command) if re.match("address|out", field.name)]

Noted = list[tuple[str, object]]


class Noticed(AssertionError):
    """A scene saw something else than without the fault."""


class Log:
    """What scenes see, in order. ``expected``: what they saw without a fault."""

    def __init__(self, expected: Noted | None = None):
        self.noted: Noted = []
        self.expected = expected

    def note(self, label: str, value: object) -> None:
        if self.expected is not None:
            place = len(self.noted)
            if place >= len(self.expected) or self.expected[place] != (label, value):
                raise Noticed(label)
        self.noted.append((label, value))


class Watched(Device):
    """A device that notes what every command does."""

    def __init__(self, product: Path, log: Log, **options):
        self.log, self.limit = log, LIMIT
        chosen = {"seed": SEED, "memory_bytes": MEMORY_BYTES, "watchdog_cycles": 20_000}
        super().__init__(product, **chosen | options)

    def execute(self, commands, *, reads, writes, work=0):
        at = self._commands
        try:
            return self.run(commands, at=at, reads=reads, writes=writes)
        finally:
            self.note("command")

    def run(self, commands, *, at, reads, writes) -> int:
        """As :meth:`diastole_sim.rtl.control.Control.execute`; notes errors."""
        try:
            return self.control.execute(
                commands, at=at, reads=reads, writes=writes, limit=self.limit
            )
        except CommandError as error:
            self.log.note("error", (error.code, error.index, error.report))
            raise

    def note(self, label: str) -> None:
        """All registers, pins, and what was on the bus."""
        registers = tuple((r.name, self.control.read(r.name)) for r in REGISTERS)
        traffic, state = self.machine.traffic(), self.machine.state
        self.log.note(f"{label}: registers", registers)
        self.log.note(f"{label}: bus", tuple(getattr(traffic, f) for f, _ in traffic._fields_))
        pins = (state.cycle, state.irq, state.open_reads, state.open_writes)
        self.log.note(f"{label}: pins", pins)


@contextmanager
def opened(product: Path, log: Log, **options):
    """A device, and the golden model with the same numbers where there is no fault."""
    with Watched(product, log, **options) as device:
        golden = None
        if log.expected is None:
            golden = GoldenDevice(device.numerics, seed=device.seed)
        yield device, golden


# Products.


def multiply_all(device: Watched, golden, data, step=0, ops=tuple(OPERATIONS)) -> None:
    """Convert, then the products; with a golden model, its judgement."""
    operands = p.convert(device, data, step)
    wanted = p.convert(golden, data, step) if golden else {}
    for name, tensor in operands.items():
        if golden:
            p.check_tensor(tensor, wanted[name], name)
        _note_tensor(device.log, name, tensor)
    for op in ops:
        result = p.multiply(device, op, operands)
        if golden:
            p.check_result(result, p.multiply(golden, op, wanted), op)
        for name, values in result.values.items():
            device.log.note(f"{op}: {name}", values.tobytes())
        device.log.note(f"{op}: flags", (result.exact, result.overflow, result.counters))


def _note_tensor(log: Log, name: str, tensor) -> None:
    log.note(f"{name}: images", [image.data.tobytes() for image in tensor.images])
    seen = (tensor.nan, tensor.inf, tensor.saturated, tensor.underflowed, tensor.amax)
    log.note(f"{name}: flags", seen)


def every_kind(product: Path, log: Log) -> None:
    """Data of every kind, without a stall."""
    rng = np.random.default_rng(0)
    with opened(product, log) as (device, golden):
        for step, kind in enumerate(("wide", "special", "ties", "plain", "long", "huge", "tiny")):
            multiply_all(device, golden, p.tensors(rng, (31, 37, 23), kind), step)
        for power in (-117, -126, -133, -142):  # the lowest scales, and beyond
            data = p.tensors(rng, (17, 19, 21), "plain")
            multiply_all(device, golden, {n: np.ldexp(a, power) for n, a in data.items()})


def odd_sizes(product: Path, log: Log) -> None:
    """One element, one row, one column; several tiles and chunks of each axis."""
    rng = np.random.default_rng(1)
    with opened(product, log, seed=0x1234_5678) as (device, golden):
        for sizes in ((1, 1, 1), (1, 40, 3), (3, 2, 1), (33, 1, 9), (8, 16, 8), (65, 129, 9)):
            multiply_all(device, golden, p.tensors(rng, sizes, "plain"), 0xFFFF_FFFF)
        for sizes in ((140, 20, 70), (20, 140, 70), (70, 70, 140)):
            multiply_all(device, golden, p.tensors(rng, sizes, "wide"), 0x8000_0001)


def stalls(product: Path, log: Log) -> None:
    """Every handshake delayed, each of the three orders of a write's halves; random power-up."""
    rng = np.random.default_rng(2)
    for seed in (1, 2, 3, 4, 7, 11):
        with opened(product, log, stalls=seed) as (device, golden):
            for sizes in ((31, 32, 17), (20, 50, 30)):
                multiply_all(device, golden, p.tensors(rng, sizes, "wide"))


def slow_memory(product: Path, log: Log) -> None:
    """One burst at a time, answered late: every queue before it fills; and a fast one."""
    rng = np.random.default_rng(3)
    memories = [
        {"write_latency": 150, "outstanding": 1},
        {"read_latency": 700, "outstanding": 64},
        {"read_latency": 1, "write_latency": 1, "outstanding": 64},
        {"read_latency": 90, "outstanding": 1},
        {"write_latency": 1000, "outstanding": 64},
        {"write_pause": 2500, "outstanding": 64},
    ]
    for options in memories:
        with opened(product, log, **options) as (device, golden):
            multiply_all(device, golden, p.tensors(rng, (19, 41, 43), "plain"))


def full_buffers(product: Path, log: Log) -> None:
    """A memory faster than the array, and then slower results than it makes: all waits for room."""
    rng = np.random.default_rng(8)
    fast = {"read_latency": 1, "write_latency": 1, "outstanding": 64}
    for options in (fast, fast | {"write_pause": 4000}):
        with opened(product, log, **options) as (device, golden):
            device.limit = 10 * LIMIT
            data = p.tensors(rng, (130, 136, 141), "plain")
            multiply_all(device, golden, data, ops=("forward", "backward"))


def long_rows(product: Path, log: Log) -> None:
    """Rows beyond the longest burst and beyond 4 KiB; the widest tensor; the longest sum."""
    rng = np.random.default_rng(4)
    with opened(product, log) as (device, golden):
        multiply_all(device, golden, p.tensors(rng, (3, 9, 1203), "plain"), ops=("forward", "dw"))
        multiply_all(device, golden, p.tensors(rng, (3, 1203, 5), "plain"), ops=("dx", "backward"))
        rows = min(600, device.numerics.max_contraction)
        multiply_all(device, golden, p.tensors(rng, (rows, 3, 2), "plain"))
        most = device.product.parameters["max_convert_cols"]
        device.limit = 10 * LIMIT
        for cols in (most, most + 1):
            array = p.plain(rng, (1, cols))
            try:
                _note_tensor(log, "widest", device.convert(array, "x", tag=0xFFFF_FFFE))
            except CommandError:
                log.note("widest", "refused")


def all_but_one(product: Path, log: Log) -> None:
    """X, W and dY whose products are exact and finite, but for one element of one of them.

    Every group has a 1 and a 1/16. The one is so small that its product with a 1/16 leaves a
    window, or it is no number: what is said of one element, lane or vector is not hidden by what
    is said of another, as it is in random data.
    """
    lengths = {"M": 5, "K": 6, "N": 7}
    shapes = {name: [lengths[side] for side in sides] for name, sides in p.SHAPES.items()}
    with opened(product, log) as (device, golden):
        for data in said_once():
            multiply_all(device, golden, data)
        for odd in shapes:
            for value in (2.0**-8, p.NAN):
                for place in np.ndindex(2, 4):
                    data = {name: _chessboard(shape) for name, shape in shapes.items()}
                    data[odd][place] = value
                    multiply_all(device, golden, data)


def _chessboard(shape):
    rows, cols = np.indices(shape)
    return np.where((rows + cols) % 2, 1 / 16, 1).astype(np.float32)


# Commands, errors, resets.


def errors(product: Path, log: Log) -> None:
    """Every error, at the first command and at a later one; what was done before it is right."""
    for seed in (None, 5):
        with opened(product, log, stalls=seed) as (device, golden):
            scenario = _scenario(device, golden)
            _works(scenario)
            for index in (0, 2):
                _refused(scenario, index)
            _works(scenario)


def _scenario(device: Watched, golden) -> Scenario:
    own = golden or GoldenDevice(device.numerics, seed=device.seed)
    return Scenario(device, own, np.random.default_rng(5))


def _works(scenario: Scenario) -> None:
    _try(scenario, list(scenario.commands.values()))
    scenario.assert_right(*scenario.results)


def _try(scenario: Scenario, commands, **options) -> None:
    """Run and note everything, an error too."""
    device = scenario.device
    assert isinstance(device, Watched)
    try:
        scenario.run(commands, limit=LIMIT, **options)
    except CommandError as error:
        device.log.note("error", (error.code, error.index, error.report))
    found = [r.found(device).tobytes() for results in scenario.results.values() for r in results]
    device.log.note("memory", found)
    device.note("commands")


def _malformed(s: Scenario) -> list[Command | bytes]:
    good, most = s.commands["forward"], s.device.numerics.max_contraction
    bits = int.from_bytes(good.encode(), "little")
    reserved = (31, 32 * 5 + 8)
    return [
        s.changed("forward", opcode=0),
        s.changed("forward", opcode=6),
        s.changed("forward", version=2),
        s.changed("dx", version=0),
        *((bits | 1 << bit).to_bytes(COMMAND_BYTES, "little") for bit in reserved),
        s.changed("forward", out_b=64),
        s.changed("dx", tag=1),
        *(
            s.changed(op, **{field: number})
            for op in s.commands
            for field in ("class_x", "class_w", "class_dy")
            for number in range(4)
            if number != getattr(s.commands[op], field) and (op, number) != ("convert", 1)
        ),
        *(s.changed("backward", **{side: 0}) for side in "mnk"),
        *(s.changed("forward", **{side: 1 << 24}) for side in "mnk"),
        s.changed("convert", m=0),
        s.changed("convert", n=0),
        s.changed("forward", k=most + 1),
        s.changed("dw", m=most + 1),
        s.changed("dx", n=most + 1),
        *_misaligned(s),
    ]


def _misaligned(s: Scenario) -> Iterator[Command]:
    """Each address of each command off the beat, by one bit."""
    beat = s.device.product.data_width // 8
    for op, command in s.commands.items():
        for field in ADDRESSES:
            if getattr(command, field):
                for bit in range(beat.bit_length() - 1):
                    yield s.changed(op, **{field: getattr(command, field) + (1 << bit)})


def _refused(s: Scenario, index: int) -> None:
    before = [s.commands["convert"], s.commands["dw"]][:index]
    for bad in _malformed(s):
        _try(s, [*before, bad, s.commands["dx"]])
    machine, beat = s.machine, s.device.product.data_width // 8
    for op in s.commands:
        command, last = s.commands[op], s.results[op][-1].range
        first = s.results[op][0].range
        if not index:
            _try(s, [command], writes=[(first[0], last[1] - beat)])
        elif op != "convert":
            _try(s, [*before, s.changed(op, out_a=s.reads[1]), s.commands["dx"]])
        machine.fail_writes((last[1] - 4, last[1]))
        _try(s, [*before, command, s.commands["dx"]])
        machine.fail_writes(first)
        _try(s, [*before, command, s.commands["dx"]])
        machine.fail_writes()
    for operand in s.operands.values():
        for image in operand.images:
            machine.fail_reads((image.range[0], image.range[0] + 4))
            _try(s, [*before, *s.commands.values()])
            machine.fail_reads((image.range[1] - 4, image.range[1]))
            _try(s, [*before, *s.commands.values()])
    machine.fail_reads((s.at + COMMAND_BYTES * (index + 1) - 4, s.at + COMMAND_BYTES * (index + 1)))
    _try(s, [*before, s.commands["forward"], s.commands["dx"]])
    machine.fail_reads()


def windows(product: Path, log: Log) -> None:
    """Exactly what is needed, and a beat less at each end."""
    with opened(product, log) as (device, golden):
        s = _scenario(device, golden)
        beat = device.product.data_width // 8
        s.clear()
        for op, command in s.commands.items():
            results = s.ranges(op)
            writes = [min(r[0] for r in results), max(r[1] for r in results)]
            areas = [i.range for t in s.operands.values() for i in t.images]
            areas += [(s.at, s.at + COMMAND_BYTES), (s.source, s.source + s.floats.total_bytes)]
            reads = [min(a[0] for a in areas), max(a[1] for a in areas)]
            for change in (
                (0, 0, 0, 0),
                (beat, 0, 0, 0),
                (0, -beat, 0, 0),
                (0, 0, beat, 0),
                (0, 0, 0, -beat),
            ):
                bounds = [a + b for a, b in zip(reads + writes, change, strict=True)]
                _windowed(s, command, bounds)


def _windowed(s: Scenario, command, bounds) -> None:
    device = s.device
    s.clear()
    at = device.machine.bytes_at(s.at, COMMAND_BYTES)
    at[:] = bytearray(command.encode())
    device.control.set("command_count", 1)
    device.control.set("command_address", s.at)
    device.control.set_windows(tuple(bounds[:2]), tuple(bounds[2:]))
    try:
        device.control.start(s.ranges(*s.results), limit=LIMIT)
    except CommandError as error:
        device.log.note("window", (error.code, error.index, error.report))
    device.note("window")


def resets(product: Path, log: Log) -> None:
    """In the middle of every command, at many moments; then everything works."""
    for seed in (None, 3):
        with opened(product, log, stalls=seed) as (device, golden):
            s = _scenario(device, golden)
            machine, control = device.machine, device.control
            for op in s.commands:
                for cycles in (0, *range(30, 330, 23)):
                    s.clear()
                    _start(s, s.commands[op])
                    machine.idle(cycles)
                    control.write("control", control_bit("reset") | control_bit("irq_enable"))
                    control.reset()
                    device.note("reset")
                _works(s)


def sudden_resets(product: Path, log: Log) -> None:
    """On a fast memory, at every cycle of a command: units at work while no burst is open."""
    memory = {"read_latency": 1, "write_latency": 1, "outstanding": 64}
    with opened(product, log, **memory) as (device, golden):
        s = _scenario(device, golden)
        for op in s.commands:
            for cycles in range(240):
                s.clear()
                _start(s, s.commands[op])
                device.machine.idle(cycles)
                device.control.reset()
                if cycles % 4 == 0:
                    _try(s, [s.commands[op]])
            _works(s)


def _start(s: Scenario, command, *, irq=True) -> None:
    device, control = s.device, s.device.control
    device.machine.bytes_at(s.at, COMMAND_BYTES)[:] = bytearray(command.encode())
    control.set("command_count", 1)
    control.set("command_address", s.at)
    ranges = s.ranges(*s.results)
    control.set_windows(s.reads, (min(r[0] for r in ranges), max(r[1] for r in ranges)))
    device.machine.allow_writes(*ranges)
    device.machine.traffic(clear=True)
    enable = control_bit("irq_enable") if irq else 0
    control.write("control", control_bit("clear") | enable)
    control.write("control", control_bit("start") | enable)


# Registers.


def registers(product: Path, log: Log) -> None:
    """Read and written, locked while busy, cleared bit by bit; the interrupt."""
    for seed in (None, 9, 10, 12):
        with opened(product, log, stalls=seed) as (device, golden):
            device.note("power-up")
            for pattern in (0xFFFF_FFFF, 0xA5A5_5A5A, 0x5A5A_A5A5, 0x0123_4567, 0):
                for offset in [*range(BY_NAME["command_count"].offset, END + 16, 4), 0x800, 0xFFC]:
                    _access(device, offset, pattern ^ offset * 0x0101_0101 & 0xFFFF_FFFF)
                for offset in (0, 4, 8, 0x14, 0x18):
                    _access(device, offset, pattern)
                device.note("pattern")
        with opened(product, log, stalls=seed) as (device, golden):
            _flags_and_interrupt(device, golden)


def _access(device: Watched, offset: int, value: int) -> None:
    machine = device.machine
    for what, access in {
        "write": lambda: machine.write(offset, value),
        "read": lambda: machine.read(offset),
    }.items():
        try:
            device.log.note(f"{what} of register", access())
        except ProtocolError as error:
            device.log.note(f"{what} of register", error.message)


def _flags_and_interrupt(device: Watched, golden) -> None:
    s, control, machine = _scenario(device, golden), device.control, device.machine
    data = p.tensors(np.random.default_rng(6), (9, 9, 9), "special")
    for name in ("X", "W", "dY"):
        device.convert(data[name], p.CLASSES[name], tag=7)
        for bit in range(9):
            control.write("flags", 1 << bit)
            device.note("flag cleared")
    _start(s, s.commands["backward"])
    for offset in range(BY_NAME["command_count"].offset, END, 4):
        _access(device, offset, 0xDEAD_BEEF)  # locked
    control.write("control", control_bit("start") | control_bit("irq_enable"))  # ignored
    machine.run(LIMIT)
    device.note("locked")
    control.write("control", 0)
    device.note("interrupt off")
    control.write("control", control_bit("irq_enable"))
    device.note("interrupt on")
    control.write("status", 0xFFFF_FFFD)
    device.note("done stays")
    control.write("status", 1 << BY_NAME["status"].bit("done"))
    device.note("done cleared")
    control.write("control", control_bit("clear"))
    device.note("counters cleared")
    _start(s, s.changed("forward", opcode=9), irq=False)
    machine.idle(3000)
    device.note("error, no interrupt")
    control.write("control", control_bit("irq_enable"))
    device.note("error, interrupt")
    _start(s, s.commands["forward"])  # ignored
    machine.idle(2000)
    device.note("start after an error")
    control.reset()
    device.note("reset")
    device.control.set("command_count", 0)
    control.write("control", control_bit("start"))
    machine.idle(1000)
    device.note("no commands")
    control.reset()
    for base in (s.reads[1] - COMMAND_BYTES, s.reads[0] + 2):
        device.control.set("command_count", 2)
        device.control.set("command_address", base)
        control.write("control", control_bit("start"))
        machine.idle(1000)
        device.note("commands beyond the window")
        control.reset()
    _works(s)


Scene = Callable[[Path, Log], None]
SCENES: tuple[Scene, ...] = (
    every_kind,
    registers,
    errors,
    stalls,
    odd_sizes,
    resets,
    slow_memory,
    all_but_one,
    windows,
    sudden_resets,
    full_buffers,
    long_rows,
)


Recorded = dict[Scene, Noted]


def record(product: Path, scenes: Iterable[Scene] = SCENES) -> Recorded:
    """What each scene sees without a fault; AssertionError if the golden model disagrees."""
    found: Recorded = {}
    for scene in scenes:
        log = Log()
        scene(product, log)
        found[scene] = log.noted
    return found


def noticed(product: Path, recorded: Recorded) -> str | None:
    """What notices the fault that the environment names; None if nothing does."""
    for scene, expected in recorded.items():
        try:
            scene(product, Log(expected))
        except (AssertionError, HardwareError) as error:
            return f"{scene.__name__}: {str(error).partition(chr(10))[0][:60]}"
    return None
