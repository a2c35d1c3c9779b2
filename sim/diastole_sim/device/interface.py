"""What every device offers, the golden model and the generated hardware alike: numpy in and out.

A tensor is converted once and then serves every product that needs it::

    x, w = device.convert(X, "x"), device.convert(W, "w")
    y = device.forward(x, w).y
    both = device.backward(x, w, dY)  # both.dx, both.dw

A product also takes arrays, which it converts with ``tags`` and ``step``: whatever
:mod:`diastole_sim.device.arrays` takes. A stack of matrices (..., M, K) is as many products, as
``numpy.matmul`` has it: leading axes broadcast, and each matrix is converted as if it were alone.

A *tag* names a tensor in the draws of stochastic roundings. Tags are those that training gives its
layers, 4 * layer + 0, 1 or 2 for X, W and dY. Where none is given, layers are counted from 0 on:
each product that converts is one, each product of a stack, each conversion alone. So calls in the
same order give the same bits, and a stack those of the loop over it. Two calls with the same
``tags`` and ``step`` draw the same numbers, and so do two devices with one seed whose calls come in
the same order: pass another ``step`` for other draws. (Where scales are ``delayed``
a tag also names a tensor over time; there it stays that of layer 0, and ``step`` must be passed,
since a scale comes from the steps before.)

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
from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = NDArray[np.float32]

TAGS_PER_LAYER = 4
"""A tensor's tag is this times the number of its layer, plus 0, 1 or 2 for X, W and dY."""


class ConvertedTensor(Protocol):
    """A tensor in its storage format, held by the device that converted it.

    ``shape``: rows and columns, unpadded, of a stack behind its leading axes. ``tensor_class``:
    ``x``, ``w`` or ``dy``. ``nan``, ``inf``: whether the data held one. ``saturated``: finite
    elements whose rounded magnitude did not fit. ``underflowed``: finite elements that became zero
    and were not. Both count over all copies, as ``stored`` does, all elements.
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
        """The stored numbers of a copy in the tensor's own orientation, unpadded, each exactly
        (some are binary32 subnormals; beyond the largest binary32, in NVFP4, Inf)."""
        ...

    def copy_values(self) -> Mapping[str, Floats]:
        """:meth:`values` of every copy, by the axis of its groups; ``""`` where there is one."""
        ...


class Exporter(Protocol):
    """What hands out its memory by DLPack."""

    def __dlpack__(self) -> object: ...


Numbers: TypeAlias = ArrayLike | Exporter
"""What is taken as an array; see :mod:`diastole_sim.device.arrays`."""
Operand: TypeAlias = Numbers | ConvertedTensor


@dataclass(frozen=True, kw_only=True)
class CommandCounters:
    """What the hardware counted in one product command; conversions apart. Units in the names.

    ``cycles``: from the command's start to its last write response. ``total_cycles``: with the
    conversion that ran beside it, if there was one. ``convert_cycles``: of the conversions that
    this product asked for, 0 if its operands were converted before.
    ``busy_slots``: cycles in which a vector entered the array. ``waits``: the others, by each of
    :data:`diastole_sim.spec.registers.WAIT_CAUSES`; both of ``total_cycles``.
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
    """A product's tensors and what is to be known about them.

    ``values``: float32, the results of the operation by name, of a stack with its leading axes.
    ``operands``: the converted tensors, its operands by name. ``exact``: every value is the exact
    product of the converted operands, rounded once. ``overflow``: a value was too large and is Inf.
    ``counters``: None from a device without a clock; of a stack the sums. ``notes``: a line for
    each operand that was not float32, with what became of its elements.
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
    """One array with one seed. All arrays hold real numbers, have two axes or, in a stack, more,
    and none is empty; :class:`diastole_sim.device.arrays.RoundedWarning` where float32, which the
    machine reads, rounds them.

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
        array: Numbers,
        tensor_class: str,
        *,
        tag: int | None = None,
        step: int = 0,
        scale: int | None = None,
        width: int | None = None,
        beside: bool = False,
    ) -> ConvertedTensor:
        """Quantise a matrix as the class says; the draws are those of (seed, tag, step).

        A second call with the same ``tag`` and ``step`` draws the same numbers; without a ``tag``
        each call has one of its own.

        ``scale``: of a tensor with a scale of its own where ``scale.source`` is ``given``, the
        exponent of its largest elements' binade, or T of NVFP4; None is a scale of 1. ValueError
        elsewhere, and out of range. Where it is ``delayed``, the scale follows from the largest
        magnitude of all tensors of this class and tag that this device converted in the last steps
        before this one (``scale.history`` of them, ``scale.margin`` binades more). It is measured
        where there are none, or nothing but zeros: so ``step`` has to tell the steps apart.
        ``width``: bits of a magnitude of a class of format ``fast``, None for the widest;
        ValueError elsewhere, and where the machine does not have it.
        ``beside``: it may be done while the next product runs, where that is of other tensors.
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
        """As :meth:`convert`, each matrix of a stack (..., rows, columns): number j, row by row,
        with ``tag`` + 4 j."""
        ...

    def forward(
        self, x: Operand, w: Operand, *, tags: tuple[int, int] | None = None, step: int = 0
    ) -> ProductResult:
        """Y = X W. ``tags``: of the operands in their order, where they are arrays; in a stack,
        those of product number j are 4 j higher. A second call with the same ``tags`` and ``step``
        draws the same numbers; without ``tags`` each call has some of its own."""
        ...

    def dx(
        self, w: Operand, dy: Operand, *, tags: tuple[int, int] | None = None, step: int = 0
    ) -> ProductResult:
        """dX = dY W^T."""
        ...

    def dw(
        self, x: Operand, dy: Operand, *, tags: tuple[int, int] | None = None, step: int = 0
    ) -> ProductResult:
        """dW = X^T dY."""
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
        """dX and dW; ``exact`` and ``overflow`` are of both together."""
        ...
