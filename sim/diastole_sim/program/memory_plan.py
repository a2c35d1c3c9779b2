"""Where a program has its tensors: in memory, and in the panel of the vector unit."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from diastole_sim.spec.command import Command
from diastole_sim.spec.image import image_layouts, round_up
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics
from diastole_sim.spec.stream_table import ELEMENT_BITS, ROWS, Descriptor, Kind, PanelOrder

LINE_BYTES = 64
"""Areas begin on such a multiple: on a beat of every bus."""
INT32 = "int32"
"""Kind of an area of integers; the others are those of streams in small letters, ``image x`` and
the like, ``table`` and ``commands``."""


@dataclass(frozen=True, kw_only=True)
class PlannedArea:
    """``length`` bytes from ``address`` on. ``kind``: see :data:`INT32`. ``shape``: of the tensor.
    ``pitch``: bytes from a row to the next, of a mask from a row of blocks."""

    name: str
    address: int
    length: int
    kind: str
    shape: tuple[int, ...]
    pitch: int = 0

    @property
    def end(self) -> int:
        return self.address + self.length


@dataclass(frozen=True, kw_only=True)
class PlannedImage:
    """A tensor that products read: ``addresses`` of its copies, of one twice. ``tag``: of its
    draws. ``slot``: of its scale, None where it has none of its own. ``by_slot``: its width is the
    one that the slot says, and with ``decides`` it decides the next."""

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
        """As the output of a chain."""
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
    """A stream and the ``name`` of what it reads or writes."""

    name: str
    descriptor: Descriptor


@dataclass(kw_only=True)
class MemoryPlan:
    """Hands out memory from address 0 on, and vectors of the panel. ``data_width``: bits of a beat;
    ``panel_vectors`` of ``block`` numbers each; ``in_panel``: by name the first vector of each, and
    the one behind its last. ``slots``: of scales, up to the last that an image has. ``by_slot``:
    classes whose images have the width that their slot says."""

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
        self, name: str, kind: str, shape: tuple[int, ...], length: int, pitch: int = 0
    ) -> PlannedArea:
        """So many bytes. ValueError if the name is taken."""
        if name in self.areas:
            raise ValueError(f"there is an area {name} already")
        area = PlannedArea(
            name=name, address=self.end, length=length, kind=kind, shape=shape, pitch=pitch
        )
        self.areas[name] = area
        self.end += round_up(length, LINE_BYTES)
        return area

    def commands(self, name: str, commands: Sequence[Command]) -> tuple[PlannedArea, bytes]:
        """A place for them, and the bytes that they are there."""
        data = b"".join(command.encode() for command in commands)
        return self.take(name, "commands", (len(commands),), len(data)), data

    def tensor(self, name: str, kind: Kind, rows: int, cols: int) -> PlannedArea:
        """Rows of a kind that has a pitch."""
        if kind == Kind.MASK:
            high, wide = -(-rows // self.block), -(-cols // self.block)
            pitch = round_up(-(-wide * self.block**2 // 8), self.beat_bytes)
            return self.take(name, _kind(kind), (rows, cols), high * pitch, pitch)
        pitch = round_up(cols * ELEMENT_BITS[kind] // 8, self.beat_bytes)
        return self.take(name, _kind(kind), (rows, cols), rows * pitch, pitch)

    def vector(self, name: str, kind: Kind, size: int) -> PlannedArea:
        """A float per column or row; where it ends, zeros until :meth:`folded` has no more rows."""
        rows, columns = self.folded(size)
        return self.take(name, _kind(kind), (size,), 4 * rows * columns)

    def folded(self, size: int) -> tuple[int, int]:
        """Rows and columns of a tensor that has a vector's numbers row after row, rows of whole
        blocks and beats, and at most as many as a block."""
        unit = max(self.block, self.beat_bytes // 4)
        columns = round_up(-(-size // self.block), unit)
        return -(-size // columns), columns

    def by_step(self, name: str, kind: str, steps: int, size: int) -> PlannedArea:
        """``size`` words of 32 bits for every step, each on a beat."""
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
        """A quantised tensor, all its copies. ``decides``: as of :class:`PlannedImage`, where its
        class is one whose slots say widths."""
        rows, cols = shape
        chosen = self.numerics.converted_class(tensor_class)
        layouts = image_layouts(chosen, shape, block=self.block, data_width=self.data_width)
        sizes = [chosen.format.plane_count * layout.total_bytes for layout in layouts]
        kind = f"image {tensor_class}"
        first = self.take(name, kind, (rows, cols), sizes[0])
        second = first
        if len(sizes) > 1:
            second = self.take(f"{name}, second copy", kind, (cols, rows), sizes[1])
        by_slot = tensor_class in self.by_slot
        delayed = chosen.has_tensor_scale and self.numerics.source == "delayed"
        if not (delayed or by_slot):
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

    def panel(self, name: str, order: PanelOrder, rows: int, cols: int) -> BoundStream | None:
        """A tensor of ``rows`` x ``cols``, or a vector along them, in the panel; None if there is
        no room left."""
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
        """Take back what lies there from a vector on."""
        self.panel_end = first
        self.in_panel = {name: place for name, place in self.in_panel.items() if place[0] < first}


def stream_of(
    area: PlannedArea, kind: Kind | None = None, *, per_step: bool = False
) -> BoundStream:
    """The stream of an area. ``kind``: where it is read as another than it is. ``per_step``: a row
    of it in every step, of kinds that have no pitch."""
    chosen = Kind[area.kind.upper()] if kind is None else kind
    offset = {"per_step": 1, "offset": area.pitch} if per_step else {}
    pitch = area.pitch if chosen in ROWS else 0
    placed = Descriptor(kind=chosen, address=area.address, pitch=pitch, **offset)
    return BoundStream(name=area.name, descriptor=placed)


def folded_stream(area: PlannedArea, columns: int) -> BoundStream:
    """The numbers of a vector as a tensor of so many columns."""
    placed = Descriptor(kind=Kind.F32, address=area.address, pitch=4 * columns)
    return BoundStream(name=area.name, descriptor=placed)


def _kind(kind: Kind) -> str:
    return kind.name.lower()
