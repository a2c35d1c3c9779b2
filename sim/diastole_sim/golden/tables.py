"""Model the tables of the golden machine's vector unit, with their layout in memory."""

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
"""Mask of the bits of a binary32 number below the sign."""


class Tables:
    """Tables of the vector unit, filled with zeros at first.

    - ``block``: B.
    - ``panel``: (vectors, B).
    - ``amax``: (slots, slot_words), the words of :class:`diastole_sim.spec.limits.SlotWord`.
    - ``eps``: threshold of the decisions of every slot.
    - ``widths``: widths of every slot, in the format of
      :data:`diastole_sim.spec.limits.WIDTH_BITS`.
    - ``edition``: number that changes whenever instructions or streams are loaded.
    """

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

    def entry_bytes(self, table: int) -> int:
        """Return the bytes of an entry in memory."""
        return 4 * entry_words(VectorTable(table), self.block)

    def load(self, table: int, first: int, data: Bytes) -> None:
        """Fill entries from ``first`` on. ``data``: whole entries, side by side."""
        raw = data.tobytes()
        count = len(raw) // self.entry_bytes(table)
        place = slice(first, first + count)
        if table == VectorTable.INSTRUCTIONS:
            words = np.frombuffer(raw, "<u8").tolist()
            self.instructions[place] = map(Instruction.decode, words)
            self.edition += 1
        elif table == VectorTable.DESCRIPTORS:
            starts = range(0, len(raw), DESCRIPTOR_BYTES)
            self.descriptors[place] = [
                Descriptor.decode(raw[start : start + DESCRIPTOR_BYTES]) for start in starts
            ]
            self.edition += 1
        else:
            numbers: NDArray[Any] = self._numbers(table)
            numbers[place] = np.frombuffer(raw, numbers.dtype).reshape(numbers[place].shape)
            if table in COUNTED_BITS:
                numbers &= (1 << COUNTED_BITS[VectorTable(table)]) - 1

    def store(self, table: int, first: int, count: int) -> Bytes:
        """Return the bytes of entries of a table of numbers."""
        return self._numbers(table)[first : first + count].copy().view(np.uint8).reshape(-1)

    def bytes_of(self, table: VectorTable, first: int, count: int) -> Bytes:
        """Return the bytes of entries as :meth:`store` does, of any table."""
        if table == VectorTable.INSTRUCTIONS:
            words = [each.encode() for each in self.instructions[first : first + count]]
            return np.array(words, dtype="<u8").view(np.uint8)
        if table == VectorTable.DESCRIPTORS:
            each = b"".join(
                descriptor.encode() for descriptor in self.descriptors[first : first + count]
            )
            return np.frombuffer(each, np.uint8)
        return self.store(table, first, count)

    def magnitudes_before(self, slot: int, step: int) -> list[int]:
        """Begin a conversion with a slot on a machine with tensor scales. Return the largest
        magnitudes of earlier steps, the latest first. ``step``: step of the conversion. If the
        slot's last conversion was in another step, that step is closed."""
        words = self.amax[slot]
        if words[SlotWord.STEP] != step:
            words[SlotWord.BEFORE + 1 :] = words[SlotWord.BEFORE : -1].copy()
            words[SlotWord.BEFORE] = words[SlotWord.LARGEST]
            words[SlotWord.LARGEST], words[SlotWord.STEP] = 0, step
        return (words[SlotWord.BEFORE :] & MAGNITUDE).tolist()

    def note_magnitude(self, slot: int, amax: int) -> None:
        """End a conversion with a slot. ``amax``: largest magnitude of the tensor."""
        words = self.amax[slot]
        before = int(words[SlotWord.LARGEST] & MAGNITUDE) if len(words) > 1 else 0
        words[SlotWord.LARGEST] = max(before, amax)

    def last_planes(self, slot: int) -> int:
        """Return the planes of the slot's last tensor, less 1."""
        return int(self.widths[slot]) & 1

    def next_planes(self, slot: int) -> int:
        """Return the planes of the slot's next tensor, less 1."""
        return int(self.widths[slot]) >> 1

    def update_widths(self, slot: int, *, by_slot: bool, improvement: Improvement | None) -> None:
        """Update the widths of a slot after a conversion. With ``by_slot`` the converted tensor had
        the planes that the slot held for its next tensor. A result of the monitor (``improvement``)
        decides the planes of the tensor after it."""
        last = self.next_planes(slot) if by_slot else self.last_planes(slot)
        following = self.next_planes(slot)
        if improvement is not None:
            following = int(improvement.exceeds(int(self.eps[slot])))
        self.widths[slot] = last | following << 1

    def _numbers(self, table: int) -> NDArray[Any]:
        return {
            VectorTable.CONSTANTS: self.constants,
            VectorTable.AMAX: self.amax.reshape(-1),
            VectorTable.PANEL: self.panel,
            VectorTable.EPS: self.eps,
            VectorTable.WIDTHS: self.widths,
        }[VectorTable(table)]
