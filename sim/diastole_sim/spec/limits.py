"""Limits of the commands that a machine accepts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from diastole_sim.spec.command_table import Opcode
from diastole_sim.spec.image import DATA_WIDTHS, MAX_CONVERT_BLOCKS, MAX_SIZE
from diastole_sim.spec.micro import CONSTANTS
from diastole_sim.spec.nest import ProductNests
from diastole_sim.spec.numerics import BLOCK_SIDES, CLASS_NAMES, Numerics
from diastole_sim.spec.patches import PatchLimits
from diastole_sim.spec.require import require_choice, require_int
from diastole_sim.spec.stream_table import DESCRIPTOR_WORDS, SLOTS

MAX_STEPS = 1_000_000
"""Most steps of a training run."""
INSTRUCTIONS = 256
"""Most instructions of all programs in a vector unit."""
SCALE_SLOTS = 255
"""Scale slots of a vector unit. A slot has :func:`slot_words` entries of the table ``AMAX``."""
MAX_ENTRIES = 2**24
"""Most entries of any table, or vectors of a panel, in any machine."""


class VectorTable(IntEnum):
    """Tables of the vector unit for ``load`` and ``store``: values of the field ``which``."""

    INSTRUCTIONS = 0
    CONSTANTS = 1
    AMAX = 2
    PANEL = 3
    DESCRIPTORS = 4
    EPS = 5
    WIDTHS = 6


EPS_BITS = 18
"""Bits of an entry of ``EPS``: the threshold of a slot's next decision, in units of 2^-16."""
WIDTH_BITS = 2
"""Bits of an entry of ``WIDTHS``, planes less 1. Bit 0 belongs to the slot's last tensor, which
products read, and bit 1 to the slot's next tensor, which a conversion makes."""
PLANE_CHOICES = (1, 2)
"""Possible numbers of planes of a tensor if the machine decides the width."""
COUNTED_BITS = {VectorTable.EPS: EPS_BITS, VectorTable.WIDTHS: WIDTH_BITS}
"""Used bits, from bit 0 on, of the words of some tables. All higher bits are ignored and stored as
zeros."""
WIDTH_TABLES = tuple(COUNTED_BITS)
"""Tables of machines that decide widths."""
STORABLE_TABLES = (VectorTable.CONSTANTS, VectorTable.AMAX, VectorTable.PANEL, VectorTable.WIDTHS)
"""Tables for ``store``."""


def vector_tables(*, choices: bool) -> tuple[VectorTable, ...]:
    """Return the tables of a machine with a vector unit. ``choices``: the machine decides
    widths."""
    return tuple(each for each in VectorTable if choices or each not in WIDTH_TABLES)


class SlotWord(IntEnum):
    """Entries of a scale slot in the table ``AMAX`` of a machine with tensor scales, in order.

    ``LARGEST``: the largest magnitude of all conversions with this slot in the step ``STEP``, as
    binary32 without a sign. ``BEFORE`` and the entries behind it: the largest magnitudes in earlier
    steps with a conversion of the slot, the latest first, as many as ``Numerics.history`` says; 0
    for a missing step. Bit 31 of a magnitude does not count. Inf and NaN, put there only by a
    program, count as the largest finite magnitude.
    """

    LARGEST = 0
    STEP = 1
    BEFORE = 2


def slot_words(numerics: Numerics) -> int:
    """Return the number of entries of a scale slot in the table ``AMAX``. If no class has a tensor
    scale, a slot has one entry: the largest magnitude of the slot's last conversion."""
    return SlotWord.BEFORE + numerics.history if numerics.has_tensor_scales else 1


def entry_words(table: VectorTable, block: int) -> int:
    """Return the words of 32 bits of an entry, side by side in memory; B is ``block``."""
    words = {
        VectorTable.INSTRUCTIONS: 2,
        VectorTable.PANEL: block,
        VectorTable.DESCRIPTORS: DESCRIPTOR_WORDS,
    }
    return words.get(table, 1)


@dataclass(frozen=True, kw_only=True)
class VectorLimits:
    """Limits of a vector unit.

    ``panel_vectors``: vectors of the panel, B numbers each. ``fed``: for every class, columns of
    the widest tensor that a chain may give the converter by whole rows, 0 for none. ``drains``: the
    unit takes results of products. ``patches``: limits of patches in which results may be converted
    if tiles of the product do not hold whole rows; None if the converter takes no patches.
    ``draws``: chains may read random numbers. ValueError if a number is out of range.
    """

    panel_vectors: int
    fed: tuple[int, int, int] = (MAX_SIZE, MAX_SIZE, MAX_SIZE)
    drains: bool = True
    patches: PatchLimits | None = None
    draws: bool = False

    def __post_init__(self) -> None:
        require_int("panel_vectors", self.panel_vectors, 2, MAX_ENTRIES)
        for name, columns in zip(CLASS_NAMES, self.fed, strict=True):
            require_int(f"fed columns of class {name}", columns, 0, MAX_SIZE)

    def to_dict(self) -> dict[str, Any]:
        """Return the limits as plain values for a manifest."""
        patches = self.patches and self.patches.to_dict()
        return vars(self) | {"fed": list(self.fed), "patches": patches}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "VectorLimits":
        """Return the limits written by :meth:`to_dict`. Unknown keys are ignored."""
        x, w, dy = values["fed"]
        patches = values["patches"]
        return cls(
            panel_vectors=values["panel_vectors"],
            fed=(x, w, dy),
            drains=values["drains"],
            patches=patches and PatchLimits.from_dict(patches),
            draws=values["draws"],
        )


def planes_by_class(numerics: Numerics) -> tuple[tuple[int, ...], ...] | None:
    """Return for every class the numbers of planes in which tensors may be stored; None if no class
    has the format ``fast``."""
    if not numerics.chooses_widths:
        return None
    return tuple(map(numerics.planes_of, CLASS_NAMES))


def decided_classes(
    planes: Sequence[tuple[int, ...]] | None,
) -> tuple[bool, bool, bool]:
    """Return for every class whether tensors may have each number of :data:`PLANE_CHOICES`."""
    x, w, dy = (set(PLANE_CHOICES) <= set(each) for each in planes or ((), (), ()))
    return x, w, dy


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of a machine's commands. ``block`` is B and ``headroom`` is G; ``data_width`` is the
    width of the bus in bits.

    ``max_size``: largest M, N, K, rows. ``max_convert_cols``: most columns of a tensor to convert.
    ``nests``: accepted lengths of a product's loops; only 0 is accepted if ``nests`` is left out.
    ``planes``: for every class of a machine with the format ``fast``, numbers of planes in which a
    tensor may be stored (:meth:`Numerics.planes_of`). ``vector``: limits of the vector unit, if
    present. ``slot_words``: result of :func:`slot_words`. ValueError if a number is out of range.
    """

    block: int
    headroom: int
    data_width: int
    max_size: int = MAX_SIZE
    max_convert_cols: int = MAX_SIZE
    nests: ProductNests | None = None
    planes: tuple[tuple[int, ...], ...] | None = None
    vector: VectorLimits | None = None
    slot_words: int = 1

    def __post_init__(self) -> None:
        require_choice("block", self.block, BLOCK_SIDES)
        require_int("headroom", self.headroom, 1, 16)
        require_choice("data_width", self.data_width, DATA_WIDTHS)
        require_int("max_size", self.max_size, 1, MAX_SIZE)
        require_int("max_convert_cols", self.max_convert_cols, 1, MAX_SIZE)

    @classmethod
    def of(
        cls,
        numerics: Numerics,
        *,
        data_width: int,
        nests: ProductNests | None = None,
        vector: VectorLimits | None = None,
    ) -> "Limits":
        """Return the limits of a generated machine. ``vector``: limits of the vector unit, if
        present."""
        return cls(
            block=numerics.block,
            headroom=numerics.headroom,
            data_width=data_width,
            max_convert_cols=min(MAX_SIZE, MAX_CONVERT_BLOCKS * numerics.block),
            nests=nests,
            planes=planes_by_class(numerics),
            vector=vector,
            slot_words=slot_words(numerics),
        )

    @property
    def has_planes(self) -> bool:
        """True if any class has the format ``fast``."""
        return self.planes is not None

    @property
    def choices(self) -> tuple[bool, bool, bool]:
        """True for every class whose widths the machine decides: the machine has a vector unit, and
        tensors of the class have one plane or two."""
        return decided_classes(self.planes if self.has_vector else None)

    @property
    def has_choices(self) -> bool:
        """True if the machine decides the widths of any class."""
        return any(self.choices)

    @property
    def has_vector(self) -> bool:
        """True if the machine has a vector unit."""
        return self.vector is not None

    def entries(self, opcode: Opcode, table: int) -> int:
        """Return the number of entries of a table for ``load`` or ``store``; 0 if the command may
        not use the table."""
        if self.vector is None or table not in (
            STORABLE_TABLES if opcode == Opcode.STORE else tuple(VectorTable)
        ):
            return 0
        return {
            VectorTable.INSTRUCTIONS: INSTRUCTIONS,
            VectorTable.CONSTANTS: CONSTANTS,
            VectorTable.AMAX: SCALE_SLOTS * self.slot_words,
            VectorTable.PANEL: self.vector.panel_vectors,
            VectorTable.DESCRIPTORS: SLOTS,
            **dict.fromkeys(WIDTH_TABLES, SCALE_SLOTS if self.has_choices else 0),
        }[VectorTable(table)]
