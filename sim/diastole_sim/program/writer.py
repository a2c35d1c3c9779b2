"""Write commands of products and chains, by the names of the tensors that they read and write."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from diastole_sim.program.chain import Chain
from diastole_sim.program.command_list import CommandList
from diastole_sim.program.memory_plan import BoundStream, MemoryPlan, PlannedImage, stream_of
from diastole_sim.program.program_tables import FullTableError, ProgramTables
from diastole_sim.spec.chains import chain_faults
from diastole_sim.spec.command import (
    DEFAULT_NEST,
    MEASURE,
    Command,
    ProgramPlace,
    scale_field,
)
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.command_table import CHAINED, PRODUCTS
from diastole_sim.spec.limits import PLANE_CHOICES, Limits, VectorTable
from diastole_sim.spec.micro import INPUTS
from diastole_sim.spec.nest import Nest, NestLimits
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.operations import Operation
from diastole_sim.spec.scales import amax_exponent
from diastole_sim.spec.stream_table import (
    GATHERED,
    SLOTS,
    STREAMS,
    Descriptor,
    Kind,
    PanelOrder,
)

OPERATION_OPCODES = {operation.name: opcode for opcode, operation in PRODUCTS.items()}
CHAINED_OPCODES = {operation.name: opcode for opcode, operation in CHAINED.items()}
Output = BoundStream | PlannedImage
THRESHOLDS = "thresholds"
"""Name of the thresholds that decide widths."""
SHORTEST_TILE = 2
"""Blocks of the streaming operand in the shortest tile of a product. A chain begins early with
short tiles, and passes of this length still hide the loads of the next pass."""


@dataclass(frozen=True, kw_only=True)
class ProductOf:
    """Product whose result goes to a chain or to memory. ``operation``: name of the operation.
    ``m``, ``n``, ``k``: sizes. ``operands``: operands by class. ``layer``: number of the linear
    layer, None if unknown."""

    operation: str
    m: int
    n: int
    k: int
    operands: Mapping[str, PlannedImage]
    layer: int | None = None

    @property
    def definition(self) -> Operation:
        return PRODUCTS[OPERATION_OPCODES[self.operation]]

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the result."""
        rows, cols = self.definition.results[0].axes
        return getattr(self, rows), getattr(self, cols)

    def addresses(self) -> dict[str, int]:
        """Return the addresses of the copies that the product reads, by field of the command."""
        return {
            read.field: self.operands[read.operand.tensor_class].addresses[read.copy]
            for read in self.definition.reads
            if not read.second
        }


@dataclass(frozen=True, kw_only=True)
class ChainCall:
    """Chain and its arguments.

    - ``shape``: shape of the chain's tensor; at the drain of a product the shape of the result.
    - ``values``, ``numbers``: constants as in :meth:`ProgramTables.place`.
    - ``row_list``: list of gathered rows.
    - ``skip``, ``update``: fields of the command.
    """

    chain: Chain
    shape: tuple[int, int]
    inputs: Mapping[str, BoundStream]
    outputs: Mapping[str, Output]
    values: Mapping[str, float] = field(default_factory=dict[str, float])
    numbers: Mapping[str, int] = field(default_factory=dict[str, int])
    row_list: BoundStream | None = None
    skip: bool = False
    update: bool = False


class Writer:
    """Append commands to ``commands``. Tables and memory belong to one program. ``floats``: streams
    of floats by the name of an image that a chain may not make, or of a product."""

    def __init__(self, plan: MemoryPlan, limits: Limits):
        self.plan, self.limits = plan, limits
        self.tables = ProgramTables(plan.block)
        self._stretches = [(self.tables, 0)]
        self.commands = CommandList()
        self.floats: dict[str, BoundStream] = {}

    def segment(self, write: Callable[[], None]) -> CommandList:
        """Return the commands that ``write`` appends, as a separate list."""
        before, self.commands = self.commands, CommandList()
        write()
        segment, self.commands = self.commands, before
        return segment

    def with_tables(
        self, segment: CommandList, initial: dict[str, bytes], name: str
    ) -> tuple[CommandList, CommandList]:
        """Return commands that fill the tables of the chains of ``segment`` before the segment, and
        the segment. The bytes of the tables are added to ``initial``, in areas whose names end in
        ``name``.

        If the streams or instructions of all chains do not fit, the segment itself loads these
        tables, for one stretch of commands after another. ``segment`` must be the only segment of
        the writer with chains.
        """
        constants = self._load(VectorTable.CONSTANTS, self.tables, initial, name)
        if len(self._stretches) == 1:
            instructions, descriptors = (
                self._load(table, self.tables, initial, name)
                for table in (VectorTable.INSTRUCTIONS, VectorTable.DESCRIPTORS)
            )
            before = CommandList()
            before.extend(instructions, constants, descriptors)
            return before, segment
        whole = CommandList()
        places = [place for _, place in self._stretches] + [len(segment)]
        for number, (tables, place) in enumerate(self._stretches):
            label = f"{name}, part {number}"
            earlier, _ = self._stretches[number - 1]
            if tables.instructions is not earlier.instructions or number == 0:
                whole.extend(self._load(VectorTable.INSTRUCTIONS, tables, initial, label))
            whole.extend(self._load(VectorTable.DESCRIPTORS, tables, initial, label))
            whole.extend(segment.part(place, places[number + 1]))
        return constants, whole

    def _load(
        self, table: VectorTable, tables: ProgramTables, initial: dict[str, bytes], name: str
    ) -> CommandList:
        """Return the command that fills a table, none for an empty table."""
        commands, data = CommandList(), tables.contents(table)
        if data:
            label = f"{table.name.lower()} of {name}"
            count = tables.count(table)
            area = self.plan.take(label, "table", (count,), len(data))
            initial[area.name] = data
            load = Command.load(table, address=area.address, first=0, count=count)
            commands.add(load, alone=True)
        return commands

    def _place(self, use: ChainCall, outputs: Mapping[str, BoundStream]) -> ProgramPlace:
        """Return the place of a chain in the tables. New tables begin where the tables are full."""

        def place() -> ProgramPlace:
            return self.tables.place(
                use.chain,
                use.inputs,
                outputs,
                values=use.values,
                numbers=use.numbers,
                row_list=use.row_list,
            )

        try:
            return place()
        except FullTableError as error:
            kept = error.table != VectorTable.INSTRUCTIONS
            self.tables = ProgramTables(self.plan.block, self.tables, kept=kept)
            self._stretches.append((self.tables, len(self.commands)))
            return place()

    def convert(self, source: BoundStream, image: PlannedImage, *, step: int = 0) -> None:
        """Append the conversion of a tensor. ``step``: number added to the register ``step``,
        modulo 2^32."""
        first, second = image.addresses
        command = Command.convert(
            image.tensor_class,
            rows=image.rows,
            cols=image.cols,
            source=source.descriptor.address,
            destination=first,
            second=second if second != first else 0,
            tag=image.tag,
            step=step,
            scale=self._scale(image.tensor_class),
            planes=1 if image.by_slot else self._planes(image.tensor_class),
            slot=image.slot,
            by_slot=image.by_slot,
            decides=image.decides,
        )
        slot = _slot_of(image)
        reads = [source.name, *slot, *([THRESHOLDS] if image.decides else [])]
        self.commands.add(command, reads=reads, writes=[image.name, *slot])

    def product(self, product: ProductOf, result: BoundStream) -> None:
        """Append a product with the result in memory."""
        command = Command.product(
            OPERATION_OPCODES[product.operation],
            m=product.m,
            n=product.n,
            k=product.k,
            nest=DEFAULT_NEST,
            planes=self._planes_of(product),
            slots=_slots_of(product),
            **product.addresses(),
            out_a=result.descriptor.address,
        )
        reads = _read_by(product)
        self.commands.add(command, reads=reads, writes=[result.name], layer=product.layer)

    def chain(self, use: ChainCall, product: ProductOf | None = None) -> None:
        """Append a chain over memory or at the drain of a product. An image that the chain may not
        make is written as floats and then converted."""
        assert self.limits.vector is not None
        if product is not None and not self._at_drain(use, product):
            use, product = self._apart(use, product), None
        outputs, converted = self._outputs(use, product)
        place = self._place(use, outputs)
        images = [each for each in use.outputs.values() if isinstance(each, PlannedImage)]
        made = [] if converted else images
        slots = [slot for image in made for slot in _slot_of(image)]
        reads = [stream.name for stream in use.inputs.values()] + slots
        reads += [THRESHOLDS] * any(image.decides for image in made)
        reads += [f"K[{use.numbers[each]}]" for each in use.chain.constants if each in use.numbers]
        reads += [] if use.row_list is None else [use.row_list.name]
        if product is not None:
            reads += _read_by(product)
        writes = [stream.name for stream in outputs.values()] + slots
        command = self._command(use, outputs, product, place)
        layer = product and product.layer
        self.commands.add(command, reads=reads, writes=writes, layer=layer)
        for name, source in converted.items():
            image = use.outputs[name]
            assert isinstance(image, PlannedImage)
            self.convert(source, image)

    def _apart(self, use: ChainCall, product: ProductOf) -> ChainCall:
        """Append the product with the result in memory, and return the chain over the stored
        result."""
        rows, cols = product.shape
        name = f"{product.operation} {rows} x {cols}"
        if name not in self.floats:
            self.floats[name] = stream_of(self.plan.tensor(name, Kind.F32, rows, cols))
        result = self.floats[name]
        self.product(product, result)
        inputs = {
            each: result if stream.descriptor.kind == Kind.PRODUCT else stream
            for each, stream in use.inputs.items()
        }
        return replace(use, inputs=inputs)

    def _floats_of(self, image: PlannedImage) -> BoundStream:
        if image.name not in self.floats:
            area = self.plan.tensor(f"{image.name}, floats", Kind.F32, image.rows, image.cols)
            self.floats[image.name] = stream_of(area)
        return self.floats[image.name]

    def _nests(self, product: ProductOf) -> NestLimits:
        nests = self.limits.nests and self.limits.nests.of(product.operation)
        assert nests, "a machine with a vector unit takes nests"
        return nests

    def _at_drain(self, use: ChainCall, product: ProductOf) -> bool:
        """Return whether a chain can be at the drain of a product. A chain with a number for every
        row of the result needs whole rows."""
        assert self.limits.vector is not None
        outputs = [each for each in use.outputs.values() if isinstance(each, BoundStream)]
        by_rows = any(_is_by_rows(each.descriptor) for each in outputs)
        return self.limits.vector.drains and (not by_rows or self.whole_rows(product))

    def whole_rows(self, product: ProductOf) -> bool:
        """Return whether the tiles of a product hold whole rows of the result."""
        nests = self._nests(product)
        return nests.groups[-1] * nests.lane_side >= -(-product.shape[1] // self.plan.block)

    def _scale(self, tensor_class: str) -> int:
        """Return the field for the scale of a conversion. Where a host gives scales, a program
        gives the scale 1, which images of chains have."""
        storage = self.plan.numerics.converted_class(tensor_class)
        if not storage.has_tensor_scale or self.plan.numerics.source != "host":
            return MEASURE
        return scale_field(amax_exponent(0, storage), storage.format)

    def _planes(self, tensor_class: str) -> int:
        return self.plan.numerics.converted_class(tensor_class).format.plane_count

    def _planes_of(self, product: ProductOf) -> dict[str, int]:
        """Return the number of planes by operand, for operands with several planes whose slot does
        not give the number."""
        planes = {
            name: self._planes(name)
            for name, image in product.operands.items()
            if not image.by_slot
        }
        return {name: count for name, count in planes.items() if count > 1}

    def _outputs(
        self, use: ChainCall, product: ProductOf | None
    ) -> tuple[dict[str, BoundStream], dict[str, BoundStream]]:
        """Return the outputs of a chain as streams, and the streams of floats that are converted
        afterwards."""
        streams: dict[str, BoundStream] = {}
        for name, output in use.outputs.items():
            if isinstance(output, PlannedImage):
                streams[name] = BoundStream(name=output.name, descriptor=output.descriptor())
            else:
                streams[name] = output
        images = {n: each for n, each in use.outputs.items() if isinstance(each, PlannedImage)}
        apart = [name for name, each in images.items() if self._apart_from(each, product)]
        as_floats = {name: self._floats_of(images[name]) for name in apart}
        if (
            len(as_floats) < len(images)
            and product is not None
            and not self._fits(use, streams, product)
        ):
            as_floats = {name: self._floats_of(image) for name, image in images.items()}
        return streams | as_floats, as_floats

    def _apart_from(self, image: PlannedImage, product: ProductOf | None) -> bool:
        """Return whether no chain can make an image. Over memory a chain makes no image wider than
        the limit of the class. A chain cannot know a scale that is measured from the image's own
        numbers."""
        assert self.limits.vector is not None
        storage = self.plan.numerics.converted_class(image.tensor_class)
        measured = storage.has_tensor_scale and self.plan.numerics.source == "current"
        widest = self.limits.vector.fed[CLASS_NAMES.index(image.tensor_class)]
        return measured or (product is None and image.cols > widest)

    def _fits(self, use: ChainCall, outputs: Mapping[str, BoundStream], product: ProductOf) -> bool:
        """Return whether the converter takes the tiles of the product, by the rules of the
        machine."""
        program = self.tables.assembled(
            use.chain, use.inputs, outputs, values=use.values, numbers=use.numbers
        )
        descriptors = [Descriptor()] * SLOTS
        if use.row_list is not None:
            descriptors[STREAMS] = use.row_list.descriptor
        for name, port in use.chain.inputs.items():
            descriptor = use.inputs[name].descriptor
            gathered = descriptor.kind in GATHERED
            descriptors[port.number] = replace(descriptor, aux=STREAMS) if gathered else descriptor
        for name, port in use.chain.outputs.items():
            descriptors[INPUTS + port.number] = outputs[name].descriptor
        place = ProgramPlace(first=0, length=len(program), streams=0)
        command = self._command(use, outputs, product, place)
        faults = chain_faults(command, descriptors, program, self.limits)
        return faults.isdisjoint({ErrorCode.NEST, ErrorCode.BAD_STREAM})

    def _command(
        self,
        use: ChainCall,
        outputs: Mapping[str, BoundStream],
        product: ProductOf | None,
        place: ProgramPlace,
    ) -> Command:
        if product is None:
            return Command.chain(
                place,
                m=use.shape[0],
                n=use.shape[1],
                columns=use.chain.by_columns,
                update=use.update,
                skip=use.skip,
            )
        return Command.chained(
            CHAINED_OPCODES[product.operation],
            place,
            m=product.m,
            n=product.n,
            k=product.k,
            skip=use.skip,
            nest=self._short_tiles(product, self._tile(outputs, product)),
            planes=self._planes_of(product),
            slots=_slots_of(product),
            **product.addresses(),
        )

    def _tile(self, outputs: Mapping[str, BoundStream], product: ProductOf) -> Nest:
        """Return a tile of few rows, with which the chain begins early. If the chain makes an
        image, the tile consists of whole tiles of the converter."""
        nests = self._nests(product)
        rows, groups, patches = SHORTEST_TILE, 0, self.limits.vector and self.limits.vector.patches
        streams = (output.descriptor for output in outputs.values())
        classes = [stream.tensor_class for stream in streams if stream.kind == Kind.IMAGE]
        if classes and patches is not None and not self.whole_rows(product):
            high, wide = patches.tiles[classes[0]]
            rows = max(rows, high)
            if high > 1:  # a neighbouring tile would begin before the first tile is complete
                groups = next((each for each in nests.groups if each * nests.lane_side == wide), 0)
        return Nest(
            t_blocks=min((each for each in nests.t_blocks if each >= rows), default=0),
            groups=groups,
        )

    def _short_tiles(self, product: ProductOf, tile: Nest) -> Nest:
        """Return a nest with short loads along the contraction, with which the chain begins early.
        The stationary operand stays on chip for all tiles if a bank has enough space."""
        nests = self._nests(product)
        (multiplied,) = product.definition.products
        sizes = {"m": product.m, "n": product.n, "k": product.k}
        t, lanes, contraction = (-(-sizes[axis] // self.plan.block) for axis in multiplied.loops)
        planes = self._planes_of(product) | dict.fromkeys(_slots_of(product), max(PLANE_CHOICES))
        streamed, stationary = (planes.get(each.tensor_class, 1) for each in multiplied.factors)
        cut = replace(tile, chunk=nests.chunk[0])
        for nest in (replace(cut, keep="stationary"), cut, tile):
            if nests.problem(nest, (t, lanes, contraction), (streamed, stationary)) is None:
                return nest
        return DEFAULT_NEST


def _is_by_rows(stream: Descriptor) -> bool:
    """Return whether a stream has a number for every row."""
    return stream.kind == Kind.ROW or (
        stream.kind == Kind.PANEL and stream.aux == PanelOrder.BLOCK_ROW
    )


def _slot_of(image: PlannedImage) -> list[str]:
    """Return the name of an image's slot in a list, empty without a slot."""
    return [] if image.slot is None else [f"slot {image.slot}"]


def _slots_of(product: ProductOf) -> dict[str, int]:
    """Return the slots by operand, for operands whose planes are given by a slot."""
    return {
        name: image.slot
        for name, image in product.operands.items()
        if image.by_slot and image.slot is not None
    }


def _read_by(product: ProductOf) -> list[str]:
    """Return the names of everything that a product reads."""
    images = product.operands.values()
    slots = [slot for image in images if image.by_slot for slot in _slot_of(image)]
    return [image.name for image in images] + slots
