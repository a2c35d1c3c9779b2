"""Plan the places of a program's tensors in memory and in the panel of the vector unit."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from diastole_sim.spec.command import Command
from diastole_sim.spec.image import image_layouts, round_up
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics
from diastole_sim.spec.stream_table import ELEMENT_BITS, ROWS, Descriptor, Kind, PanelOrder

LINE_BYTES = 64
"""Alignment of areas in bytes: every area begins on a beat of every bus."""
INT32 = "int32"
"""Kind of an area of integers. Further kinds are the names of stream kinds in small letters,
``image x`` and similar names, ``table`` and ``commands``."""


@dataclass(frozen=True, kw_only=True)
class Life:
    """Life of an area: the commands with the numbers ``first`` to ``last`` of a ``run`` use the
    area. ``run``: name of the area with the commands, for training or evaluation."""

    run: str
    first: int
    last: int

    def at(self, run: str, number: int) -> bool:
        """Return whether the area is alive at a command."""
        return self.run == run and self.first <= number <= self.last

    def meets(self, other: "Life", *, apart: int) -> bool:
        """Return whether two lives are fewer than ``apart`` commands apart."""
        if self.run != other.run:
            return False
        return self.first < other.last + apart and other.first < self.last + apart


@dataclass(frozen=True, kw_only=True)
class PlannedArea:
    """Area of ``length`` bytes from ``address`` on.

    - ``kind``: kind of the contents; see :data:`INT32`.
    - ``shape``: shape of the tensor.
    - ``pitch``: bytes from a row to the next row; for a mask, from a row of blocks to the next.
    - ``zeros``: True if bytes that no command writes are read, as zeros. The area shares no memory.
    - ``life``: commands that use the area, None for an area that always has its contents. Areas
      share memory if their lives are apart.
    """

    name: str
    address: int
    length: int
    kind: str
    shape: tuple[int, ...]
    pitch: int = 0
    zeros: bool = False
    life: Life | None = None

    @property
    def end(self) -> int:
        return self.address + self.length


@dataclass(frozen=True, kw_only=True)
class PlannedImage:
    """Image: a quantised tensor in memory, which products read.

    - ``addresses``: addresses of the two copies, equal if the tensor has a single copy.
    - ``tag``: tag of the random bits.
    - ``slot``: slot of the tensor's scale or width, None without a slot.
    - ``by_slot``: the slot gives the width of the tensor.
    - ``decides``: with ``by_slot``, the monitor's counts of this tensor decide the width of the
      next tensor.
    """

    name: str
    tensor_class: str
    rows: int
    cols: int
    addresses: tuple[int, int]
    tag: int
    slot: int | None
    by_slot: bool = False
    decides: bool = False

    def descriptor(self) -> Descriptor:
        """Return the descriptor of the image as the output of a chain."""
        return Descriptor(
            kind=Kind.IMAGE,
            address=self.addresses[0],
            offset=self.addresses[1] - self.addresses[0],
            tensor_class=CLASS_NAMES.index(self.tensor_class),
            pitch=self.tag,
            aux=0 if self.slot is None else self.slot + 1,
            by_slot=int(self.by_slot),
            decides=int(self.decides),
        )


@dataclass(frozen=True, kw_only=True)
class BoundStream:
    """Stream and the ``name`` of the tensor that the stream reads or writes."""

    name: str
    descriptor: Descriptor


@dataclass(kw_only=True)
class MemoryPlan:
    """Allocate memory from address 0 on, and vectors of the panel.

    - ``data_width``: bits of a beat.
    - ``panel_vectors``: number of vectors in the panel, of ``block`` numbers each.
    - ``in_panel``: by name, the first vector of a tensor and the vector after the last.
    - ``slots``: number of slots of scales, up to the last slot of an image.
    - ``by_slot``: classes whose images have the width given by their slots.
    """

    numerics: Numerics
    data_width: int
    panel_vectors: int
    by_slot: tuple[str, ...] = ()
    areas: dict[str, PlannedArea] = field(default_factory=dict[str, PlannedArea])
    in_panel: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    end: int = 0
    panel_end: int = 0
    slots: int = 0

    @property
    def beat_bytes(self) -> int:
        return self.data_width // 8

    @property
    def block(self) -> int:
        return self.numerics.block

    def take(
        self,
        name: str,
        kind: str,
        shape: tuple[int, ...],
        length: int,
        pitch: int = 0,
        *,
        zeros: bool = False,
    ) -> PlannedArea:
        """Allocate ``length`` bytes. ``zeros``: as in :class:`PlannedArea`. ValueError if the name
        is in use."""
        if name in self.areas:
            raise ValueError(f"the memory plan has an area {name} already")
        area = PlannedArea(
            name=name,
            address=self.end,
            length=length,
            kind=kind,
            shape=shape,
            pitch=pitch,
            zeros=zeros,
        )
        self.areas[name] = area
        self.end += round_up(length, LINE_BYTES)
        return area

    def commands(self, name: str, commands: Sequence[Command]) -> tuple[PlannedArea, bytes]:
        """Allocate an area for commands. Return the area and the bytes of the commands."""
        data = b"".join(command.encode() for command in commands)
        return self.take(name, "commands", (len(commands),), len(data)), data

    def tensor(
        self, name: str, kind: Kind, rows: int, cols: int, *, zeros: bool = False
    ) -> PlannedArea:
        """Allocate a tensor of a kind with a pitch. ``zeros``: as in :class:`PlannedArea`."""
        if kind == Kind.MASK:
            high, wide = -(-rows // self.block), -(-cols // self.block)
            pitch = round_up(-(-wide * self.block**2 // 8), self.beat_bytes)
            return self.take(name, _kind(kind), (rows, cols), high * pitch, pitch)
        pitch = round_up(cols * ELEMENT_BITS[kind] // 8, self.beat_bytes)
        return self.take(name, _kind(kind), (rows, cols), rows * pitch, pitch, zeros=zeros)

    def vector(self, name: str, kind: Kind, size: int) -> PlannedArea:
        """Allocate a vector of one float per column or row. Zeros fill the rows of :meth:`folded`
        behind the end of the vector."""
        rows, columns = self.folded(size)
        return self.take(name, _kind(kind), (size,), 4 * rows * columns, zeros=True)

    def folded(self, size: int) -> tuple[int, int]:
        """Return the rows and columns of a tensor that holds the numbers of a vector row after row.
        A row is whole blocks and whole beats. The tensor has at most as many rows as a block."""
        unit = max(self.block, self.beat_bytes // 4)
        columns = round_up(-(-size // self.block), unit)
        return -(-size // columns), columns

    def by_step(self, name: str, kind: str, steps: int, size: int) -> PlannedArea:
        """Allocate ``size`` words of 32 bits for every step. The words of a step begin on a
        beat."""
        pitch = round_up(4 * size, self.beat_bytes)
        return self.take(name, kind, (steps, size), steps * pitch, pitch)

    def image(
        self,
        name: str,
        tensor_class: str,
        shape: tuple[int, int],
        *,
        tag: int,
        slot: int | None,
        decides: bool = False,
    ) -> PlannedImage:
        """Allocate a quantised tensor with all copies. ``decides``: as in :class:`PlannedImage`, if
        the width of the class is given by slots."""
        rows, cols = shape
        storage = self.numerics.converted_class(tensor_class)
        layouts = image_layouts(storage, shape, block=self.block, data_width=self.data_width)
        sizes = [storage.format.plane_count * layout.total_bytes for layout in layouts]
        kind = f"image {tensor_class}"
        first = self.take(name, kind, (rows, cols), sizes[0])
        second = first
        if len(sizes) > 1:
            second = self.take(f"{name}, second copy", kind, (cols, rows), sizes[1])
        by_slot = tensor_class in self.by_slot
        if not self.needs_slots(tensor_class):
            slot = None
        if slot is not None:
            self.slots = max(self.slots, slot + 1)
        return PlannedImage(
            name=name,
            tensor_class=tensor_class,
            rows=rows,
            cols=cols,
            addresses=(first.address, second.address),
            tag=tag,
            slot=slot,
            by_slot=by_slot,
            decides=by_slot and decides,
        )

    def needs_slots(self, tensor_class: str) -> bool:
        """Return whether images of a class need a slot, of a delayed scale or of a width."""
        return self.needs_scale(tensor_class) or tensor_class in self.by_slot

    def needs_scale(self, tensor_class: str) -> bool:
        """Return whether images of a class have a delayed scale."""
        storage = self.numerics.converted_class(tensor_class)
        return storage.has_tensor_scale and self.numerics.source == "delayed"

    def panel(self, name: str, order: PanelOrder, rows: int, cols: int) -> BoundStream | None:
        """Allocate a tensor of ``rows`` x ``cols`` in the panel, or a vector along the rows or
        columns. Return None if the panel has too few free vectors."""
        high, wide = -(-rows // self.block), -(-cols // self.block)
        blocks = {PanelOrder.BLOCK: high * wide, PanelOrder.BLOCK_ROW: high}.get(order, wide)
        first, end = self.panel_end, self.panel_end + blocks * self.block
        if end > self.panel_vectors:
            return None
        self.panel_end = end
        self.in_panel[name] = first, end
        pitch = wide if order == PanelOrder.BLOCK else 0
        placed = Descriptor(kind=Kind.PANEL, address=first, aux=order, pitch=pitch)
        return BoundStream(name=name, descriptor=placed)

    def empty_panel(self, first: int) -> None:
        """Free the panel from vector ``first`` on."""
        self.panel_end = first
        self.in_panel = {name: place for name, place in self.in_panel.items() if place[0] < first}


def stream_of(
    area: PlannedArea, kind: Kind | None = None, *, per_step: bool = False
) -> BoundStream:
    """Return the stream of an area.

    - ``kind``: kind of the stream, if different from the kind of the area.
    - ``per_step``: the stream is a row of the area for every step; for kinds without a pitch.
    """
    stream_kind = Kind[area.kind.upper()] if kind is None else kind
    offset = {"per_step": 1, "offset": area.pitch} if per_step else {}
    pitch = area.pitch if stream_kind in ROWS else 0
    placed = Descriptor(kind=stream_kind, address=area.address, pitch=pitch, **offset)
    return BoundStream(name=area.name, descriptor=placed)


def folded_stream(area: PlannedArea, columns: int) -> BoundStream:
    """Return a stream that reads or writes a vector as a tensor of ``columns`` columns."""
    placed = Descriptor(kind=Kind.F32, address=area.address, pitch=4 * columns)
    return BoundStream(name=area.name, descriptor=placed)


def _kind(kind: Kind) -> str:
    return kind.name.lower()
