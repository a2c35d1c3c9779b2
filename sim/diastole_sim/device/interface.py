"""What every device offers, the golden model and the generated hardware alike: numpy in and out.

A tensor is converted once and then serves every product that needs it::

    x, w = device.convert(X, "x", tag=0), device.convert(W, "w", tag=1)
    y = device.forward(x, w).y
    dy = device.convert(dY, "dy", tag=2)
    both = device.backward(x, w, dy)  # both.dx, both.dw

A product also takes float32 arrays, which it converts with ``tags`` and ``step``.

A class in vector groups (``1x16``) has two quantised *copies* of every tensor, both made from the
wide values, since groups run along the contraction of the product that reads them: copy 0 has them
along the tensor's rows, copy 1 down its columns (it is stored as a copy of the transposed tensor).
:mod:`diastole_sim.spec.operations` says which one a product reads. Other classes have copy 0 only,
for every product.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]


class ConvertedTensor(Protocol):
    """A tensor in its storage format, held by the device that converted it.

    ``shape``: rows and columns, unpadded. ``tensor_class``: ``x``, ``w`` or ``dy``. ``nan``,
    ``inf``: whether the data held one. ``saturated``: finite elements whose rounded magnitude did
    not fit. ``underflowed``: finite elements that became zero and were not. Both count over all
    copies.
    """

    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def tensor_class(self) -> str: ...
    @property
    def nan(self) -> bool: ...
    @property
    def inf(self) -> bool: ...
    @property
    def saturated(self) -> int: ...
    @property
    def underflowed(self) -> int: ...

    def values(self, copy: int = 0) -> Floats:
        """The stored numbers of a copy in the tensor's own orientation, unpadded, each exactly
        (some are binary32 subnormals; beyond the largest binary32, in NVFP4, Inf)."""
        ...

    def copy_values(self) -> Mapping[str, Floats]:
        """:meth:`values` of every copy, by the axis of its groups; ``""`` where there is one."""
        ...


Operand: TypeAlias = Floats | ConvertedTensor


@dataclass(frozen=True, kw_only=True)
class CommandCounters:
    """What the hardware counted in one product command; conversions apart. Units in the names.

    ``cycles``: from the command's start to its last write response. ``total_cycles``: with the
    conversion that ran beside it, if there was one. ``convert_cycles``: of the conversions that
    this product asked for, 0 if its operands were converted before.
    ``stall_cycles``: by each of :data:`diastole_sim.spec.registers.STALL_CAUSES`.
    """

    cycles: int
    total_cycles: int
    convert_cycles: int
    read_bytes: int
    write_bytes: int
    stall_cycles: Mapping[str, int]


@dataclass(frozen=True, kw_only=True, eq=False)
class ProductResult:
    """A product's tensors and what is to be known about them.

    ``values``: float32, the results of the operation by name. ``operands``: the converted tensors,
    its operands by name. ``exact``: every value is the exact product of the converted operands,
    rounded once. ``overflow``: a value was too large and is Inf. ``counters``: None from a device
    without a clock.
    """

    op: str
    values: Mapping[str, Floats]
    operands: Mapping[str, ConvertedTensor]
    exact: bool
    overflow: bool
    counters: CommandCounters | None = None

    @property
    def y(self) -> Floats:
        """Y = X W; KeyError unless a forward product."""
        return self.values["Y"]

    @property
    def dx(self) -> Floats:
        """dX = dY W^T; KeyError unless ``dx`` or ``backward``."""
        return self.values["dX"]

    @property
    def dw(self) -> Floats:
        """dW = X^T dY; KeyError unless ``dw`` or ``backward``."""
        return self.values["dW"]


class DeviceProtocol(Protocol):
    """One array with one seed. All arrays are float32, two-dimensional, and not empty.

    ValueError if shapes, types or classes do not agree, or if a contraction is longer than
    2^headroom blocks.
    """

    @property
    def total_cycles(self) -> int | None:
        """Of all conversions and products so far, what ran side by side once; None without a
        clock."""
        ...

    def convert(
        self,
        array: Floats,
        tensor_class: str,
        *,
        tag: int,
        step: int = 0,
        scale: int | None = None,
        beside: bool = False,
    ) -> ConvertedTensor:
        """Quantise as the class says; the draws are those of (seed, tag, step).

        ``scale``: of a tensor with a scale of its own where ``scale.source`` is ``given``, the
        exponent of its largest elements' binade, or T of NVFP4; None is a scale of 1. ValueError
        elsewhere, and out of range. Where it is ``delayed``, the scale is what the last tensor of
        this class and tag that this device converted would have had, unless that was zero.
        ``beside``: it may be done while the next product runs, where that is of other tensors.
        """
        ...

    def forward(
        self, x: Operand, w: Operand, *, tags: tuple[int, int] = (0, 1), step: int = 0
    ) -> ProductResult:
        """Y = X W."""
        ...

    def dx(
        self, w: Operand, dy: Operand, *, tags: tuple[int, int] = (1, 2), step: int = 0
    ) -> ProductResult:
        """dX = dY W^T."""
        ...

    def dw(
        self, x: Operand, dy: Operand, *, tags: tuple[int, int] = (0, 2), step: int = 0
    ) -> ProductResult:
        """dW = X^T dY."""
        ...

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
        ...
