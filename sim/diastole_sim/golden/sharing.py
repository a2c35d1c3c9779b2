"""Operations that several machines share: parts of converted tensors, and the results together.

A tensor is converted whole, with the draws and the scales of the whole; a part of it has the stored
bits of its elements, and the maxima of the whole along what is not parted. Nothing else decides a
result, so the parts of a result are, bit for bit, those of the result of one machine.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from diastole_sim.device.interface import ConvertedTensor, Floats, ProductResult
from diastole_sim.golden.convert import Quantised
from diastole_sim.golden.copies import Copy
from diastole_sim.golden.partition import Partition
from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.operations import OPERATIONS, Operation
from diastole_sim.spec.part import ProductPart, require_free, unit_of


class SharingMachine(Protocol):
    """What shares an operation: any device of this package."""

    numerics: Numerics

    def upload(self, tensor: Quantised) -> ConvertedTensor:
        """The tensor as an operand of this machine."""
        ...

    def forward(self, x: ConvertedTensor, w: ConvertedTensor) -> ProductResult: ...
    def dx(self, w: ConvertedTensor, dy: ConvertedTensor) -> ProductResult: ...
    def dw(self, x: ConvertedTensor, dy: ConvertedTensor) -> ProductResult: ...
    def backward(
        self, x: ConvertedTensor, w: ConvertedTensor, dy: ConvertedTensor
    ) -> ProductResult: ...


@dataclass(frozen=True, kw_only=True)
class Shared:
    """An operation that machines have shared: the results, whole, by name; what each machine said
    of its own part, in their order; ``exact`` and ``overflow`` of all parts together."""

    values: Mapping[str, Floats]
    parts: tuple[ProductResult, ...]
    exact: bool
    overflow: bool


def share(
    machines: Sequence[SharingMachine], name: str, operands: Mapping[str, Quantised], axis: str
) -> Shared:
    """The operation ``name`` on converted operands, by name, in one part for each of ``machines``.

    ValueError as of :func:`parts_of`, and as of the operation itself.
    """
    operation = OPERATIONS[name]
    results: list[ProductResult] = []
    for index, machine in enumerate(machines):
        part = ProductPart(axis=axis, index=index, count=len(machines))
        own = parts_of(operation, operands, part, machine.numerics)
        given = (machine.upload(own[each]) for each in operation.operand_names)
        results.append(getattr(machine, name)(*given))
    return Shared(
        values=joined(operation, results, axis),
        parts=tuple(results),
        exact=all(result.exact for result in results),
        overflow=any(result.overflow for result in results),
    )


def joined(operation: Operation, results: Sequence[ProductResult], axis: str) -> dict[str, Floats]:
    """The results of all parts along ``axis``, by name and in order, as one."""
    return {
        tensor.name: np.concatenate(
            [result.values[tensor.name] for result in results], axis=tensor.axes.index(axis)
        )
        for tensor in operation.results
    }


def parts_of(
    operation: Operation, operands: Mapping[str, Quantised], part: ProductPart, numerics: Numerics
) -> dict[str, Quantised]:
    """The operands of one part, by name: of those that have its axis their part, of the others all.

    ValueError if the operation sums over the axis, or if it is too short for so many parts.
    """
    require_free(part, operation)
    unit = unit_of(part.axis, operation.operands, numerics)
    found: dict[str, Quantised] = {}
    for tensor in operation.operands:
        whole = operands[tensor.name]
        if part.axis not in tensor.axes:
            found[tensor.name] = whole
            continue
        axis = tensor.axes.index(part.axis)
        first, last = part.bounds(whole.shape[axis], unit)
        found[tensor.name] = cut(whole, axis, first, last)
    return found


def cut(tensor: Quantised, axis: int, first: int, last: int) -> Quantised:
    """Rows (``axis`` 0) or columns ``first`` to ``last`` - 1 of a tensor, as it is stored.

    What is known of its data stays that of the whole. ``first`` is where a block and every group
    begins, and so is ``last``, if it is not the end; not checked.
    """
    rows, columns = tensor.shape
    shape = (last - first, columns) if axis == 0 else (rows, last - first)
    copies = tuple(
        _cut_copy(copy, tensor, axis ^ int(copy.transposed), first, last) for copy in tensor.copies
    )
    return replace(tensor, shape=shape, copies=copies)


def _cut_copy(copy: Copy, tensor: Quantised, axis: int, first: int, last: int) -> Copy:
    """The same of a copy, ``axis`` as it lies."""
    cells = Partition.cells(tensor.chosen.grouping, tensor.block)
    cell = (cells.rows, cells.columns)[axis]
    end = first - (first - last) // tensor.block * tensor.block  # whole blocks
    of_elements, of_cells = slice(first, end), slice(first // cell, -(-end // cell))
    kept = slice(None)
    elements = (of_elements, kept) if axis == 0 else (kept, of_elements)
    groups = (of_cells, kept) if axis == 0 else (kept, of_cells)
    shape = (last - first, copy.shape[1]) if axis == 0 else (copy.shape[0], last - first)
    return replace(
        copy,
        shape=shape,
        codes=copy.codes[elements],
        exponents=copy.exponents[groups],
        folds=copy.folds[groups],
        row_max=copy.row_max[groups[0]],
        col_max=copy.col_max[groups[1]],
    )
