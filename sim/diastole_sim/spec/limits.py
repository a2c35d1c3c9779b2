"""What a machine accepts, as far as its commands go."""

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

INSTRUCTIONS = 256
"""That the vector unit holds, of all its programs."""
SCALE_SLOTS = 255
"""That the vector unit holds; each has :func:`slot_words` entries of the table ``AMAX``."""
MOST_ENTRIES = 2**24
"""Of any table, a panel's vectors, in any machine."""


class VectorTable(IntEnum):
    """Of the vector unit: what ``load`` fills and ``store`` reads, the field ``which``."""

    INSTRUCTIONS = 0
    CONSTANTS = 1
    AMAX = 2
    PANEL = 3
    DESCRIPTORS = 4
    EPS = 5
    WIDTHS = 6


EPS_BITS = 18
"""Of an entry of ``EPS``: the threshold of a slot's next decision, in units of 2^-16."""
WIDTH_BITS = 2
"""Of an entry of ``WIDTHS``: planes less 1, from bit 0 on of the slot's last tensor, which products
read, and of its next, which conversions do."""
CHOSEN_PLANES = (1, 2)
"""How many planes a tensor can have whose width is decided."""
COUNTED_BITS = {VectorTable.EPS: EPS_BITS, VectorTable.WIDTHS: WIDTH_BITS}
"""Of the words of some tables, from bit 0 on; the others of a word do not count, and are stored as
zeros."""
OF_CHOICES = tuple(COUNTED_BITS)
"""Tables of machines that decide widths."""
STORED = (VectorTable.CONSTANTS, VectorTable.AMAX, VectorTable.PANEL, VectorTable.WIDTHS)
"""Those that ``store`` reads."""


def vector_tables(*, choices: bool) -> tuple[VectorTable, ...]:
    """Those of a machine with a vector unit; ``choices``: that decides widths."""
    return tuple(each for each in VectorTable if choices or each not in OF_CHOICES)


class SlotWord(IntEnum):
    """Entries of a scale slot in the table ``AMAX`` of a machine with tensor scales, in order.

    ``LARGEST``: the largest magnitude of all conversions with this slot in the step ``STEP``, as
    binary32 without a sign. ``BEFORE`` and those behind it: the same of the steps before that had
    such a conversion, the latest first, as many as ``Numerics.history`` says; 0 where there was
    none. Bit 31 of a magnitude does not count, and Inf and NaN, which only a program puts there,
    count as the largest finite magnitude.
    """

    LARGEST = 0
    STEP = 1
    BEFORE = 2


def slot_words(numerics: Numerics) -> int:
    """Entries of a scale slot in the table ``AMAX``. Where no class has a tensor scale there is
    one, the largest magnitude of the slot's last conversion."""
    return SlotWord.BEFORE + numerics.history if numerics.has_tensor_scales else 1


def entry_words(table: VectorTable, block: int) -> int:
    """Words of 32 bits of an entry, side by side in memory; B is ``block``."""
    words = {
        VectorTable.INSTRUCTIONS: 2,
        VectorTable.PANEL: block,
        VectorTable.DESCRIPTORS: DESCRIPTOR_WORDS,
    }
    return words.get(table, 1)


@dataclass(frozen=True, kw_only=True)
class VectorLimits:
    """Of a vector unit. ``panel_vectors``: of its panel, B numbers each. ``fed``: by class, columns
    of the widest tensor that a chain may give the converter by whole rows, 0 for none. ``drains``:
    it takes the results of products. ``patches``: in which these may be converted, where their
    tiles do not hold whole rows; None: in none. ValueError if one is out of range."""

    panel_vectors: int
    fed: tuple[int, int, int] = (MAX_SIZE, MAX_SIZE, MAX_SIZE)
    drains: bool = True
    patches: PatchLimits | None = None

    def __post_init__(self) -> None:
        require_int("panel_vectors", self.panel_vectors, 2, MOST_ENTRIES)
        for name, columns in zip(CLASS_NAMES, self.fed, strict=True):
            require_int(f"fed columns of class {name}", columns, 0, MAX_SIZE)

    def to_dict(self) -> dict[str, Any]:
        """As a manifest has them."""
        patches = self.patches and self.patches.to_dict()
        return vars(self) | {"fed": list(self.fed), "patches": patches}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "VectorLimits":
        """The inverse of :meth:`to_dict`; what else is there does not count."""
        x, w, dy = values["fed"]
        patches = values["patches"]
        return cls(
            panel_vectors=values["panel_vectors"],
            fed=(x, w, dy),
            drains=values["drains"],
            patches=patches and PatchLimits.from_dict(patches),
        )


def planes_by_class(numerics: Numerics) -> tuple[tuple[int, ...], ...] | None:
    """In how many planes tensors may be stored; None where no class has the format ``fast``."""
    if not numerics.chooses_widths:
        return None
    return tuple(map(numerics.planes_of, CLASS_NAMES))


def decided_classes(
    planes: Sequence[tuple[int, ...]] | None,
) -> tuple[bool, bool, bool]:
    """By class, whether there are tensors of all :data:`CHOSEN_PLANES`."""
    x, w, dy = (set(CHOSEN_PLANES) <= set(each) for each in planes or ((), (), ()))
    return x, w, dy


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a machine accepts. ``block`` B and ``headroom`` G; ``data_width`` of its bus, bits.

    ``max_size``: largest M, N, K, rows; ``max_convert_cols``: most columns of a tensor to convert.
    ``nests``: the lengths of loops that a product takes; none but 0 where it is left out.
    ``planes``: of a machine with the format ``fast``, by class, in how many a tensor may be stored
    (:meth:`Numerics.planes_of`). ``vector``: of a machine with a vector unit. ``slot_words``: as
    :func:`slot_words`.
    ValueError if one is out of range.
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
        """Those of a generated machine; ``vector``: of its vector unit, if it has one."""
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
        """Whether any class has the format ``fast``."""
        return self.planes is not None

    @property
    def choices(self) -> tuple[bool, bool, bool]:
        """By class, whether the machine decides widths: it has a vector unit, and there are tensors
        of one plane and of two."""
        return decided_classes(self.planes if self.has_vector else None)

    @property
    def has_choices(self) -> bool:
        """Whether it decides any."""
        return any(self.choices)

    @property
    def has_vector(self) -> bool:
        """Whether there is a vector unit."""
        return self.vector is not None

    def entries(self, opcode: Opcode, which: int) -> int:
        """How many entries a table has that ``load`` or ``store`` names; 0: none that it may."""
        if self.vector is None or which not in (
            STORED if opcode == Opcode.STORE else tuple(VectorTable)
        ):
            return 0
        return {
            VectorTable.INSTRUCTIONS: INSTRUCTIONS,
            VectorTable.CONSTANTS: CONSTANTS,
            VectorTable.AMAX: SCALE_SLOTS * self.slot_words,
            VectorTable.PANEL: self.vector.panel_vectors,
            VectorTable.DESCRIPTORS: SLOTS,
            **dict.fromkeys(OF_CHOICES, SCALE_SLOTS if self.has_choices else 0),
        }[VectorTable(which)]
