"""A converted tensor where the hardware has it."""

import weakref
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from diastole_sim.device_api import Floats
from diastole_sim.golden.convert import Quantised
from diastole_sim.program.image import ImageLayout, StoredTensor
from diastole_sim.rtl.machine import AddressRange

if TYPE_CHECKING:
    from diastole_sim.rtl.device import Device


class DeviceTensor:
    """A converted tensor in the machine's memory.

    A :class:`diastole_sim.device_api.ConvertedTensor`. Its memory is free again when the last
    reference to it is gone.
    """

    def __init__(self, device: "Device", shape: tuple[int, int], tensor_class: str):
        chosen = device.numerics.tensor_class(tensor_class)
        self.device = device
        self.shape = shape
        self.tensor_class = tensor_class
        self.nan, self.inf, self.saturated = False, False, 0
        self.layout = ImageLayout(
            rows=shape[0],
            cols=shape[1],
            block=device.numerics.block,
            mantissa_bits=chosen.format.mantissa_bits,
            data_width=device.product.data_width,
        )
        self.address = device.heap.allocate(self.layout.total_bytes)
        weakref.finalize(self, device.heap.free, self.address).atexit = False

    @property
    def range(self) -> AddressRange:
        """The addresses of its image."""
        return self.address, self.address + self.layout.total_bytes

    @property
    def image(self) -> NDArray[np.uint8]:
        """The bytes of its image, as they are in the machine's memory now."""
        return self.device.machine.bytes_at(self.address, self.layout.total_bytes)

    def read(self) -> Quantised:
        """The tensor as the hardware wrote it, in the golden model's form."""
        stored = self.layout.unpack(self.image)
        return Quantised(
            shape=self.shape,
            tensor_class=self.tensor_class,
            format=self.device.numerics.tensor_class(self.tensor_class).format,
            block=self.layout.block,
            magnitudes=stored.magnitudes,
            negative=stored.negative,
            exponents=stored.exponents,
            row_max=stored.row_max,
            col_max=stored.col_max,
            nan=self.nan,
            inf=self.inf,
            saturated=self.saturated,
        )

    def values(self) -> Floats:
        """The stored numbers, unpadded, each exactly."""
        return self.read().values()

    def write(self, tensor: Quantised) -> None:
        """Put a tensor of the same shape and class there that the golden model converted."""
        self.image[:] = self.layout.pack(
            StoredTensor(
                magnitudes=tensor.magnitudes,
                negative=tensor.negative,
                exponents=tensor.exponents,
                row_max=tensor.row_max,
                col_max=tensor.col_max,
            )
        )
        self.nan, self.inf, self.saturated = tensor.nan, tensor.inf, tensor.saturated
