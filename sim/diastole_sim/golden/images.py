"""Read and write images, the stored form of converted tensors, in the golden machine's memory."""

from dataclasses import dataclass

import numpy as np

from diastole_sim.golden.convert import Quantised
from diastole_sim.golden.copies import Copy
from diastole_sim.golden.memory import Bytes, GoldenMemory
from diastole_sim.spec.image import ImageLayout, image_layouts
from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.planes import join_planes, split_planes


@dataclass(frozen=True, kw_only=True, eq=False)
class Images:
    """Images of one machine. ``data_width``: bits of the machine's bus."""

    memory: GoldenMemory
    numerics: Numerics
    data_width: int

    def write(self, tensor: Quantised, addresses: tuple[int, int]) -> None:
        """Write every copy of a tensor at its address. The second address counts only if there are
        two copies."""
        planes = tensor.storage.format.plane_count
        layouts = self.layouts(tensor.tensor_class, tensor.shape, tensor.width)
        for number, layout in enumerate(layouts):

            def pack(number: int = number, layout: ImageLayout = layout) -> Bytes:
                header = tensor.tensor_exponent if layout.header else None
                each = split_planes(tensor.copies[number], planes)
                return np.concatenate([layout.pack(plane, header) for plane in each])

            stored = ImageSource(tensor=tensor, copy=number)
            self.memory.write_lazily(addresses[number], planes * layout.total_bytes, stored, pack)

    def layouts(
        self, tensor_class: str, shape: tuple[int, int], width: int | None
    ) -> tuple[ImageLayout, ...]:
        """Return the layouts of all copies. ``width``: bits of a magnitude in the format
        ``fast``."""
        storage = self.numerics.converted_class(tensor_class, width)
        return image_layouts(storage, shape, block=self.numerics.block, data_width=self.data_width)

    def sizes(
        self, tensor_class: str, shape: tuple[int, int], width: int | None
    ) -> tuple[int, ...]:
        """Return the bytes of the images of all copies."""
        planes = self.numerics.converted_class(tensor_class, width).format.plane_count
        return tuple(
            planes * layout.total_bytes for layout in self.layouts(tensor_class, shape, width)
        )

    def read(
        self,
        address: int,
        tensor_class: str,
        shape: tuple[int, int],
        *,
        copy: int,
        width: int | None,
    ) -> Quantised:
        """Return a tensor for products that read copy number ``copy``, from the image at
        ``address``. If the class has a single copy, the image is of that copy. Only the copy that
        was requested may be read."""
        storage = self.numerics.converted_class(tensor_class, width)
        number = copy if storage.two_copies else 0
        stored = self.memory.source_at(address)
        if isinstance(stored, ImageSource) and stored.copy == number:
            tensor = stored.tensor
            kind = tensor.tensor_class, tensor.shape, tensor.storage
            if kind == (tensor_class, shape, storage):
                return tensor
        return self._unpack(address, tensor_class, shape, number, width)

    def _unpack(
        self,
        address: int,
        tensor_class: str,
        shape: tuple[int, int],
        number: int,
        width: int | None,
    ) -> Quantised:
        """Return a tensor as memory holds it. Fields that memory does not hold are zeros. The copy
        that is read takes the place of both copies."""
        storage = self.numerics.converted_class(tensor_class, width)
        layout = self.layouts(tensor_class, shape, width)[number]
        planes = storage.format.plane_count
        each = self.memory.rows(address, planes, layout.total_bytes, layout.total_bytes)
        unpacked = [layout.unpack(image) for image in each]
        stored = join_planes([copy for copy, _ in unpacked])
        copy = Copy(
            transposed=number == 1,
            shape=(layout.rows, layout.cols),
            folds=np.zeros_like(stored.exponents),
            **vars(stored),
        )
        return Quantised(
            shape=shape,
            tensor_class=tensor_class,
            storage=storage,
            block=self.numerics.block,
            copies=(copy,) * (2 if storage.two_copies else 1),
            tensor_exponent=unpacked[0][1],
            amax=0,
            nan=False,
            inf=False,
            saturated=0,
            underflowed=0,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageSource:
    """Copy of a tensor whose image is in memory."""

    tensor: Quantised
    copy: int
