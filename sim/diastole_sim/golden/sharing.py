"""Share an operation among several machines: cut converted tensors into parts, and join the
results.

A tensor is converted whole, with the random bits and the scales of the whole tensor. A part has the
stored bits of its elements, and the maxima of the whole tensor along the axis that is not cut.
Nothing else decides a result. The parts of a result are therefore, bit for bit, the parts of one
machine's result.
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
    """Machine that can share an operation: any device of this package."""

    numerics: Numerics

    def upload(self, tensor: Quantised) -> ConvertedTensor:
        """Return the tensor as an operand of this machine."""
        ...

    def forward(self, x: ConvertedTensor, w: ConvertedTensor) -> ProductResult: ...
    def dx(self, w: ConvertedTensor, dy: ConvertedTensor) -> ProductResult: ...
    def dw(self, x: ConvertedTensor, dy: ConvertedTensor) -> ProductResult: ...
    def backward(
        self, x: ConvertedTensor, w: ConvertedTensor, dy: ConvertedTensor
    ) -> ProductResult: ...


@dataclass(frozen=True, kw_only=True)
class Shared:
    """Results of a shared operation. ``values``: whole results by name. ``parts``: the result of
    every machine for its own part, in the order of the machines. ``exact`` and ``overflow`` cover
    all parts."""

    values: Mapping[str, Floats]
    parts: tuple[ProductResult, ...]
    exact: bool
    overflow: bool


def share(
    machines: Sequence[SharingMachine], name: str, operands: Mapping[str, Quantised], axis: str
) -> Shared:
    """Run the operation ``name`` on converted ``operands`` (by name), with one part for each of
    ``machines``.

    ValueError as in :func:`parts_of`, and as in the operation itself.
    """
    operation = OPERATIONS[name]
    results: list[ProductResult] = []
    for index, machine in enumerate(machines):
        part = ProductPart(axis=axis, index=index, count=len(machines))
        parts = parts_of(operation, operands, part, machine.numerics)
        uploaded = (machine.upload(parts[each]) for each in operation.operand_names)
        results.append(getattr(machine, name)(*uploaded))
    return Shared(
        values=join_results(operation, results, axis),
        parts=tuple(results),
        exact=all(result.exact for result in results),
        overflow=any(result.overflow for result in results),
    )


def join_results(
    operation: Operation, results: Sequence[ProductResult], axis: str
) -> dict[str, Floats]:
    """Return the results of all parts along ``axis``, given in order, as whole results by name."""
    return {
        tensor.name: np.concatenate(
            [result.values[tensor.name] for result in results], axis=tensor.axes.index(axis)
        )
        for tensor in operation.results
    }


def parts_of(
    operation: Operation, operands: Mapping[str, Quantised], part: ProductPart, numerics: Numerics
) -> dict[str, Quantised]:
    """Return the operands of one part, by name. Operands with the part's axis are cut; the
    remaining operands are whole.

    ValueError if the operation sums over the axis, or if the axis is too short for so many parts.
    """
    require_free(part, operation)
    unit = unit_of(part.axis, operation.operands, numerics)
    parts: dict[str, Quantised] = {}
    for tensor in operation.operands:
        whole = operands[tensor.name]
        if part.axis not in tensor.axes:
            parts[tensor.name] = whole
            continue
        axis = tensor.axes.index(part.axis)
        first, last = part.bounds(whole.shape[axis], unit)
        parts[tensor.name] = cut(whole, axis, first, last)
    return parts


def cut(tensor: Quantised, axis: int, first: int, last: int) -> Quantised:
    """Return rows (``axis`` 0) or columns ``first`` to ``last`` - 1 of a tensor, as stored.

    Reports about the data stay those of the whole tensor. ``first`` must be the beginning of a
    block and of a group in every copy; so must ``last``, unless it is the end of the axis. Neither
    condition is checked.
    """
    rows, columns = tensor.shape
    shape = (last - first, columns) if axis == 0 else (rows, last - first)
    copies = tuple(
        _cut_copy(copy, tensor, axis ^ int(copy.transposed), first, last) for copy in tensor.copies
    )
    return replace(tensor, shape=shape, copies=copies)


def _cut_copy(copy: Copy, tensor: Quantised, axis: int, first: int, last: int) -> Copy:
    """Cut a copy; ``axis`` is an axis of the copy as stored."""
    cells = Partition.cells(tensor.storage.grouping, tensor.block)
    cell = (cells.rows, cells.columns)[axis]
    end = first - (first - last) // tensor.block * tensor.block  # rounded up to whole blocks
    of_elements, of_cells = slice(first, end), slice(first // cell, -(-end // cell))
    whole = slice(None)
    elements = (of_elements, whole) if axis == 0 else (whole, of_elements)
    groups = (of_cells, whole) if axis == 0 else (whole, of_cells)
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
