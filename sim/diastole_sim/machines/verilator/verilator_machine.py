"""Product that runs in Verilator: registers, memory, clock."""

import ctypes
import os
import time
from collections.abc import Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_uint32, c_uint64, c_void_p
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diastole_sim.host.closing import Closing
from diastole_sim.host.errors import HardwareHang, ProtocolError
from diastole_sim.host.product import Product
from diastole_sim.host.running import AddressRange, Traffic
from diastole_sim.machines.verilator.build import build
from diastole_sim.machines.verilator.simulation import Simulation
from diastole_sim.perf.modelled_machine import Memory

CHANNELS = (
    "m_axi_ar m_axi_r m_axi_aw m_axi_w m_axi_b s_axil_ar s_axil_r s_axil_aw s_axil_w s_axil_b "
    "m_axi1_ar m_axi1_r m_axi1_aw m_axi1_w m_axi1_b"
).split()
"""Channels of handshakes. The last five belong to a second port to memory, and are silent without
the port."""
RESPONSES = ("OKAY", "EXOKAY", "SLVERR", "DECERR")
DONE, RUNNING, HANG, FAULT = range(4)
SLICE_CYCLES = 100_000  # cycles between two checks for a keyboard interrupt


class _MemoryOptions(ctypes.Structure):
    _fields_ = [
        ("base", c_uint64),
        ("bytes", c_uint64),
        ("read_latency", c_uint32),
        ("write_latency", c_uint32),
        ("outstanding", c_uint32),
        ("write_pause", c_uint32),
    ]


class _Options(ctypes.Structure):
    _fields_ = [
        ("memory", _MemoryOptions),
        ("watchdog_cycles", c_uint64),
        ("stall_seed", c_uint64),
        ("stalls", c_uint32),
        ("random_powerup", c_uint32),
    ]


class _Range(ctypes.Structure):
    _fields_ = [("first", c_uint64), ("end", c_uint64)]


class _Traffic(ctypes.Structure):
    _fields_ = [(field.name, c_uint64) for field in fields(Traffic)]


class MachineState(ctypes.Structure):
    """Cycle count and pins. ``valid`` and ``ready`` have one bit per channel of ``CHANNELS``."""

    _fields_ = [
        ("cycle", c_uint64),
        ("idle_cycles", c_uint64),
        ("handshakes", c_uint64),
        ("irq", c_uint32),
        ("valid", c_uint32),
        ("ready", c_uint32),
        ("open_reads", c_uint32),
        ("open_writes", c_uint32),
        ("reserved", c_uint32),
    ]

    def report(self) -> str:
        """Return the state in words, with a line for each waiting channel."""
        lines = [
            (
                f"cycle {self.cycle}, {self.idle_cycles} cycles without a handshake, irq "
                f"{self.irq}, {self.open_reads} reads and {self.open_writes} writes open"
            )
        ]
        for bit, channel in enumerate(CHANNELS):
            valid, ready = self.valid >> bit & 1, self.ready >> bit & 1
            if valid != ready:
                lines.append(f"{channel}: valid {valid}, ready {ready}")
        return "\n".join(lines)


def _options_of(simulation: Simulation) -> _Options:
    """Return the options in the driver's form."""
    return _Options(
        memory=_MemoryOptions(
            base=simulation.memory_base,
            bytes=simulation.memory_bytes,
            read_latency=simulation.read_latency,
            write_latency=simulation.write_latency,
            outstanding=simulation.outstanding,
            write_pause=simulation.write_pause,
        ),
        watchdog_cycles=simulation.watchdog_cycles,
        stall_seed=simulation.stalls or 0,
        stalls=simulation.stalls is not None,
        random_powerup=simulation.stalls is not None,
    )


def _load(path: Path) -> Any:
    library = ctypes.CDLL(str(path))
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "new": (c_void_p, [POINTER(_Options)]),
        "delete": (None, [c_void_p]),
        "reset": (None, [c_void_p]),
        "memory": (c_void_p, [c_void_p]),
        "read": (c_int, [c_void_p, c_uint32, POINTER(c_uint32), POINTER(c_uint32)]),
        "write": (c_int, [c_void_p, c_uint32, c_uint32, POINTER(c_uint32)]),
        "run": (c_int, [c_void_p, c_uint64]),
        "idle": (c_int, [c_void_p, c_uint64]),
        "state": (None, [c_void_p, POINTER(MachineState)]),
        "fault": (c_char_p, [c_void_p]),
        "traffic": (None, [c_void_p, POINTER(_Traffic), c_int]),
        "ranges": (c_int, [c_void_p, c_int, POINTER(_Range), c_uint32]),
        "open_trace": (c_int, [c_void_p, c_char_p, c_int]),
        "close_trace": (None, [c_void_p]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, f"machine_{name}")
        function.restype, function.argtypes = result, arguments
    return library


class VerilatorMachine(Closing):
    """Product with its clock running in Verilator, its memory, and a host at its registers: a
    :class:`diastole_sim.host.running.RunningMachine`.

    ``product``: a product or the path of its directory. ``simulation``: surroundings of the
    product.

    Errors: ProductError; the errors of :func:`diastole_sim.machines.verilator.build.build`;
    MemoryError; OSError for the trace. Every method that runs the clock may raise HardwareHang and
    ProtocolError.
    """

    def __init__(self, product: Product | Path | str, simulation: Simulation | None = None):
        self._handle: int | None = None
        self.simulation = simulation or Simulation()
        self.product = product if isinstance(product, Product) else Product.load(product)
        self._library = _load(build(self.product, waves=self.simulation.waves))
        self._handle = self._library.machine_new(byref(_options_of(self.simulation)))
        size = self.simulation.memory_bytes
        if not self._handle:
            raise MemoryError(
                f"the memory of the machine needs {size} bytes, more than this computer has"
            )
        self.run_seconds = 0.0
        self.run_cycles = 0
        pages = (ctypes.c_uint8 * size).from_address(self._library.machine_memory(self._handle))
        self.memory: NDArray[np.uint8] = np.frombuffer(memoryview(pages), np.uint8)
        if self.simulation.trace is not None:
            self._open_trace(Path(self.simulation.trace), self.simulation.trace_depth)
        self.reset()

    def _open_trace(self, path: Path, depth: int) -> None:
        path.open("wb").close()  # an unwritable path is then an OSError with the reason
        if not self._library.machine_open_trace(self._handle, os.fsencode(path), depth):
            raise OSError(f"the waves cannot be written to {path}")

    def close(self) -> None:
        """End the simulation and complete the trace. ``memory`` must not be used afterwards."""
        if self._handle:
            self.memory = np.empty(0, np.uint8)
            self._library.machine_delete(self._handle)
            self._handle = None

    def __del__(self) -> None:
        self.close()

    # Memory.

    @property
    def memory_base(self) -> int:
        return self.simulation.memory_base

    @property
    def memory_bytes(self) -> int:
        return self.memory.size

    @property
    def memory_model(self) -> Memory:
        return self.simulation.memory_model

    def bytes_at(self, address: int, count: int) -> NDArray[np.uint8]:
        """Return a view of ``count`` bytes of the machine's memory. IndexError if any byte is
        outside the memory.

        ValueError if the machine is closed.
        """
        if not self._handle:
            raise ValueError("the machine is closed")
        start = address - self.memory_base
        if start < 0 or start + count > self.memory.size:
            raise IndexError(f"{count} bytes at {address:#x} lie outside the memory of the machine")
        return self.memory[start : start + count]

    def allow_writes(self, *ranges: AddressRange) -> None:
        """Count writes outside ``ranges`` as strays from now on. Without a range, allow all
        writes."""
        self._set_ranges(0, ranges)

    def fail_reads(self, *ranges: AddressRange) -> None:
        """Answer SLVERR to reads of these addresses from now on."""
        self._set_ranges(1, ranges)

    def fail_writes(self, *ranges: AddressRange) -> None:
        """Answer SLVERR to writes to these addresses from now on, and do not write."""
        self._set_ranges(2, ranges)

    def _set_ranges(self, kind: int, ranges: Sequence[AddressRange]) -> None:
        array = (_Range * max(1, len(ranges)))(*(_Range(*pair) for pair in ranges))
        if not self._library.machine_ranges(self._handle, kind, array, len(ranges)):
            raise ValueError(f"at most 32 address ranges are possible, not {len(ranges)}")

    def traffic(self, *, clear: bool = False) -> Traffic:
        """Return the traffic at the memory since the last ``clear``."""
        traffic = _Traffic()
        self._library.machine_traffic(self._handle, byref(traffic), clear)
        return Traffic(**{each.name: getattr(traffic, each.name) for each in fields(Traffic)})

    # Clock.

    @property
    def state(self) -> MachineState:
        """Cycle count and pins, as they are now."""
        state = MachineState()
        self._library.machine_state(self._handle, byref(state))
        return state

    @property
    def cycle(self) -> int:
        return self.state.cycle

    @property
    def patience(self) -> int:
        return self.simulation.patience

    @property
    def cycles_per_second(self) -> float:
        """Simulated cycles per second of :meth:`run` so far."""
        return self.run_cycles / self.run_seconds if self.run_seconds else 0.0

    def reset(self) -> None:
        """Hold ``aresetn`` low for a few cycles. Memory keeps its contents."""
        self._library.machine_reset(self._handle)
        self._check(DONE if not self._fault() else FAULT)

    def read(self, address: int) -> int:
        """Read a register."""
        value, response = c_uint32(), c_uint32()
        outcome = self._library.machine_read(self._handle, address, byref(value), byref(response))
        self._check(outcome)
        self._check_response(response.value, f"read of register {address:#x}")
        return value.value

    def write(self, address: int, value: int) -> None:
        """Write a register."""
        response = c_uint32()
        outcome = self._library.machine_write(self._handle, address, value, byref(response))
        self._check(outcome)
        self._check_response(response.value, f"write of register {address:#x}")

    def run(self, limit: int | None = None) -> int:
        """Run until ``irq`` and return the cycles. HardwareHang after ``limit`` cycles."""
        start, began, outcome = self.state.cycle, time.perf_counter(), RUNNING
        while outcome == RUNNING:
            done = self.state.cycle - start
            if limit is not None and done >= limit:
                raise HardwareHang(
                    f"the machine raised no interrupt within {done} cycles", self.state.report()
                )
            slice_cycles = SLICE_CYCLES if limit is None else min(SLICE_CYCLES, limit - done)
            outcome = self._library.machine_run(self._handle, slice_cycles)
        self._check(outcome)
        cycles = self.state.cycle - start
        self.run_cycles += cycles
        self.run_seconds += time.perf_counter() - began
        return cycles

    def idle(self, cycles: int) -> None:
        """Run ``cycles`` cycles, whatever the interrupt does. A silent bus is no hang here."""
        self._check(self._library.machine_idle(self._handle, cycles))

    def _fault(self) -> str:
        return self._library.machine_fault(self._handle).decode()

    def _check(self, outcome: int) -> None:
        if outcome == HANG:
            state = self.state
            raise HardwareHang(
                f"the hardware hangs: no handshake for {state.idle_cycles} cycles", state.report()
            )
        if outcome == FAULT:
            raise ProtocolError(self._fault(), self.state.report())

    @staticmethod
    def _check_response(response: int, what: str) -> None:
        if response:
            raise ProtocolError(f"the {what} was answered with {RESPONSES[response & 3]}")
