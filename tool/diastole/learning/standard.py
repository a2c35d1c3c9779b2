"""Standardise columns: subtract the mean and divide by the standard deviation."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diastole.errors import BadInput

Floats = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Standard:
    """Means and standard deviations of the columns of samples, in float32. A column of one value
    has the deviation 1, like a column whose deviation is below all normal numbers."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    @classmethod
    def of(cls, values: Floats) -> "Standard":
        """Return the means and deviations of (samples, ...), computed in float64."""
        columns = values.reshape(len(values), -1).astype(np.float64)
        mean, deviation = (each(axis=0).astype(np.float32) for each in (columns.mean, columns.std))
        deviation[deviation < np.finfo(np.float32).tiny] = 1  # as good as a single value
        return cls(mean=tuple(mean.tolist()), deviation=tuple(deviation.tolist()))

    def apply(self, values: Floats) -> Floats:
        """Return the standardised values."""
        mean, deviation = self._arrays()
        with np.errstate(over="ignore"):
            columns = (values.reshape(len(values), -1) - mean) / deviation
        if not np.isfinite(columns).all():
            raise BadInput(
                "standardised numbers are beyond the range of float32: leave --standardize out, or "
                "scale the column"
            )
        return columns.reshape(values.shape)

    def undo(self, values: Floats) -> Floats:
        """Return the values before they were standardised."""
        mean, deviation = self._arrays()
        with np.errstate(all="ignore"):  # a result may be any number
            columns = values.reshape(len(values), -1) * deviation + mean
        return columns.reshape(values.shape)

    def _arrays(self) -> tuple[Floats, Floats]:
        return np.array(self.mean, np.float32), np.array(self.deviation, np.float32)

    def record(self) -> dict[str, Any]:
        """Return the numbers as plain values, for :meth:`read`."""
        return {"mean": list(self.mean), "deviation": list(self.deviation)}

    @classmethod
    def read(cls, record: Mapping[str, Any] | None) -> "Standard | None":
        """Return the numbers of :meth:`record`, None for None."""
        if record is None:
            return None
        return cls(mean=tuple(record["mean"]), deviation=tuple(record["deviation"]))
