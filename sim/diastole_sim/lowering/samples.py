"""Hold samples as memory holds them."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from diastole_sim.train.samples import Samples


@dataclass(frozen=True, kw_only=True)
class StoredSamples:
    """Samples as memory holds them.

    - ``inputs``: (samples, features), either float32 or bytes. Bytes times ``scale`` are the
      numbers.
    - ``targets``: labels (samples,), from 0 on, or float32 (samples, columns of the result).
    """

    inputs: NDArray[np.uint8] | NDArray[np.float32]
    targets: NDArray[np.int64] | NDArray[np.float32]
    scale: float = 1.0

    @classmethod
    def of(cls, samples: Samples, scale: float | None = None) -> "StoredSamples":
        """Return the samples in the form for memory. ``scale``: scale of bytes, None for floats.
        ValueError if bytes times ``scale`` would change the samples."""
        if scale is None:
            inputs = np.ascontiguousarray(samples.inputs, np.float32)
            return cls(inputs=inputs, targets=samples.labels)
        scaled = samples.inputs / np.float32(scale)
        stored = np.clip(np.nan_to_num(scaled), 0, 255).astype(np.uint8)
        if not np.array_equal(stored, scaled):
            raise ValueError(f"the samples must be bytes times {scale}")
        return cls(inputs=stored, targets=samples.labels, scale=scale)

    @property
    def are_bytes(self) -> bool:
        return self.inputs.dtype == np.uint8

    @property
    def are_labelled(self) -> bool:
        """True if the targets are labels."""
        return self.targets.ndim == 1

    def first(self, count: int) -> "StoredSamples":
        """Return the first ``count`` samples."""
        return replace(self, inputs=self.inputs[:count], targets=self.targets[:count])

    def values(self) -> NDArray[np.float32]:
        """Return the inputs as numbers."""
        return self.inputs.astype(np.float32) * np.float32(self.scale)


@dataclass(frozen=True, kw_only=True)
class Room:
    """Room in memory for samples.

    - ``steps``: steps whose training samples are in memory at the same time, None for all training
      samples.
    - ``held_out``: held-out samples in memory at the same time, None for all.
    """

    steps: int | None = None
    held_out: int | None = None


ROOM_FOR_ALL = Room()
