"""Hold the samples of a training: inputs and labels."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Samples, one in each row.

    - ``inputs``: features (samples, features) in float32, or symbols (samples, length) as integers.
    - ``labels``: (samples,), or (samples, length) for symbols, from 0 on; or numbers to learn,
      (samples, columns) in float32.
    """

    inputs: NDArray[Any]
    labels: NDArray[Any]

    def take(self, indices: NDArray[np.int64]) -> "Samples":
        return Samples(inputs=self.inputs[indices], labels=self.labels[indices])
