"""Work out a first run of a machine: operands, addresses, commands, register writes, results.

The bytes come from the encoder of the contract (``diastole_sim.spec``) and from the golden model,
never from the hardware.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from diastole_sim.device.conversion import Conversion
from diastole_sim.golden.convert import Quantised, quantise
from diastole_sim.golden.matrix_product import matrix_product
from diastole_sim.spec.command import DEFAULT_NEST, NO_PLANES, Command
from diastole_sim.spec.command_table import COMMAND_BYTES, Opcode
from diastole_sim.spec.image import Bytes, FloatLayout, ImageLayout, image_layouts, round_up
from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.operations import FORWARD, OPERANDS, OPERATIONS, Tensor
from diastole_sim.spec.planes import split_planes
from diastole_sim.spec.registers import BY_NAME

BASE = 0x1000_0000
"""First address of the example's memory."""
SPACING = 256
"""Alignment of all data in bytes: a multiple of every beat, and easy to read."""
SEED, STEP = 1, 0
TAGS = {"X": 0, "W": 1}
"""Tags of the operands of a layer with number 0."""
_VALUES = {"X": (1, 2), "W": (2, 1)}
"""Factors of the row and of the column in the value of an element, by operand."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Range of memory: description, first address, and size in bytes."""

    what: str
    address: int
    size: int


@dataclass(frozen=True, kw_only=True)
class FirstRun:
    """Run of three commands on a machine: convert X, convert W, multiply.

    ``data_width``: bits of the bus.
    """

    numerics: Numerics
    data_width: int

    @cached_property
    def sizes(self) -> dict[str, int]:
        """M, N and K: a little more than whole blocks, to make padding visible."""
        block = self.numerics.block
        return {"m": block + 1, "n": block + 2, "k": 2 * block + 1}

    def shape(self, tensor: Tensor) -> tuple[int, int]:
        """Return the shape of an operand or of the result."""
        rows, columns = tensor.axes
        return self.sizes[rows], self.sizes[columns]

    @cached_property
    def values(self) -> dict[str, NDArray[np.float32]]:
        """Operands by name. Element (r, c) is (a r + b c) mod 3 - 1, exact in every format."""
        values: dict[str, NDArray[np.float32]] = {}
        for tensor in FORWARD.factors:
            of_row, of_column = _VALUES[tensor.name]
            row, column = np.indices(self.shape(tensor))
            values[tensor.name] = ((of_row * row + of_column * column) % 3 - 1).astype(np.float32)
        return values

    @cached_property
    def converted(self) -> dict[str, Quantised]:
        """Converted operands by name."""
        return {
            tensor.name: quantise(
                self.values[tensor.name], self._requests(tensor), self.numerics, seed=SEED
            )
            for tensor in FORWARD.factors
        }

    def _requests(self, tensor: Tensor) -> Conversion:
        width = self.numerics.widths[-1] if self._planes(tensor) > 1 else None
        return Conversion(tensor.tensor_class, tag=TAGS[tensor.name], step=STEP, width=width)

    @cached_property
    def result(self) -> NDArray[np.float32]:
        """Y."""
        return matrix_product(FORWARD, self.converted, self.numerics).values

    @cached_property
    def is_exact(self) -> bool:
        """True if Y is X W without any error."""
        return bool((self.result == self.values["X"] @ self.values["W"]).all())

    def _planes(self, tensor: Tensor) -> int:
        return self.numerics.planes_of(tensor.tensor_class)[-1]

    def layouts(self, tensor: Tensor) -> tuple[ImageLayout, ...]:
        """Return the layouts of the images of an operand."""
        storage = self.numerics.tensor_class(tensor.tensor_class)
        sizes = {"block": self.numerics.block, "data_width": self.data_width}
        return image_layouts(storage, self.shape(tensor), **sizes)

    def images(self, tensor: Tensor) -> list[Bytes]:
        """Return the bytes that the conversion of an operand writes, by copy."""
        converted = self.converted[tensor.name]
        images: list[Bytes] = []
        for layout, copy in zip(self.layouts(tensor), converted.copies, strict=True):
            header = converted.tensor_exponent if layout.header else None
            planes = split_planes(copy, self._planes(tensor))
            images.append(np.concatenate([layout.pack(plane, header) for plane in planes]))
        return images

    @cached_property
    def places(self) -> dict[str, Place]:
        """Ranges of memory by a short name, ascending: commands, X, W, images of X and W, Y."""
        areas = [("commands", "the three commands", 3 * COMMAND_BYTES)]
        for tensor in FORWARD.factors:
            areas.append((tensor.name, f"{tensor.name} as floats", self._float_bytes(tensor)))
        for tensor in FORWARD.factors:
            for number, image in enumerate(self.images(tensor)):
                what = f"image of {tensor.name}" + (f", copy {number}" if number else "")
                areas.append((f"{tensor.name}{number}", what, len(image)))
        areas.append(("Y", "Y as floats", self._float_bytes(FORWARD.result)))
        places: dict[str, Place] = {}
        address = BASE
        for name, what, size in areas:
            places[name] = Place(what=what, address=address, size=size)
            address += round_up(size, SPACING)
        return places

    def _floats(self, tensor: Tensor) -> FloatLayout:
        rows, cols = self.shape(tensor)
        return FloatLayout(rows=rows, cols=cols, data_width=self.data_width)

    def _float_bytes(self, tensor: Tensor) -> int:
        return self._floats(tensor).total_bytes

    def pitch(self, tensor: Tensor) -> int:
        """Return the bytes between the starts of two rows of floats."""
        return self._floats(tensor).pitch_bytes

    def address(self, name: str) -> int:
        """Return the address of a place by its short name; 0 if no place has the name."""
        return self.places[name].address if name in self.places else 0

    @cached_property
    def commands(self) -> list[Command]:
        """Commands of the run: convert X, convert W, forward."""
        made = [self._convert(tensor) for tensor in OPERANDS if tensor in FORWARD.factors]
        planes = {tensor.tensor_class: self._planes(tensor) for tensor in FORWARD.factors}
        reads = {
            read.field: self.address(f"{read.operand.name}{self._copy(read.operand, read.copy)}")
            for read in OPERATIONS["forward"].reads
        }
        made.append(
            Command.product(
                Opcode.FORWARD,
                m=self.sizes["m"],
                n=self.sizes["n"],
                k=self.sizes["k"],
                nest=DEFAULT_NEST,
                planes=planes,
                slots=NO_PLANES,
                out_a=self.address("Y"),
                **reads,
            )
        )
        return made

    def _copy(self, tensor: Tensor, number: int) -> int:
        """Return the index of the image that holds a copy: 0 if the operand has a single image."""
        return number if len(self.layouts(tensor)) > 1 else 0

    def _convert(self, tensor: Tensor) -> Command:
        rows, cols = self.shape(tensor)
        return Command.convert(
            tensor.tensor_class,
            rows=rows,
            cols=cols,
            source=self.address(tensor.name),
            destination=self.address(f"{tensor.name}0"),
            second=self.address(f"{tensor.name}1"),
            tag=TAGS[tensor.name],
            step=STEP,
            planes=self._planes(tensor),
        )

    @cached_property
    def writes(self) -> list[tuple[int, int, str]]:
        """Register writes in order: offset, value and meaning."""
        first_image = min(self.places[f"{tensor.name}0"].address for tensor in FORWARD.factors)
        end = round_up(max(each.address + each.size for each in self.places.values()), SPACING)
        settings = {
            "seed": SEED,
            "read_base": BASE,
            "read_limit": end,
            "write_base": first_image,
            "write_limit": end,
            "command_address": self.address("commands"),
            "command_count": len(self.commands),
        }
        writes: list[tuple[int, int, str]] = []
        for name, value in settings.items():
            register = BY_NAME[name]
            for word in range(register.words):
                part = ("", ", upper part")[word]
                offset = register.offset + 4 * word
                writes.append((offset, value >> 32 * word & 0xFFFF_FFFF, name.upper() + part))
        control = BY_NAME["control"]
        bits = 1 << control.bit("start") | 1 << control.bit("irq_enable")
        writes.append((control.offset, bits, "CONTROL: start, irq_enable"))
        return writes
