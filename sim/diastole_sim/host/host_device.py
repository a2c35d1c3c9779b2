"""A machine as a device: numpy arrays in and out, all computation on the hardware."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

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
from diastole_sim.host.ahead import areas_of, with_ahead
from diastole_sim.host.control import Control
from diastole_sim.host.errors import ProductError
from diastole_sim.host.heap import Heap
from diastole_sim.host.loops import ChosenLoops
from diastole_sim.host.running import AddressRange, RunningMachine
from diastole_sim.host.tensor import Converted, DeviceTensor
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
class Asked:
    """Requested product: the command, the places of results by name, and ``work``, an estimate of
    its cycles."""

    command: Command
    places: Mapping[str, tuple[int, FloatLayout]]
    work: int


def _merged(parts: Iterable[Mapping[str, Floats]]) -> dict[str, Floats]:
    """Return the results of all products of an operation."""
    return {name: values for part in parts for name, values in part.items()}


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """Conversion that waits to run beside the next product."""

    tensor: DeviceTensor
    asked: Conversion
    command: Command
    exponent: int | None
    work: int


class HostDevice(Products[DeviceTensor]):
    """A machine as a :class:`diastole_sim.device.interface.DeviceProtocol`.

    ``seed`` (32 bits): seed of the stochastic roundings. ``nest``: nest of every product except the
    fused pass, which has its own; None: for each product the nest that the model of the machine
    finds best.

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
            self.loops = ChosenLoops(parameters, nest, machine.memory_model, cycles)
        except (KeyError, TypeError, ValueError) as error:
            raise ProductError(f"{self.product.directory}: bad numerics: {error}") from error
        self.control = Control(
            self.machine,
            Limits.of(self.numerics, data_width=self.product.data_width, nests=self.loops.limits),
        )
        self.heap = Heap(self.machine.memory_base, self.machine.memory_bytes)
        self._commands = self.heap.allocate(COMMAND_BYTES)
        self._scales = TensorScales(self.numerics)
        self._waiting: Waiting | None = None
        self.total_cycles = 0
        self._identify()
        self.control.set("seed", self.seed)

    def _identify(self) -> None:
        """Raise ProductError unless the registers name this kind of machine and this
        configuration."""
        wanted = {
            "magic": MAGIC,
            "config_hash": int(self.product.manifest["config_sha256"][:8], 16),
        }
        for name, value in wanted.items():
            found = self.control.read(name)
            if found != value:
                raise ProductError(
                    f"{self.product.directory}: its {name} is {found:#x}, not {value:#x}"
                )

    def close(self) -> None:
        """End the machine. Tensors cannot be read afterwards."""
        self.machine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def cycles_per_second(self) -> float:
        """Cycles per second so far, while commands ran."""
        return self.machine.cycles_per_second

    # Tensors.

    def _convert(self, array: Floats, asked: Conversion) -> DeviceTensor:
        """Quantise on the hardware, with ``beside`` next to the following product, unless the
        product reads this tensor. The conversion runs at once if a fact about the tensor is read
        before the product."""
        tensor_class, width = asked.tensor_class, asked.width
        self.numerics.converted_class(tensor_class, width)  # refuses an unknown width
        self.settle()
        exponent = self._scales.choose(asked)
        tensor = DeviceTensor(self, (array.shape[0], array.shape[1]), tensor_class, width)
        field = scale_field(exponent, tensor.chosen.format)
        for image in tensor.images:
            image.data[:] = UNWRITTEN
        command = Command.convert(
            tensor_class,
            rows=array.shape[0],
            cols=array.shape[1],
            source=self._put_floats(array),
            destination=tensor.images[0].address,
            second=tensor.images[1].address if tensor.chosen.two_copies else 0,
            tag=asked.tag,
            step=asked.step,
            scale=field,
            planes=tensor.planes,
        )
        self._waiting = Waiting(
            tensor=tensor,
            asked=asked,
            command=command,
            exponent=exponent,
            work=2 * array.size,
        )
        tensor.unsettled = True
        if not asked.beside:
            self.settle()
        return tensor

    def settle(self) -> None:
        """Run the conversion that waits for a product, if any."""
        if self._waiting is not None:
            self._do([])

    def _note(self, waiting: Waiting) -> None:
        """Record the registers about the converted tensor."""
        read, tensor = self.control.read, waiting.tensor
        amax, exponent = read("amax"), waiting.exponent
        if tensor.chosen.has_tensor_scale and exponent is None:
            exponent = amax_exponent(amax, tensor.chosen)
        tensor.note(
            Converted(
                nan=self._flag(f"{tensor.tensor_class}_nan"),
                inf=self._flag(f"{tensor.tensor_class}_inf"),
                saturated=read("saturated"),
                underflowed=read("underflowed"),
                amax=amax,
                convert_cycles=read("convert_cycles"),
                tensor_exponent=exponent if tensor.chosen.has_tensor_scale else None,
                improvement=self._improvement(tensor),
            )
        )
        self._scales.remember(waiting.asked, amax)

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
        own = self.numerics.tensor_class(tensor.tensor_class)
        if tensor.width in self.numerics.widths and own.format.planes:
            own = self.numerics.converted_class(tensor.tensor_class, tensor.width)
        require_storage("the tensor", tensor.chosen, tensor.block, own, self.numerics.block)
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

    def _own(self, operand: object) -> DeviceTensor | None:
        if isinstance(operand, DeviceTensor) and operand.device is self:
            return operand
        return None

    def _names_over_time(self) -> bool:
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
        if any(tensor.unsettled for tensor in operands.values()):
            self.settle()
        before = sum(tensor.convert_cycles for tensor in converted)
        values = _merged(self._do(self._asked(operation, operands, sizes)))
        return self._result(operation, operands, values, before)

    def _asked(
        self,
        operation: Operation,
        operands: Mapping[str, DeviceTensor],
        sizes: Mapping[str, int],
    ) -> list[Asked]:
        """Return the commands of an operation. The two commands of an operation with two products
        are in flight together."""
        widths = _widths(operands)
        names = self.loops.products(operation.name, m=sizes["m"], n=sizes["n"], widths=widths)
        if len(names) > 1:
            self._loops_of(operation, sizes)  # refuses a nest that the operation does not take
        parts = [OPERATIONS[name] for name in names]
        return [
            self._ask(part, {name: operands[name] for name in part.operand_names}, sizes)
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
        self.settle()
        asked: list[tuple[Operation, Mapping[str, DeviceTensor], list[Asked]]] = []
        for name, given in products:
            operation = OPERATIONS[name]
            operands = {
                each: self._require_own(each, tensor)
                for each, tensor in zip(operation.operand_names, given, strict=True)
            }
            sizes = sizes_of({each: tensor.shape for each, tensor in operands.items()})
            self._check_sizes(operation, sizes)
            asked.append((operation, operands, self._asked(operation, operands, sizes)))
        found = iter(self._do([part for _, _, parts in asked for part in parts]))
        return [
            self._result(operation, operands, _merged(next(found) for _ in parts), 0)
            for operation, operands, parts in asked
        ]

    def _require_own(self, name: str, operand: DeviceTensor) -> DeviceTensor:
        held = self._held(name, operand)
        assert isinstance(held, DeviceTensor), "an array"
        return held

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

    def _ask(
        self,
        operation: Operation,
        operands: Mapping[str, DeviceTensor],
        sizes: Mapping[str, int],
    ) -> Asked:
        """Return the command of a product, with allocated places for the results."""
        addresses = {
            read.field: operands[read.operand.name].address(read.copy)
            for read in operation.reads
            if not read.second or operands[read.operand.name].chosen.two_copies
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
        return Asked(
            command=command,
            places=places,
            work=_block_steps(sizes, self.numerics.block) + results,
        )

    def _do(self, asked: Sequence[Asked]) -> list[dict[str, Floats]]:
        """Run products, with the waiting conversion beside them. Return the results by name."""
        waiting, self._waiting = self._waiting, None
        commands = [each.command for each in asked]
        work = sum(each.work for each in asked)
        places = [place for each in asked for place in each.places.values()]
        if waiting is not None:
            commands.append(waiting.command)
            work += waiting.work
        commands = with_ahead(commands, self.numerics, self.product.data_width)
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
            if waiting is not None:
                self._note(waiting)
            return [
                {
                    name: layout.unpack(self.machine.bytes_at(at, layout.total_bytes))
                    for name, (at, layout) in each.places.items()
                }
                for each in asked
            ]
        finally:
            for address, _ in places:
                self.heap.free(address)
            if waiting is not None:
                self.heap.free(waiting.command.address_x)

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
    found = {tensor.tensor_class: tensor.width for tensor in operands.values()}
    return found.get("x"), found.get("w"), found.get("dy")


def _block_steps(sizes: Mapping[str, int], block: int) -> int:
    """Return the vector issues of both gradients on a single cell."""
    blocks = [-(-size // block) for size in sizes.values()]
    return 2 * block * int(np.prod(blocks, dtype=np.int64))


def _area(layout: FloatLayout) -> int:
    return layout.rows * layout.cols
