"""Input and output streams of a chain's program, in a table of descriptors of 16 bytes.

A chain has up to four input streams, slots S to S + 3 of the table, and four output streams, slots
S + 4 to S + 7. The table of fields is the only description of the bits. If a stream breaks a rule
of :func:`stream_problems`, the machine refuses the chain before the start (``BAD_STREAM``).

A *block* is B x B elements of the chain's tensor, number (i, j) by row and column of blocks.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from diastole_sim.spec.command_table import ADDRESS_BITS
from diastole_sim.spec.micro import INPUTS, OUTPUTS
from diastole_sim.spec.require import require_int

SLOTS = 128
STREAMS = INPUTS + OUTPUTS
DESCRIPTOR_WORDS = 4
DESCRIPTOR_BYTES = 4 * DESCRIPTOR_WORDS


class Kind(IntEnum):
    """Kinds of stream."""

    NONE = 0
    PRODUCT = 1
    F32 = 2
    BF16 = 3
    U8 = 4
    MASK = 5
    COLUMN = 6
    ROW = 7
    GATHERED_F32 = 8
    GATHERED_U8 = 9
    LABELS = 10
    PANEL = 11
    IMAGE = 12
    CONSTANT = 13
    DRAWS = 14


KIND_MEANINGS = {
    Kind.NONE: "no stream",
    Kind.PRODUCT: "in: result of the product of the chain's command, rounded to binary32",
    Kind.F32: "in, out: rows of a tensor in binary32",
    Kind.BF16: "in, out: rows in bfloat16, rounded to nearest even; NaN 7fc0, subnormals zeros",
    Kind.U8: "in, out: rows of bytes; out: rounded to nearest even, 0 to 255, NaN 0",
    Kind.MASK: "in, out: bit j B^2 + r B + l of a row of blocks; out: 1 if the value is not zero; "
    "in: 1.0 or +0. Rows of blocks begin on a beat, `pitch` bytes apart",
    Kind.COLUMN: "in, out: a float per column, the same in all row slots; out: row slot 0 of the "
    "last block of a line by columns",
    Kind.ROW: "in, out: a float per row, the same in all lanes; out: lane 0 of the last block of a "
    "line by rows",
    Kind.GATHERED_F32: "in: as f32, with rows in the order of a list of row numbers",
    Kind.GATHERED_U8: "in: as u8, with rows in the order of a list of row numbers",
    Kind.LABELS: "in: as row, an int32 as a float; -1 for an int32 outside 0 .. 2^24",
    Kind.PANEL: "in, out: on-chip memory of B-float vectors, read and written in program order",
    Kind.IMAGE: "out: an image, which the converter makes in the format of the class",
    Kind.CONSTANT: "out: row slot 0, lane 0 of the last block of the walk goes to K[address]",
    Kind.DRAWS: "in: a random number for every element: a draw of 16 bits times 2^-16, from 0, "
    "below 1. Machines with `vector.draws` have the kind, for one input of a chain",
}

INPUT_KINDS = (*(kind for kind in Kind if Kind.PRODUCT <= kind <= Kind.PANEL), Kind.DRAWS)
OUTPUT_KINDS = (
    *(Kind.F32, Kind.BF16, Kind.U8, Kind.MASK, Kind.COLUMN, Kind.ROW),
    *(Kind.PANEL, Kind.IMAGE, Kind.CONSTANT),
)
GATHERED = (Kind.GATHERED_F32, Kind.GATHERED_U8)
ROWS = (Kind.F32, Kind.BF16, Kind.U8, Kind.MASK, *GATHERED)
"""Kinds with a pitch in bytes."""
IN_MEMORY = (*ROWS, Kind.COLUMN, Kind.ROW, Kind.LABELS)
"""Kinds whose elements are at an address of memory."""
ROW_BY_ROW = (Kind.F32, Kind.BF16, Kind.U8)
"""Kinds of output that write every row of a block as beats of its own."""
ONCE_A_BLOCK = (*ROW_BY_ROW, Kind.MASK, Kind.IMAGE)
"""Kinds of output with exactly one write in every block."""
ELEMENT_BITS = {
    Kind.F32: 32,
    Kind.BF16: 16,
    Kind.U8: 8,
    Kind.MASK: 1,
    Kind.COLUMN: 32,
    Kind.ROW: 32,
    Kind.GATHERED_F32: 32,
    Kind.GATHERED_U8: 8,
    Kind.LABELS: 32,
}


class PanelOrder(IntEnum):
    """Values of ``aux`` of a panel: the vectors of block (i, j), B vectors for a block."""

    BLOCK = 0
    BLOCK_ROW = 1
    BLOCK_COLUMN = 2
    BLOCK_COLUMN_ZERO_FIRST = 3


PANEL_ORDER_MEANINGS = {
    PanelOrder.BLOCK: "block i * pitch + j",
    PanelOrder.BLOCK_ROW: "block i",
    PanelOrder.BLOCK_COLUMN: "block j",
    PanelOrder.BLOCK_COLUMN_ZERO_FIRST: "block j; input: +0 in the first row of blocks of the walk",
}


@dataclass(frozen=True, kw_only=True)
class StreamField:
    """Field of a descriptor: ``bits`` of the 128 bits, the lowest at bit ``low``."""

    name: str
    low: int
    bits: int
    meaning: str


FIELDS = (
    StreamField(
        name="address",
        low=0,
        bits=40,
        meaning="bytes, a multiple of the beat; panel: first vector; constant: index",
    ),
    StreamField(name="kind", low=40, bits=4, meaning="kind of the stream"),
    StreamField(name="tensor_class", low=44, bits=2, meaning="image: 0 x, 1 w, 2 dy"),
    StreamField(
        name="per_step",
        low=46,
        bits=1,
        meaning="1: the register STEP times `offset` is added to the address",
    ),
    StreamField(
        name="watch", low=47, bits=1, meaning="out: a NaN or Inf sets the step's overflow bit"
    ),
    StreamField(
        name="aux",
        low=48,
        bits=8,
        meaning="image: 1 + number of the scale slot; gathered rows: slot of the list of kind "
        "labels; panel: order of the vectors",
    ),
    StreamField(
        name="by_slot",
        low=62,
        bits=1,
        meaning="image: 1: the scale slot gives the number of planes; 0: all planes",
    ),
    StreamField(
        name="decides",
        low=63,
        bits=1,
        meaning="image: 1: counts of the monitor decide the planes of the slot's next image",
    ),
    StreamField(
        name="pitch",
        low=64,
        bits=32,
        meaning="rows: bytes from row to row; mask: bytes from one row of blocks to the next; "
        "panel: blocks; image, draws: tag",
    ),
    StreamField(
        name="offset",
        low=96,
        bits=32,
        meaning="per step: bytes per step; image of two copies: bytes from first to second copy",
    ),
)
"""Fields of a descriptor. Bits without a field are 0, and so are fields that a kind does not
use."""
CHOICE_FIELDS = ("by_slot", "decides")
"""Fields of machines that decide widths."""
OFFSET_KINDS = (*IN_MEMORY, Kind.IMAGE)
"""Kinds that use ``offset``."""


@dataclass(frozen=True, kw_only=True)
class Descriptor:
    """One stream with the fields of :data:`FIELDS`. ValueError if a value does not fit in its
    field."""

    kind: int = Kind.NONE
    address: int = 0
    tensor_class: int = 0
    per_step: int = 0
    watch: int = 0
    aux: int = 0
    by_slot: int = 0
    decides: int = 0
    pitch: int = 0
    offset: int = 0
    rest: int = 0

    def __post_init__(self) -> None:
        for field in FIELDS:
            require_int(field.name, getattr(self, field.name), 0, 2**field.bits - 1)

    def encode(self) -> bytes:
        """Return the 16 bytes, unchecked."""
        bits = sum(getattr(self, field.name) << field.low for field in FIELDS) | self.rest
        return bits.to_bytes(DESCRIPTOR_BYTES, "little")

    @classmethod
    def decode(cls, data: bytes) -> "Descriptor":
        """Return the descriptor in 16 bytes: the inverse of :meth:`encode`. ``rest`` has the bits
        outside all fields."""
        bits = int.from_bytes(data, "little")
        values = {field.name: bits >> field.low & (1 << field.bits) - 1 for field in FIELDS}
        covered = sum((1 << field.bits) - 1 << field.low for field in FIELDS)
        return cls(**values, rest=bits & ~covered)

    def at_step(self, step: int) -> int:
        """Return the address of the stream in a step, modulo 2^40."""
        return (self.address + self.per_step * step * self.offset) % 2**ADDRESS_BITS


NOTHING = Descriptor()


@dataclass(frozen=True, kw_only=True)
class Walk:
    """Blocks of a chain's tensor, ``rows`` x ``cols`` elements in blocks of side ``block``, row of
    blocks by row of blocks, or ``by_columns``. A *line* is a row of blocks, or with ``by_columns``
    a column."""

    rows: int
    cols: int
    block: int
    by_columns: bool = False

    @property
    def block_rows(self) -> int:
        return -(-self.rows // self.block)

    @property
    def block_cols(self) -> int:
        return -(-self.cols // self.block)


@dataclass(frozen=True, kw_only=True)
class StreamLimits:
    """Limits of a machine: bits of a beat, vectors of the panel, scale slots, constants.

    ``choices``: for every class, whether the machine decides the widths of tensors. ``draws``: the
    machine has streams of random numbers.
    """

    data_width: int
    panel_vectors: int
    scale_slots: int = 255
    constants: int = 256
    choices: tuple[bool, bool, bool] = (False, False, False)
    draws: bool = False

    @property
    def beat_bytes(self) -> int:
        return self.data_width // 8


def panel_vectors(stream: Descriptor, walk: Walk) -> int:
    """Return the number of the first vector behind the vectors used by a stream of kind
    ``panel``."""
    i, j = walk.block_rows - 1, walk.block_cols - 1
    last = {
        PanelOrder.BLOCK: i * stream.pitch + j,
        PanelOrder.BLOCK_ROW: i,
        PanelOrder.BLOCK_COLUMN: j,
        PanelOrder.BLOCK_COLUMN_ZERO_FIRST: j,
    }[PanelOrder(stream.aux)]
    return stream.address + (last + 1) * walk.block


def stream_problems(
    stream: Descriptor,
    walk: Walk,
    limits: StreamLimits,
    *,
    output: bool,
    of_product: bool = False,
    index_list: Descriptor | None = None,
) -> list[str]:
    """Return every broken rule of a stream that an instruction names. ``of_product``: the chain
    stands at the drain of a product. ``index_list``: descriptor that ``aux`` of gathered rows
    names."""
    return list(_faults(stream, walk, limits, output, of_product, index_list))


def _faults(
    stream: Descriptor,
    walk: Walk,
    limits: StreamLimits,
    output: bool,
    of_product: bool,
    index_list: Descriptor | None,
) -> Iterator[str]:
    if stream.kind not in (OUTPUT_KINDS if output else INPUT_KINDS):
        yield f"a stream of kind {stream.kind} cannot be an {'output' if output else 'input'}"
        return
    kind = Kind(stream.kind)
    if kind == Kind.PRODUCT and not of_product:
        yield "only a chain of a product can read a product"
    if kind == Kind.DRAWS and not limits.draws:
        yield "the machine has no streams of random numbers (vector.draws)"
    yield from _unused_fields(stream, kind, output)
    if kind == Kind.PANEL:
        yield from _panel_faults(stream, walk, limits, output)
    if kind == Kind.CONSTANT and stream.address >= limits.constants:
        yield f"there is no constant {stream.address}"
    if kind in OFFSET_KINDS:
        lengths = {"address": stream.address, "offset": stream.offset}
        lengths |= {"pitch": stream.pitch} if kind in ROWS else {}
        for name, value in lengths.items():
            if value % limits.beat_bytes:
                yield f"{name} must be a multiple of a beat, {limits.beat_bytes} bytes, not {value}"
    yield from _order_faults(kind, walk, output, of_product)
    if kind in GATHERED:
        yield from _list_faults(stream, walk, limits, index_list)
    if kind == Kind.IMAGE:
        if stream.tensor_class > 2:
            yield f"there is no class {stream.tensor_class}"
        if stream.aux > limits.scale_slots:
            yield f"there is no scale slot {stream.aux - 1}"
        if stream.by_slot or stream.decides:
            if not (*limits.choices, False)[stream.tensor_class]:
                yield "the machine chooses no widths for the class of the image"
            if not stream.aux:
                yield "no slot gives the width of the image"


def _list_faults(
    stream: Descriptor, walk: Walk, limits: StreamLimits, index_list: Descriptor | None
) -> Iterator[str]:
    """Yield the broken rules of the stream with the list of gathered rows."""
    if stream.aux >= SLOTS or index_list is None or index_list.kind != Kind.LABELS:
        yield "the list of gathered rows is not a stream of labels"
    else:
        for text in _faults(index_list, walk, limits, False, False, None):
            yield f"the list of gathered rows: {text}"


def _unused_fields(stream: Descriptor, kind: Kind, output: bool) -> Iterator[str]:
    """Yield the fields that are not 0 and have no meaning for the kind."""
    used = {
        "address": kind not in (Kind.PRODUCT, Kind.DRAWS),
        "tensor_class": kind == Kind.IMAGE,
        "per_step": kind in IN_MEMORY,
        "watch": output,
        "aux": kind in (Kind.IMAGE, Kind.PANEL, *GATHERED),
        "by_slot": kind == Kind.IMAGE,
        "decides": kind == Kind.IMAGE,
        "pitch": kind in (*ROWS, Kind.IMAGE, Kind.DRAWS)
        or (kind == Kind.PANEL and stream.aux == 0),
        "offset": kind == Kind.IMAGE or stream.per_step == 1,
        "rest": False,
    }
    for name, is_used in used.items():
        if getattr(stream, name) and not is_used:
            yield f"{name} has no meaning in a stream of kind {kind.name.lower()}, and must be 0"


def _panel_faults(
    stream: Descriptor, walk: Walk, limits: StreamLimits, output: bool
) -> Iterator[str]:
    if stream.aux not in tuple(PanelOrder) or (
        output and stream.aux == PanelOrder.BLOCK_COLUMN_ZERO_FIRST
    ):
        yield f"aux {stream.aux} is not an order of vectors of the panel"
    elif panel_vectors(stream, walk) > limits.panel_vectors:
        yield (
            f"the stream needs {panel_vectors(stream, walk)} vectors of the panel, but the "
            f"panel has {limits.panel_vectors}"
        )


def _order_faults(kind: Kind, walk: Walk, output: bool, of_product: bool) -> Iterator[str]:
    """Yield the broken rules about the order of blocks."""
    if not output:
        return
    if kind == Kind.COLUMN and (of_product or not walk.by_columns):
        yield "a vector of columns must be written by a walk by columns"
    if kind == Kind.ROW and walk.by_columns:
        yield "a vector of rows must be written by a walk by rows"
    if kind == Kind.IMAGE and walk.by_columns:
        yield "an image must be written by a walk by rows"
    if kind == Kind.MASK and walk.by_columns and walk.block**2 % 8:
        yield "a mask with blocks of a fraction of a byte must be written by a walk by rows"
