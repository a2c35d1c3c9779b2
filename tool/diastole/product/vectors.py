"""A small run of a machine, for benches: memory before and after, registers to write and to read.

Every operation that multiplies is in it, on signed tensors of odd shapes, and the images of all of
them. What must be there afterwards comes from the golden model.
"""

import random
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diastole.product.facts import LICENCE
from diastole.product.host_view import HostView
from diastole_sim.device.scales import TensorScales
from diastole_sim.golden.convert import Quantised, quantise
from diastole_sim.golden.images import Images
from diastole_sim.golden.memory import GoldenMemory
from diastole_sim.golden.product import ResultTensor, matrix_product
from diastole_sim.spec.command import Command, scale_field
from diastole_sim.spec.command_table import COMMAND_BYTES, PRODUCTS, WIDTH_FIELDS, Opcode
from diastole_sim.spec.image import FloatLayout, round_up
from diastole_sim.spec.operations import OPERANDS, Operation, Tensor
from diastole_sim.spec.registers import BY_NAME

BASE = 0x92_3450_0000
"""Of the memory: most of the address bits are used, and it is a multiple of any size."""
SEED, STEP = 0x5EED_1234, 3
NEGATIVE_ZERO, SUBNORMAL = 0x8000_0000, 0x8000_4321
Floats = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Vectors:
    """What benches need. ``given`` and ``wanted``: all bytes of memory, from ``BASE`` on.
    ``writes``, ``reads``: offset and value of words of registers, in order. ``floats``: X, W and
    dY; ``scales``: by them, the field of their conversions. ``product``: Y."""

    sizes: dict[str, int]
    given: bytes
    wanted: bytes
    writes: tuple[tuple[int, int], ...]
    reads: tuple[tuple[int, int], ...]
    floats: dict[str, Floats]
    scales: dict[str, int]
    product: Floats

    def beats(self, content: bytes, beat_bytes: int) -> str:
        """Bytes as lines of hexadecimal digits, a beat each, for ``$readmemh``."""
        starts = range(0, len(content), beat_bytes)
        beats = (content[start : start + beat_bytes] for start in starts)
        return "".join(beat[::-1].hex() + "\n" for beat in beats)

    @staticmethod
    def words(accesses: tuple[tuple[int, int], ...]) -> str:
        """Accesses to registers likewise: 12 bits of offset, 32 of value."""
        return "".join(f"{offset:03x}{value:08x}\n" for offset, value in accesses)


def make_vectors(view: HostView) -> Vectors:
    """Of a machine; the same for the same configuration."""
    scene = _Scene(view)
    scene.convert_all()
    for opcode, operation in PRODUCTS.items():
        scene.multiply(opcode, operation)
    return scene.finish()


class _Scene:
    def __init__(self, view: HostView):
        self.view = view
        self.random = random.Random(SEED)
        side, longest = view.block, view.numerics.max_contraction
        self.sizes = {"m": side + 1, "n": side + 5, "k": min(2 * side + 3, longest)}
        if side + 5 > longest:
            self.sizes["n"] = longest
        self.end = round_up((len(OPERANDS) + len(PRODUCTS)) * COMMAND_BYTES, view.beat_bytes)
        self.given: list[tuple[int, bytes]] = []
        self.results: list[tuple[int, Floats]] = []
        self.written = 0  # where what the machine writes begins
        self.commands: list[Command] = []
        self.scales = TensorScales(view.numerics)
        self.fields: dict[str, int] = {}
        self.images: dict[str, tuple[int, int]] = {}
        self.tensors: dict[str, Quantised] = {}
        self.products: list[ResultTensor] = []

    @cached_property
    def floats(self) -> dict[str, Floats]:
        """Signed numbers of a few binades, a negative zero and a subnormal among them."""
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

    def _layout(self, shape: tuple[int, int]) -> FloatLayout:
        return FloatLayout(rows=shape[0], cols=shape[1], data_width=self.view.limits.data_width)

    def allocate(self, size: int) -> int:
        """An offset in memory; between two pieces there is a beat that nobody may touch."""
        at = self.end
        self.end = round_up(at + size, self.view.beat_bytes) + self.view.beat_bytes
        return at

    def convert_all(self) -> None:
        """Queue the conversions; all that the machine writes comes behind the floats."""
        places: dict[str, int] = {}
        for name, values in self.floats.items():
            rows = self._layout((values.shape[0], values.shape[1])).pack(values).tobytes()
            places[name] = self.allocate(len(rows))
            self.given.append((places[name], rows))
        self.written = self.end
        for tag, tensor in enumerate(OPERANDS):
            self._convert(tensor, places[tensor.name], tag)

    def _convert(self, tensor: Tensor, source: int, tag: int) -> None:
        view, name = self.view, tensor.tensor_class
        scale = self.scales.choose(name, tag)
        converted = quantise(
            self.floats[tensor.name],
            name,
            view.numerics,
            seed=SEED,
            tag=tag,
            step=STEP,
            scale=scale,
        )
        sizes = self._images(GoldenMemory(0)).sizes(name, converted.shape, converted.width)
        images = [self.allocate(size) for size in sizes]
        self.fields[tensor.name] = scale_field(scale, converted.chosen.format)
        rows, cols = converted.shape
        self.commands.append(
            Command.convert(
                name,
                rows=rows,
                cols=cols,
                source=BASE + source,
                destination=BASE + images[0],
                second=BASE + images[1] if len(images) > 1 else 0,
                tag=tag,
                step=STEP,
                scale=self.fields[tensor.name],
                planes=converted.chosen.format.plane_count,
            )
        )
        self.tensors[tensor.name] = converted
        self.images[tensor.name] = (images[0], images[-1])

    def _images(self, memory: GoldenMemory) -> Images:
        view = self.view
        return Images(memory=memory, numerics=view.numerics, data_width=view.limits.data_width)

    def multiply(self, opcode: Opcode, operation: Operation) -> None:
        """Queue a product of the converted tensors."""
        addresses: dict[str, Any] = {}
        for read in operation.reads:
            two = self.view.copies(read.operand.tensor_class) > 1
            if two or not read.second:
                addresses[read.field] = (
                    BASE + self.images[read.operand.name][read.copy if two else 0]
                )
        for product, field in zip(operation.products, operation.result_fields, strict=True):
            result = matrix_product(product, self.tensors, self.view.numerics)
            at = self.allocate(self._layout(self._shape(product.result)).total_bytes)
            self.products.append(result)
            self.results.append((at, result.values))
            addresses[field] = BASE + at
        planes = {
            tensor.tensor_class: self.tensors[tensor.name].chosen.format.plane_count
            for tensor in operation.operands
            if tensor.tensor_class in WIDTH_FIELDS
        }
        self.commands.append(Command.product(opcode, **self.sizes, planes=planes, **addresses))

    def finish(self) -> Vectors:
        """Memory before and after, and the registers."""
        size = 1 << (self.end - 1).bit_length()
        before = bytearray(self.random.randbytes(size))
        for at, content in [(0, b"".join(each.encode() for each in self.commands)), *self.given]:
            before[at : at + len(content)] = content
        memory = GoldenMemory(size)
        for at, values in self.results:  # what pads a row may be left, or zeros: here it is both
            layout = self._layout((values.shape[0], values.shape[1]))
            before[at : at + layout.total_bytes] = bytes(layout.total_bytes)
        memory.write(0, np.frombuffer(bytes(before), dtype=np.uint8))
        for at, values in self.results:
            memory.write(at, self._layout((values.shape[0], values.shape[1])).pack(values))
        for name, tensor in self.tensors.items():
            self._images(memory).write(tensor, self.images[name])
        return Vectors(
            sizes=self.sizes,
            given=bytes(before),
            wanted=memory.read(0, size).tobytes(),
            writes=tuple(self._writes(size)),
            reads=tuple(self._reads()),
            floats=self.floats,
            scales=self.fields,
            product=self.products[0].values,
        )

    def _writes(self, size: int) -> list[tuple[int, int]]:
        control = BY_NAME["control"]
        enable = 1 << control.bit("irq_enable")
        settings = {
            "seed": SEED,
            "read_base": BASE,
            "read_limit": BASE + size,
            "write_base": BASE + self.written,
            "write_limit": BASE + self.end,
            "command_address": BASE,
            "command_count": len(self.commands),
        }
        writes = [access for name, value in settings.items() for access in accesses(name, value)]
        writes += accesses("control", 1 << control.bit("clear") | enable)
        return writes + accesses("control", 1 << control.bit("start") | enable)

    def _reads(self) -> list[tuple[int, int]]:
        """What the registers must tell in the end."""
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
        values = constants | {
            "status": 1 << BY_NAME["status"].bit("done"),
            "error_code": 0,
            "flags": seen,
            "saturated": sum(tensor.saturated for tensor in converted),
            "underflowed": sum(tensor.underflowed for tensor in converted),
            "amax": converted[-1].amax,
        }
        return [access for name, value in values.items() for access in accesses(name, value)]


def accesses(name: str, value: int) -> list[tuple[int, int]]:
    """Of the words of a register."""
    register = BY_NAME[name]
    words = range(register.words)
    return [(register.offset + 4 * n, value >> 32 * n & 0xFFFF_FFFF) for n in words]


def c_vectors(view: HostView, vectors: Vectors) -> str:
    """X, W and Y in C, for the host."""
    prefix, name = view.prefix, view.name
    lines = [
        f"/* SPDX-License-Identifier: {LICENCE} */",
        f"/* {view.origin}; do not edit. Bits of binary32. */",
        *(
            f"#ifndef {prefix}_VECTORS_H",
            f"#define {prefix}_VECTORS_H",
            "",
            "#include <stdint.h>",
            "",
        ),
        *(
            f"#define {prefix}_VECTORS_{axis.upper()} {size}"
            for axis, size in vectors.sizes.items()
        ),
        f"#define {prefix}_VECTORS_SEED 0x{SEED:X}u",
        f"#define {prefix}_VECTORS_STEP {STEP}",
    ]
    arrays = {each: vectors.floats[each] for each in ("X", "W")}
    for each, values in arrays.items():
        largest = float(np.abs(values).max())
        lines.append(f"#define {prefix}_VECTORS_SCALE_{each} {vectors.scales[each]}")
        lines.append(f"#define {prefix}_VECTORS_LARGEST_{each} {largest!r}")
    for each, values in (*arrays.items(), ("Y", vectors.product)):
        words = [f"0x{word:08X}u" for word in values.reshape(-1).view(np.uint32).tolist()]
        rows = [", ".join(words[at : at + 7]) for at in range(0, len(words), 7)]
        lines += ["", f"static const uint32_t {name}_vectors_{each.lower()}[{len(words)}] = {{"]
        lines += [f"    {row}," for row in rows] + ["};"]
    return "\n".join([*lines, "", "#endif", ""])
