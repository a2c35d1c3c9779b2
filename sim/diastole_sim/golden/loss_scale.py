"""Model the loss scale: a machine multiplies gradients by the scale, so that few gradients
vanish."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diastole_sim.spec.micro import INVERSE, SCALE

ON = 1 << 31
"""Enable bit of the register ``loss_scale``. Three signed bytes are below the bit: exponent,
smallest exponent, largest exponent."""


@dataclass(kw_only=True)
class LossScale:
    """State of the loss scale. ``exponent``: the scale is 2^exponent, kept within ``smallest`` and
    ``largest``. ``clean``: steps since the last change of the scale, all without overflow. After
    ``window`` clean steps the scale doubles."""

    on: bool = False
    exponent: int = 0
    smallest: int = 0
    largest: int = 0
    window: int = 0
    clean: int = 0

    @property
    def register(self) -> int:
        """Value of the register ``loss_scale``."""
        each = (self.exponent, self.smallest, self.largest)
        return sum((value & 0xFF) << 8 * n for n, value in enumerate(each)) | ON * self.on

    def set_register(self, value: int) -> None:
        """Write the register ``loss_scale``."""
        self.exponent, self.smallest, self.largest = (_signed(value >> 8 * n) for n in range(3))
        self.on = bool(value & ON)

    def next(self, overflow: bool) -> None:
        """End a step. ``overflow``: True if the step overflowed."""
        if not self.on:
            return
        if overflow:
            self.exponent, self.clean = max(self.exponent - 1, self.smallest), 0
            return
        self.clean += 1
        if self.clean == self.window:
            self.exponent, self.clean = min(self.exponent + 1, self.largest), 0

    def set_floor(self, value: np.float32) -> None:
        """Apply a load of constant :data:`diastole_sim.spec.micro.FLOOR`: ``smallest`` becomes the
        exponent field of ``value`` less 127, in a byte (-128 for an Inf or NaN). A scale below
        ``smallest`` rises to ``smallest`` at once, and the count of clean steps begins anew."""
        if not self.on:
            return
        field = int(value.view(np.uint32)) >> 23 & 0xFF
        self.smallest = _signed(field - 127)
        if self.exponent < self.smallest:
            self.exponent, self.clean = self.smallest, 0

    @property
    def factors(self) -> tuple[np.float32, np.float32]:
        """Scale and inverse of the scale; both are 1.0 while the scale is off."""
        exponent = self.exponent if self.on else 0
        return _power(exponent), _power(-exponent)

    def put(self, constants: NDArray[np.float32]) -> None:
        """Write the scale and its inverse into the 256 constants."""
        constants[SCALE], constants[INVERSE] = self.factors


def _signed(value: int) -> int:
    """Return the lowest byte of an integer as a number in two's complement."""
    return (value & 0xFF ^ 0x80) - 0x80


def _power(exponent: int) -> np.float32:
    """Return 2^exponent as binary32: +0 below 2^-126, Inf from 2^128 on."""
    biased = min(max(exponent + 127, 0), 255)
    return np.uint32(biased << 23).view(np.float32)
