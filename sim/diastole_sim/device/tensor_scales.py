"""Choose the scales of whole tensors, as far as the host chooses scales."""

from collections import deque

from diastole_sim.device.conversion import Conversion
from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.scales import amax_exponent, delayed_exponent


class Magnitudes:
    """Largest magnitudes of one tensor as binary32 bits: the magnitude of ``step``, and the
    magnitudes of the last ``history`` earlier steps with a conversion of the tensor."""

    def __init__(self, step: int, history: int):
        self.step, self.history = step, history
        self.largest = 0
        self.earlier: deque[int] = deque([0], maxlen=history)

    def steps_before(self, step: int) -> list[int]:
        """Return the largest magnitude of every step before ``step``."""
        ended = [] if step == self.step else [self.largest]
        return [*self.earlier, *ended][-self.history :]

    def note(self, step: int, amax: int) -> None:
        """Record the largest magnitude ``amax`` of a tensor converted in ``step``."""
        if step != self.step:
            self.earlier.append(self.largest)
            self.step, self.largest = step, 0
        self.largest = max(self.largest, amax)


class TensorScales:
    """Choose the scale of every conversion and record largest magnitudes: the host's part of tensor
    scales.

    A device has one instance, for ``numerics``. Where scales are ``delayed``, the instance keeps
    the largest magnitude of all conversions of equal class, tag and step, for the current step and
    for ``numerics.history`` steps before.
    """

    def __init__(self, numerics: Numerics):
        self.numerics = numerics
        self._magnitudes: dict[tuple[str, int], Magnitudes] = {}

    def choose(self, request: Conversion) -> int | None:
        """Return the exponent of the scale to convert with, None to measure the scale. ValueError
        if the caller gives a scale for a class or a source that accepts none."""
        tensor_class, scale = request.tensor_class, request.scale
        storage, source = self.numerics.tensor_class(tensor_class), self.numerics.source
        if scale is not None and not (source == "host" and storage.has_tensor_scale):
            raise ValueError(
                "scale must be left out: this device takes no scale from the caller for "
                f"class {tensor_class} (format {storage.format.name}, block "
                f"{storage.grouping}, scale.source = {source})"
            )
        if not storage.has_tensor_scale or source == "current":
            return None
        if source == "host":
            return amax_exponent(0, storage) if scale is None else scale
        magnitudes = self._magnitudes.get((tensor_class, request.tag))
        if magnitudes is None:
            return None
        return delayed_exponent(
            magnitudes.steps_before(request.step), storage, self.numerics.margin
        )

    def remember(self, request: Conversion, amax: int) -> None:
        """Record ``amax``, the largest finite magnitude of a converted tensor as binary32 bits."""
        if self.numerics.source == "delayed":
            made = Magnitudes(request.step, self.numerics.history)
            key = request.tensor_class, request.tag
            self._magnitudes.setdefault(key, made).note(request.step, amax)
