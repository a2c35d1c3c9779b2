"""ConversionFacts tensor in the memory of the hardware."""

import math
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from diastole_sim.device.interface import Floats
from diastole_sim.golden.convert import Quantised
from diastole_sim.golden.copies import Copy
from diastole_sim.golden.improvement import Improvement
from diastole_sim.host.heap import Heap
from diastole_sim.host.product import Product
from diastole_sim.host.running import AddressRange, RunningMachine
from diastole_sim.spec.image import Blocks, ImageLayout, StoredCopy, image_layouts
from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.planes import join_planes, split_planes


@dataclass(frozen=True, kw_only=True)
class ConversionFacts:
    """Facts about a tensor's data after the conversion; members as in :class:`DeviceTensor`."""

    nan: bool = False
    inf: bool = False
    saturated: int = 0
    underflowed: int = 0
    amax: int = 0
    convert_cycles: int = 0
    tensor_exponent: int | None = None
    improvement: Improvement | None = None


class TensorOwner(Protocol):
    """Members that a tensor needs of its device."""

    numerics: Numerics
    product: Product
    machine: RunningMachine
    heap: Heap

    def finish(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class StoredImage:
    """Image of one copy in a machine's memory, or the images of its ``planes``."""

    machine: RunningMachine
    layout: ImageLayout
    address: int
    planes: int = 1

    @property
    def range(self) -> AddressRange:
        """Addresses of the image."""
        return self.address, self.address + self.planes * self.layout.total_bytes

    @property
    def data(self) -> NDArray[np.uint8]:
        """View of the bytes of the image, as they are now in the machine's memory."""
        return self.machine.bytes_at(self.address, self.planes * self.layout.total_bytes)

    def pack(self, copy: Blocks, tensor_exponent: int | None) -> None:
        """Write a copy into the image."""
        header = tensor_exponent if self.layout.header else None
        for image, plane in zip(self._each, split_planes(copy, self.planes), strict=True):
            image[:] = self.layout.pack(plane, header)

    def unpack(self) -> tuple[StoredCopy, int | None]:
        """Return the copy in the image, and the header's exponent (None without a header)."""
        unpacked = [self.layout.unpack(image) for image in self._each]
        return join_planes([copy for copy, _ in unpacked]), unpacked[0][1]

    @property
    def _each(self) -> NDArray[np.uint8]:
        return self.data.reshape(self.planes, self.layout.total_bytes)


class DeviceTensor:
    """Converted tensor in the machine's memory: a
    :class:`diastole_sim.device.interface.ConvertedTensor`.

    - ``images``: one image for each copy. The memory is free again when the last reference to the
      tensor is gone.
    - ``amax``: binary32 bits of the largest finite magnitude of the data.
    - ``tensor_exponent``: exponent of the tensor's scale, if the tensor has a scale.
    - ``convert_cycles``: cycles of the conversion, 0 for an uploaded tensor.
    - ``pending``: true while the conversion waits for a product, to run beside the product.
      Reading a fact about the data runs the conversion first.
    """

    def __init__(
        self,
        device: TensorOwner,
        shape: tuple[int, int],
        tensor_class: str,
        width: int | None = None,
    ):
        self.device = device
        self.shape = shape
        self.tensor_class = tensor_class
        self.storage = device.numerics.converted_class(tensor_class, width)
        self.planes = self.storage.format.plane_count
        self.pending = False
        self._facts = ConversionFacts()
        images: list[StoredImage] = []
        for layout in image_layouts(
            self.storage, shape, block=device.numerics.block, data_width=device.product.data_width
        ):
            address = device.heap.allocate(self.planes * layout.total_bytes)
            weakref.finalize(self, device.heap.free, address).atexit = False
            image = StoredImage(
                machine=device.machine, layout=layout, address=address, planes=self.planes
            )
            images.append(image)
        self.images = tuple(images)

    def note(self, facts: ConversionFacts) -> None:
        """Record the conversion of the tensor, with the facts about its data."""
        self._facts = facts
        self.pending = False

    @property
    def facts(self) -> ConversionFacts:
        """Facts about the tensor's data. A waiting conversion runs first."""
        if self.pending:
            self.device.finish()
        return self._facts

    @property
    def nan(self) -> bool:
        return self.facts.nan

    @property
    def inf(self) -> bool:
        return self.facts.inf

    @property
    def saturated(self) -> int:
        return self.facts.saturated

    @property
    def underflowed(self) -> int:
        return self.facts.underflowed

    @property
    def stored(self) -> int:
        """Number of elements, over all copies."""
        return len(self.images) * math.prod(self.shape)

    @property
    def amax(self) -> int:
        return self.facts.amax

    @property
    def convert_cycles(self) -> int:
        return self.facts.convert_cycles

    @property
    def tensor_exponent(self) -> int | None:
        return self.facts.tensor_exponent

    @property
    def width(self) -> int | None:
        """Bits of a magnitude, chosen for the tensor in the format ``fast``; None in any different
        format."""
        return self.storage.format.fraction_bits if self.storage.format.planes else None

    @property
    def improvement(self) -> Improvement | None:
        """Counts of the monitor for the tensor in the format ``fast``; None in any different
        format."""
        return self.facts.improvement

    @property
    def ranges(self) -> list[AddressRange]:
        """Addresses of the tensor's images."""
        return [image.range for image in self.images]

    def address(self, copy: int) -> int:
        """Return the address of the image of a copy. A tensor with a single image returns its
        address for any copy."""
        return self.images[copy if len(self.images) > 1 else 0].address

    def read(self) -> Quantised:
        """Return the tensor as written by the hardware, in the golden model's form.

        Memory does not show folds, so ``folds`` are 0. If images have a header, the exponent of the
        tensor's scale is the header's.
        """
        copies: list[Copy] = []
        exponent = self.tensor_exponent  # runs a waiting conversion
        for number, image in enumerate(self.images):
            stored, in_header = image.unpack()
            exponent = exponent if in_header is None else in_header
            copies.append(
                Copy(
                    transposed=number == 1,
                    shape=(image.layout.rows, image.layout.cols),
                    folds=np.zeros_like(stored.exponents),
                    **vars(stored),
                )
            )
        return Quantised(
            shape=self.shape,
            tensor_class=self.tensor_class,
            storage=self.storage,
            block=self.device.numerics.block,
            copies=tuple(copies),
            tensor_exponent=exponent,
            amax=self.amax,
            nan=self.nan,
            inf=self.inf,
            saturated=self.saturated,
            underflowed=self.underflowed,
            improvement=self.improvement,
        )

    def values(self, copy: int = 0) -> Floats:
        """Return the stored numbers of a copy, unpadded, in the tensor's own orientation."""
        return self.read().values(copy)

    def copy_values(self) -> Mapping[str, Floats]:
        """Return :meth:`values` of every copy, by the axis of its groups; ``""`` for a single
        copy."""
        return self.read().copy_values()

    def write(self, tensor: Quantised) -> None:
        """Write a tensor of equal shape and class, converted by the golden model, into the
        images."""
        for image, copy in zip(self.images, tensor.copies, strict=True):
            image.pack(copy, tensor.tensor_exponent)
        self.note(
            ConversionFacts(
                nan=tensor.nan,
                inf=tensor.inf,
                saturated=tensor.saturated,
                underflowed=tensor.underflowed,
                amax=tensor.amax,
                tensor_exponent=tensor.tensor_exponent,
                improvement=tensor.improvement,
            )
        )
