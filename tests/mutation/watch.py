"""A device whose every command is noted: registers, pins, and what was on the bus."""

from contextlib import contextmanager
from dataclasses import astuple, replace
from pathlib import Path

from diastole.devices import Device
from diastole_sim.device.tensor_scales import TensorScales
from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.host.errors import CommandError
from diastole_sim.spec.registers import registers_of

SEED = 0xC2B2_AE35
LIMIT = 400_000
"""Cycles of a command, after which it counts as hung."""
MEMORY_BYTES = 1 << 23

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
    """A device that notes what every command does; ``given``: it takes scales of whole tensors."""

    def __init__(self, product: Path, log: Log, *, given: bool = False, **options):
        self.log, self.limit = log, LIMIT
        chosen = {"seed": SEED, "memory_bytes": MEMORY_BYTES, "watchdog_cycles": 20_000}
        super().__init__(product, **chosen | options)
        if given:  # the hardware is the same
            self.numerics = replace(self.numerics, source="host")
            self._scales = TensorScales(self.numerics)

    def execute(self, commands, *, reads, writes, work=0):
        at = self._commands
        try:
            return self.run(commands, at=at, reads=reads, writes=writes)
        finally:
            self.note("command")

    def run(self, commands, *, at, reads, writes) -> int:
        """As :meth:`diastole_sim.host.control.Control.execute`; notes errors."""
        try:
            return self.control.execute(
                commands, at=at, reads=reads, writes=writes, limit=self.limit
            )
        except CommandError as error:
            self.log.note("error", (error.code, error.index, error.report))
            raise

    def note(self, label: str) -> None:
        """All registers, pins, and what was on the bus."""
        there = registers_of(planes=self.numerics.chooses_widths)
        registers = tuple((r.name, self.control.read(r.name)) for r in there)
        traffic, state = self.machine.traffic(), self.machine.state
        self.log.note(f"{label}: registers", registers)
        self.log.note(f"{label}: bus", astuple(traffic))
        pins = (state.cycle, state.irq, state.open_reads, state.open_writes)
        self.log.note(f"{label}: pins", pins)


@contextmanager
def opened(product: Path, log: Log, **options):
    """A device, and the golden model with the same numbers where there is no fault."""
    with Watched(product, log, **options) as device:
        golden = None
        if log.expected is None:
            golden = NumpyDevice(device.numerics, seed=device.seed)
        yield device, golden
