"""Compare all outputs of a device with the outputs of the golden model, bit for bit.

The comparison covers the elements of results and of converted operands, the bytes stored beside the
elements (exponents of groups, largest exponents of rows and columns), and *reported* values. A
product reports whether the product is exact and whether it overflowed. An operand reports whether
the data held NaN or Inf, how many elements saturated or underflowed, the largest magnitude and the
exponent of the scale.
"""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from diastole_sim.device.interface import ConvertedTensor, ProductResult
from diastole_sim.golden.convert import Quantised
from diastole_sim.golden.copies import Copy
from diastole_sim.spec.operations import OPERAND_BY_CLASS

REPORTS = ("nan", "inf", "saturated", "underflowed")
"""Values that every device reports of a converted tensor."""
STORED_REPORTS = ("amax", "tensor_exponent")
"""Further values of a tensor that can be read."""
STORED_BYTES = ("exponents", "row_max", "col_max")
"""Arrays that a copy has beside its elements."""


@runtime_checkable
class Readable(Protocol):
    """Converted tensor of which every stored byte can be read."""

    def read(self) -> Quantised:
        """Return the tensor as stored, with the values that the device reported."""
        ...


@dataclass(frozen=True, kw_only=True)
class Mismatch:
    """First element of an array that differs: its index, and the element of either device.

    ``step``: training step, None outside of a training.
    """

    tensor: str
    step: int | None
    index: tuple[int, ...]
    actual: np.generic
    expected: np.generic

    def __str__(self) -> str:
        step = "" if self.step is None else f" step {self.step},"
        return (
            f"first mismatch: tensor {self.tensor},{step} index {list(self.index)}: "
            f"{_value_text(self.actual)}, expected {_value_text(self.expected)}"
        )


@dataclass(frozen=True, kw_only=True)
class ReportMismatch:
    """Reported value that differs. ``subject``: tensor or operation of the report."""

    report: str
    subject: str
    step: int | None
    actual: object
    expected: object

    def __str__(self) -> str:
        step = "" if self.step is None else f" in step {self.step}"
        return f"{self.report} of {self.subject}{step} is {self.actual}, expected {self.expected}"


class GoldenComparison:
    """Compare the work of two devices, and continue after a difference.

    - ``compared``: number of compared elements (of results, of operands, and of the bytes stored
      beside operands) and of reported values.
    - ``mismatches``: number of compared elements and values that differ. An element counts once,
      even if its number and its code both differ.
    - ``first``: first difference in the order of work.
    - ``reports_differ``: reported values that differ, with the first occurrence of every
      difference.
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
        self, name: str, actual: ConvertedTensor, expected: ConvertedTensor, step: int | None = None
    ) -> None:
        """Compare a converted tensor. Its copies are named ``NAME_q``, or ``NAME_q_AXIS`` if there
        are two."""
        reports = REPORTS
        if isinstance(actual, Readable) and isinstance(expected, Readable):
            actual, expected = actual.read(), expected.read()
            reports = (*REPORTS, *STORED_REPORTS)
            reports += ("improvement",) * (expected.improvement is not None)  # format fast
            self._copies(name, actual, expected, step)
        else:
            expected_values = expected.copy_values()
            for axis, values in actual.copy_values().items():
                self.array(copy_name(name, axis), values, expected_values[axis], step)
        for report in reports:
            self.report(report, name, getattr(actual, report), getattr(expected, report), step)

    def result(
        self,
        actual: ProductResult,
        expected: ProductResult,
        *,
        prefix: str = "",
        step: int | None = None,
    ) -> None:
        """Compare the tensors of a product and the values reported of it. Names get the
        ``prefix``."""
        for name, values in actual.values.items():
            self.array(prefix + name, values, expected.values[name], step)
        subject = prefix + actual.op
        self.report("exact", subject, actual.exact, expected.exact, step)
        self.report("overflow", subject, actual.overflow, expected.overflow, step)

    def _copies(self, name: str, actual: Quantised, expected: Quantised, step: int | None) -> None:
        axes = OPERAND_BY_CLASS[actual.tensor_class].copy_names if len(actual.copies) > 1 else ("",)
        for number, (axis, copy, expected_copy) in enumerate(
            zip(axes, actual.copies, expected.copies, strict=True)
        ):
            label = copy_name(name, axis)
            wrong = self.array(label, actual.values(number), expected.values(number), step)
            self._codes(label, copy, expected_copy, wrong, step)
            for part in STORED_BYTES:
                self.array(
                    f"{label}.{part}", getattr(copy, part), getattr(expected_copy, part), step
                )

    def _codes(
        self, name: str, actual: Copy, expected: Copy, wrong: NDArray[np.bool_], step: int | None
    ) -> None:
        """Compare the codes of elements whose numbers are equal, and the elements in the padding of
        the last blocks. ``wrong``: True for elements whose numbers differ."""
        rows, columns = actual.shape
        differs = actual.codes != expected.codes
        inside = differs[:rows, :columns] & ~(wrong.T if actual.transposed else wrong)
        self._note(f"{name}.codes", actual.codes, expected.codes, inside, step)
        padding = int(differs.sum() - differs[:rows, :columns].sum())
        self.report("wrong elements in the padding", name, padding, 0, step)

    def array(
        self, name: str, actual: NDArray[Any], expected: NDArray[Any], step: int | None
    ) -> NDArray[np.bool_]:
        """Compare all elements; return a mask of the elements that differ."""
        differs: NDArray[np.bool_] = bits_of(actual) != bits_of(expected)
        self.compared += differs.size
        self._note(name, actual, expected, differs, step)
        return differs

    def _note(
        self,
        name: str,
        actual: NDArray[Any],
        expected: NDArray[Any],
        differs: NDArray[np.bool_],
        step: int | None,
    ) -> None:
        count = int(differs.sum())
        self.mismatches += count
        if count and self.first is None:
            index = tuple(int(i) for i in np.unravel_index(int(differs.argmax()), differs.shape))
            self.first = Mismatch(
                tensor=name, step=step, index=index, actual=actual[index], expected=expected[index]
            )

    def report(
        self, report: str, subject: str, actual: object, expected: object, step: int | None
    ) -> None:
        """Compare a reported value."""
        self.compared += 1
        if actual == expected:
            return
        self.mismatches += 1
        mismatch = ReportMismatch(
            report=report, subject=subject, step=step, actual=actual, expected=expected
        )
        self._reports.setdefault((report, subject), mismatch)
        self.first = self.first or mismatch


def copy_name(name: str, axis: str) -> str:
    """Return the name of an operand's copy along an axis; the axis is ``""`` for a single copy."""
    return f"{name}_q" + (axis and f"_{axis}")


def _value_text(value: np.generic) -> str:
    if value.dtype != np.float32:
        return str(value)
    return f"{value!s} ({int(value.view(np.uint32)):#010x})"


def bits_of(values: NDArray[Any]) -> NDArray[Any]:
    """Return the bit patterns of binary32, which tell +0 from -0 and make a NaN equal to itself.
    Integers are returned as given."""
    return values.view(np.uint32) if values.dtype == np.float32 else values
