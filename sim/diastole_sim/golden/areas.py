"""List the areas of memory and tables that a command writes, for the comparison of two machines."""

from collections.abc import Iterator
from dataclasses import dataclass

from diastole_sim.golden.images import Images
from diastole_sim.golden.tables import Tables
from diastole_sim.golden.vector.streams import mask_bytes, row_bytes
from diastole_sim.spec.chains import named_streams, walk_of
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_table import CHAINS, PRODUCTS, Opcode
from diastole_sim.spec.formats import PLANE_BITS
from diastole_sim.spec.image import FloatLayout
from diastole_sim.spec.limits import Limits, VectorTable, entry_words
from diastole_sim.spec.micro import INPUTS
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.stream_table import (
    Descriptor,
    Kind,
    Walk,
    panel_vectors,
)


@dataclass(frozen=True, kw_only=True)
class Area:
    """Area of ``count`` runs of ``length`` bytes of memory. The first run begins at ``first``, and
    runs begin ``pitch`` bytes apart. With ``table`` the area is one run of entries of the table
    ``table`` instead."""

    name: str
    first: int
    length: int
    count: int = 1
    pitch: int = 0
    table: VectorTable | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class MachineView:
    """Everything besides the command that its areas depend on: the machine, the tables before the
    command, and the step."""

    tables: Tables
    images: Images
    limits: Limits
    step: int


def written_areas(command: Command, view: MachineView) -> list[Area]:
    """Return all areas that a command may write, without registers. The areas include no byte of
    memory that the command may not write. A program that writes only in some blocks may leave parts
    of an area unchanged."""
    opcode = Opcode(command.opcode)
    if opcode == Opcode.CONVERT:
        return list(_conversion_areas(command, view))
    if opcode in PRODUCTS:
        return list(_product_areas(command, view))
    if opcode in CHAINS:
        return list(_chain_areas(command, view))
    if opcode == Opcode.LOAD:
        table = VectorTable(command.which)
        first, length = command.first, command.count
        return [Area(name=table.name.lower(), first=first, length=length, table=table)]
    if opcode == Opcode.STORE:
        table = VectorTable(command.which)
        length = 4 * entry_words(table, view.limits.block) * command.count
        first = command.address_x + view.step * command.advance
        return [Area(name=f"stored {table.name.lower()}", first=first, length=length)]
    return []


def _conversion_areas(command: Command, view: MachineView) -> Iterator[Area]:
    name = CLASS_NAMES[command.class_x]
    planes = view.images.numerics.tensor_class(name).format.planes
    width = PLANE_BITS * (command.width + 1) if planes else None
    if command.by_slot:
        width = _next_width(command.slot, view)
    addresses = command.address_w, command.address_dy
    yield from _image_areas(name, (command.m, command.n), width, addresses, view)
    yield from _slot_areas(command.slot, command, view)


def _image_areas(
    name: str,
    shape: tuple[int, int],
    width: int | None,
    addresses: tuple[int, int],
    view: MachineView,
) -> Iterator[Area]:
    sizes = view.images.sizes(name, shape, width)
    for number, length in enumerate(sizes):
        copy = f", copy {number}" if len(sizes) > 1 else ""
        yield Area(name=f"image {name}{copy}", first=addresses[number], length=length)


def _next_width(slot_plus_1: int, view: MachineView) -> int:
    """Return the bits of a magnitude for a slot's next tensor."""
    return PLANE_BITS * (1 + view.tables.next_planes(slot_plus_1 - 1))


def _slot_areas(
    slot_plus_1: int, writer: Command | Descriptor, view: MachineView
) -> Iterator[Area]:
    first = slot_plus_1 - 1
    if slot_plus_1:
        words = view.limits.slot_words
        yield Area(name="amax", first=first * words, length=words, table=VectorTable.AMAX)
    if writer.by_slot or writer.decides:
        yield Area(name="widths", first=first, length=1, table=VectorTable.WIDTHS)


def _product_areas(command: Command, view: MachineView) -> Iterator[Area]:
    operation = PRODUCTS[Opcode(command.opcode)]
    for result, address in zip(operation.results, operation.result_fields, strict=True):
        rows, cols = (getattr(command, axis) for axis in result.axes)
        layout = FloatLayout(rows=rows, cols=cols, data_width=view.limits.data_width)
        yield Area(
            name=result.name,
            first=getattr(command, address),
            length=4 * cols,
            count=rows,
            pitch=layout.pitch_bytes,
        )


def _chain_areas(command: Command, view: MachineView) -> Iterator[Area]:
    first, tables = command.program, view.tables
    program = tables.instructions[first : first + command.program_length]
    walk = walk_of(command, view.limits.block)
    for number in named_streams(program)[1]:
        stream = tables.descriptors[command.streams + INPUTS + number]
        name = f"output {number}, {Kind(stream.kind).name.lower()}"
        if stream.kind == Kind.IMAGE:
            shape = walk.rows, walk.cols
            addresses = stream.address, stream.address + stream.offset
            width = _next_width(stream.aux, view) if stream.by_slot else None
            name = CLASS_NAMES[stream.tensor_class]
            yield from _image_areas(name, shape, width, addresses, view)
            yield from _slot_areas(stream.aux, stream, view)
        elif stream.kind == Kind.PANEL:
            length = panel_vectors(stream, walk) - stream.address
            yield Area(name=name, first=stream.address, length=length, table=VectorTable.PANEL)
        elif stream.kind == Kind.CONSTANT:
            yield Area(name=name, first=stream.address, length=1, table=VectorTable.CONSTANTS)
        else:
            yield _stream_areas(name, stream, walk, view.step)


def _stream_areas(name: str, stream: Descriptor, walk: Walk, step: int) -> Area:
    """Return the area of an output stream in memory."""
    count, length = walk.rows, 0
    if stream.kind in (Kind.ROW, Kind.COLUMN):
        count, length = 1, 4 * (walk.rows if stream.kind == Kind.ROW else walk.cols)
    elif stream.kind == Kind.MASK:
        count, length = walk.block_rows, mask_bytes(walk.cols, walk.block)
    else:
        length = row_bytes(stream.kind, walk.cols)
    return Area(
        name=name,
        first=stream.at_step(step),
        length=length,
        count=count,
        pitch=stream.pitch,
    )
