"""Generated hardware with a vector unit, which runs whole programs: the host starts a run, and the
machine interrupts after the last command. :mod:`diastole_sim.golden.golden_machine` is the golden
model of the machine."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from diastole_sim.golden.golden_machine import Outcome
from diastole_sim.golden.loss_scale import LossScale
from diastole_sim.host.closing import Closing
from diastole_sim.host.control import Control
from diastole_sim.host.errors import CommandError, ProductError
from diastole_sim.host.running import RunningMachine
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.limits import Limits, VectorLimits
from diastole_sim.spec.nest import ProductNests
from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.registers import WAIT_REGISTERS
from diastole_sim.spec.require import require_int

Bytes = NDArray[np.uint8]
COUNTERS = ("cycles_total", "busy_slots", *WAIT_REGISTERS.values())
"""Registers that count over a run."""
REPORTS = ("saturated", "underflowed")
"""Registers about the conversions of a run."""


class VectorMachine(Closing):
    """Machine with a vector unit: memory from address 0 on, and registers.

    ``seed``: seed of all random bits.

    Attributes: ``limits``: limits of the machine. ``step``, ``step_end``, ``command_first``:
    registers for the next run. After a run ``step`` has the value in the machine.

    Errors: ProductError for a product without a vector unit. HardwareHang and ProtocolError if the
    hardware fails.
    """

    def __init__(self, machine: RunningMachine, *, seed: int = 0):
        self.machine, self.product = machine, machine.product
        parameters = self.product.parameters
        if "vector" not in parameters:
            raise ProductError(
                f"{self.product.directory}: this product has no vector unit; generate the "
                "product with vector.enable = true"
            )
        self.numerics = Numerics.from_dict(parameters["numerics"])
        self.limits = Limits.of(
            self.numerics,
            data_width=self.product.data_width,
            nests=ProductNests.from_dict(parameters["nests"]),
            vector=VectorLimits.from_dict(parameters["vector"]),
        )
        self.control = Control(self.machine, self.limits)
        self.control.set("seed", require_int("seed", seed, 0, 2**32 - 1))
        self._memory_bytes = self.machine.memory_bytes
        self.control.set_windows((0, self._memory_bytes), (0, self._memory_bytes))
        self.step = self.step_end = self.command_first = 0
        self._run_registers = dict.fromkeys((*COUNTERS, *REPORTS), 0)

    def close(self) -> None:
        """End the machine."""
        self.machine.close()

    @property
    def memory(self) -> Bytes:
        """View of the memory from address 0 on, as it is."""
        return self.machine.bytes_at(0, self._memory_bytes)

    def run_at(self, address: int, count: int, *, limit: int | None = None) -> Outcome:
        """Run the ``count`` commands of the array at an address, from number ``command_first`` on,
        by the bit ``start``. The number of finished commands is unknown. HardwareHang after
        ``limit`` cycles."""
        for name in ("step", "step_end", "command_first"):
            self.control.write(name, getattr(self, name))
        self.control.set("command_count", count)
        self.control.set("command_address", address)
        try:
            self.control.start([(0, self._memory_bytes)], limit=limit)
        except CommandError as error:
            self._note(error.registers)
            return Outcome(error=ErrorCode(error.code), index=error.index)
        self._note({name: self.control.read(name) for name in ("step", *self._run_registers)})
        return Outcome()

    def _note(self, registers: Mapping[str, int]) -> None:
        """Record the registers after a run."""
        self.step = registers["step"]
        self._run_registers = {name: registers[name] for name in self._run_registers}

    def counters(self) -> dict[str, int]:
        """Return counters of the last run: all cycles, cycles in which vectors entered the array,
        and by cause the cycles in which no vector entered."""
        return {name: self._run_registers[name] for name in COUNTERS}

    def reported(self) -> dict[str, int]:
        """Return counts of the conversions in the last run: elements that saturated, and elements
        that became zeros."""
        return {name: self._run_registers[name] for name in REPORTS}

    @property
    def loss(self) -> LossScale:
        """Registers of the loss's scale."""
        scale = LossScale()
        scale.set_register(self.control.read("loss_scale"))
        scale.window = self.control.read("loss_window")
        scale.clean = self.control.read("loss_clean")
        return scale

    @loss.setter
    def loss(self, loss: LossScale) -> None:
        self.control.write("loss_scale", loss.register)
        self.control.write("loss_window", loss.window)
        self.control.write("loss_clean", loss.clean)

    def read_rows(self, address: int, count: int, pitch: int, length: int) -> Bytes:
        """Return a copy of ``count`` runs of ``length`` bytes of memory, ``pitch`` bytes apart."""
        data = self.machine.bytes_at(address, pitch * (count - 1) + length)
        return data[pitch * np.arange(count)[:, None] + np.arange(length)]

    def write(self, address: int, data: Bytes) -> None:
        """Write bytes into memory."""
        self.machine.bytes_at(address, len(data))[:] = data
