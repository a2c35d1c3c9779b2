"""A running product: registers, memory, clock. Tensors come one layer above, in ``device``."""

import ctypes
import os
import time
from collections.abc import Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_uint32, c_uint64, c_void_p
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diastole_sim.perf.machine import LATENCY, OUTSTANDING
from diastole_sim.rtl.build import build
from diastole_sim.rtl.errors import HardwareHang, ProtocolError
from diastole_sim.rtl.product import Product
from diastole_sim.spec.check import require_int

CHANNELS = (
    "m_axi_ar m_axi_r m_axi_aw m_axi_w m_axi_b s_axil_ar s_axil_r s_axil_aw s_axil_w s_axil_b "
    "m_axi1_ar m_axi1_r m_axi1_aw m_axi1_w m_axi1_b"
).split()
"""Those of a second port to memory, the last five, are silent where there is none."""
RESPONSES = ("OKAY", "EXOKAY", "SLVERR", "DECERR")
DONE, RUNNING, HANG, FAULT = range(4)
MOST_DEPTH = 99  # of modules in modules
SLICE_CYCLES = 100_000  # between two looks at the keyboard

AddressRange = tuple[int, int]
"""First address and the one past the last."""


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


class Traffic(ctypes.Structure):
    """What the memory saw since it was last asked; bursts, beats, and byte addresses.

    ``first_written`` and ``end_written`` enclose every byte written; ``strays`` counts the beats
    written outside the allowed ranges, ``first_stray`` is the address of the first.
    """

    _fields_ = [
        ("read_bursts", c_uint64),
        ("read_beats", c_uint64),
        ("write_bursts", c_uint64),
        ("write_beats", c_uint64),
        ("first_written", c_uint64),
        ("end_written", c_uint64),
        ("strays", c_uint64),
        ("first_stray", c_uint64),
    ]


class MachineState(ctypes.Structure):
    """Cycle count and pins; ``valid`` and ``ready`` have one bit per channel of ``CHANNELS``."""

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
        """The state in words, one line for each channel that waits."""
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


def waves_of(trace: Path | str | None) -> str | None:
    """What a trace of this name is recorded as."""
    if trace is None:
        return None
    return "fst" if Path(trace).suffix.lower() == ".fst" else "vcd"


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
        "traffic": (None, [c_void_p, POINTER(Traffic), c_int]),
        "ranges": (c_int, [c_void_p, c_int, POINTER(_Range), c_uint32]),
        "open_trace": (c_int, [c_void_p, c_char_p, c_int]),
        "close_trace": (None, [c_void_p]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, f"machine_{name}")
        function.restype, function.argtypes = result, arguments
    return library


class Machine:
    """A product with its clock running in Verilator, its memory, and a host at its registers.

    Parameters
    ----------
    product : Product or path of a product directory
    memory_bytes, memory_base : int
        Size and first address of the memory; only the pages in use take up real memory.
    read_latency, write_latency : int
        Cycles from an address to its first beat, and from the last beat to its response.
    outstanding : int
        Bursts that the memory accepts ahead in each direction (1 to 64).
    write_pause : int
        Cycles: data to be written is accepted in every other stretch of so many; 0: always.
    stalls : int or None
        Seed that delays every handshake at random, and starts what has no initial value at random.
    watchdog_cycles : int
        Cycles without any handshake after which the machine counts as hung.
    trace : path or None
        Record waves to this file: FST if it is called ``.fst``, VCD else.
    trace_depth : int
        Levels of the product's modules in them; 0: all.

    Errors: those of :func:`diastole_sim.rtl.build.build`; MemoryError; OSError for the trace.
    HardwareHang and ProtocolError come from everything that runs the clock.
    """

    def __init__(
        self,
        product: Product | Path | str,
        *,
        memory_bytes: int = 1 << 30,
        memory_base: int = 0x40_0000_0000,
        read_latency: int = LATENCY,
        write_latency: int = LATENCY,
        outstanding: int = OUTSTANDING,
        write_pause: int = 0,
        stalls: int | None = None,
        watchdog_cycles: int = 200_000,
        trace: Path | str | None = None,
        trace_depth: int = 0,
    ):
        self._handle: int | None = None
        require_int("trace_depth", trace_depth, 0, MOST_DEPTH)
        self.product = product if isinstance(product, Product) else Product.load(product)
        self._library = _load(build(self.product, waves=waves_of(trace)))
        options = _Options(
            memory=_MemoryOptions(
                base=memory_base,
                bytes=memory_bytes,
                read_latency=read_latency,
                write_latency=write_latency,
                outstanding=outstanding,
                write_pause=write_pause,
            ),
            watchdog_cycles=watchdog_cycles,
            stall_seed=(stalls or 0) & (1 << 64) - 1,
            stalls=stalls is not None,
            random_powerup=stalls is not None,
        )
        self._handle = self._library.machine_new(byref(options))
        if not self._handle:
            raise MemoryError(f"no memory of {memory_bytes} bytes for the machine")
        self.memory_base = memory_base
        self.run_seconds = 0.0
        self.run_cycles = 0
        pages = (ctypes.c_uint8 * memory_bytes).from_address(
            self._library.machine_memory(self._handle)
        )
        self.memory: NDArray[np.uint8] = np.frombuffer(memoryview(pages), np.uint8)
        if trace is not None:
            self._open_trace(Path(trace), trace_depth)
        self.reset()

    def _open_trace(self, path: Path, depth: int) -> None:
        path.open("wb").close()  # so that an unwritable path is an OSError that says why
        if not self._library.machine_open_trace(self._handle, os.fsencode(path), depth):
            raise OSError(f"cannot write waves to {path}")

    def close(self) -> None:
        """End the simulation and complete the trace. ``memory`` must not be used afterwards."""
        if self._handle:
            self.memory = np.empty(0, np.uint8)
            self._library.machine_delete(self._handle)
            self._handle = None

    def __enter__(self) -> "Machine":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    # Memory.

    @property
    def memory_bytes(self) -> int:
        """Its size."""
        return self.memory.size

    def bytes_at(self, address: int, count: int) -> NDArray[np.uint8]:
        """A view of ``count`` bytes of the machine's memory; IndexError if it is not all there.

        ValueError if the machine is closed.
        """
        if not self._handle:
            raise ValueError("the machine is closed")
        start = address - self.memory_base
        if start < 0 or start + count > self.memory.size:
            raise IndexError(f"{count} bytes at {address:#x} are not in the machine's memory")
        return self.memory[start : start + count]

    def allow_writes(self, *ranges: AddressRange) -> None:
        """From now on count writes elsewhere as strays; without a range, allow all."""
        self._set_ranges(0, ranges)

    def fail_reads(self, *ranges: AddressRange) -> None:
        """From now on answer SLVERR to reads of these addresses."""
        self._set_ranges(1, ranges)

    def fail_writes(self, *ranges: AddressRange) -> None:
        """From now on answer SLVERR to writes to these addresses, and do not write."""
        self._set_ranges(2, ranges)

    def _set_ranges(self, kind: int, ranges: Sequence[AddressRange]) -> None:
        array = (_Range * max(1, len(ranges)))(*(_Range(*pair) for pair in ranges))
        if not self._library.machine_ranges(self._handle, kind, array, len(ranges)):
            raise ValueError(f"at most 32 address ranges, not {len(ranges)}")

    def traffic(self, *, clear: bool = False) -> Traffic:
        """What the memory saw since the last ``clear``."""
        traffic = Traffic()
        self._library.machine_traffic(self._handle, byref(traffic), clear)
        return traffic

    # Clock.

    @property
    def state(self) -> MachineState:
        """Cycle count and pins, as they are now."""
        state = MachineState()
        self._library.machine_state(self._handle, byref(state))
        return state

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
        """Run until ``irq``; return the cycles that took. HardwareHang after ``limit`` cycles."""
        start, began, outcome = self.state.cycle, time.perf_counter(), RUNNING
        while outcome == RUNNING:
            done = self.state.cycle - start
            if limit is not None and done >= limit:
                raise HardwareHang(f"no interrupt after {done} cycles", self.state.report())
            left = SLICE_CYCLES if limit is None else min(SLICE_CYCLES, limit - done)
            outcome = self._library.machine_run(self._handle, left)
        self._check(outcome)
        cycles = self.state.cycle - start
        self.run_cycles += cycles
        self.run_seconds += time.perf_counter() - began
        return cycles

    def idle(self, cycles: int) -> None:
        """Run ``cycles`` cycles, whatever the interrupt does; silence is no hang here."""
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
