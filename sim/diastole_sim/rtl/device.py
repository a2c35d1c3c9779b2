"""The generated hardware as a device: numpy in and out, everything between on the product."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from diastole_sim.device.interface import CommandCounters, Floats, ProductResult
from diastole_sim.device.operands import (
    require_contractions,
    require_matrix,
    require_storage,
)
from diastole_sim.device.products import Products
from diastole_sim.device.scales import TensorScales
from diastole_sim.golden.convert import Quantised
from diastole_sim.rtl.control import Control
from diastole_sim.rtl.errors import ProductError
from diastole_sim.rtl.heap import Heap
from diastole_sim.rtl.loops import ChosenLoops
from diastole_sim.rtl.machine import AddressRange, Machine
from diastole_sim.rtl.product import Product
from diastole_sim.rtl.tensor import DeviceTensor
from diastole_sim.spec.check import require_int
from diastole_sim.spec.command import COMMAND_BYTES, Command, Limits, Opcode, scale_field
from diastole_sim.spec.image import FloatLayout
from diastole_sim.spec.nest import Nest
from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.operations import Operation
from diastole_sim.spec.registers import BY_NAME, MAGIC, STALL_REGISTERS
from diastole_sim.spec.scales import amax_exponent

UNWRITTEN = 0xA5
"""Fills where results go, so that what was not written shows."""


class Device(Products[DeviceTensor]):
    """A product in Verilator; a :class:`diastole_sim.device.interface.DeviceProtocol`.

    ``product`` is a product directory. ``seed`` (32 bits) is of the stochastic roundings,
    ``stalls`` of the delays on every handshake; ``trace`` records waves to a file. ``nest``: the
    loops of every product but the fused pass, which has its own; None: for each those that suit it
    by the model of the machine. ``options`` are those of
    :class:`diastole_sim.rtl.machine.Machine`.

    Errors: ProductError, ToolMissing and BuildError from the start; ValueError for operands and for
    a nest that do not fit; HardwareHang, ProtocolError and CommandError when the hardware fails.
    MemoryError when the machine's memory is full.
    """

    def __init__(
        self,
        product: Product | Path | str,
        *,
        seed: int = 0,
        stalls: int | None = None,
        trace: Path | str | None = None,
        nest: Nest | None = None,
        **options: Any,
    ):
        self.seed = require_int("seed", seed, 0, 2**32 - 1)
        self.product = product if isinstance(product, Product) else Product.load(product)
        try:
            self.numerics = Numerics.from_dict(self.product.parameters["numerics"])
            self.loops = ChosenLoops(self.product.parameters, nest)
        except (KeyError, TypeError, ValueError) as error:
            raise ProductError(f"{self.product.directory}: bad numerics: {error}") from error
        self.machine = Machine(self.product, stalls=stalls, trace=trace, **options)
        self.control = Control(
            self.machine,
            Limits.of(self.numerics, data_width=self.product.data_width, nests=self.loops.limits),
        )
        self.heap = Heap(self.machine.memory_base, self.machine.memory.size)
        self._commands = self.heap.allocate(COMMAND_BYTES)
        self._patience = 1 if stalls is None else 20
        self._scales = TensorScales(self.numerics)
        self._identify()
        self.control.set("seed", self.seed)

    def _identify(self) -> None:
        """ProductError unless the registers name this kind of machine and this configuration."""
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
        """End the simulation and complete the trace; tensors cannot be read afterwards."""
        self.machine.close()

    def __enter__(self) -> "Device":
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
        """Simulated cycles per second so far, while commands ran."""
        return self.machine.cycles_per_second

    # Tensors.

    def convert(
        self,
        array: Floats,
        tensor_class: str,
        *,
        tag: int,
        step: int = 0,
        scale: int | None = None,
    ) -> DeviceTensor:
        """Quantise on the hardware; the draws are those of (seed, tag, step).

        ``scale``: exponent of the tensor's scale (e of its top binade, T of nvfp4), for classes
        that have one and whose source is ``given``; 1 is the scale if it is left out there.
        """
        require_matrix(array)
        require_int("tag", tag, 0, 2**32 - 1)
        require_int("step", step, 0, 2**32 - 1)
        exponent = self._scales.choose(tensor_class, tag, scale)
        tensor = DeviceTensor(self, array.shape, tensor_class)
        field = scale_field(exponent, tensor.chosen.format)
        for image in tensor.images:
            image.data[:] = UNWRITTEN
        source, layout = self._put_floats(array)
        try:
            command = Command.convert(
                tensor_class,
                rows=array.shape[0],
                cols=array.shape[1],
                source=source,
                destination=tensor.images[0].address,
                second=tensor.images[1].address if tensor.chosen.two_copies else 0,
                tag=tag,
                step=step,
                scale=field,
            )
            reads = (source, source + layout.total_bytes)
            self.execute([command], reads=reads, writes=tensor.ranges, work=2 * array.size)
        finally:
            self.heap.free(source)
        self._note(tensor, exponent)
        self._scales.remember(tensor_class, tag, tensor.amax)
        return tensor

    def _note(self, tensor: DeviceTensor, exponent: int | None) -> None:
        """What the registers say of the tensor that was converted with this scale."""
        read = self.control.read
        tensor.nan = self._flag(f"{tensor.tensor_class}_nan")
        tensor.inf = self._flag(f"{tensor.tensor_class}_inf")
        tensor.saturated, tensor.underflowed = read("saturated"), read("underflowed")
        tensor.amax, tensor.convert_cycles = read("amax"), read("convert_cycles")
        if tensor.chosen.has_tensor_scale:
            measured = amax_exponent(tensor.amax, tensor.chosen)
            tensor.tensor_exponent = measured if exponent is None else exponent

    def upload(self, tensor: Quantised) -> DeviceTensor:
        """Write a tensor that the golden model converted into the machine's memory.

        ValueError if its class is not the device's.
        """
        own = self.numerics.tensor_class(tensor.tensor_class)
        require_storage("the tensor", tensor.chosen, tensor.block, own, self.numerics.block)
        uploaded = DeviceTensor(self, tensor.shape, tensor.tensor_class)
        uploaded.write(tensor)
        return uploaded

    def _put_floats(self, array: Floats) -> tuple[int, FloatLayout]:
        rows, cols = array.shape
        layout = FloatLayout(rows=rows, cols=cols, data_width=self.product.data_width)
        address = self.heap.allocate(layout.total_bytes)
        image = self.machine.bytes_at(address, layout.total_bytes)
        image[:] = layout.pack(array)
        image.reshape(rows, -1)[:, 4 * cols :] = UNWRITTEN  # what must be ignored
        return address, layout

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
        """Run commands as they are, however malformed; return the cycles until the interrupt.

        As :meth:`diastole_sim.rtl.control.Control.execute`, which has the errors too. ``work`` is
        roughly what the commands cost in cycles at their slowest; far beyond it they count as hung.
        """
        at = self.heap.allocate(COMMAND_BYTES * len(commands)) if len(commands) > 1 else None
        try:
            return self.control.execute(
                commands,
                at=self._commands if at is None else at,
                reads=reads,
                writes=writes,
                limit=self._patience * (5_000_000 + 50 * work),
            )
        finally:
            if at is not None:
                self.heap.free(at)

    # Products.

    def _own(self, operand: object) -> DeviceTensor | None:
        if isinstance(operand, DeviceTensor) and operand.device is self:
            return operand
        return None

    def _check_sizes(self, operation: Operation, sizes: Mapping[str, int]) -> None:
        require_contractions(operation.products, sizes, self.numerics)

    def _multiply(
        self,
        operation: Operation,
        operands: Mapping[str, DeviceTensor],
        sizes: Mapping[str, int],
        converted: Sequence[DeviceTensor],
    ) -> ProductResult:
        values = self._command(operation, operands, sizes)
        return ProductResult(
            op=operation.name,
            values=values,
            operands=operands,
            exact=not self._flag("inexact"),
            overflow=self._flag("overflow"),
            counters=self._counters(sum(tensor.convert_cycles for tensor in converted)),
        )

    def _command(
        self,
        operation: Operation,
        operands: Mapping[str, DeviceTensor],
        sizes: Mapping[str, int],
    ) -> dict[str, Floats]:
        """Run it; the results by name."""
        addresses = {
            read.field: operands[read.operand.name].address(read.copy)
            for read in operation.reads
            if not read.second or operands[read.operand.name].chosen.two_copies
        }
        ranges = [area for operand in operands.values() for area in operand.ranges]
        layouts = {
            tensor.name: FloatLayout(
                rows=sizes[tensor.rows],
                cols=sizes[tensor.columns],
                data_width=self.product.data_width,
            )
            for tensor in operation.results
        }
        places: dict[str, int] = {}
        try:
            for (name, layout), field in zip(layouts.items(), operation.result_fields, strict=True):
                places[name] = self.heap.allocate(layout.total_bytes)
                self.machine.bytes_at(places[name], layout.total_bytes)[:] = UNWRITTEN
                addresses[field] = places[name]
            self.execute(
                [
                    Command.product(
                        Opcode[operation.name.upper()],
                        **sizes,
                        nest=self.loops.of(operation.name, **sizes),
                        **addresses,
                    )
                ],
                reads=(min(r[0] for r in ranges), max(r[1] for r in ranges)),
                writes=[(places[n], places[n] + layouts[n].total_bytes) for n in layouts],
                work=_block_steps(sizes, self.numerics.block) + sum(map(_area, layouts.values())),
            )
            return {
                name: layout.unpack(self.machine.bytes_at(places[name], layout.total_bytes))
                for name, layout in layouts.items()
            }
        finally:
            for address in places.values():
                self.heap.free(address)

    def _counters(self, convert_cycles: int) -> CommandCounters:
        read, beat_bytes = self.control.read, self.product.data_width // 8
        return CommandCounters(
            cycles=read("cycles"),
            convert_cycles=convert_cycles,
            read_bytes=read("read_beats") * beat_bytes,
            write_bytes=read("write_beats") * beat_bytes,
            stall_cycles={cause: read(name) for cause, name in STALL_REGISTERS.items()},
        )


def _block_steps(sizes: Mapping[str, int], block: int) -> int:
    """Vector issues of both gradients on a single cell."""
    blocks = [-(-size // block) for size in sizes.values()]
    return 2 * block * int(np.prod(blocks, dtype=np.int64))


def _area(layout: FloatLayout) -> int:
    return layout.rows * layout.cols
