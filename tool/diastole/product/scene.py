"""Compose a run of a machine: memory, commands, and the expected results."""

import random
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diastole.product.host_view import HostView
from diastole_sim.device.conversion import Conversion
from diastole_sim.device.tensor_scales import TensorScales
from diastole_sim.golden.convert import Quantised, quantise
from diastole_sim.golden.images import Images
from diastole_sim.golden.matrix_product import ResultTensor, matrix_product
from diastole_sim.golden.memory import GoldenMemory
from diastole_sim.spec.command import Command, scale_field
from diastole_sim.spec.command_table import COMMAND_BYTES, Opcode
from diastole_sim.spec.image import FloatLayout, round_up
from diastole_sim.spec.operations import OPERANDS, Operation, Tensor
from diastole_sim.spec.registers import BY_NAME

BASE = 0x92_3450_0000
"""First address of the memory. Most address bits are used, and the address is a multiple of any
memory size that occurs."""
MAX_COMMANDS = 20
"""Number of commands for which the start of memory has space."""
SEED, STEP = 0x5EED_1234, 3
NEGATIVE_ZERO, SUBNORMAL = 0x8000_0000, 0x8000_4321
Floats = NDArray[np.float32]


class Scene:
    """Commands that are queued for a machine, and the effects of the commands.

    ``base``: first address of the memory. ``contents``: data in memory before the run, as offset
    and bytes. ``results``, ``stored``: data in memory after the run, as floats and as bytes.
    ``tensors``: converted operands by name. ``images``: offsets of the two copies of every operand;
    the offsets are equal if the operand has a single copy. ``fields``: scale fields of the
    conversions.
    """

    def __init__(self, view: HostView, base: int):
        self.view, self.base = view, base
        self.random = random.Random(SEED)
        side, longest = view.block, view.numerics.max_contraction
        self.sizes = {"m": side + 1, "n": side + 5, "k": min(2 * side + 3, longest)}
        if side + 5 > longest:
            self.sizes["n"] = longest
        self.end = round_up(MAX_COMMANDS * COMMAND_BYTES, view.beat_bytes)
        self.contents: list[tuple[int, bytes]] = []
        self.stored: list[tuple[int, bytes]] = []
        self.results: list[tuple[int, Floats]] = []
        self.written = 0  # offset of the first byte that the machine writes
        self.commands: list[Command] = []
        self.scales = TensorScales(view.numerics)
        self.fields: dict[str, int] = {}
        self.images: dict[str, tuple[int, int]] = {}
        self.tensors: dict[str, Quantised] = {}
        self.products: list[ResultTensor] = []
        self.registers: dict[str, int] = {}  # expected values, in addition to all runs' registers

    @cached_property
    def floats(self) -> dict[str, Floats]:
        """Operands: signed numbers of a few binades, with a negative zero and a subnormal
        number."""
        return {tensor.name: self._floats(tensor) for tensor in OPERANDS}

    def _floats(self, tensor: Tensor) -> Floats:
        shape = self._shape(tensor)
        words = [
            self.random.getrandbits(1) << 31
            | self.random.randrange(124, 129) << 23
            | self.random.getrandbits(23)
            for _ in range(shape[0] * shape[1])
        ]
        words[1], words[-1] = NEGATIVE_ZERO, SUBNORMAL
        return np.array(words, dtype=np.uint32).view(np.float32).reshape(shape)

    def _shape(self, tensor: Tensor) -> tuple[int, int]:
        return self.sizes[tensor.rows], self.sizes[tensor.columns]

    def layout(self, values: Floats) -> FloatLayout:
        """Return the layout of a tensor in memory."""
        rows, cols = values.shape
        return FloatLayout(rows=rows, cols=cols, data_width=self.view.limits.data_width)

    def allocate(self, size: int) -> int:
        """Return the offset of new space in memory. A beat that nobody may touch separates two
        pieces."""
        at = self.end
        self.end = round_up(at + size, self.view.beat_bytes) + self.view.beat_bytes
        return at

    def convert_all(self) -> None:
        """Queue the conversions. All data that the machine writes lies behind the floats."""
        places: dict[str, int] = {}
        for name, values in self.floats.items():
            rows = self.layout(values).pack(values).tobytes()
            places[name] = self.allocate(len(rows))
            self.contents.append((places[name], rows))
        self.written = self.end
        for tag, tensor in enumerate(OPERANDS):
            self._convert(tensor, places[tensor.name], tag)

    def _convert(self, tensor: Tensor, source: int, tag: int) -> None:
        view, name = self.view, tensor.tensor_class
        conversion = Conversion(name, tag=tag, step=STEP)
        scale = self.scales.choose(conversion)
        scaled = replace(conversion, scale=scale)
        converted = quantise(self.floats[tensor.name], scaled, view.numerics, seed=SEED)
        sizes = self._images(GoldenMemory(0)).sizes(name, converted.shape, converted.width)
        images = [self.allocate(size) for size in sizes]
        self.fields[tensor.name] = scale_field(scale, converted.storage.format)
        rows, cols = converted.shape
        self.commands.append(
            Command.convert(
                name,
                rows=rows,
                cols=cols,
                source=self.base + source,
                destination=self.base + images[0],
                second=self.base + images[1] if len(images) > 1 else 0,
                tag=tag,
                step=STEP,
                scale=self.fields[tensor.name],
                planes=converted.storage.format.plane_count,
            )
        )
        self.tensors[tensor.name] = converted
        self.images[tensor.name] = (images[0], images[-1])

    def _images(self, memory: GoldenMemory) -> Images:
        view = self.view
        return Images(memory=memory, numerics=view.numerics, data_width=view.limits.data_width)

    def result(self, values: Floats) -> int:
        """Reserve space for floats that the machine will write, and return the offset."""
        at = self.allocate(self.layout(values).total_bytes)
        self.results.append((at, values))
        return at

    def multiply(self, opcode: Opcode, operation: Operation) -> None:
        """Queue a product of the converted tensors."""
        addresses = self.operand_addresses(operation)
        for product, field in zip(operation.products, operation.result_fields, strict=True):
            result = matrix_product(product, self.tensors, self.view.numerics)
            self.products.append(result)
            addresses[field] = self.base + self.result(result.values)
        planes = self.planes(operation)
        self.commands.append(Command.product(opcode, **self.sizes, planes=planes, **addresses))

    def operand_addresses(self, operation: Operation) -> dict[str, Any]:
        """Return the addresses of the images that an operation reads, by field."""
        addresses: dict[str, Any] = {}
        for read in operation.reads:
            two = self.view.copies(read.operand.tensor_class) > 1
            if two or not read.second:
                copy = read.copy if two else 0
                addresses[read.field] = self.base + self.images[read.operand.name][copy]
        return addresses

    def planes(self, operation: Operation) -> dict[str, int]:
        """Return the numbers of planes of the operands, by class."""
        return {
            tensor.tensor_class: self.tensors[tensor.name].storage.format.plane_count
            for tensor in operation.operands
        }

    @property
    def size(self) -> int:
        """Size of the memory in bytes, a power of two."""
        return 1 << (self.end - 1).bit_length()

    @cached_property
    def inputs(self) -> bytes:
        """Memory before the run. Unspecified bytes are random, except in results. The padding of a
        result's rows begins as zeros, because the machine may leave the padding or write zeros."""
        before = bytearray(self.random.randbytes(self.size))
        commands = b"".join(each.encode() for each in self.commands)
        for at, content in [(0, commands), *self.contents]:
            before[at : at + len(content)] = content
        for at, values in self.results:
            length = self.layout(values).total_bytes
            before[at : at + length] = bytes(length)
        return bytes(before)

    @cached_property
    def expected(self) -> bytes:
        """Memory after the run."""
        memory = GoldenMemory(self.size)
        memory.write(0, np.frombuffer(self.inputs, dtype=np.uint8))
        for at, values in self.results:
            memory.write(at, self.layout(values).pack(values))
        for at, content in self.stored:
            memory.write(at, np.frombuffer(content, dtype=np.uint8))
        for name, tensor in self.tensors.items():
            self._images(memory).write(tensor, self.images[name])
        return memory.read(0, self.size).tobytes()

    def writes(self) -> list[tuple[int, int]]:
        """Return the register writes, from the settings to the start, as offset and value."""
        control = BY_NAME["control"]
        enable = 1 << control.bit("irq_enable")
        settings = {
            "seed": SEED,
            "read_base": self.base,
            "read_limit": self.base + self.size,
            "write_base": self.base + self.written,
            "write_limit": self.base + self.end,
            "command_address": self.base,
            "command_count": len(self.commands),
        }
        writes = [access for name, value in settings.items() for access in accesses(name, value)]
        writes += accesses("control", 1 << control.bit("clear") | enable)
        return writes + accesses("control", 1 << control.bit("start") | enable)

    def reads(self) -> list[tuple[int, int]]:
        """Return the values that the registers must have at the end, as offset and value."""
        flags = BY_NAME["flags"]
        seen = 0 if all(each.exact for each in self.products) else 1 << flags.bit("inexact")
        if any(each.overflow for each in self.products):
            seen |= 1 << flags.bit("overflow")
        converted = list(self.tensors.values())
        published = self.view.published
        constants = {
            each.name: published.reset_value(each)
            for each in self.view.registers
            if each.kind == "constant"
        }
        values = constants | self.registers
        values |= {
            "status": 1 << BY_NAME["status"].bit("done"),
            "error_code": 0,
            "flags": seen,
            "saturated": sum(tensor.saturated for tensor in converted),
            "underflowed": sum(tensor.underflowed for tensor in converted),
            "amax": converted[-1].amax,
        }
        return [access for name, value in values.items() for access in accesses(name, value)]


def accesses(name: str, value: int) -> list[tuple[int, int]]:
    """Return the accesses to the words of a register, as offset and value."""
    register = BY_NAME[name]
    words = range(register.words)
    return [(register.offset + 4 * n, value >> 32 * n & 0xFFFF_FFFF) for n in words]
