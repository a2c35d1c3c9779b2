"""All that a device says of its work against what the golden model says of the same, bit for bit.

Compared are the elements of results and of converted operands, the bytes that are stored beside
these (the exponents of groups, the largest of rows and columns), and what a device *reports*:
whether a product is exact and whether it overflowed; of every operand whether it held NaN or Inf,
how many elements saturated or underflowed, its largest magnitude and the exponent of its scale.
"""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from diastole_sim.device.interface import ConvertedTensor, ProductResult
from diastole_sim.golden.convert import Quantised
from diastole_sim.golden.copies import Copy
from diastole_sim.spec.operations import OPERAND_OF

REPORTS = ("nan", "inf", "saturated", "underflowed")
"""What every device reports of a converted tensor."""
STORED_REPORTS = ("amax", "tensor_exponent")
"""What is known besides of one that can be read."""
STORED_BYTES = ("exponents", "row_max", "col_max")
"""What a copy has beside its elements."""


@runtime_checkable
class Readable(Protocol):
    """A converted tensor of which every stored byte can be read."""

    def read(self) -> Quantised:
        """The tensor as it is stored, with what the device reported of it."""
        ...


@dataclass(frozen=True, kw_only=True)
class Mismatch:
    """The first element of an array that differs: where it is, and what each device says.

    ``step`` of the training, None outside of one.
    """

    tensor: str
    step: int | None
    index: tuple[int, ...]
    got: np.generic
    expected: np.generic

    def __str__(self) -> str:
        step = "" if self.step is None else f" step {self.step},"
        return (
            f"first mismatch: tensor {self.tensor},{step} index {list(self.index)}: "
            f"{_shown(self.got)}, expected {_shown(self.expected)}"
        )


@dataclass(frozen=True, kw_only=True)
class ReportMismatch:
    """A reported value that differs; ``of``: the tensor or the operation that it is of."""

    report: str
    of: str
    step: int | None
    got: object
    expected: object

    def __str__(self) -> str:
        step = "" if self.step is None else f" in step {self.step}"
        return f"{self.report} of {self.of}{step} is {self.got}, expected {self.expected}"


class GoldenComparison:
    """Compares what two devices did, and goes on after a difference.

    ``compared``, ``mismatches``: elements (of results, of operands, and of what is stored beside
    these) and reported values, and those that differ. An element counts once, though its number
    and its code may both differ. ``first``: the first difference in the order of work.
    ``reports_differ``: reported values that differ, each where it did so first.
    """

    def __init__(self) -> None:
        self.compared = 0
        self.mismatches = 0
        self.first: Mismatch | ReportMismatch | None = None
        self._reports: dict[tuple[str, str], ReportMismatch] = {}

    @property
    def reports_differ(self) -> list[str]:
        return [str(mismatch) for mismatch in self._reports.values()]

    def operand(
        self, name: str, got: ConvertedTensor, expected: ConvertedTensor, step: int | None = None
    ) -> None:
        """A converted tensor; its copies are called ``NAME_q``, or ``NAME_q_AXIS`` where there are
        two."""
        reports = REPORTS
        if isinstance(got, Readable) and isinstance(expected, Readable):
            got, expected = got.read(), expected.read()
            reports = (*REPORTS, *STORED_REPORTS)
            reports += ("improvement",) * (expected.improvement is not None)  # of the format fast
            self._copies(name, got, expected, step)
        else:
            wanted = expected.copy_values()
            for axis, values in got.copy_values().items():
                self.array(copy_name(name, axis), values, wanted[axis], step)
        for report in reports:
            self.report(report, name, getattr(got, report), getattr(expected, report), step)

    def result(
        self,
        got: ProductResult,
        expected: ProductResult,
        *,
        prefix: str = "",
        step: int | None = None,
    ) -> None:
        """The tensors of a product, and what is reported of it; names get the ``prefix``."""
        for name, values in got.values.items():
            self.array(prefix + name, values, expected.values[name], step)
        of = prefix + got.op
        self.report("exact", of, got.exact, expected.exact, step)
        self.report("overflow", of, got.overflow, expected.overflow, step)

    def _copies(self, name: str, got: Quantised, expected: Quantised, step: int | None) -> None:
        axes = OPERAND_OF[got.tensor_class].copy_names if len(got.copies) > 1 else ("",)
        for number, (axis, copy, wanted) in enumerate(
            zip(axes, got.copies, expected.copies, strict=True)
        ):
            called = copy_name(name, axis)
            wrong = self.array(called, got.values(number), expected.values(number), step)
            self._codes(called, copy, wanted, wrong, step)
            for part in STORED_BYTES:
                self.array(f"{called}.{part}", getattr(copy, part), getattr(wanted, part), step)

    def _codes(
        self, name: str, got: Copy, expected: Copy, wrong: NDArray[np.bool_], step: int | None
    ) -> None:
        """Elements whose codes differ though their numbers, as ``wrong`` says, do not; and what
        lies in the padding of the last blocks."""
        rows, columns = got.shape
        differs = got.codes != expected.codes
        inside = differs[:rows, :columns] & ~(wrong.T if got.transposed else wrong)
        self._note(f"{name}.codes", got.codes, expected.codes, inside, step)
        padding = int(differs.sum() - differs[:rows, :columns].sum())
        self.report("wrong elements in the padding", name, padding, 0, step)

    def array(
        self, name: str, got: NDArray[Any], expected: NDArray[Any], step: int | None
    ) -> NDArray[np.bool_]:
        """Compare all elements; returns which differ."""
        differs: NDArray[np.bool_] = bits_of(got) != bits_of(expected)
        self.compared += differs.size
        self._note(name, got, expected, differs, step)
        return differs

    def _note(
        self,
        name: str,
        got: NDArray[Any],
        expected: NDArray[Any],
        differs: NDArray[np.bool_],
        step: int | None,
    ) -> None:
        count = int(differs.sum())
        self.mismatches += count
        if count and self.first is None:
            index = tuple(int(i) for i in np.unravel_index(int(differs.argmax()), differs.shape))
            self.first = Mismatch(
                tensor=name, step=step, index=index, got=got[index], expected=expected[index]
            )

    def report(self, report: str, of: str, got: object, expected: object, step: int | None) -> None:
        """A reported value."""
        self.compared += 1
        if got == expected:
            return
        self.mismatches += 1
        mismatch = ReportMismatch(report=report, of=of, step=step, got=got, expected=expected)
        self._reports.setdefault((report, of), mismatch)
        self.first = self.first or mismatch


def copy_name(name: str, axis: str) -> str:
    """What the copy of an operand along an axis is called; ``""`` where there is one copy."""
    return f"{name}_q" + (axis and f"_{axis}")


def _shown(value: np.generic) -> str:
    if value.dtype != np.float32:
        return str(value)
    return f"{value!s} ({int(value.view(np.uint32)):#010x})"


def bits_of(values: NDArray[Any]) -> NDArray[Any]:
    """The patterns of binary32: tells +0 from -0, and one NaN equals itself. Integers are their
    own."""
    return values.view(np.uint32) if values.dtype == np.float32 else values
