"""A machine on a board, as if it were simulated: registers and memory over a link.

What the host changes of memory goes over before a command begins, and what a command wrote comes
back when somebody looks at it.
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
"""Words that did not change between two that did, for which two requests are made, not one."""
LONGEST_NAP = 0.05
"""Seconds between two looks at whether a command is done."""
PATIENCE = 10.0
"""Seconds that a command may take beyond the cycles that it is given, and a reset at all."""


def _stretches() -> list[tuple[int, int]]:
    """(offset, words) of the registers that every machine has, without what lies between them."""
    found: list[tuple[int, int]] = []
    for register in registers_of(planes=False):
        if found and found[-1][0] + 4 * found[-1][1] == register.offset:
            found[-1] = found[-1][0], found[-1][1] + register.words
        else:
            found.append((register.offset, register.words))
    return found


_SEEN_AT_ONCE = _stretches()
_SETTINGS = {
    register.offset + WORD_BYTES * n
    for register in REGISTERS
    if register.kind == SETTING
    for n in range(register.words)
}
"""Offsets of what means nothing before a start."""


class BoardMachine:
    """The machine of ``product`` behind ``link``, a
    :class:`diastole_sim.host.running.RunningMachine`. It is reset, so it is as new.

    Its memory counts as all zeros at first, and is made so where commands may read. Writes outside
    of what is allowed are not seen: :meth:`traffic` is empty. Cycles are those of the board's
    clock, by the host's watch. ``sleep``: of so many seconds.

    WrongBoard if what answers is no board of ours, or has another machine on it. LinkLost from
    everything, when no answer comes any more.
    """

    patience = 1
    memory_model = Memory.axi()
    """Nothing is known of a board's."""

    def __init__(
        self, product: Product, link: Link, *, sleep: Callable[[float], object] = time.sleep
    ):
        self.product, self.link = product, link
        self._sleep = sleep
        identity = link.identify()
        self.memory_base, self.memory_bytes = identity["memory_base"], identity["memory_bytes"]
        self.clock_hz = identity["clock_hz"]
        self._registers: dict[int, int] = {}  # what the host has written, by offset
        self._pending: dict[int, int] = {}  # settings, by offset, that the machine has not yet
        self._seen: dict[int, int] = {}  # registers that only the host changes now
        self._require_product()
        self.run_seconds, self.run_cycles = 0.0, 0
        self._began = time.monotonic()
        self._memory = np.zeros(self.memory_bytes, np.uint8)
        words = self.memory_bytes // WORD_BYTES
        self._sent = np.zeros(words, np.uint32)  # what is there, but for the two below
        self._unknown = np.ones(words, np.bool_)
        self._stale = np.zeros(words, np.bool_)  # a command may have written it
        self._allowed: tuple[AddressRange, ...] = ()
        self._reset()

    def _require_product(self) -> None:
        found = {name: self.read(BY_NAME[name].offset) for name in ("magic", "config_hash")}
        name = self.link.line.name
        wanted = int(self.product.manifest["config_sha256"][:8], 16)
        if found["magic"] != MAGIC:
            raise WrongBoard(
                f"{name}: there is no machine of ours on the board: {found['magic']:#x}"
            )
        if found["config_hash"] != wanted:
            raise WrongBoard(
                f"{name}: the board has a machine of another configuration, "
                f"{found['config_hash']:08x}; that of {self.product.name} is {wanted:08x}"
            )

    def _reset(self) -> None:
        """What a host before has left: stopped and forgotten, settings apart."""
        control = BY_NAME["control"]
        self.write(control.offset, 1 << control.bit("reset") | 1 << control.bit("clear"))
        self._wait(PATIENCE, "still busy after a reset")

    def close(self) -> None:
        """Give the port back."""
        self.link.line.close()

    # Memory.

    @property
    def _words(self) -> NDArray[np.uint32]:
        return self._memory.view("<u4")

    def bytes_at(self, address: int, count: int) -> NDArray[np.uint8]:
        """A view of ``count`` bytes of memory, as they are; IndexError if it is not all there."""
        start = address - self.memory_base
        if start < 0 or start + count > self.memory_bytes:
            raise IndexError(f"{count} bytes at {address:#x} are not in the machine's memory")
        self._fetch(start // WORD_BYTES, -(-(start + count) // WORD_BYTES))
        return self._memory[start : start + count]

    def allow_writes(self, *ranges: AddressRange) -> None:
        """Where the next commands may write; without a range, everywhere."""
        self._allowed = ranges

    def traffic(self, *, clear: bool = False) -> Traffic:
        """Nothing: a board does not tell."""
        return Traffic()

    def _fetch(self, first: int, end: int) -> None:
        """Look at what commands have written of some words."""
        for start, stop in _runs(self._stale[first:end]):
            at, count = self._address(first + start), WORD_BYTES * (stop - start)
            there = np.frombuffer(self.link.read_memory(at, count), "<u4")
            self._words[first + start : first + stop] = there
            self._sent[first + start : first + stop] = there
            self._stale[first + start : first + stop] = False
            self._unknown[first + start : first + stop] = False

    def _upload(self) -> None:
        """Make memory what the host has made of it."""
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
        """What the host has written to it."""
        register = BY_NAME[name]
        words = (self._registers.get(register.offset + 4 * n, 0) for n in range(register.words))
        return sum(word << 32 * n for n, word in enumerate(words))

    def _address(self, word: int) -> int:
        return self.memory_base + WORD_BYTES * word

    # Registers and clock.

    def read(self, address: int) -> int:
        """Read a register."""
        if address in self._seen:
            return self._seen[address]
        self._set()
        try:
            return self.link.read_registers(address, 1)[0]
        except RefusedError as error:
            raise ProtocolError(f"a read of register {address:#x}: {error}") from error

    def write(self, address: int, value: int) -> None:
        """Write a register; memory goes before a start, and settings when they count."""
        self._registers[address] = value
        self._seen.pop(address, None)
        if address in _SETTINGS:
            self._pending[address] = value
            return
        self._set()
        control = BY_NAME["control"]
        starts = address == control.offset and value >> control.bit("start") & 1
        if starts:
            self._upload()
        if address == control.offset:
            self._seen.clear()
        self._write(address, [value])
        if starts:
            self._may_have_written()

    def _write(self, address: int, words: list[int]) -> None:
        try:
            self.link.write_registers(address, words)
        except RefusedError as error:
            raise ProtocolError(f"a write of register {address:#x}: {error}") from error

    def _set(self) -> None:
        """The settings that wait, neighbours together."""
        pending, self._pending = self._pending, {}
        while pending:
            first = end = min(pending)
            words: list[int] = []
            while end in pending:
                words.append(pending.pop(end))
                end += WORD_BYTES
            self._write(first, words)

    def _may_have_written(self) -> None:
        base = self.memory_base
        for first, end in self._allowed or ((base, base + self.memory_bytes),):
            start, stop = first - base, end - base
            self._stale[start // WORD_BYTES : -(-stop // WORD_BYTES)] = True

    @property
    def cycle(self) -> int:
        """Cycles since the host came."""
        return int((time.monotonic() - self._began) * self.clock_hz)

    @property
    def cycles_per_second(self) -> float:
        """Of commands so far, by the machine's counter and the host's watch."""
        return self.run_cycles / self.run_seconds if self.run_seconds else 0.0

    def run(self, limit: int | None = None) -> int:
        """Wait until the machine is done; the cycles that took. HardwareHang long after ``limit``
        cycles."""
        began = time.monotonic()
        seconds = None if limit is None else limit / self.clock_hz + PATIENCE
        self._wait(seconds, f"no end after {limit} cycles")
        for offset, count in _SEEN_AT_ONCE:
            words = self.link.read_registers(offset, count)
            self._seen |= {offset + 4 * n: word for n, word in enumerate(words)}
        total = BY_NAME["cycles_total"].offset
        cycles = self._seen[total] | self._seen[total + 4] << 32
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
        """Let so many cycles pass."""
        self._sleep(cycles / self.clock_hz)


def _runs(chosen: Words, *, gap: int = 1, without: Words | None = None) -> list[tuple[int, int]]:
    """(first, one past the last) of stretches of chosen words; those that are less than ``gap``
    apart are one, unless something between them is ``without``."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], chosen.astype(np.int8), [0]))))
    found: list[tuple[int, int]] = []
    for start, stop in edges.reshape(-1, 2).tolist():
        before = found[-1] if found else None
        near = before is not None and start - before[1] < gap
        if (
            before is not None
            and near
            and not (without is not None and without[before[1] : start].any())
        ):
            found[-1] = before[0], stop
        else:
            found.append((start, stop))
    return found
