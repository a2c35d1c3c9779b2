"""Decide which commands may begin before the command before is done, from reads and writes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from diastole_sim.host.running import AddressRange
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_check import max_planes
from diastole_sim.spec.command_table import PRODUCTS, Opcode
from diastole_sim.spec.image import FloatLayout, image_layouts
from diastole_sim.spec.limits import PLANE_CHOICES
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics


@dataclass(frozen=True, kw_only=True)
class Areas:
    """Areas of memory that a command reads and writes."""

    reads: tuple[AddressRange, ...]
    writes: tuple[AddressRange, ...]

    def may_overlap(self, earlier: "Areas") -> bool:
        """Return whether a command may begin before an earlier command with the areas ``earlier``
        is done. The command must read no area in ``earlier.writes``, and write no area in
        ``earlier.reads`` or ``earlier.writes``."""
        touched = (*earlier.reads, *earlier.writes)
        return not (_overlap(self.reads, earlier.writes) or _overlap(self.writes, touched))


def _overlap(ranges: Iterable[AddressRange], further: Sequence[AddressRange]) -> bool:
    return any(a[0] < b[1] and b[0] < a[1] for a in ranges for b in further)


def areas_of(command: Command, numerics: Numerics, data_width: int) -> Areas:
    """Return the areas of a valid command."""
    if command.opcode == Opcode.CONVERT:
        return _conversion_areas(command, numerics, data_width)
    operation = PRODUCTS[Opcode(command.opcode)]
    sizes = {"m": command.m, "n": command.n, "k": command.k}
    reads: list[AddressRange] = []
    for read in operation.reads:
        operand = read.operand
        shape = sizes[operand.rows], sizes[operand.columns]
        images = _images(operand.tensor_class, shape, numerics, data_width)
        if read.second and len(images) == 1:
            continue
        size = images[read.copy if len(images) > 1 else 0]
        planes = max_planes(vars(command), operand.tensor_class)
        reads.append(_range(getattr(command, read.field), planes * size))
    writes = [
        _range(
            getattr(command, field),
            FloatLayout(
                rows=sizes[tensor.rows], cols=sizes[tensor.columns], data_width=data_width
            ).total_bytes,
        )
        for tensor, field in zip(operation.results, operation.result_fields, strict=True)
    ]
    return Areas(reads=tuple(reads), writes=tuple(writes))


def _conversion_areas(command: Command, numerics: Numerics, data_width: int) -> Areas:
    floats = FloatLayout(rows=command.m, cols=command.n, data_width=data_width)
    name = CLASS_NAMES[command.class_x]
    images = _images(name, (command.m, command.n), numerics, data_width)
    places = (command.address_w, command.address_dy)
    planes = max(PLANE_CHOICES) if command.by_slot else command.width + 1
    return Areas(
        reads=(_range(command.address_x, floats.total_bytes),),
        writes=tuple(_range(at, planes * size) for at, size in zip(places, images, strict=False)),
    )


def _images(
    tensor_class: str, shape: tuple[int, int], numerics: Numerics, data_width: int
) -> list[int]:
    """Return the bytes of the images of a tensor, of one plane of each image."""
    storage = numerics.tensor_class(tensor_class)
    layouts = image_layouts(storage, shape, block=numerics.block, data_width=data_width)
    return [layout.total_bytes for layout in layouts]


def _range(start: int, size: int) -> AddressRange:
    return start, start + size


def mark_overlaps(
    commands: Sequence[Command], numerics: Numerics, data_width: int
) -> tuple[Command, ...]:
    """Return the commands with the field ``ahead``: whether a command may begin before the command
    before is done."""
    marked: list[Command] = []
    before = None
    for command in commands:
        areas = areas_of(command, numerics, data_width)
        ahead = before is not None and areas.may_overlap(before)
        marked.append(replace(command, ahead=int(ahead)))
        before = areas
    return tuple(marked)
