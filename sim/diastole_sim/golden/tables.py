"""The tables of the golden machine's vector unit, and how they lie in memory."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from diastole_sim.golden.improvement import Improvement
from diastole_sim.golden.memory import Bytes
from diastole_sim.spec.limits import (
    COUNTED_BITS,
    INSTRUCTIONS,
    SCALE_SLOTS,
    SlotWord,
    VectorTable,
    entry_words,
)
from diastole_sim.spec.micro import CONSTANTS, Instruction
from diastole_sim.spec.stream_table import DESCRIPTOR_BYTES, SLOTS, Descriptor

Floats = NDArray[np.float32]

MAGNITUDE = 0x7FFF_FFFF
"""Bits of a binary32 that are no sign."""


class Tables:
    """Zeros at first. ``block``: B. ``panel``: (vectors, B). ``amax``: (slots, slot_words), the
    words of :class:`diastole_sim.spec.limits.SlotWord`. ``eps``: by slot, the threshold of its
    decisions. ``widths``: by slot, as :data:`diastole_sim.spec.limits.WIDTH_BITS` has them.
    ``edition``: another number whenever instructions or streams have been loaded."""

    def __init__(self, *, block: int, panel_vectors: int, slot_words: int = 1):
        self.block = block
        self.constants: Floats = np.zeros(CONSTANTS, dtype=np.float32)
        self.amax = np.zeros((SCALE_SLOTS, slot_words), dtype=np.uint32)
        self.eps = np.zeros(SCALE_SLOTS, dtype=np.uint32)
        self.widths = np.zeros(SCALE_SLOTS, dtype=np.uint32)
        self.panel: Floats = np.zeros((panel_vectors, block), dtype=np.float32)
        self.instructions = [Instruction.decode(0)] * INSTRUCTIONS
        self.descriptors = [Descriptor()] * SLOTS
        self.edition = 0

    def entry_bytes(self, which: int) -> int:
        """Of an entry in memory."""
        return 4 * entry_words(VectorTable(which), self.block)

    def load(self, which: int, first: int, data: Bytes) -> None:
        """Fill entries from ``first`` on; ``data``: side by side, whole entries."""
        raw = data.tobytes()
        count = len(raw) // self.entry_bytes(which)
        place = slice(first, first + count)
        if which == VectorTable.INSTRUCTIONS:
            words = np.frombuffer(raw, "<u8").tolist()
            self.instructions[place] = map(Instruction.decode, words)
            self.edition += 1
        elif which == VectorTable.DESCRIPTORS:
            starts = range(0, len(raw), DESCRIPTOR_BYTES)
            self.descriptors[place] = [
                Descriptor.decode(raw[start : start + DESCRIPTOR_BYTES]) for start in starts
            ]
            self.edition += 1
        else:
            numbers: NDArray[Any] = self._numbers(which)
            numbers[place] = np.frombuffer(raw, numbers.dtype).reshape(numbers[place].shape)
            if which in COUNTED_BITS:
                numbers &= (1 << COUNTED_BITS[VectorTable(which)]) - 1

    def store(self, which: int, first: int, count: int) -> Bytes:
        """The bytes of entries of a table of numbers."""
        return self._numbers(which)[first : first + count].copy().view(np.uint8).reshape(-1)

    def bytes_of(self, which: VectorTable, first: int, count: int) -> Bytes:
        """As :meth:`store`, of any table."""
        if which == VectorTable.INSTRUCTIONS:
            words = [each.encode() for each in self.instructions[first : first + count]]
            return np.array(words, dtype="<u8").view(np.uint8)
        if which == VectorTable.DESCRIPTORS:
            each = b"".join(it.encode() for it in self.descriptors[first : first + count])
            return np.frombuffer(each, np.uint8)
        return self.store(which, first, count)

    def magnitudes_before(self, slot: int, step: int) -> list[int]:
        """Begin a conversion with a slot of a machine with tensor scales: the largest magnitudes of
        the steps before, the latest first. ``step``: of the conversion; another one than that of
        the slot's last conversion closes the step of the latter."""
        words = self.amax[slot]
        if words[SlotWord.STEP] != step:
            words[SlotWord.BEFORE + 1 :] = words[SlotWord.BEFORE : -1].copy()
            words[SlotWord.BEFORE] = words[SlotWord.LARGEST]
            words[SlotWord.LARGEST], words[SlotWord.STEP] = 0, step
        return (words[SlotWord.BEFORE :] & MAGNITUDE).tolist()

    def note_magnitude(self, slot: int, amax: int) -> None:
        """End a conversion with a slot, of a tensor whose largest magnitude is ``amax``."""
        words = self.amax[slot]
        before = int(words[SlotWord.LARGEST] & MAGNITUDE) if len(words) > 1 else 0
        words[SlotWord.LARGEST] = max(before, amax)

    def last(self, slot: int) -> int:
        """Planes less 1 of the slot's last tensor."""
        return int(self.widths[slot]) & 1

    def next(self, slot: int) -> int:
        """Those of its next."""
        return int(self.widths[slot]) >> 1

    def turn(self, slot: int, *, by_slot: bool, seen: Improvement | None) -> None:
        """A tensor has been converted: with the planes that the slot said for its next, if
        ``by_slot``; if the monitor has ``seen`` something, it decides those of the next one."""
        last = self.next(slot) if by_slot else self.last(slot)
        following = self.next(slot)
        if seen is not None:
            following = int(seen.exceeds(int(self.eps[slot])))
        self.widths[slot] = last | following << 1

    def _numbers(self, which: int) -> NDArray[Any]:
        return {
            VectorTable.CONSTANTS: self.constants,
            VectorTable.AMAX: self.amax.reshape(-1),
            VectorTable.PANEL: self.panel,
            VectorTable.EPS: self.eps,
            VectorTable.WIDTHS: self.widths,
        }[VectorTable(which)]
