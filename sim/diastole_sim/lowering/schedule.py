"""Group the parts of a network into chains, at the drain of a product where possible."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from diastole_sim.program.fusion import FLOATS, ChainPart, Fused, FusionError, Value, fused
from diastole_sim.program.memory_plan import BoundStream, PlannedImage
from diastole_sim.program.writer import ChainCall, Output, ProductOf, Writer
from diastole_sim.spec.stream_table import Descriptor, Kind

Operand: TypeAlias = Value | PlannedImage
ValueImage: TypeAlias = tuple[Value, str]
"""Value and class of an image that is made of the value."""
Stored: TypeAlias = Mapping[Value, Sequence[str]]
"""Forms in which memory receives a value, by value."""
PRODUCT = BoundStream(name="product", descriptor=Descriptor(kind=Kind.PRODUCT))
"""Stream of the product's result, for a chain at the drain of the product."""


@dataclass(frozen=True, kw_only=True)
class Multiplication:
    """Product of a schedule.

    - ``layer``: number of the linear layer.
    - ``operands``: by class, an image, or a value of which an image is made.
    - ``result``: value of the product.

    ``operation``, ``m``, ``n`` and ``k`` are as in :class:`ProductOf`.
    """

    layer: int
    operation: str
    m: int
    n: int
    k: int
    operands: Mapping[str, Operand]
    result: Value

    @property
    def images(self) -> list[ValueImage]:
        """Values that the product reads as images."""
        return [(each, name) for name, each in self.operands.items() if isinstance(each, str)]

    def of(self, images: Mapping[ValueImage, PlannedImage]) -> ProductOf:
        """Return the product with placed operands."""
        operands = {
            name: images[each, name] if isinstance(each, str) else each
            for name, each in self.operands.items()
        }
        return ProductOf(
            operation=self.operation,
            m=self.m,
            n=self.n,
            k=self.k,
            operands=operands,
            layer=self.layer,
        )


@dataclass(kw_only=True)
class Group:
    """Parts that one chain does, and the product at whose drain the chain is. A group without
    parts is a product alone.

    - ``stored``: forms in which memory receives the values of the group, by value.
    - ``converted``: images that are converted from floats after the chain.
    """

    product: Multiplication | None = None
    parts: list[ChainPart] = field(default_factory=list[ChainPart])
    stored: Stored = field(default_factory=dict[Value, list[str]])
    converted: list[ValueImage] = field(default_factory=list[ValueImage])

    @property
    def values(self) -> list[Value]:
        """Values that the group computes."""
        own = [self.product.result] if self.product else []
        return own + [value for part in self.parts for value in part.writes()]

    def accepts(self, part: ChainPart) -> bool:
        """Return whether one command may do a further part: both have the same fields."""
        lists = {each.row_list for each in [*self.parts, part]} - {None}
        return (
            not any(each.apart or each.skip != part.skip for each in self.parts) and len(lists) <= 1
        )


class ProgramSchedule:
    """Products and parts of a program, in an order in which each follows everything it reads.

    - ``block``: B.
    - ``shapes``: rows and columns by value.
    """

    def __init__(self, block: int):
        self.block = block
        self.shapes: dict[Value, tuple[int, int]] = {}
        self._entries: list[Multiplication | ChainPart] = []
        self._kinds: dict[Value, Kind] = {}
        self.kept: dict[Value, BoundStream] = {}
        self._layers: dict[ValueImage, int] = {}

    def multiply(self, product: Multiplication) -> None:
        """Append a product."""
        self._entries.append(product)
        placeholder = ProductOf(
            operation=product.operation, m=product.m, n=product.n, k=product.k, operands={}
        )
        self.shapes[product.result] = placeholder.shape
        for image in product.images:
            self._layers[image] = min(product.layer, self._layers.get(image, product.layer))

    def add(self, part: ChainPart) -> None:
        """Append a part."""
        self._entries.append(part)
        for name, target in part.outputs.items():
            if isinstance(target, str):
                self.shapes[target] = part.shape
                kinds = [kind for kind in part.chain.outputs[name].kinds if kind != Kind.IMAGE]
                self._kinds[target] = kinds[0] if kinds else Kind.F32

    def keep(self, value: Value, stream: BoundStream) -> None:
        """Let memory receive a value at a place, for a reader outside of the schedule."""
        self.kept[value] = stream

    def grouped(self) -> "GroupedSchedule":
        """Return the schedule in groups: as many parts as one chain can do."""
        readers = _readers(self._entries)
        images: dict[Value, list[str]] = {}
        for value, tensor_class in self._layers:
            images.setdefault(value, []).append(tensor_class)
        return _Grouping(self.block, readers, images, set(self.kept)).of(self)

    def entries(self) -> Iterator[Multiplication | ChainPart]:
        return iter(self._entries)

    def kind(self, value: Value) -> Kind:
        """Return the kind of a value in memory."""
        return self._kinds.get(value, Kind.F32)

    @property
    def image_layers(self) -> Mapping[ValueImage, int]:
        """Number of the first layer that reads each image."""
        return self._layers


def _readers(entries: Sequence[Multiplication | ChainPart]) -> dict[Value, set[int]]:
    """Return, for each value, the indices of the chains in ``entries`` that read the value."""
    readers: dict[Value, set[int]] = {}
    for place, entry in enumerate(entries):
        if isinstance(entry, ChainPart):
            for value in entry.reads():
                readers.setdefault(value, set()).add(place)
    return readers


class _Grouping:
    """Groups so far. ``readers``, ``images``: parts and images by value. ``kept``: values that
    memory keeps."""

    def __init__(
        self,
        block: int,
        readers: Mapping[Value, set[int]],
        images: Mapping[Value, Sequence[str]],
        kept: set[Value],
    ):
        self.block, self.readers, self.images, self.kept = block, readers, images, kept
        self.groups: list[Group] = []
        self.members: list[set[int]] = []
        self.owners: dict[Value, int] = {}

    def of(self, schedule: ProgramSchedule) -> "GroupedSchedule":
        for place, entry in enumerate(schedule.entries()):
            if isinstance(entry, Multiplication):
                self._open(Group(product=entry), place)
                self.owners[entry.result] = len(self.groups) - 1
                continue
            found = self._fitting(entry, place)
            if found is None:
                self._open(Group(parts=[entry]), place)
                found = len(self.groups) - 1
            else:
                self.groups[found].parts.append(entry)
                self.members[found].add(place)
            self.owners |= dict.fromkeys(entry.writes(), found)
        for group, members in zip(self.groups, self.members, strict=True):
            group.stored, group.converted = _one_image(self._stored(group, members))
        return GroupedSchedule(schedule, self.groups)

    def _open(self, group: Group, place: int) -> None:
        self.groups.append(group)
        self.members.append({place})

    def _fitting(self, part: ChainPart, place: int) -> int | None:
        """Return the group that a part joins: the group of the latest value that the part reads.
        None if the part needs a group of its own."""
        if part.apart or not part.reads():
            return None
        latest = max(self.owners[value] for value in part.reads())
        group = self.groups[latest]
        if not group.accepts(part) or self._must_follow(part, latest):
            return None
        trial = Group(product=group.product, parts=[*group.parts, part])
        try:
            self._fused(trial, self.members[latest] | {place})
        except FusionError:
            return None
        return latest

    def _must_follow(self, part: ChainPart, latest: int) -> bool:
        """Return whether a group from ``latest`` on must be done before the part begins."""
        reads, writes = _streams(part.inputs), _streams(part.outputs)
        return any(
            (reads | writes) & _streams(each.outputs) or writes & _streams(each.inputs)
            for group in self.groups[latest:]
            for each in group.parts
        )

    def _fused(self, group: Group, members: set[int]) -> Fused:
        head = group.product and group.product.result
        stored, _ = _one_image(self._stored(group, members))
        return fused(group.parts, stored, block=self.block, head=head)

    def _stored(self, group: Group, members: set[int]) -> Stored:
        """Return the forms in which memory receives the values of a group: images, and floats for
        readers outside of the group."""
        outside = {
            value
            for value in group.values
            if value in self.kept or self.readers.get(value, set()) - members
        }
        stored = {
            value: [*[FLOATS] * (value in outside), *self.images.get(value, ())]
            for value in group.values
        }
        return {value: forms for value, forms in stored.items() if forms}


def _streams(bound: Mapping[str, object]) -> set[str]:
    """Return the names of the streams and images among sources or targets."""
    return {each.name for each in bound.values() if isinstance(each, (BoundStream, PlannedImage))}


def _one_image(stored: Stored) -> tuple[Stored, list[ValueImage]]:
    """Return the forms with at most one image, since there is a single converter, and the images
    that are converted afterwards from floats."""
    images = [(value, form) for value, forms in stored.items() for form in forms if form != FLOATS]
    later = images[1:]
    kept = {
        value: [form for form in forms if (value, form) not in later]
        for value, forms in stored.items()
    }
    for value, _ in later:
        if FLOATS not in kept[value]:
            kept[value].append(FLOATS)
    return kept, later


class GroupedSchedule:
    """Groups of the parts of a :class:`ProgramSchedule`, in order."""

    def __init__(self, schedule: ProgramSchedule, groups: Sequence[Group]):
        self.schedule, self.groups = schedule, groups

    def in_memory(self) -> list[Value]:
        """Return the values that memory receives as numbers, in the order of the groups."""
        stored = (each for group in self.groups for each in group.stored.items())
        return [value for value, forms in stored if FLOATS in forms]

    def write(
        self,
        writer: Writer,
        images: Mapping[ValueImage, PlannedImage],
        floats: Mapping[Value, BoundStream],
    ) -> None:
        """Append the commands of all groups. ``images``, ``floats``: places of the values in
        memory."""
        for group in self.groups:
            _GroupCommands(self.schedule, group, images, floats).write(writer)


@dataclass(frozen=True)
class _GroupCommands:
    """Commands of a group. ``images``, ``floats``: places of the values in memory."""

    schedule: ProgramSchedule
    group: Group
    images: Mapping[ValueImage, PlannedImage]
    floats: Mapping[Value, BoundStream]

    def write(self, writer: Writer) -> None:
        """Append the commands."""
        group = self.group
        product = group.product and group.product.of(self.images)
        alone = not group.parts and list(group.stored.values()) == [[FLOATS]]
        if product is not None and alone:
            writer.product(product, self.floats[group.values[0]])
        else:
            writer.chain(self._use(), product)
        for value, tensor_class in group.converted:
            writer.convert(self.floats[value], self.images[value, tensor_class])

    def _use(self) -> ChainCall:
        """Return the chain of the group with all arguments."""
        group, parts = self.group, self.group.parts
        head = group.product and group.product.result
        made = fused(parts, group.stored, block=self.schedule.block, head=head)
        outputs: dict[str, Output] = dict(made.outputs)
        for name, (value, form) in made.stored.items():
            outputs[name] = self.floats[value] if form == FLOATS else self.images[value, form]
        return ChainCall(
            chain=made.chain,
            shape=self.schedule.shapes[group.values[0]] if group.values else parts[0].shape,
            inputs={name: self._source(source) for name, source in made.inputs.items()},
            outputs=outputs,
            numbers=made.numbers,
            row_list=next((each.row_list for each in parts if each.row_list), None),
            skip=any(each.skip for each in parts),
            update=head is None and any(each.update for each in parts),
        )

    def _source(self, source: Value | BoundStream) -> BoundStream:
        if isinstance(source, BoundStream):
            return source
        product = self.group.product
        if product is not None and source == product.result:
            return PRODUCT
        return self.floats[source]
