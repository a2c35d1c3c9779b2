"""Commands as the host makes them: what the machine is told to do."""

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
from diastole_sim.spec.limits import STORED, VectorTable
from diastole_sim.spec.micro import MOST_INSTRUCTIONS
from diastole_sim.spec.nest import KEPT, OUTER, Nest
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.require import require_choice, require_int

MACHINES_OWN = Nest()
NO_PLANES: Mapping[str, int] = MappingProxyType({})

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


@dataclass(frozen=True, kw_only=True)
class ProgramPlace:
    """What a chain runs: ``length`` instructions from ``first`` on, with the streams of the slots
    from ``streams`` on."""

    first: int
    length: int
    streams: int

    def __post_init__(self) -> None:
        require_int("length", self.length, 1, MOST_INSTRUCTIONS)

    def fields(self) -> dict[str, int]:
        """Of a command."""
        return {
            "program": self.first,
            "program_length": self.length,
            "streams": self.streams,
        }


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

        ``second``: where the second copy's image goes, if the class has two. ``scale``: as the
        field of that name (:func:`scale_field`). ``planes``: of every image, in the format
        ``fast``. ``slot``: whose magnitude gives the scale, None for none;
        ``by_slot``: it also says the planes; ``decides``: this conversion decides how many from
        then on.
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
        nest: Nest = MACHINES_OWN,
        planes: Mapping[str, int] = NO_PLANES,
        slots: Mapping[str, int] = NO_PLANES,
        **addresses: int,
    ) -> "Command":
        """A product; ``addresses`` are those of ``FIELDS`` that it uses, and all of them.
        ``planes``: of its operands by class, 1 where it is left out; ``slots``: by class, those
        that say how many instead.

        ``address_dy_m`` may be left out where dY has one copy. ValueError for a ``nest`` of the
        fused pass, which takes none.
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
        nest: Nest = MACHINES_OWN,
        planes: Mapping[str, int] = NO_PLANES,
        slots: Mapping[str, int] = NO_PLANES,
        **addresses: int,
    ) -> "Command":
        """A product whose result a chain takes; else as :meth:`product` and :meth:`chain`."""
        require_choice("opcode", opcode, tuple(CHAINED))
        widths = cls._widths(planes, slots)
        made = cls._multiply(opcode, {"m": m, "n": n, "k": k}, nest, widths, addresses)
        return replace(made, skip=int(skip), **program.fields())

    @classmethod
    def _widths(cls, planes: Mapping[str, int], slots: Mapping[str, int]) -> dict[str, int]:
        """The fields that say how many planes operands have."""
        given = {WIDTH_FIELDS[name]: count - 1 for name, count in planes.items()}
        return given | {SLOT_FIELDS[name]: slot + 1 for name, slot in slots.items()}

    @classmethod
    def _multiply(
        cls,
        opcode: Opcode,
        sizes: Mapping[str, int],
        nest: Nest,
        widths: Mapping[str, int],
        addresses: Mapping[str, int],
    ) -> "Command":
        """A product, without what a chain adds to it."""
        used = {field.name for field in fields_of(opcode)}
        wanted = used & set(ADDRESS_FIELDS)
        if set(addresses) not in (wanted, wanted - {"address_dy_m"}):
            raise ValueError(
                f"{opcode.name.lower()} needs {', '.join(sorted(wanted))}, "
                f"not {', '.join(sorted(addresses)) or 'nothing'}"
            )
        classes = {name: place for name, place in OPERAND_CLASSES.items() if name in used}
        loops: dict[str, int] = {}
        if nest != MACHINES_OWN:
            if opcode not in NESTED:
                raise ValueError(f"{opcode.name.lower()} takes no nest")
            loops = {field: getattr(nest, name) for name, field in NEST_FIELDS.items()}
            loops["nest_outer"] = OUTER.index(nest.outer)
            loops["nest_keep"] = KEPT.index(nest.keep)
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
        ``columns`` of blocks. ``update``: its cycles count as those of an update. ``skip``: not in
        a step that has overflowed."""
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
        """Fill ``count`` entries of a table of the vector unit, from ``first`` on, with what is at
        ``address`` plus ``advance`` bytes for each step that was done before."""
        return cls._transfer(Opcode.LOAD, table, address, first, count, advance)

    @classmethod
    def store(
        cls, table: VectorTable, *, address: int, first: int, count: int, advance: int = 0
    ) -> "Command":
        """The inverse of :meth:`load`. ValueError for a table that cannot be stored."""
        require_choice("table", table, STORED)
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
        """The end of a step: the next one begins at command number ``target``."""
        return cls(opcode=Opcode.NEXT, target=target)

    def encode(self) -> bytes:
        """The 64 bytes, unchecked: a malformed command can be written too."""
        bits = 0
        for field in FIELDS:
            bits |= getattr(self, field.name) << field.low
        return bits.to_bytes(COMMAND_BYTES, "little")
