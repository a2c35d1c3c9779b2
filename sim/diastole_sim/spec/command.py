"""Commands: what the machine is told to do, 64 bytes each, in an array in memory.

This table is the only description of their bits: the host's encoder, the hardware's decoder, the C
header and the documentation come from it. Bits that no field of an operation covers must be 0; two
fields may have the same bits if no operation uses both.

The addresses of a product's operands are those of the copies that it reads (where vectors share a
scale, a tensor has two): forward, X's first and W's second; dx, dY's first and W's first; dw, X's
second and dY's second; backward, X's second, W's first, and dY's first, or both (``address_dy_m``),
and then it is done as dx and dw.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from enum import IntEnum
from types import MappingProxyType

from diastole_sim.spec.check import require_choice, require_int
from diastole_sim.spec.formats import NVFP4, Format
from diastole_sim.spec.image import DATA_WIDTHS, MAX_CONVERT_BLOCKS, MAX_SIZE
from diastole_sim.spec.nest import KEPT, OUTER, Nest, ProductNests
from diastole_sim.spec.numerics import BLOCK_SIDES, CLASS_NAMES, Numerics
from diastole_sim.spec.operations import OPERANDS, OPERATIONS

COMMAND_BYTES = 64
MACHINES_OWN = Nest()
NO_PLANES: Mapping[str, int] = MappingProxyType({})
COMMAND_VERSION = 2
VERSIONS = (1, COMMAND_VERSION)
"""Those that a machine takes; in version 1 no command has a nest or is ahead."""
ADDRESS_BITS = 40


class Opcode(IntEnum):
    """What a command does; 0 is none, so that empty memory is no command."""

    CONVERT = 1
    FORWARD = 2
    DX = 3
    DW = 4
    BACKWARD = 5


class ErrorCode(IntEnum):
    """Why the machine stopped; ``ERROR_MEANINGS`` has the texts."""

    NONE = 0
    BAD_OPCODE = 1
    BAD_VERSION = 2
    RESERVED = 3
    ZERO_SIZE = 4
    MISALIGNED = 5
    WINDOW = 6
    READ_RESPONSE = 7
    WRITE_RESPONSE = 8
    TOO_LONG = 9
    BAD_CLASS = 10
    TOO_LARGE = 11
    WIDTH = 12
    NEST = 16


ERROR_MEANINGS = {
    ErrorCode.NONE: "no error",
    ErrorCode.BAD_OPCODE: "unknown opcode",
    ErrorCode.BAD_VERSION: f"command version is none of {', '.join(map(str, VERSIONS))}",
    ErrorCode.RESERVED: "a reserved bit, or a field that the operation does not use, is not 0",
    ErrorCode.ZERO_SIZE: "a size is 0, or the number of commands is",
    ErrorCode.MISALIGNED: "an address is no multiple of the beat",
    ErrorCode.WINDOW: "memory outside the windows was asked for; nothing was issued",
    ErrorCode.READ_RESPONSE: "the bus answered a read with an error",
    ErrorCode.WRITE_RESPONSE: "the bus answered a write with an error",
    ErrorCode.TOO_LONG: "the contraction is longer than 2^headroom blocks",
    ErrorCode.BAD_CLASS: "a tensor's class is unknown, or not that of the operand's place",
    ErrorCode.TOO_LARGE: "a size is beyond what the machine holds",
    ErrorCode.WIDTH: "a width is none that a tensor of its class has on this machine",
    ErrorCode.NEST: "the machine cannot cut a product into tiles and chunks of these lengths",
}

PRECEDENCE = (
    ErrorCode.BAD_OPCODE,
    ErrorCode.BAD_VERSION,
    ErrorCode.RESERVED,
    ErrorCode.BAD_CLASS,
    ErrorCode.WIDTH,
    ErrorCode.ZERO_SIZE,
    ErrorCode.TOO_LARGE,
    ErrorCode.TOO_LONG,
    ErrorCode.MISALIGNED,
    ErrorCode.NEST,
)
"""Of several faults of one command, the first in this order is reported. All are found before the
command starts; the bus's faults come while it runs."""

PRODUCTS = {Opcode[name.upper()]: operation for name, operation in OPERATIONS.items()}
"""The operations that multiply."""
_NESTED = (Opcode.FORWARD, Opcode.DX, Opcode.DW)
_CONVERT = (Opcode.CONVERT,)
_ALL = tuple(Opcode)


@dataclass(frozen=True, kw_only=True)
class Field:
    """``bits`` bits of a command, the lowest at bit ``low``; used by the operations ``uses``."""

    name: str
    low: int
    bits: int
    uses: tuple[Opcode, ...]
    meaning: str


def _field(name: str, word: int, bits: int, uses: tuple[Opcode, ...], meaning: str, low: int = 0):
    return Field(name=name, low=32 * word + low, bits=bits, uses=uses, meaning=meaning)


def _addressing(field: str) -> tuple[Opcode, ...]:
    """The products that have something at the address in ``field``."""
    return tuple(opcode for opcode, operation in PRODUCTS.items() if field in operation.fields)


_READS_X, _READS_W, _READS_DY = map(_addressing, ("address_x", "address_w", "address_dy"))

FIELDS = (
    _field("opcode", 0, 8, _ALL, "operation"),
    _field("version", 0, 8, _ALL, f"{COMMAND_VERSION}", low=8),
    _field("class_x", 0, 2, _CONVERT + _READS_X, "class of X (0); convert: of the tensor", low=16),
    _field("class_w", 0, 2, _READS_W, "class of W (1)", low=18),
    _field("class_dy", 0, 2, _READS_DY, "class of dY (2)", low=20),
    _field(
        "ahead",
        0,
        1,
        _ALL,
        "1: it may begin before the one before it is done, since it reads nothing that that one "
        "writes, and writes nothing that that one reads or writes",
        low=22,
    ),
    _field(
        "scale",
        0,
        8,
        _CONVERT,
        "exponent of the tensor's scale: 0 to measure it, else e + 127, e of the largest binade; "
        f"nvfp4: T + {NVFP4.tensor_scale_bias}, of the tensor's scale itself",
        low=24,
    ),
    _field("m", 1, 32, _ALL, "M, rows of X; convert: rows of the tensor"),
    _field("n", 2, 32, _ALL, "N, columns of W; convert: columns of the tensor"),
    _field("k", 3, 32, tuple(PRODUCTS), "K, columns of X"),
    _field("address_x", 4, ADDRESS_BITS, _CONVERT + _READS_X, "of X; convert: of the floats"),
    _field("address_w", 6, ADDRESS_BITS, _CONVERT + _READS_W, "of W; convert: of the image"),
    _field(
        "address_dy",
        8,
        ADDRESS_BITS,
        _CONVERT + _READS_DY,
        "of dY; convert: of the image of the second copy, 0 where there is one copy",
    ),
    _field(
        "out_a",
        10,
        ADDRESS_BITS,
        _addressing("out_a"),
        "of the result: Y, dX or dW; backward: dW",
    ),
    _field("out_b", 12, ADDRESS_BITS, _addressing("out_b"), "of dX"),
    _field(
        "address_dy_m",
        14,
        ADDRESS_BITS,
        _addressing("address_dy_m"),
        "of the second copy of dY, 0 where there is one copy",
    ),
    _field(
        "nest_t",
        5,
        16,
        _NESTED,
        "blocks of a tile of what streams; 0, here and in the next three: the machine's own",
        low=8,
    ),
    _field("nest_outer", 5, 1, _NESTED, "1: the loop over lanes is outermost", low=24),
    _field("nest_keep", 5, 2, _NESTED, "what stays: 1 what streams, 2 what is held", low=25),
    _field("nest_groups", 7, 8, _NESTED, "slices of lanes in an output tile", low=8),
    _field("nest_chunk", 9, 16, _NESTED, "blocks of the contraction loaded at a time", low=8),
    _field(
        "width",
        3,
        2,
        _CONVERT,
        "planes of the image less 1, in the format fast; else 0, as in the next three",
        low=8,
    ),
    _field("width_x", 15, 2, _READS_X, "planes of X less 1", low=8),
    _field("width_w", 15, 2, _READS_W, "planes of W less 1", low=10),
    _field("width_dy", 15, 2, _READS_DY, "planes of dY less 1", low=12),
    _field("tag", 14, 32, _CONVERT, "the tensor's tag, from which its random bits are drawn"),
    _field("step", 15, 32, _CONVERT, "the training step, likewise"),
)

NEST_FIELDS = {"t_blocks": "nest_t", "groups": "nest_groups", "chunk": "nest_chunk"}
"""The lengths of a nest, and where they stand."""
WIDTH_FIELDS = {tensor.tensor_class: f"width_{tensor.tensor_class}" for tensor in OPERANDS}
"""By class, where a product has its operand's planes less 1."""

CONTRACTIONS = {Opcode.CONVERT: ()} | {
    opcode: operation.contracted for opcode, operation in PRODUCTS.items()
}
"""The sizes that each operation sums over."""

OPERAND_CLASSES = {f"class_{tensor.tensor_class}": tensor.number for tensor in OPERANDS}
"""The class that a product demands in each operand's place."""

MEASURE = 0
"""The value of the field ``scale`` with which the machine measures the tensor's scale."""
SECOND_COPY_TAG = 1 << 31
"""Flipped in the tensor's tag for the draws of a second copy, where they are its own."""


def scale_field(exponent: int | None, kind: Format) -> int:
    """The field ``scale`` for a tensor's scale: the exponent of its top binade, or in nvfp4 T, that
    of the scale itself; None: to measure it. ValueError if it does not fit."""
    if exponent is None:
        return MEASURE
    require_int("scale's exponent", exponent, *kind.tensor_exponents)
    return exponent + kind.tensor_scale_bias


def scale_exponent(field: int, kind: Format) -> int | None:
    """The inverse of :func:`scale_field`."""
    return None if field == MEASURE else field - kind.tensor_scale_bias


def fields_of(opcode: Opcode) -> tuple[Field, ...]:
    """The fields that an operation uses."""
    return tuple(field for field in FIELDS if opcode in field.uses)


def reserved_mask(opcode: Opcode, version: int = COMMAND_VERSION, *, planes: bool = False) -> int:
    """The bits of a command of this operation that must be 0, as one number of 512 bits.

    ``planes``: of a machine with the format ``fast``; others have no widths.
    """
    absent = ("nest_", "ahead", "width") if version == 1 else ()
    absent += () if planes else ("width",)
    used = sum(
        (1 << field.bits) - 1 << field.low
        for field in fields_of(opcode)
        if not field.name.startswith(absent)
    )
    return (1 << 8 * COMMAND_BYTES) - 1 ^ used


class MalformedCommandError(ValueError):
    """A malformed command; ``code`` is what the hardware reports."""

    def __init__(self, code: ErrorCode):
        super().__init__(f"malformed command: {ERROR_MEANINGS[code]}")
        self.code = code


def planes_by_class(numerics: Numerics) -> tuple[tuple[int, ...], ...] | None:
    """In how many planes tensors may be stored; None where no class has the format ``fast``."""
    if not numerics.chooses_widths:
        return None
    return tuple(map(numerics.planes_of, CLASS_NAMES))


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a machine accepts. ``block`` B and ``headroom`` G; ``data_width`` of its bus, bits.

    ``max_size``: largest M, N, K, rows; ``max_convert_cols``: most columns of a tensor to convert.
    ``nests``: the lengths of loops that a product takes; none but 0 where it is left out.
    ``planes``: of a machine with the format ``fast``, by class, in how many a tensor may be stored
    (:meth:`Numerics.planes_of`).
    ValueError if one is out of range.
    """

    block: int
    headroom: int
    data_width: int
    max_size: int = MAX_SIZE
    max_convert_cols: int = MAX_SIZE
    nests: ProductNests | None = None
    planes: tuple[tuple[int, ...], ...] | None = None

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
    ) -> "Limits":
        """Those of a generated machine."""
        return cls(
            block=numerics.block,
            headroom=numerics.headroom,
            data_width=data_width,
            max_convert_cols=min(MAX_SIZE, MAX_CONVERT_BLOCKS * numerics.block),
            nests=nests,
            planes=planes_by_class(numerics),
        )

    @property
    def has_planes(self) -> bool:
        """Whether any class has the format ``fast``."""
        return self.planes is not None


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command; fields as in ``FIELDS``, those that the operation does not use are 0.

    ValueError if a value does not fit in its field.
    """

    opcode: int
    version: int = COMMAND_VERSION
    class_x: int = 0
    class_w: int = 0
    class_dy: int = 0
    m: int = 0
    n: int = 0
    k: int = 0
    address_x: int = 0
    address_w: int = 0
    address_dy: int = 0
    out_a: int = 0
    out_b: int = 0
    address_dy_m: int = 0
    scale: int = 0
    tag: int = 0
    step: int = 0
    nest_t: int = 0
    nest_groups: int = 0
    nest_chunk: int = 0
    nest_outer: int = 0
    nest_keep: int = 0
    ahead: int = 0
    width: int = 0
    width_x: int = 0
    width_w: int = 0
    width_dy: int = 0

    def __post_init__(self) -> None:
        for field in FIELDS:
            require_int(field.name, getattr(self, field.name), 0, 2**field.bits - 1)

    @classmethod
    def convert(
        cls,
        tensor_class: str,
        *,
        rows: int,
        cols: int,
        source: int,
        destination: int,
        second: int = 0,
        tag: int,
        step: int,
        scale: int = 0,
        planes: int = 1,
    ) -> "Command":
        """Quantise the float32 tensor at ``source`` into an image at ``destination``.

        ``second``: where the second copy's image goes, if the class has two. ``scale``: as the
        field of that name (:func:`scale_field`). ``planes``: of every image, in the format
        ``fast``.
        """
        require_choice("tensor class", tensor_class, CLASS_NAMES)
        return cls(
            opcode=Opcode.CONVERT,
            class_x=CLASS_NAMES.index(tensor_class),
            m=rows,
            n=cols,
            address_x=source,
            address_w=destination,
            address_dy=second,
            tag=tag,
            step=step,
            scale=scale,
            width=planes - 1,
        )

    @classmethod
    def product(
        cls,
        opcode: Opcode,
        *,
        m: int,
        n: int,
        k: int,
        nest: Nest = MACHINES_OWN,
        planes: Mapping[str, int] = NO_PLANES,
        **addresses: int,
    ) -> "Command":
        """A product; ``addresses`` are those of ``FIELDS`` that it uses, and all of them.
        ``planes``: of its operands by class, 1 where it is left out.

        ``address_dy_m`` may be left out where dY has one copy. ValueError for a ``nest`` of the
        fused pass, which takes none.
        """
        require_choice("opcode", opcode, tuple(PRODUCTS))
        used = {field.name for field in fields_of(opcode)}
        wanted = {name for name in used if name.startswith(("address_", "out_"))}
        if set(addresses) not in (wanted, wanted - {"address_dy_m"}):
            raise ValueError(
                f"{opcode.name.lower()} needs {', '.join(sorted(wanted))}, "
                f"not {', '.join(sorted(addresses)) or 'nothing'}"
            )
        classes = {name: place for name, place in OPERAND_CLASSES.items() if name in used}
        loops: dict[str, int] = {}
        if nest != MACHINES_OWN:
            if opcode not in _NESTED:
                raise ValueError(f"{opcode.name.lower()} takes no nest")
            loops = {field: getattr(nest, name) for name, field in NEST_FIELDS.items()}
            loops["nest_outer"] = OUTER.index(nest.outer)
            loops["nest_keep"] = KEPT.index(nest.keep)
        widths = {WIDTH_FIELDS[name]: count - 1 for name, count in planes.items()}
        return cls(opcode=opcode, m=m, n=n, k=k, **classes, **addresses, **loops, **widths)

    def encode(self) -> bytes:
        """The 64 bytes, unchecked: a malformed command can be written too."""
        bits = 0
        for field in FIELDS:
            bits |= getattr(self, field.name) << field.low
        return bits.to_bytes(COMMAND_BYTES, "little")


def decode(data: bytes, limits: Limits) -> Command:
    """The command in 64 bytes; MalformedCommandError where the hardware would refuse it."""
    if len(data) != COMMAND_BYTES:
        raise ValueError(f"a command is {COMMAND_BYTES} bytes, not {len(data)}")
    bits = int.from_bytes(data, "little")
    found = faults(bits, limits)
    for code in PRECEDENCE:
        if code in found:
            raise MalformedCommandError(code)
    assert len(fields(Command)) == len(FIELDS)
    return Command(**_values(bits, fields_of(Opcode(bits & 0xFF))))


def first_refused(commands: Iterable[bytes], limits: Limits) -> tuple[int, ErrorCode] | None:
    """Which of several commands the hardware must refuse, and with which error; None: none."""
    for index, data in enumerate(commands):
        try:
            decode(data, limits)
        except MalformedCommandError as error:
            return index, error.code
    return None


def _bad_nest(opcode: Opcode, used: dict[str, int], limits: Limits) -> bool:
    """Whether a length is none of those that there are, or what stays on chip does not fit."""
    if opcode not in _NESTED:
        return False
    lengths = {name: used[field] for name, field in NEST_FIELDS.items()}
    taken = limits.nests and limits.nests.of(opcode.name.lower())
    if taken is None:
        return any(lengths.values()) or used["nest_keep"] != 0
    if any(value and value not in getattr(taken, name) for name, value in lengths.items()):
        return True
    nest = Nest(**lengths, outer=OUTER[used["nest_outer"]], keep=KEPT[used["nest_keep"]])
    (product,) = PRODUCTS[opcode].products
    t, lanes, contraction = (-(-used[axis] // limits.block) for axis in product.loops)
    streamed, held = (
        used[WIDTH_FIELDS[operand.tensor_class]] + 1 if limits.has_planes else 1
        for operand in product.factors
    )
    return taken.problem(nest, (t, lanes, contraction), (streamed, held)) is not None


def _bad_width(opcode: Opcode, used: dict[str, int], limits: Limits) -> bool:
    """Whether an operand, or what is converted, has planes that its class has not."""
    if opcode == Opcode.CONVERT:
        places = {min(used["class_x"], len(CLASS_NAMES) - 1): used["width"]}
    else:
        named = ((CLASS_NAMES.index(name), field) for name, field in WIDTH_FIELDS.items())
        places = {number: used[field] for number, field in named if field in used}
    known = limits.planes or ()
    return any(field + 1 not in known[number] for number, field in places.items())


def _values(bits: int, chosen: tuple[Field, ...]) -> dict[str, int]:
    return {field.name: bits >> field.low & (1 << field.bits) - 1 for field in chosen}


def faults(bits: int, limits: Limits) -> set[ErrorCode]:
    """Every fault of a command given as one number of 512 bits."""
    if bits & 0xFF not in tuple(Opcode):
        return {ErrorCode.BAD_OPCODE}
    opcode = Opcode(bits & 0xFF)
    used = _values(bits, fields_of(opcode))
    sizes = {name: used[name] for name in ("m", "n", "k") if name in used}
    addresses = [used[name] for name in used if name.startswith(("address_", "out_"))]
    most = dict.fromkeys(sizes, limits.max_size)
    if opcode == Opcode.CONVERT:
        most["n"] = min(limits.max_size, limits.max_convert_cols)
        bad_class = used["class_x"] >= len(CLASS_NAMES)
    else:
        bad_class = any(used.get(name, place) != place for name, place in OPERAND_CLASSES.items())
    longest = limits.block << limits.headroom
    version = used["version"]
    present = {
        ErrorCode.BAD_VERSION: version not in VERSIONS,
        ErrorCode.RESERVED: bits & reserved_mask(opcode, version, planes=limits.has_planes) != 0,
        ErrorCode.BAD_CLASS: bad_class,
        ErrorCode.WIDTH: limits.has_planes and _bad_width(opcode, used, limits),
        ErrorCode.ZERO_SIZE: 0 in sizes.values(),
        ErrorCode.TOO_LARGE: any(sizes[name] > most[name] for name in sizes),
        ErrorCode.TOO_LONG: any(sizes[name] > longest for name in CONTRACTIONS[opcode]),
        ErrorCode.MISALIGNED: any(address % (limits.data_width // 8) for address in addresses),
        ErrorCode.NEST: _bad_nest(opcode, used, limits),
    }
    return {code for code, is_present in present.items() if is_present}
