"""The scene of the registers, which the host reads and writes at any moment."""

from pathlib import Path

import numpy as np

from diastole_sim.host.control import control_bit
from diastole_sim.host.errors import ProtocolError
from diastole_sim.spec.command_table import COMMAND_BYTES
from diastole_sim.spec.registers import BY_NAME, END
from mutation.scenes_of_commands import scenario_on, started, works
from mutation.watch import LIMIT, Log, Watched, opened
from support import products as p


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
    s, control, machine = scenario_on(device, golden), device.control, device.machine
    data = p.tensors(np.random.default_rng(6), (9, 9, 9), "special")
    for name in ("X", "W", "dY"):
        device.convert(data[name], p.CLASSES[name], tag=7)
        for bit in range(9):
            control.write("flags", 1 << bit)
            device.note("flag cleared")
    started(s, s.commands["backward"])
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
    started(s, s.changed("forward", opcode=9), irq=False)
    machine.idle(3000)
    device.note("error, no interrupt")
    control.write("control", control_bit("irq_enable"))
    device.note("error, interrupt")
    started(s, s.commands["forward"])  # ignored
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
    works(s)
