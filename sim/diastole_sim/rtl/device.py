"""The generated hardware as a device: numpy in and out, everything between on the product."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from diastole_sim.check import require_int
from diastole_sim.device_api import (
    COPIES,
    OPERATIONS,
    OUTPUTS,
    Counters,
    Floats,
    Operand,
    ProductResult,
)
from diastole_sim.golden.convert import Quantised, amax_exponent, require_matrix
from diastole_sim.golden.machine import TensorScales
from diastole_sim.numerics import Numerics, TensorClass
from diastole_sim.program.command import COMMAND_BYTES, Command, Opcode, scale_field
from diastole_sim.program.image import FloatLayout
from diastole_sim.program.registers import BY_NAME, MAGIC
from diastole_sim.rtl.control import Control
from diastole_sim.rtl.errors import ProductError
from diastole_sim.rtl.heap import Heap
from diastole_sim.rtl.machine import AddressRange, Machine
from diastole_sim.rtl.product import Product
from diastole_sim.rtl.tensor import DeviceTensor

CLASS_OF = {"X": "x", "W": "w", "dY": "dy"}
AXES = {"X": "mk", "W": "kn", "dY": "mn", "Y": "mn", "dX": "mk", "dW": "kn"}
"""What the rows and the columns of each tensor count."""
CONTRACTED = {"forward": "k", "dx": "n", "dw": "m", "backward": "nm"}
ADDRESS_FIELD = {"X": "address_x", "W": "address_w", "dY": "address_dy"}
OUTPUT_FIELDS = {
    "forward": {"Y": "out_a"},
    "dx": {"dX": "out_a"},
    "dw": {"dW": "out_a"},
    "backward": {"dW": "out_a", "dX": "out_b"},
}
UNWRITTEN = 0xA5
"""Fills where results go, so that what was not written shows."""


class Device:
    """A product in Verilator; a :class:`diastole_sim.device_api.Device`.

    ``product`` is a product directory. ``seed`` (32 bits) is of the stochastic roundings,
    ``stalls`` of the delays on every handshake; ``trace`` records waves to a file. ``options`` are
    those of :class:`diastole_sim.rtl.machine.Machine`.

    Errors: ProductError, ToolMissing and BuildError from the start; ValueError for operands that do
    not fit; HardwareHang, ProtocolError and CommandError when the hardware fails. MemoryError when
    the machine's memory is full.
    """

    def __init__(
        self,
        product: Product | Path | str,
        *,
        seed: int = 0,
        stalls: int | None = None,
        trace: Path | str | None = None,
        **options: Any,
    ):
        self.seed = require_int("seed", seed, 0, 2**32 - 1)
        self.product = product if isinstance(product, Product) else Product.load(product)
        try:
            self.numerics = Numerics.from_dict(self.product.parameters["numerics"])
        except (KeyError, TypeError, ValueError) as error:
            raise ProductError(f"{self.product.directory}: bad numerics: {error}") from error
        self.machine = Machine(self.product, stalls=stalls, trace=trace, **options)
        self.control = Control(self.machine)
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
        field = scale_field(exponent, two_level=self.numerics.scale_significands)
        tensor = DeviceTensor(self, array.shape, tensor_class)
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
        chosen = self.numerics.tensor_class(tensor.tensor_class)
        if (tensor.chosen, tensor.block) != (chosen, self.numerics.block):
            raise ValueError(
                f"the tensor is {_described(tensor.chosen, tensor.block)}; this device has "
                f"{_described(chosen, self.numerics.block)}"
            )
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

    def forward(
        self, x: Operand, w: Operand, *, tags: tuple[int, int] = (0, 1), step: int = 0
    ) -> ProductResult:
        """Y = X W."""
        return self._run("forward", (x, w), tags, step)

    def dx(
        self, w: Operand, dy: Operand, *, tags: tuple[int, int] = (1, 2), step: int = 0
    ) -> ProductResult:
        """dX = dY W^T."""
        return self._run("dx", (w, dy), tags, step)

    def dw(
        self, x: Operand, dy: Operand, *, tags: tuple[int, int] = (0, 2), step: int = 0
    ) -> ProductResult:
        """dW = X^T dY."""
        return self._run("dw", (x, dy), tags, step)

    def backward(
        self,
        x: Operand,
        w: Operand,
        dy: Operand,
        *,
        tags: tuple[int, int, int] = (0, 1, 2),
        step: int = 0,
    ) -> ProductResult:
        """dX and dW; ``exact`` and ``overflow`` are of both together."""
        return self._run("backward", (x, w, dy), tags, step)

    def _run(
        self, op: str, given: Sequence[Operand], tags: Sequence[int], step: int
    ) -> ProductResult:
        names = OPERATIONS[op]
        for name, operand in zip(names, given, strict=True):
            self._check_operand(name, operand)
        sizes = _sizes(dict(zip(names, given, strict=True)))
        self._check_contractions(op, sizes)
        operands: dict[str, DeviceTensor] = {}
        convert_cycles = 0
        for name, operand, tag in zip(names, given, tags, strict=True):
            if not isinstance(operand, DeviceTensor):
                assert isinstance(operand, np.ndarray)
                operand = self.convert(operand, CLASS_OF[name], tag=tag, step=step)
                convert_cycles += operand.convert_cycles
            operands[name] = operand
        values = self._multiply(op, operands, sizes)
        return ProductResult(
            op=op,
            values=values,
            operands=operands,
            exact=not self._flag("inexact"),
            overflow=self._flag("overflow"),
            counters=self._counters(convert_cycles),
        )

    def _multiply(
        self, op: str, operands: dict[str, DeviceTensor], sizes: dict[str, int]
    ) -> dict[str, Floats]:
        addresses = _addresses(op, operands)
        ranges = [area for operand in operands.values() for area in operand.ranges]
        layouts = {
            name: FloatLayout(
                rows=sizes[AXES[name][0]],
                cols=sizes[AXES[name][1]],
                data_width=self.product.data_width,
            )
            for name in OUTPUTS[op]
        }
        places: dict[str, int] = {}
        try:
            for name, layout in layouts.items():
                places[name] = self.heap.allocate(layout.total_bytes)
                self.machine.bytes_at(places[name], layout.total_bytes)[:] = UNWRITTEN
                addresses[OUTPUT_FIELDS[op][name]] = places[name]
            self.execute(
                [Command.product(Opcode[op.upper()], **sizes, **addresses)],
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

    def _counters(self, convert_cycles: int) -> Counters:
        read, beat_bytes = self.control.read, self.product.data_width // 8
        return Counters(
            cycles=read("cycles"),
            convert_cycles=convert_cycles,
            read_bytes=read("read_beats") * beat_bytes,
            write_bytes=read("write_beats") * beat_bytes,
            stall_load_cycles=read("stall_load"),
            stall_store_cycles=read("stall_store"),
            stall_accumulator_cycles=read("stall_accumulator"),
            stall_turn_cycles=read("stall_turn"),
        )

    def _check_operand(self, name: str, operand: Operand) -> None:
        if isinstance(operand, np.ndarray):
            require_matrix(operand)
        elif not isinstance(operand, DeviceTensor) or operand.device is not self:
            raise ValueError(f"{name} must be a float32 array or a tensor of this device")
        elif operand.tensor_class != CLASS_OF[name]:
            raise ValueError(
                f"{name} must be a tensor of class {CLASS_OF[name]}, not {operand.tensor_class}"
            )

    def _check_contractions(self, op: str, sizes: dict[str, int]) -> None:
        for axis in CONTRACTED[op]:
            if sizes[axis] > self.numerics.max_contraction:
                raise ValueError(
                    f"the contraction has {sizes[axis]} elements, more than the "
                    f"{self.numerics.max_contraction} that a headroom of "
                    f"{self.numerics.headroom} bits allows (2^{self.numerics.headroom} blocks of "
                    f"{self.numerics.block})"
                )


def _sizes(operands: dict[str, Operand]) -> dict[str, int]:
    """M, N and K by their small letters; ValueError if two operands do not agree."""
    sizes: dict[str, int] = {}
    said: dict[str, str] = {}
    for name, operand in operands.items():
        for axis, length, where in zip(AXES[name], operand.shape, ("rows", "columns"), strict=True):
            what = f"the {where} of {name}"
            if sizes.setdefault(axis, length) != length:
                raise ValueError(
                    f"{said[axis]} are {sizes[axis]}, but {what} are {length}; they must be equal"
                )
            said.setdefault(axis, what)
    return sizes


def _addresses(op: str, operands: dict[str, DeviceTensor]) -> dict[str, int]:
    """By field, where the copies are that a product reads."""
    addresses = {
        ADDRESS_FIELD[name]: operands[name].address(copy)
        for result in reversed(OUTPUTS[op])  # of backward's dX and dW, address_dy is for dX
        for name, copy in COPIES[result].items()
    }
    if op == "backward" and operands["dY"].chosen.two_copies:
        addresses["address_dy_m"] = operands["dY"].address(COPIES["dW"]["dY"])
    return addresses


def _block_steps(sizes: dict[str, int], block: int) -> int:
    """Vector issues of both gradients on a single cell."""
    blocks = [-(-size // block) for size in sizes.values()]
    return 2 * block * int(np.prod(blocks, dtype=np.int64))


def _area(layout: FloatLayout) -> int:
    return layout.rows * layout.cols


def _described(chosen: TensorClass, block: int) -> str:
    return f"{chosen.format.name} in groups of {chosen.grouping} and blocks of {block}"
