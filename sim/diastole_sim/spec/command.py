"""Commands of the machine, as the host makes them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from diastole_sim.spec.command_errors import COMMAND_VERSION
from diastole_sim.spec.command_table import (
    ADDRESS_FIELDS,
    CHAINED,
    COMMAND_BYTES,
    FIELDS,
    NEST_FIELDS,
    NESTED,
    OPERAND_CLASSES,
    PRODUCTS,
    SLOT_FIELDS,
    WIDTH_FIELDS,
    Opcode,
    fields_of,
)
from diastole_sim.spec.formats import Format
from diastole_sim.spec.limits import STORABLE_TABLES, VectorTable
from diastole_sim.spec.micro import MAX_INSTRUCTIONS
from diastole_sim.spec.nest import KEEP_VALUES, OUTER, Nest
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.require import require_choice, require_int

DEFAULT_NEST = Nest()
NO_PLANES: Mapping[str, int] = MappingProxyType({})

MEASURE = 0
"""Value of the field ``scale`` for a scale measured by the machine."""
SECOND_COPY_TAG = 1 << 31
"""Bit of the tensor's tag. The bit is flipped for draws of the second copy, if the second copy has
draws of its own."""


def scale_field(exponent: int | None, kind: Format) -> int:
    """Return the field ``scale`` for a tensor's scale: from the exponent of the top binade, or in
    nvfp4 from T, the exponent of the scale itself. With None the machine measures the scale.
    ValueError if the exponent does not fit."""
    if exponent is None:
        return MEASURE
    require_int("scale's exponent", exponent, *kind.tensor_exponents)
    return exponent + kind.tensor_scale_bias


def scale_exponent(field: int, kind: Format) -> int | None:
    """Return the exponent of a field ``scale``: the inverse of :func:`scale_field`."""
    return None if field == MEASURE else field - kind.tensor_scale_bias


@dataclass(frozen=True, kw_only=True)
class ProgramPlace:
    """Program of a chain: ``length`` instructions from ``first`` on, with the streams of the slots
    from ``streams`` on."""

    first: int
    length: int
    streams: int

    def __post_init__(self) -> None:
        require_int("length", self.length, 1, MAX_INSTRUCTIONS)

    def fields(self) -> dict[str, int]:
        """Return the command's fields for the program."""
        return {
            "program": self.first,
            "program_length": self.length,
            "streams": self.streams,
        }


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command with the fields of ``FIELDS``. Fields that the operation does not use are 0.

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
    by_slot: int = 0
    decides: int = 0
    slot_x: int = 0
    slot_w: int = 0
    slot_dy: int = 0
    slot: int = 0
    skip: int = 0
    columns: int = 0
    update: int = 0
    program: int = 0
    program_length: int = 0
    streams: int = 0
    which: int = 0
    first: int = 0
    count: int = 0
    advance: int = 0
    target: int = 0

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
        slot: int | None = None,
        by_slot: bool = False,
        decides: bool = False,
    ) -> "Command":
        """Quantise the float32 tensor at ``source`` into an image at ``destination``.

        ``second``: address of the second copy's image, if the class has two copies. ``scale``:
        value of the field ``scale`` (:func:`scale_field`). ``planes``: planes of every image, in
        the format ``fast``. ``slot``: scale slot whose magnitude gives the scale, None for none.
        ``by_slot``: the slot also says the planes. ``decides``: the conversion decides the planes
        from then on.
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
            slot=0 if slot is None else slot + 1,
            by_slot=int(by_slot),
            decides=int(decides),
        )

    @classmethod
    def product(
        cls,
        opcode: Opcode,
        *,
        m: int,
        n: int,
        k: int,
        nest: Nest = DEFAULT_NEST,
        planes: Mapping[str, int] = NO_PLANES,
        slots: Mapping[str, int] = NO_PLANES,
        **addresses: int,
    ) -> "Command":
        """Return a product. ``addresses``: all address fields of the product in ``FIELDS``.
        ``planes``: planes of operands by class, 1 if left out. ``slots``: scale slots by class that
        give the planes instead.

        ``address_dy_m`` may be left out if dY has one copy. ValueError for a ``nest`` of the fused
        pass, which takes no nest.
        """
        require_choice("opcode", opcode, tuple(PRODUCTS))
        widths = cls._widths(planes, slots)
        return cls._multiply(opcode, {"m": m, "n": n, "k": k}, nest, widths, addresses)

    @classmethod
    def chained(
        cls,
        opcode: Opcode,
        program: ProgramPlace,
        *,
        m: int,
        n: int,
        k: int,
        skip: bool = False,
        nest: Nest = DEFAULT_NEST,
        planes: Mapping[str, int] = NO_PLANES,
        slots: Mapping[str, int] = NO_PLANES,
        **addresses: int,
    ) -> "Command":
        """Return a product whose result a chain takes. Parameters as in :meth:`product` and
        :meth:`chain`."""
        require_choice("opcode", opcode, tuple(CHAINED))
        widths = cls._widths(planes, slots)
        made = cls._multiply(opcode, {"m": m, "n": n, "k": k}, nest, widths, addresses)
        return replace(made, skip=int(skip), **program.fields())

    @classmethod
    def _widths(cls, planes: Mapping[str, int], slots: Mapping[str, int]) -> dict[str, int]:
        """Return the fields for the planes of operands."""
        fields = {WIDTH_FIELDS[name]: count - 1 for name, count in planes.items()}
        return fields | {SLOT_FIELDS[name]: slot + 1 for name, slot in slots.items()}

    @classmethod
    def _multiply(
        cls,
        opcode: Opcode,
        sizes: Mapping[str, int],
        nest: Nest,
        widths: Mapping[str, int],
        addresses: Mapping[str, int],
    ) -> "Command":
        """Return a product, without the fields of a chain."""
        used = {field.name for field in fields_of(opcode)}
        expected = used & set(ADDRESS_FIELDS)
        if set(addresses) not in (expected, expected - {"address_dy_m"}):
            raise ValueError(
                f"{opcode.name.lower()} needs {', '.join(sorted(expected))}, "
                f"not {', '.join(sorted(addresses)) or 'nothing'}"
            )
        classes = {name: place for name, place in OPERAND_CLASSES.items() if name in used}
        loops: dict[str, int] = {}
        if nest != DEFAULT_NEST:
            if opcode not in NESTED:
                raise ValueError(f"{opcode.name.lower()} takes no nest")
            loops = {field: getattr(nest, name) for name, field in NEST_FIELDS.items()}
            loops["nest_outer"] = OUTER.index(nest.outer)
            loops["nest_keep"] = KEEP_VALUES.index(nest.keep)
        return cls(opcode=opcode, **sizes, **classes, **addresses, **loops, **widths)

    @classmethod
    def chain(
        cls,
        program: ProgramPlace,
        *,
        m: int,
        n: int,
        columns: bool = False,
        update: bool = False,
        skip: bool = False,
    ) -> "Command":
        """Run a program over the blocks of a tensor of ``m`` rows and ``n`` columns, by rows or by
        ``columns`` of blocks. ``update``: the cycles count as cycles of an update. ``skip``: the
        chain is skipped in a step that has overflowed."""
        return cls(
            opcode=Opcode.CHAIN,
            m=m,
            n=n,
            columns=int(columns),
            update=int(update),
            skip=int(skip),
            **program.fields(),
        )

    @classmethod
    def load(
        cls, table: VectorTable, *, address: int, first: int, count: int, advance: int = 0
    ) -> "Command":
        """Fill ``count`` entries of a table of the vector unit, from ``first`` on, with the data at
        ``address`` plus ``advance`` bytes for each step done before."""
        return cls._transfer(Opcode.LOAD, table, address, first, count, advance)

    @classmethod
    def store(
        cls, table: VectorTable, *, address: int, first: int, count: int, advance: int = 0
    ) -> "Command":
        """Copy entries of a table to memory: the inverse of :meth:`load`. ValueError for a table
        without ``store``."""
        require_choice("table", table, STORABLE_TABLES)
        return cls._transfer(Opcode.STORE, table, address, first, count, advance)

    @classmethod
    def _transfer(
        cls, opcode: Opcode, table: VectorTable, address: int, first: int, count: int, advance: int
    ) -> "Command":
        return cls(
            opcode=opcode,
            which=table,
            first=first,
            count=count,
            address_x=address,
            advance=advance,
        )

    @classmethod
    def next(cls, target: int) -> "Command":
        """End a step. The next step begins at command number ``target``."""
        return cls(opcode=Opcode.NEXT, target=target)

    def encode(self) -> bytes:
        """Return the 64 bytes, unchecked: a malformed command can be written too."""
        bits = 0
        for field in FIELDS:
            bits |= getattr(self, field.name) << field.low
        return bits.to_bytes(COMMAND_BYTES, "little")
