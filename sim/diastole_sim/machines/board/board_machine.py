"""A machine on a board, with the interface of a simulated machine: registers and memory over a
link.

Changes of memory by the host are sent before a command begins. Data written by a command are
fetched when the host reads them.
"""

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from diastole_sim.host.errors import HardwareHang, ProtocolError
from diastole_sim.host.product import Product
from diastole_sim.host.running import AddressRange, Traffic
from diastole_sim.machines.board.board_errors import WrongBoard
from diastole_sim.machines.board.link import Link, RefusedError
from diastole_sim.perf.modelled_machine import Memory
from diastole_sim.spec.registers import BY_NAME, MAGIC, REGISTERS, SETTING, registers_of
from diastole_sim.spec.serial import WORD_BYTES

Words = NDArray[np.bool_]

SHORTEST_GAP = 4
"""Fewest unchanged words between changed words that split a write into two requests."""
LONGEST_NAP = 0.05
"""Most seconds between two polls for the end of a command."""
PATIENCE = 10.0
"""Seconds that a command may take beyond its limit of cycles. Also the limit of a reset."""


def _stretches() -> list[tuple[int, int]]:
    """Return (offset, words) of the stretches of registers that every machine has."""
    runs: list[tuple[int, int]] = []
    for register in registers_of(planes=False):
        if runs and runs[-1][0] + 4 * runs[-1][1] == register.offset:
            runs[-1] = runs[-1][0], runs[-1][1] + register.words
        else:
            runs.append((register.offset, register.words))
    return runs


_READ_TOGETHER = _stretches()
_SETTINGS = {
    register.offset + WORD_BYTES * n
    for register in REGISTERS
    if register.kind == SETTING
    for n in range(register.words)
}
"""Offsets of registers without an effect before a start."""


class BoardMachine:
    """Machine of ``product`` behind ``link``: a :class:`diastole_sim.host.running.RunningMachine`.
    The machine is reset, so it is as new.

    The memory counts as all zeros at first, and zeros are written to it where commands may read.
    Writes outside the allowed ranges are not seen: :meth:`traffic` is empty. Cycles are cycles of
    the board's clock, measured by the host's clock. ``sleep``: function that sleeps for a number of
    seconds.

    WrongBoard if the device is not a Diastole board, or does not hold the machine of ``product``.
    Every method raises LinkLost if no more answers arrive.
    """

    patience = 1
    memory_model = Memory.axi()
    """Memory of a board, of which nothing is known."""

    def __init__(
        self, product: Product, link: Link, *, sleep: Callable[[float], object] = time.sleep
    ):
        self.product, self.link = product, link
        self._sleep = sleep
        identity = link.identify()
        self.memory_base, self.memory_bytes = identity["memory_base"], identity["memory_bytes"]
        self.clock_hz = identity["clock_hz"]
        self._registers: dict[int, int] = {}  # values written by the host, by offset
        self._pending: dict[int, int] = {}  # settings, by offset, not yet sent to the machine
        self._read_values: dict[int, int] = {}  # registers that now change only by the host
        self._require_product()
        self.run_seconds, self.run_cycles = 0.0, 0
        self._began = time.monotonic()
        self._memory = np.zeros(self.memory_bytes, np.uint8)
        words = self.memory_bytes // WORD_BYTES
        self._sent = np.zeros(words, np.uint32)  # content of the board, except the words below
        self._unknown = np.ones(words, np.bool_)
        self._stale = np.zeros(words, np.bool_)  # perhaps written by a command
        self._allowed: tuple[AddressRange, ...] = ()
        self._reset()

    def _require_product(self) -> None:
        got = {name: self.read(BY_NAME[name].offset) for name in ("magic", "config_hash")}
        name = self.link.line.name
        expected = int(self.product.manifest["config_sha256"][:8], 16)
        if got["magic"] != MAGIC:
            raise WrongBoard(
                f"{name}: the board holds no Diastole machine: the register magic reads "
                f"{got['magic']:#x}"
            )
        if got["config_hash"] != expected:
            raise WrongBoard(
                f"{name}: the board holds a machine of another configuration: the hash is "
                f"{got['config_hash']:08x}, but {self.product.name} has {expected:08x}; "
                f"load the bitstream of {self.product.name}"
            )

    def _reset(self) -> None:
        """Stop and reset a machine that an earlier host may have left running, except its
        settings."""
        control = BY_NAME["control"]
        self.write(control.offset, 1 << control.bit("reset") | 1 << control.bit("clear"))
        self._wait(PATIENCE, "the machine is still busy after a reset")

    def close(self) -> None:
        """Close the port."""
        self.link.line.close()

    # Memory.

    @property
    def _words(self) -> NDArray[np.uint32]:
        return self._memory.view("<u4")

    def bytes_at(self, address: int, count: int) -> NDArray[np.uint8]:
        """Return a view of ``count`` bytes of memory, as they are. IndexError if any byte is
        outside the memory."""
        start = address - self.memory_base
        if start < 0 or start + count > self.memory_bytes:
            raise IndexError(f"{count} bytes at {address:#x} lie outside the memory of the machine")
        self._fetch(start // WORD_BYTES, -(-(start + count) // WORD_BYTES))
        return self._memory[start : start + count]

    def allow_writes(self, *ranges: AddressRange) -> None:
        """Set the ranges that the next commands may write. Without a range, allow all writes."""
        self._allowed = ranges

    def traffic(self, *, clear: bool = False) -> Traffic:
        """Return no traffic: a board does not report any."""
        return Traffic()

    def _fetch(self, first: int, end: int) -> None:
        """Fetch the words of a range that commands may have written."""
        for start, stop in _runs(self._stale[first:end]):
            at, count = self._address(first + start), WORD_BYTES * (stop - start)
            words = np.frombuffer(self.link.read_memory(at, count), "<u4")
            self._words[first + start : first + stop] = words
            self._sent[first + start : first + stop] = words
            self._stale[first + start : first + stop] = False
            self._unknown[first + start : first + stop] = False

    def _upload(self) -> None:
        """Send the host's changes of memory to the board."""
        changed = self._words != self._sent
        first, end = (
            self._register(f"read_{name}") - self.memory_base for name in ("base", "limit")
        )
        readable = slice(max(first, 0) // WORD_BYTES, -(-max(end, 0) // WORD_BYTES))
        changed[readable] |= self._unknown[readable]
        changed &= ~self._stale
        for start, stop in _runs(changed, gap=SHORTEST_GAP, without=self._stale):
            piece = self._words[start:stop]
            self.link.write_memory(self._address(start), piece.astype("<u4").tobytes())
            self._sent[start:stop] = piece
            self._unknown[start:stop] = False

    def _register(self, name: str) -> int:
        """Return the value that the host has written to a register."""
        register = BY_NAME[name]
        words = (self._registers.get(register.offset + 4 * n, 0) for n in range(register.words))
        return sum(word << 32 * n for n, word in enumerate(words))

    def _address(self, word: int) -> int:
        return self.memory_base + WORD_BYTES * word

    # Registers and clock.

    def read(self, address: int) -> int:
        """Read a register."""
        if address in self._read_values:
            return self._read_values[address]
        self._set()
        try:
            return self.link.read_registers(address, 1)[0]
        except RefusedError as error:
            raise ProtocolError(f"reading register {address:#x} failed: {error}") from error

    def write(self, address: int, value: int) -> None:
        """Write a register. Memory is sent before a start, and settings before they count."""
        self._registers[address] = value
        self._read_values.pop(address, None)
        if address in _SETTINGS:
            self._pending[address] = value
            return
        self._set()
        control = BY_NAME["control"]
        starts = address == control.offset and value >> control.bit("start") & 1
        if starts:
            self._upload()
        if address == control.offset:
            self._read_values.clear()
        self._write(address, [value])
        if starts:
            self._invalidate_memory()

    def _write(self, address: int, words: list[int]) -> None:
        try:
            self.link.write_registers(address, words)
        except RefusedError as error:
            raise ProtocolError(f"writing register {address:#x} failed: {error}") from error

    def _set(self) -> None:
        """Write the pending settings, neighbouring registers in one request."""
        pending, self._pending = self._pending, {}
        while pending:
            first = end = min(pending)
            words: list[int] = []
            while end in pending:
                words.append(pending.pop(end))
                end += WORD_BYTES
            self._write(first, words)

    def _invalidate_memory(self) -> None:
        base = self.memory_base
        for first, end in self._allowed or ((base, base + self.memory_bytes),):
            start, stop = first - base, end - base
            self._stale[start // WORD_BYTES : -(-stop // WORD_BYTES)] = True

    @property
    def cycle(self) -> int:
        """Cycles since this object was made, by the host's clock."""
        return int((time.monotonic() - self._began) * self.clock_hz)

    @property
    def cycles_per_second(self) -> float:
        """Cycles per second of commands so far, from the machine's counter and the host's clock."""
        return self.run_cycles / self.run_seconds if self.run_seconds else 0.0

    def run(self, limit: int | None = None) -> int:
        """Wait until the machine is done, and return the cycles. HardwareHang long after ``limit``
        cycles."""
        began = time.monotonic()
        seconds = None if limit is None else limit / self.clock_hz + PATIENCE
        self._wait(seconds, f"the machine did not end within {limit} cycles")
        for offset, count in _READ_TOGETHER:
            words = self.link.read_registers(offset, count)
            self._read_values |= {offset + 4 * n: word for n, word in enumerate(words)}
        total = BY_NAME["cycles_total"].offset
        cycles = self._read_values[total] | self._read_values[total + 4] << 32
        self.run_cycles += cycles
        self.run_seconds += time.monotonic() - began
        return cycles

    def _wait(self, seconds: float | None, otherwise: str) -> None:
        status, nap = BY_NAME["status"], 0.0
        end = None if seconds is None else time.monotonic() + seconds
        while self.read(status.offset) >> status.bit("busy") & 1:
            if end is not None and time.monotonic() > end:
                raise HardwareHang(otherwise)
            self._sleep(nap)
            nap = min(2 * nap + 0.001, LONGEST_NAP)

    def idle(self, cycles: int) -> None:
        """Let ``cycles`` cycles pass."""
        self._sleep(cycles / self.clock_hz)


def _runs(words: Words, *, gap: int = 1, without: Words | None = None) -> list[tuple[int, int]]:
    """Return (first, first behind) of the stretches of chosen words. Stretches less than ``gap``
    words apart are joined, unless a word between them is in ``without``."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], words.astype(np.int8), [0]))))
    runs: list[tuple[int, int]] = []
    for start, stop in edges.reshape(-1, 2).tolist():
        before = runs[-1] if runs else None
        near = before is not None and start - before[1] < gap
        if (
            before is not None
            and near
            and not (without is not None and without[before[1] : start].any())
        ):
            runs[-1] = before[0], stop
        else:
            runs.append((start, stop))
    return runs
