"""A machine as a device: numpy arrays in and out, all computation on the hardware."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from diastole_sim.device.conversion import Conversion
from diastole_sim.device.interface import CommandCounters, Floats, ProductResult
from diastole_sim.device.operand_shapes import (
    require_contractions,
    require_storage,
    sizes_of,
)
from diastole_sim.device.products import Products
from diastole_sim.device.tensor_scales import TensorScales
from diastole_sim.golden.convert import Quantised
from diastole_sim.golden.improvement import Improvement
from diastole_sim.host.ahead import areas_of, mark_overlaps
from diastole_sim.host.closing import Closing
from diastole_sim.host.control import Control
from diastole_sim.host.errors import ProductError
from diastole_sim.host.heap import Heap
from diastole_sim.host.loops import ProductLoops
from diastole_sim.host.running import AddressRange, RunningMachine
from diastole_sim.host.tensor import ConversionFacts, DeviceTensor
from diastole_sim.spec.command import Command, scale_field
from diastole_sim.spec.command_table import COMMAND_BYTES, Opcode
from diastole_sim.spec.image import FloatLayout
from diastole_sim.spec.limits import Limits
from diastole_sim.spec.nest import Nest
from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.operations import AXES, OPERATIONS, Operation
from diastole_sim.spec.registers import BY_NAME, MAGIC, WAIT_REGISTERS
from diastole_sim.spec.require import require_int
from diastole_sim.spec.scales import amax_exponent
from diastole_sim.spec.sizes.uses import WIDEST, Widths

UNWRITTEN = 0xA5
"""Byte to fill the place of a result before the product, which makes unwritten bytes visible."""


@dataclass(frozen=True, kw_only=True)
class ProductRequest:
    """Requested product: the command, the places of results by name, and ``work``, an estimate of
    its cycles."""

    command: Command
    places: Mapping[str, tuple[int, FloatLayout]]
    work: int


def _merged(parts: Iterable[Mapping[str, Floats]]) -> dict[str, Floats]:
    """Return the results of all products of an operation."""
    return {name: values for part in parts for name, values in part.items()}


@dataclass(frozen=True, kw_only=True)
class PendingConversion:
    """Conversion that waits to run beside the next product. ``remembered``: True if the largest
    magnitude counts for the scales of later steps."""

    tensor: DeviceTensor
    request: Conversion
    command: Command
    exponent: int | None
    work: int
    remembered: bool


class HostDevice(Products[DeviceTensor], Closing):
    """Run products and conversions on a machine, as a
    :class:`diastole_sim.device.interface.DeviceProtocol`.

    - ``machine``: a running machine, in Verilator or on a board.
    - ``seed``: seed of the stochastic roundings, 32 bits.
    - ``nest``: nest of every product except the fused pass, which has no choice of nest; None for
      the nest that the model of the machine finds best for each product.

    Attributes: ``total_cycles``: cycles of all conversions and products so far. Cycles of commands
    side by side count once.

    Errors: ProductError if the machine does not belong to its product. ValueError for operands and
    for a nest that do not fit. HardwareHang, ProtocolError and CommandError if the hardware fails.
    MemoryError if the machine's memory is full.
    """

    def __init__(self, machine: RunningMachine, *, seed: int = 0, nest: Nest | None = None):
        self.seed = require_int("seed", seed, 0, 2**32 - 1)
        self.machine, self.product = machine, machine.product
        try:
            self.numerics = Numerics.from_dict(self.product.parameters["numerics"])
            parameters, cycles = self.product.parameters, self.product.cell_cycles
            self.loops = ProductLoops(parameters, nest, machine.memory_model, cycles)
        except (KeyError, TypeError, ValueError) as error:
            raise ProductError(
                f"{self.product.directory}: the manifest has wrong numerics: {error}"
            ) from error
        self.control = Control(
            self.machine,
            Limits.of(self.numerics, data_width=self.product.data_width, nests=self.loops.limits),
        )
        self.heap = Heap(self.machine.memory_base, self.machine.memory_bytes)
        self._commands = self.heap.allocate(COMMAND_BYTES)
        self._scales = TensorScales(self.numerics)
        self._pending: PendingConversion | None = None
        self.total_cycles = 0
        self._identify()
        self.control.set("seed", self.seed)

    def _identify(self) -> None:
        """Raise ProductError unless the registers name this kind of machine and this
        configuration."""
        expected = {
            "magic": MAGIC,
            "config_hash": int(self.product.manifest["config_sha256"][:8], 16),
        }
        for name, value in expected.items():
            got = self.control.read(name)
            if got != value:
                raise ProductError(
                    f"{self.product.directory}: register {name} reads {got:#x}, not {value:#x}"
                )

    def close(self) -> None:
        """End the machine. Tensors cannot be read afterwards."""
        self.machine.close()

    @property
    def cycles_per_second(self) -> float:
        """Cycles per second so far, while commands ran."""
        return self.machine.cycles_per_second

    # Tensors.

    def _convert(self, array: Floats, request: Conversion) -> DeviceTensor:
        """Quantise on the hardware, with ``overlap`` next to the following product, unless the
        product reads this tensor. The conversion runs at once if a fact about the tensor is read
        before the product."""
        self.numerics.converted_class(request.tensor_class, request.width)  # refuses a width
        self.finish()
        return self._begin(array, request, self._scales.choose(request), remembered=True)

    def convert_at(self, array: Floats, request: Conversion) -> DeviceTensor:
        """Quantise on the hardware with the scale ``request.scale``, whatever the source of scales
        is. The scale counts for no later step."""
        self.finish()
        return self._begin(array, request, request.scale, remembered=False)

    def _begin(
        self, array: Floats, request: Conversion, exponent: int | None, *, remembered: bool
    ) -> DeviceTensor:
        """Begin a conversion with the exponent of a scale."""
        tensor_class, width = request.tensor_class, request.width
        tensor = DeviceTensor(self, (array.shape[0], array.shape[1]), tensor_class, width)
        field = scale_field(exponent, tensor.storage.format)
        for image in tensor.images:
            image.data[:] = UNWRITTEN
        command = Command.convert(
            tensor_class,
            rows=array.shape[0],
            cols=array.shape[1],
            source=self._put_floats(array),
            destination=tensor.images[0].address,
            second=tensor.images[1].address if tensor.storage.two_copies else 0,
            tag=request.tag,
            step=request.step,
            scale=field,
            planes=tensor.planes,
        )
        self._pending = PendingConversion(
            tensor=tensor,
            request=request,
            command=command,
            exponent=exponent,
            work=2 * array.size,
            remembered=remembered,
        )
        tensor.pending = True
        if not request.overlap:
            self.finish()
        return tensor

    def finish(self) -> None:
        """Run the conversion that waits for a product, if any."""
        if self._pending is not None:
            self._run_requests([])

    def _note(self, pending: PendingConversion) -> None:
        """Record the registers about the converted tensor."""
        read, tensor = self.control.read, pending.tensor
        amax, exponent = read("amax"), pending.exponent
        if tensor.storage.has_tensor_scale and exponent is None:
            exponent = amax_exponent(amax, tensor.storage)
        tensor.note(
            ConversionFacts(
                nan=self._flag(f"{tensor.tensor_class}_nan"),
                inf=self._flag(f"{tensor.tensor_class}_inf"),
                saturated=read("saturated"),
                underflowed=read("underflowed"),
                amax=amax,
                convert_cycles=read("convert_cycles"),
                tensor_exponent=exponent if tensor.storage.has_tensor_scale else None,
                improvement=self._improvement(tensor),
            )
        )
        if pending.remembered:
            self._scales.remember(pending.request, amax)

    def _improvement(self, tensor: DeviceTensor) -> Improvement | None:
        """Return the monitor's counts for the tensor of the last conversion."""
        if tensor.width is None:
            return None
        read = self.control.read
        return Improvement.counted(read("improvement_num"), read("improvement_den"))

    def upload(self, tensor: Quantised) -> DeviceTensor:
        """Write a tensor converted by the golden model into the machine's memory.

        ValueError if the tensor's class differs from the device's class.
        """
        storage = self.numerics.tensor_class(tensor.tensor_class)
        if tensor.width in self.numerics.widths and storage.format.planes:
            storage = self.numerics.converted_class(tensor.tensor_class, tensor.width)
        require_storage("the tensor", tensor.storage, tensor.block, storage, self.numerics.block)
        uploaded = DeviceTensor(self, tensor.shape, tensor.tensor_class, tensor.width)
        uploaded.write(tensor)
        return uploaded

    def _put_floats(self, array: Floats) -> int:
        """Write the array into memory and return its address."""
        rows, cols = array.shape
        layout = FloatLayout(rows=rows, cols=cols, data_width=self.product.data_width)
        address = self.heap.allocate(layout.total_bytes)
        image = self.machine.bytes_at(address, layout.total_bytes)
        image[:] = layout.pack(array)
        image.reshape(rows, -1)[:, 4 * cols :] = UNWRITTEN  # padding, which the machine must ignore
        return address

    def _flag(self, name: str) -> bool:
        return bool(self.control.read("flags") >> BY_NAME["flags"].bit(name) & 1)

    # Commands.

    def execute(
        self,
        commands: Sequence[Command | bytes],
        *,
        reads: AddressRange,
        writes: Sequence[AddressRange],
        work: int = 0,
    ) -> int:
        """Run commands unchanged, even malformed commands, and return the cycles until the
        interrupt.

        Errors as in :meth:`diastole_sim.host.control.Control.execute`. ``work``: rough upper
        estimate of the cycles of the commands. The machine counts as hung far beyond this number.
        """
        at = self.heap.allocate(COMMAND_BYTES * len(commands)) if len(commands) > 1 else None
        try:
            return self.control.execute(
                commands,
                at=self._commands if at is None else at,
                reads=reads,
                writes=writes,
                limit=self.machine.patience * (5_000_000 + 50 * work),
            )
        finally:
            if at is not None:
                self.heap.free(at)

    # Products.

    def _device_tensor(self, operand: object) -> DeviceTensor | None:
        if isinstance(operand, DeviceTensor) and operand.device is self:
            return operand
        return None

    def _tags_over_time(self) -> bool:
        return self.numerics.source == "delayed"

    def _check_sizes(self, operation: Operation, sizes: Mapping[str, int]) -> None:
        require_contractions(operation.products, sizes, self.numerics)

    def _multiply(
        self,
        operation: Operation,
        operands: Mapping[str, DeviceTensor],
        sizes: Mapping[str, int],
        converted: Sequence[DeviceTensor],
    ) -> ProductResult:
        if any(tensor.pending for tensor in operands.values()):
            self.finish()
        before = sum(tensor.convert_cycles for tensor in converted)
        values = _merged(self._run_requests(self._requests(operation, operands, sizes)))
        return self._result(operation, operands, values, before)

    def _requests(
        self,
        operation: Operation,
        operands: Mapping[str, DeviceTensor],
        sizes: Mapping[str, int],
    ) -> list[ProductRequest]:
        """Return the commands of an operation. The two commands of an operation with two products
        are in flight together."""
        widths = _widths(operands)
        names = self.loops.products(operation.name, m=sizes["m"], n=sizes["n"], widths=widths)
        if len(names) > 1:
            self._loops_of(operation, sizes)  # refuses a nest that the operation does not take
        parts = [OPERATIONS[name] for name in names]
        return [
            self._request(part, {name: operands[name] for name in part.operand_names}, sizes)
            for part in parts
        ]

    def multiply_together(
        self, products: Sequence[tuple[str, Sequence[DeviceTensor]]]
    ) -> list[ProductResult]:
        """Run several products, named by operation and operands in order, as one list of commands,
        two in flight at a time. ``backward`` is two commands if the machine has no single pass for
        it.

        ``exact``, ``overflow`` and the counters in each result are the values for all products
        together. Errors as for single products.
        """
        self.finish()
        requests: list[tuple[Operation, Mapping[str, DeviceTensor], list[ProductRequest]]] = []
        for name, arguments in products:
            operation = OPERATIONS[name]
            operands = {
                each: self._require_tensor(each, tensor)
                for each, tensor in zip(operation.operand_names, arguments, strict=True)
            }
            sizes = sizes_of({each: tensor.shape for each, tensor in operands.items()})
            self._check_sizes(operation, sizes)
            requests.append((operation, operands, self._requests(operation, operands, sizes)))
        outputs = iter(self._run_requests([part for _, _, parts in requests for part in parts]))
        return [
            self._result(operation, operands, _merged(next(outputs) for _ in parts), 0)
            for operation, operands, parts in requests
        ]

    def _require_tensor(self, name: str, operand: DeviceTensor) -> DeviceTensor:
        checked = self._checked(name, operand)
        assert isinstance(checked, DeviceTensor), "an array"
        return checked

    def _result(
        self,
        operation: Operation,
        operands: Mapping[str, DeviceTensor],
        values: Mapping[str, Floats],
        convert_cycles: int,
    ) -> ProductResult:
        return ProductResult(
            op=operation.name,
            values=values,
            operands=operands,
            exact=not self._flag("inexact"),
            overflow=self._flag("overflow"),
            counters=self._counters(convert_cycles),
        )

    def _loops_of(
        self, operation: Operation, sizes: Mapping[str, int], widths: Widths = WIDEST
    ) -> Nest:
        m, n, k = (sizes[axis] for axis in AXES)
        return self.loops.of(operation.name, m=m, n=n, k=k, widths=widths)

    def _request(
        self,
        operation: Operation,
        operands: Mapping[str, DeviceTensor],
        sizes: Mapping[str, int],
    ) -> ProductRequest:
        """Return the command of a product, with allocated places for the results."""
        addresses = {
            read.field: operands[read.operand.name].address(read.copy)
            for read in operation.reads
            if not read.second or operands[read.operand.name].storage.two_copies
        }
        places: dict[str, tuple[int, FloatLayout]] = {}
        for tensor, field in zip(operation.results, operation.result_fields, strict=True):
            layout = FloatLayout(
                rows=sizes[tensor.rows],
                cols=sizes[tensor.columns],
                data_width=self.product.data_width,
            )
            addresses[field] = self.heap.allocate(layout.total_bytes)
            self.machine.bytes_at(addresses[field], layout.total_bytes)[:] = UNWRITTEN
            places[tensor.name] = addresses[field], layout
        command = Command.product(
            Opcode[operation.name.upper()],
            **sizes,
            nest=self._loops_of(operation, sizes, _widths(operands)),
            planes={each.tensor_class: each.planes for each in operands.values()},
            slots={},
            **addresses,
        )
        results = sum(_area(layout) for _, layout in places.values())
        return ProductRequest(
            command=command,
            places=places,
            work=_block_steps(sizes, self.numerics.block) + results,
        )

    def _run_requests(self, requests: Sequence[ProductRequest]) -> list[dict[str, Floats]]:
        """Run products, with the waiting conversion beside them. Return the results by name."""
        pending, self._pending = self._pending, None
        commands = [each.command for each in requests]
        work = sum(each.work for each in requests)
        places = [place for each in requests for place in each.places.values()]
        if pending is not None:
            commands.append(pending.command)
            work += pending.work
        commands = mark_overlaps(commands, self.numerics, self.product.data_width)
        areas = [areas_of(each, self.numerics, self.product.data_width) for each in commands]
        reads = [area for each in areas for area in each.reads]
        try:
            self.execute(
                commands,
                reads=(min(r[0] for r in reads), max(r[1] for r in reads)),
                writes=[area for each in areas for area in each.writes],
                work=work,
            )
            self.total_cycles += self.control.read("cycles_total")
            if pending is not None:
                self._note(pending)
            return [
                {
                    name: layout.unpack(self.machine.bytes_at(at, layout.total_bytes))
                    for name, (at, layout) in each.places.items()
                }
                for each in requests
            ]
        finally:
            for address, _ in places:
                self.heap.free(address)
            if pending is not None:
                self.heap.free(pending.command.address_x)

    def _counters(self, convert_cycles: int) -> CommandCounters:
        read, beat_bytes = self.control.read, self.product.data_width // 8
        return CommandCounters(
            cycles=read("cycles"),
            total_cycles=read("cycles_total"),
            convert_cycles=convert_cycles,
            read_bytes=read("read_beats") * beat_bytes,
            write_bytes=read("write_beats") * beat_bytes,
            busy_slots=read("busy_slots"),
            waits={cause: read(name) for cause, name in WAIT_REGISTERS.items()},
        )


def _widths(operands: Mapping[str, DeviceTensor]) -> Widths:
    """Return the widths of the classes x, w and dy. None for an absent operand, and for a class
    with a single width."""
    widths = {tensor.tensor_class: tensor.width for tensor in operands.values()}
    return widths.get("x"), widths.get("w"), widths.get("dy")


def _block_steps(sizes: Mapping[str, int], block: int) -> int:
    """Return the vector issues of both gradients on a single cell."""
    blocks = [-(-size // block) for size in sizes.values()]
    return 2 * block * int(np.prod(blocks, dtype=np.int64))


def _area(layout: FloatLayout) -> int:
    return layout.rows * layout.cols
