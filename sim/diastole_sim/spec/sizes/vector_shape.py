"""Sizes of the vector unit."""

from dataclasses import dataclass

from diastole_sim.spec.image import DATA_WIDTHS, MAX_SIZE
from diastole_sim.spec.integers import log2
from diastole_sim.spec.limits import SCALE_SLOTS
from diastole_sim.spec.numerics import BLOCK_SIDES
from diastole_sim.spec.require import require_choice, require_int

PIPELINE = 8
"""Most cycles from the read of a row to its write. An instruction takes at least as many cycles."""
MAX_VECTORS = 2**17
"""Most vectors of a panel."""
WORD = 32
"""Bits of a number."""


@dataclass(frozen=True, kw_only=True)
class VectorShape:
    """Sizes of a vector unit.

    ``block``: B, lanes and rows of a block. ``data_width``: D, bits of a beat. ``specials``:
    special lanes, 1 to B. ``panel_vectors``: vectors of the panel, a power of two, B numbers each.
    ``choices``: for every class, whether the machine decides the widths of tensors. ``slot_words``:
    words of a scale slot, the result of :func:`diastole_sim.spec.limits.slot_words`. ``draws``:
    chains may read random numbers. ValueError if a number is out of range.
    """

    block: int
    data_width: int
    specials: int
    panel_vectors: int
    choices: tuple[bool, bool, bool] = (False, False, False)
    slot_words: int = 1
    draws: bool = False

    def __post_init__(self) -> None:
        require_choice("block", self.block, BLOCK_SIDES)
        require_choice("data_width", self.data_width, DATA_WIDTHS)
        require_choice("specials", self.specials, [1 << k for k in range(self.row_bits + 1)])
        require_int("panel_vectors", self.panel_vectors, 2, MAX_VECTORS)
        log2(self.panel_vectors)

    @classmethod
    def of(
        cls,
        *,
        block: int,
        data_width: int,
        specials: int | None,
        panel_kib: int,
        choices: tuple[bool, bool, bool] = (False, False, False),
        slot_words: int = 1,
        draws: bool = False,
    ) -> "VectorShape":
        """Return the shape with a panel of ``panel_kib`` KiB. With ``specials`` None, a quarter of
        the lanes are special, at least one."""
        return cls(
            block=block,
            data_width=data_width,
            specials=max(1, block // 4) if specials is None else specials,
            panel_vectors=1024 * panel_kib // (WORD // 8 * block),
            choices=choices,
            slot_words=slot_words,
            draws=draws,
        )

    @property
    def has_choices(self) -> bool:
        """True if the machine decides the widths of any class."""
        return any(self.choices)

    @property
    def slot_entries(self) -> int:
        """Entries of all scale slots in the table ``AMAX``."""
        return SCALE_SLOTS * self.slot_words

    @property
    def row_bits(self) -> int:
        """log2 B."""
        return log2(self.block)

    @property
    def slot_cycles(self) -> int:
        """Cycles of an instruction."""
        return max(self.block, PIPELINE)

    @property
    def vector_bits(self) -> int:
        """Bits of a row of a block."""
        return WORD * self.block

    @property
    def beat_bytes(self) -> int:
        return self.data_width // 8

    @property
    def index_bits(self) -> int:
        """Bits of the number of a block in a row, or a column, of blocks."""
        return (MAX_SIZE // self.block).bit_length()

    @property
    def panel_bits(self) -> int:
        """Bits of the number of a vector in the panel."""
        return log2(self.panel_vectors)
