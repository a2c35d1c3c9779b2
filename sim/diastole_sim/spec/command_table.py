"""Table of the fields of commands. A command is 64 bytes of an array in memory.

The table is the only description of the bits of a command. The host's encoder, the hardware's
decoder, the C header and the documentation are made from the table. Bits outside all fields of an
operation must be 0. Two fields may overlap if no operation uses both.

The addresses of a product's operands are the addresses of the copies that the product reads. (If
vectors share a scale, a tensor has two copies.) forward reads X's first copy and W's second. dx
reads dY's first and W's first. dw reads X's second and dY's second. backward reads X's second, W's
first, and dY's first, or both copies of dY (``address_dy_m``). With two copies of dY, the machine
runs backward as dx and dw. A product with a chain reads the same copies, and gives the result to
the chain.
"""

from dataclasses import dataclass
from enum import IntEnum

from diastole_sim.spec.command_errors import COMMAND_VERSION
from diastole_sim.spec.formats import NVFP4
from diastole_sim.spec.image import MAX_SIZE
from diastole_sim.spec.operations import OPERANDS, OPERATIONS

COMMAND_BYTES = 64
ADDRESS_BITS = 40
_RANGE = f"1 to {MAX_SIZE}"


class Opcode(IntEnum):
    """Operations of a command. 0 is no operation, so empty memory is no command."""

    CONVERT = 1
    FORWARD = 2
    DX = 3
    DW = 4
    BACKWARD = 5
    FORWARD_CHAIN = 6
    DX_CHAIN = 7
    DW_CHAIN = 8
    CHAIN = 9
    STORE = 10
    LOAD = 11
    NEXT = 12


CHOICES = ("by_slot", "decides", "slot_x", "slot_w", "slot_dy")
"""Fields of machines that decide widths (:attr:`diastole_sim.spec.limits.Limits.choices`)."""
VECTOR_OPCODES = tuple(opcode for opcode in Opcode if opcode >= Opcode.FORWARD_CHAIN)
"""Operations of machines with a vector unit only."""
PRODUCTS = {Opcode[name.upper()]: operation for name, operation in OPERATIONS.items()}
"""Products whose results are written to memory."""
CHAINED = {
    Opcode.FORWARD_CHAIN: OPERATIONS["forward"],
    Opcode.DX_CHAIN: OPERATIONS["dx"],
    Opcode.DW_CHAIN: OPERATIONS["dw"],
}
"""Products whose results go to a chain."""
MULTIPLYING = PRODUCTS | CHAINED
CHAINS = (*CHAINED, Opcode.CHAIN)
"""Operations that run a program."""
TRANSFERS = (Opcode.STORE, Opcode.LOAD)
"""Transfers between memory and the vector unit's tables."""
NESTED = tuple(opcode for opcode in MULTIPLYING if opcode != Opcode.BACKWARD)
"""Operations that take a nest, the loop nest of a product."""


@dataclass(frozen=True, kw_only=True)
class Field:
    """Field of a command: ``bits`` bits, the lowest at bit ``low``. Only the operations ``uses``
    use the field."""

    name: str
    low: int
    bits: int
    uses: tuple[Opcode, ...]
    meaning: str

    @property
    def of_vector(self) -> bool:
        """True for a field of machines with a vector unit only."""
        return self.name in ("slot", *CHOICES) or set(self.uses) <= set(VECTOR_OPCODES)


def _field(name: str, word: int, bits: int, uses: tuple[Opcode, ...], meaning: str, low: int = 0):
    return Field(name=name, low=32 * word + low, bits=bits, uses=uses, meaning=meaning)


def _addressing(field: str) -> tuple[Opcode, ...]:
    """Return the products that have an address in ``field``."""
    return tuple(
        opcode
        for opcode, operation in MULTIPLYING.items()
        if field in operation.fields
        and not (opcode in CHAINED and field in operation.result_fields)
    )


_CONVERT = (Opcode.CONVERT,)
_SIZED = (*_CONVERT, *MULTIPLYING, Opcode.CHAIN)
_ALL = tuple(Opcode)
_READS_X, _READS_W, _READS_DY = map(_addressing, ("address_x", "address_w", "address_dy"))

_COMMON = (
    _field("opcode", 0, 8, _ALL, "operation"),
    _field(
        "version",
        0,
        8,
        _ALL,
        f"must be {COMMAND_VERSION}",
        low=8,
    ),
    _field(
        "class_x", 0, 2, _CONVERT + _READS_X, "class of X (0); convert: class of the tensor", low=16
    ),
    _field("class_w", 0, 2, _READS_W, "class of W (1)", low=18),
    _field("class_dy", 0, 2, _READS_DY, "class of dY (2)", low=20),
    _field(
        "ahead",
        0,
        1,
        _ALL,
        "1: the command may begin before the previous command is done: this command reads nothing "
        "that the previous command writes, and writes nothing that the previous command reads or "
        "writes; of two commands of the vector unit, this one may write what the previous reads",
        low=22,
    ),
    _field(
        "scale",
        0,
        8,
        _CONVERT,
        "exponent of the tensor's scale, ignored in classes without a tensor scale; 0: the "
        "machine measures the scale; otherwise e + 127, where 2^e is the largest binade; "
        f"nvfp4: T + {NVFP4.tensor_scale_bias}, where 2^T is the scale",
        low=24,
    ),
    _field("m", 1, 32, _SIZED, f"M, rows of X; convert and chain: rows of the tensor; {_RANGE}"),
    _field(
        "n", 2, 32, _SIZED, f"N, columns of W; convert and chain: columns of the tensor; {_RANGE}"
    ),
    _field("k", 3, 32, tuple(MULTIPLYING), f"K, columns of X; {_RANGE}"),
)
_ADDRESSES = (
    _field(
        "address_x",
        4,
        ADDRESS_BITS,
        (*_CONVERT, *_READS_X, *TRANSFERS),
        "address of X; convert: of the floats; load, store: of the table",
    ),
    _field(
        "address_w", 6, ADDRESS_BITS, _CONVERT + _READS_W, "address of W; convert: of the image"
    ),
    _field(
        "address_dy",
        8,
        ADDRESS_BITS,
        _CONVERT + _READS_DY,
        "address of dY; convert: of the second copy; 0 or any beat for a class of one copy",
    ),
    _field(
        "out_a",
        10,
        ADDRESS_BITS,
        _addressing("out_a"),
        "address of the result: Y, dX or dW; backward: dW",
    ),
    _field("out_b", 12, ADDRESS_BITS, _addressing("out_b"), "address of dX"),
    _field(
        "address_dy_m",
        14,
        ADDRESS_BITS,
        _addressing("address_dy_m"),
        "address of the second copy of dY; 0 or any beat for one copy",
    ),
)
_NESTS = (
    _field(
        "nest_t",
        5,
        16,
        NESTED,
        "blocks of a tile of the streaming operand; 0 in the lengths of a nest: default",
        low=8,
    ),
    _field("nest_outer", 5, 1, NESTED, "1: the loop over lanes is outermost", low=24),
    _field(
        "nest_keep",
        5,
        2,
        NESTED,
        "operand that stays on chip: 1 streaming, 2 stationary, 3 both",
        low=25,
    ),
    _field("nest_groups", 7, 8, NESTED, "slices of lanes in an output tile", low=8),
    _field("nest_chunk", 9, 16, NESTED, "blocks of the contraction loaded at a time", low=8),
)
_CONVERSIONS = (
    _field(
        "width",
        3,
        2,
        _CONVERT,
        "planes of the image less 1, in the format fast; 0 in other formats",
        low=8,
    ),
    _field(
        "by_slot",
        3,
        1,
        _CONVERT,
        "1: the scale slot gives the number of planes, and `width` is ignored",
        low=10,
    ),
    _field(
        "decides",
        3,
        1,
        _CONVERT,
        "1: the monitor's counts of this conversion decide the planes of the slot's next tensor",
        low=11,
    ),
    _field(
        "slot_x",
        13,
        8,
        _READS_X,
        "1 + number of the scale slot that gives the planes of X (`width_x` is ignored); 0: no "
        "slot",
        low=8,
    ),
    _field("slot_w", 13, 8, _READS_W, "1 + number of the scale slot of W; 0: no slot", low=16),
    _field("slot_dy", 13, 8, _READS_DY, "1 + number of the scale slot of dY; 0: no slot", low=24),
    _field("width_x", 15, 2, _READS_X, "planes of X less 1", low=8),
    _field("width_w", 15, 2, _READS_W, "planes of W less 1", low=10),
    _field("width_dy", 15, 2, _READS_DY, "planes of dY less 1", low=12),
    _field("tag", 14, 32, _CONVERT, "tag of the tensor; random bits depend on the tag"),
    _field("step", 15, 32, _CONVERT, "training step; random bits depend on the step"),
)
_CHAINS = (
    _field(
        "slot",
        3,
        8,
        _CONVERT,
        "1 + number of a scale slot: the magnitudes of earlier steps in the slot give the scale, "
        "and the slot stores the magnitude of this tensor; 0: no slot",
    ),
    _field(
        "skip",
        0,
        1,
        CHAINS,
        "1: the command does nothing if the overflow bit of the step is set",
        low=23,
    ),
    _field("columns", 0, 1, (Opcode.CHAIN,), "1: the walk goes by columns of blocks", low=25),
    _field(
        "update", 0, 1, (Opcode.CHAIN,), "1: waiting for the chain counts as wait_update", low=26
    ),
    _field("program", 10, 8, CHAINS, "first instruction of the program"),
    _field("program_length", 10, 6, CHAINS, "instructions of the program, 1 to 32", low=8),
    _field(
        "streams", 10, 7, CHAINS, "first of the chain's 8 slots in the table of streams", low=16
    ),
    _field(
        "which",
        1,
        32,
        TRANSFERS,
        "table: 0 instructions, 1 constants, 2 amax, 3 panel, 4 descriptors of streams; in "
        "machines that decide widths 5 eps, 6 widths",
    ),
    _field("first", 2, 32, TRANSFERS, "first entry of the table"),
    _field("count", 3, 32, TRANSFERS, "number of entries"),
    _field("advance", 6, 32, TRANSFERS, "bytes by which the address grows per step"),
    _field(
        "target",
        1,
        32,
        (Opcode.NEXT,),
        "number of the command with which the next step begins: `next` adds 1 to STEP, and goes "
        "on there while STEP is below STEP_END",
    ),
)

FIELDS = (*_COMMON, *_ADDRESSES, *_NESTS, *_CONVERSIONS, *_CHAINS)

NEST_FIELDS = {"t_blocks": "nest_t", "groups": "nest_groups", "chunk": "nest_chunk"}
"""Lengths of a nest, and the fields of the lengths."""
WIDTH_FIELDS = {tensor.tensor_class: f"width_{tensor.tensor_class}" for tensor in OPERANDS}
"""Field of a product with the operand's planes less 1, by class."""
SLOT_FIELDS = {tensor.tensor_class: f"slot_{tensor.tensor_class}" for tensor in OPERANDS}
"""Field of a product with the number + 1 of the scale slot that gives the operand's planes, by
class."""
SIZES = ("m", "n", "k")
ADDRESS_FIELDS = tuple(field.name for field in FIELDS if field.name.startswith(("addr", "out_")))

CONTRACTIONS: dict[Opcode, tuple[str, ...]] = dict.fromkeys(Opcode, ()) | {
    opcode: operation.contracted for opcode, operation in MULTIPLYING.items()
}
"""Sizes that each operation sums over."""

OPERAND_CLASSES = {f"class_{tensor.tensor_class}": tensor.number for tensor in OPERANDS}
"""Class that a product demands in the place of each operand."""


def opcodes_of(*, vector: bool) -> tuple[Opcode, ...]:
    """Return the operations of a machine. ``vector``: the machine has a vector unit."""
    return tuple(opcode for opcode in Opcode if vector or opcode not in VECTOR_OPCODES)


def machine_fields(*, vector: bool, choices: bool = True) -> tuple[Field, ...]:
    """Return the fields of a machine, whatever the operation. ``vector``: the machine has a vector
    unit. ``choices``: the machine decides widths."""
    return tuple(
        field
        for field in FIELDS
        if (vector or not field.of_vector) and (choices or field.name not in CHOICES)
    )


def fields_of(opcode: Opcode) -> tuple[Field, ...]:
    """Return the fields of an operation."""
    return tuple(field for field in FIELDS if opcode in field.uses)


def reserved_mask(
    opcode: Opcode,
    *,
    planes: bool = False,
    vector: bool = False,
    choices: bool = False,
) -> int:
    """Return the bits that must be 0 in a command of an operation, as one number of 512 bits.

    ``planes``: the machine has the format ``fast``; without the format, width fields are reserved.
    ``vector``: the machine has a vector unit; without the unit, scale slots are reserved.
    ``choices``: the machine decides widths.
    """
    absent = () if choices else CHOICES
    absent += () if planes else ("width",)
    absent += () if vector else ("slot",)
    used = sum(
        (1 << field.bits) - 1 << field.low
        for field in fields_of(opcode)
        if not field.name.startswith(absent)
    )
    return (1 << 8 * COMMAND_BYTES) - 1 ^ used
