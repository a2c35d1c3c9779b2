"""Define the interface of every device, with numpy arrays as inputs and results.

The golden model and the generated hardware share the interface. A tensor is converted once and
serves every product that reads the tensor::

    x, w = device.convert(X, "x"), device.convert(W, "w")
    y = device.forward(x, w).y
    both = device.backward(x, w, dY)  # both.dx, both.dw

A product also accepts arrays of every type that :mod:`diastole_sim.device.arrays` accepts. The
product converts arrays with the arguments ``tags`` and ``step``. A stack of matrices (..., M, K)
makes as many products as ``numpy.matmul``: leading axes broadcast, and every matrix is converted as
if alone.

A *tag* names a tensor for the random bits of stochastic rounding. Training numbers the layers and
gives X, W and dY the tags 4 * layer + 0, 1 or 2. Without an argument ``tags`` the device numbers
layers from 0: every product with a conversion, every product of a stack and every separate
conversion counts as a layer. Calls in the same order therefore give the same bits, and a stack
gives the bits of a loop over the stack. Two calls with the same ``tags`` and ``step`` draw the same
random bits. Two devices with equal seeds and an equal order of calls also draw equal random bits.
Pass another ``step`` for different random bits. (Where scales are ``delayed``, a tag also names a
tensor over time. Automatic tags then stay at layer 0, and ``step`` must be passed, since a scale
comes from the steps before.)

A class in vector groups (``1x16``) has two quantised *copies* of every tensor, because every
product needs groups along its contraction. Both copies are made from the wide values. Copy 0 has
groups along the tensor's rows. Copy 1 has groups down the tensor's columns and is stored as a copy
of the transposed tensor. :mod:`diastole_sim.spec.operations` says which copy a product reads.
Classes without vector groups have copy 0 only, for every product.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = NDArray[np.float32]

TAGS_PER_LAYER = 4
"""Distance between the first tags of neighbouring layers. A tag is the number of the layer times
this constant, plus 0, 1 or 2 for X, W and dY."""


class ConvertedTensor(Protocol):
    """A tensor in the storage format of a class, kept by the device that converted the tensor.

    - ``shape``: numbers of rows and columns without padding, after the leading axes of a stack.
    - ``tensor_class``: ``x``, ``w`` or ``dy``.
    - ``nan``, ``inf``: True if the data held a NaN or an Inf.
    - ``saturated``: number of finite elements whose rounded magnitude did not fit.
    - ``underflowed``: number of finite nonzero elements that became zero.
    - ``stored``: number of elements.

    ``saturated``, ``underflowed`` and ``stored`` count over all copies.
    """

    @property
    def shape(self) -> tuple[int, ...]: ...
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
    @property
    def stored(self) -> int: ...

    def values(self, copy: int = 0) -> Floats:
        """Return the stored numbers of a copy, in the tensor's own orientation and without padding.
        Every number is exact. Some are binary32 subnormals; in NVFP4 a number beyond the largest
        binary32 is Inf."""
        ...

    def copy_values(self) -> Mapping[str, Floats]:
        """Return :meth:`values` of every copy, by the axis of the copy's groups. The key is ``""``
        if only one copy exists."""
        ...


class Exporter(Protocol):
    """An object that exports its memory by DLPack."""

    def __dlpack__(self) -> object: ...


Numbers: TypeAlias = ArrayLike | Exporter
"""Type of an argument that is read as an array; see :mod:`diastole_sim.device.arrays`."""
Operand: TypeAlias = Numbers | ConvertedTensor


@dataclass(frozen=True, kw_only=True)
class CommandCounters:
    """Counters of the hardware for one product command. Units are in the names.

    - ``cycles``: cycles from the start of the command to the last write response, without
      conversions.
    - ``total_cycles``: cycles including a conversion beside the command.
    - ``convert_cycles``: cycles of the conversions for the product, 0 if the operands were
      converted before.
    - ``busy_slots``: cycles in which a vector entered the array.
    - ``waits``: all remaining cycles by cause, one of
      :data:`diastole_sim.spec.registers.WAIT_CAUSES`.

    ``busy_slots`` and ``waits`` add up to ``total_cycles``.
    """

    cycles: int
    total_cycles: int
    convert_cycles: int
    read_bytes: int
    write_bytes: int
    busy_slots: int
    waits: Mapping[str, int]


@dataclass(frozen=True, kw_only=True, eq=False)
class ProductResult:
    """The results of a product, with flags and counters.

    - ``values``: float32 results of the operation by name; results of a stack have the leading
      axes.
    - ``operands``: converted operands by name.
    - ``exact``: True if every value is the exact product of the converted operands, rounded once.
    - ``overflow``: True if a value was too large and is Inf.
    - ``counters``: None from a device without a clock; sums over the products of a stack.
    - ``notes``: a line for every operand of another type than float32, about the conversion of the
      elements to float32.
    """

    op: str
    values: Mapping[str, Floats]
    operands: Mapping[str, ConvertedTensor]
    exact: bool
    overflow: bool
    counters: CommandCounters | None = None
    notes: tuple[str, ...] = ()

    @property
    def y(self) -> Floats:
        """Y = X W; KeyError unless the product is a forward product."""
        return self.values["Y"]

    @property
    def dx(self) -> Floats:
        """dX = dY W^T; KeyError unless the product is ``dx`` or ``backward``."""
        return self.values["dX"]

    @property
    def dw(self) -> Floats:
        """dW = X^T dY; KeyError unless the product is ``dw`` or ``backward``."""
        return self.values["dW"]


class DeviceProtocol(Protocol):
    """Interface of a device: one systolic array with one seed. All arrays hold real numbers and
    have two axes, or more in a stack. No array is empty.
    :class:`diastole_sim.device.arrays.RoundedWarning` is issued if the conversion to float32, which
    the machine reads, rounds a value.

    ValueError if shapes, types or classes do not agree, or if a contraction is longer than
    2^headroom blocks.
    """

    @property
    def total_cycles(self) -> int | None:
        """Cycles of all conversions and products so far. Cycles of commands side by side count
        once. None without a clock."""
        ...

    def convert(
        self,
        array: Numbers,
        tensor_class: str,
        *,
        tag: int | None = None,
        step: int = 0,
        scale: int | None = None,
        width: int | None = None,
        overlap: bool = False,
    ) -> ConvertedTensor:
        """Quantise a matrix as the class specifies, with the random bits of (seed, tag, step).

        A second call with the same ``tag`` and ``step`` draws the same random bits. Without a
        ``tag`` every call has a new tag.

        ``scale``: exponent of the binade of the tensor's largest elements, or T of NVFP4. The
        argument is for classes with one scale per tensor where ``scale.source`` is ``host``; None
        means a scale of 1. ValueError in all other cases and if the exponent is out of range.

        If ``scale.source`` is ``delayed``, the scale follows from the largest magnitude of all
        tensors of this class and tag that this device converted in the last steps before ``step``:
        ``scale.history`` steps count, and the scale is ``scale.margin`` binades higher. The scale
        is measured if no earlier step exists or all earlier magnitudes are zero. ``step`` must
        therefore distinguish the steps.

        ``width``: bits of a magnitude for a class of format ``fast``, None for the widest.
        ValueError for all other formats and for a width that the machine lacks.

        ``overlap``: True if the conversion may run beside the next product, provided that the
        product reads other tensors.
        """
        ...

    def convert_stack(
        self,
        array: Numbers,
        tensor_class: str,
        *,
        tag: int | None = None,
        step: int = 0,
        scale: int | None = None,
        width: int | None = None,
    ) -> ConvertedTensor:
        """Convert a stack (..., rows, columns) matrix by matrix as :meth:`convert` does. Matrix
        number j, counted row by row, has the tag ``tag`` + 4 j."""
        ...

    def forward(
        self, x: Operand, w: Operand, *, tags: tuple[int, int] | None = None, step: int = 0
    ) -> ProductResult:
        """Return Y = X W. ``tags``: tags of the operands in order, for array operands. In a stack
        the tags of product number j are 4 j higher. A second call with the same ``tags`` and
        ``step`` draws the same random bits. Without ``tags`` every call has new tags."""
        ...

    def dx(
        self, w: Operand, dy: Operand, *, tags: tuple[int, int] | None = None, step: int = 0
    ) -> ProductResult:
        """Return dX = dY W^T."""
        ...

    def dw(
        self, x: Operand, dy: Operand, *, tags: tuple[int, int] | None = None, step: int = 0
    ) -> ProductResult:
        """Return dW = X^T dY."""
        ...

    def backward(
        self,
        x: Operand,
        w: Operand,
        dy: Operand,
        *,
        tags: tuple[int, int, int] | None = None,
        step: int = 0,
    ) -> ProductResult:
        """Return dX and dW. ``exact`` is True if both results are exact, ``overflow`` is True if
        either result overflowed. ``tags``, ``step``: as in :meth:`forward`."""
        ...
