"""Scenes of what goes wrong: errors, windows that are too small, resets at any moment."""

import itertools
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from random import Random

import numpy as np

from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.host.ahead import mark_overlaps
from diastole_sim.host.control import control_bit
from diastole_sim.host.errors import CommandError
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_table import COMMAND_BYTES, NEST_FIELDS
from diastole_sim.spec.nest import KEEP_VALUES, OUTER
from diastole_sim.spec.operations import OPERATIONS
from mutation.watch import LIMIT, Log, Watched, opened
from support.nests import blocks_of, drawn_nest
from support.scenario import SIZES, Scenario

ADDRESSES = [field.name for field in fields(Command) if re.match("address|out", field.name)]


def errors(product: Path, log: Log) -> None:
    """Every error, at the first command and at a later one; what was done before it is right."""
    for seed in (None, 5):
        with opened(product, log, stalls=seed) as (device, golden):
            scenario = scenario_on(device, golden)
            works(scenario)
            for index in (0, 2):
                _refused(scenario, index)
            works(scenario)


def scenario_on(device: Watched, golden, sizes=SIZES) -> Scenario:
    own = golden or NumpyDevice(device.numerics, seed=device.seed)
    return Scenario(device, own, np.random.default_rng(5), sizes)


def works(scenario: Scenario) -> None:
    tried(scenario, list(scenario.commands.values()))
    scenario.assert_right(*scenario.results)


def tried(scenario: Scenario, commands, **options) -> None:
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
    reserved = (31, 32 * 11 + 8)
    return [
        s.changed("forward", opcode=0),
        s.changed("forward", opcode=6),
        s.changed("forward", version=3),
        s.changed("dx", version=0),
        *_nested(s),
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


def _nested(s: Scenario) -> Iterator[Command]:
    """Lengths of loops beside those that the machine has, and where there are none; operands that
    are to stay, and are a block or more too long."""
    yield s.changed("backward", nest_t=1)
    for op in ("forward", "dx", "dw"):
        limits = s.device.loops.limits.of(op)
        assert limits is not None
        for name, field in NEST_FIELDS.items():
            lengths = getattr(limits, name)
            near = {lengths[0] // 2, lengths[-1] + 1, 2 * lengths[-1], 3} - {0}
            for wrong in sorted(near | {lengths[0] | 1 << bit for bit in range(8)}):
                if wrong not in lengths:
                    yield s.changed(op, **{field: wrong})
        t, lanes, _ = OPERATIONS[op].products[0].loops
        block = s.device.numerics.block
        streamed = limits.stream_blocks * block + 1
        held = limits.stationary_blocks * limits.lane_side * block + 1
        yield s.changed(op, nest_keep=1, nest_outer=1, **{t: streamed})
        yield s.changed(op, nest_keep=2, **{lanes: held})


def _misaligned(s: Scenario) -> Iterator[Command]:
    """Yield every command with one address misaligned by one bit."""
    beat = s.device.product.data_width // 8
    for op, command in s.commands.items():
        for field in ADDRESSES:
            if getattr(command, field):
                for bit in range(beat.bit_length() - 1):
                    yield s.changed(op, **{field: getattr(command, field) + (1 << bit)})


def _refused(s: Scenario, index: int) -> None:
    before = [s.commands["convert"], s.commands["dw"]][:index]
    for bad in _malformed(s):
        tried(s, [*before, bad, s.commands["dx"]])
    machine, beat = s.machine, s.device.product.data_width // 8
    for op in s.commands:
        command, last = s.commands[op], s.results[op][-1].range
        first = s.results[op][0].range
        if not index:
            tried(s, [command], writes=[(first[0], last[1] - beat)])
        elif op != "convert":
            tried(s, [*before, s.changed(op, out_a=s.reads[1]), s.commands["dx"]])
        machine.fail_writes((last[1] - 4, last[1]))
        tried(s, [*before, command, s.commands["dx"]])
        machine.fail_writes(first)
        tried(s, [*before, command, s.commands["dx"]])
        machine.fail_writes()
    for operand in s.operands.values():
        for image in operand.images:
            machine.fail_reads((image.range[0], image.range[0] + 4))
            tried(s, [*before, *s.commands.values()])
            machine.fail_reads((image.range[1] - 4, image.range[1]))
            tried(s, [*before, *s.commands.values()])
    machine.fail_reads((s.at + COMMAND_BYTES * (index + 1) - 4, s.at + COMMAND_BYTES * (index + 1)))
    tried(s, [*before, s.commands["forward"], s.commands["dx"]])
    machine.fail_reads()


def flights(product: Path, log: Log) -> None:
    """Commands ahead of the ones before them: every kind behind every other, with loops of many
    lengths; behind what they read; errors of either of two; and gradients apart."""
    sizes = {"m": 21, "n": 18, "k": 35}
    for seed in (None, 5):
        with opened(product, log, stalls=seed) as (device, golden):
            s, lengths = scenario_on(device, golden, sizes), Random(11)
            width = device.product.data_width
            order = [op for pair in itertools.product(s.commands, s.commands) for op in pair]
            for first in range(0, len(order), 8):
                ops = order[first : first + 8]
                commands = [_nested_at_random(s, op, lengths) for op in ops]
                tried(s, list(mark_overlaps(commands, device.numerics, width)))
                s.assert_right(*ops)
            places = {0: s.results["convert"][0], 1: s.results["convert"][-1]}
            for op, copy in (("forward", 0), ("dw", 1)):
                pair = [s.commands["convert"], s.changed(op, address_x=places[copy].address)]
                tried(s, list(mark_overlaps(pair, device.numerics, width)))
                s.assert_right("convert", op)
            _failing(s)
            # Both gradients as two products each, one pair behind the other.
            wide = sizes | {"n": device.product.parameters["fused_max_n"] + 3, "k": 5}
            s = scenario_on(device, golden, wide)
            tried(s, [s.commands["backward"]] * 2)
            s.assert_right("backward")


def small_tiles(product: Path, log: Log) -> None:
    """Tiles of the fewest blocks, and then a product with the largest tiles, while the results wait
    for a slow memory: with a short contraction there are more tiles than slots of maxima."""
    memory = {"read_latency": 1, "write_latency": 1, "outstanding": 64, "write_pause": 2500}
    with opened(product, log, **memory) as (device, golden):
        for contraction in (3, 35):
            s = scenario_on(device, golden, {"m": 21, "n": 18, "k": contraction})
            small = {op: _smallest_tiles(s, op) for op in ("forward", "dx", "dw")}
            for op, other in itertools.product(small, s.commands):
                pair = [small[op], s.commands[other]]
                tried(s, list(mark_overlaps(pair, device.numerics, device.product.data_width)))
                s.assert_right(op, other)


def _smallest_tiles(s: Scenario, op: str) -> Command:
    limits = s.device.loops.limits.of(op)
    assert limits is not None
    lengths = {name: min(getattr(limits, name)) for name in ("t_blocks", "groups")}
    return s.changed(op, **{NEST_FIELDS[name]: length for name, length in lengths.items()})


def _nested_at_random(s: Scenario, op: str, lengths: Random) -> Command:
    limits = s.device.loops.limits.of(op) if op not in ("convert", "backward") else None
    if limits is None:
        return s.commands[op]
    sizes = s.sizes["m"], s.sizes["n"], s.sizes["k"]
    nest = drawn_nest(limits, blocks_of(op, sizes, s.device.numerics.block), lengths)
    fields_ = {field: getattr(nest, name) for name, field in NEST_FIELDS.items()}
    outer, keep = OUTER.index(nest.outer), KEEP_VALUES.index(nest.keep)
    return s.changed(op, **fields_, nest_outer=outer, nest_keep=keep)


def _failing(s: Scenario) -> None:
    """Beats that only one of two commands in flight reads or writes."""
    device, machine = s.device, s.machine
    for ops in (("forward", "dx"), ("dx", "forward"), ("convert", "dw"), ("dw", "convert")):
        pair = [s.commands[op] for op in ops]
        pair = list(mark_overlaps(pair, device.numerics, device.product.data_width))
        for op in ops:
            machine.fail_writes(s.results[op][0].range)
            tried(s, pair)
            machine.fail_writes()
        source = (s.source, s.source + 4)
        reads = source if "convert" in ops else s.operands["dY"].images[0].range
        machine.fail_reads((reads[0], reads[0] + 4))
        tried(s, pair)
        machine.fail_reads()


def windows(product: Path, log: Log) -> None:
    """Exactly what is needed, and a beat less at each end."""
    with opened(product, log) as (device, golden):
        s = scenario_on(device, golden)
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
            s = scenario_on(device, golden)
            machine, control = device.machine, device.control
            for op in s.commands:
                for cycles in (0, *range(30, 330, 23)):
                    s.clear()
                    started(s, s.commands[op])
                    machine.idle(cycles)
                    control.write("control", control_bit("reset") | control_bit("irq_enable"))
                    control.reset()
                    device.note("reset")
                works(s)


def sudden_resets(product: Path, log: Log) -> None:
    """On a fast memory, at every cycle of a command: units at work while no burst is open. Then in
    the middle of a conversion of many tiles, some of which wait."""
    memory = {"read_latency": 1, "write_latency": 1, "outstanding": 64}
    with opened(product, log, **memory) as (device, golden):
        s = scenario_on(device, golden)
        for op in s.commands:
            for cycles in range(240):
                _reset_suddenly(s, op, cycles)
            works(s)
        large = scenario_on(device, golden, {"m": 70, "n": 70, "k": 70})
        for cycles in range(240, 1200, 17):
            _reset_suddenly(large, "convert", cycles)
        works(scenario_on(device, golden))


def _reset_suddenly(s: Scenario, op: str, cycles: int) -> None:
    s.clear()
    started(s, s.commands[op])
    s.device.machine.idle(cycles)
    s.device.control.reset()
    tried(s, [s.commands[op]])


def started(s: Scenario, command, *, irq=True) -> None:
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
