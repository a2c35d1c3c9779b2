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
        self.before: deque[int] = deque([0], maxlen=history)

    def steps_before(self, step: int) -> list[int]:
        """Return the largest magnitude of every step before ``step``."""
        ended = [] if step == self.step else [self.largest]
        return [*self.before, *ended][-self.history :]

    def note(self, step: int, amax: int) -> None:
        """Record the largest magnitude ``amax`` of a tensor converted in ``step``."""
        if step != self.step:
            self.before.append(self.largest)
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

    def choose(self, asked: Conversion) -> int | None:
        """Return the exponent of the scale to convert with, None to measure the scale. ValueError
        if the caller gives a scale for a class or a source that accepts none."""
        tensor_class, given = asked.tensor_class, asked.scale
        chosen, source = self.numerics.tensor_class(tensor_class), self.numerics.source
        if given is not None and not (source == "given" and chosen.has_tensor_scale):
            raise ValueError(
                f"scale must be absent: a {tensor_class} tensor has no scale that is given "
                f"({chosen.format.name} in {chosen.grouping}, scale.source = {source})"
            )
        if not chosen.has_tensor_scale or source == "current":
            return None
        if source == "given":
            return amax_exponent(0, chosen) if given is None else given
        kept = self._magnitudes.get((tensor_class, asked.tag))
        if kept is None:
            return None
        return delayed_exponent(kept.steps_before(asked.step), chosen, self.numerics.margin)

    def remember(self, asked: Conversion, amax: int) -> None:
        """Record ``amax``, the largest finite magnitude of a converted tensor as binary32 bits."""
        if self.numerics.source == "delayed":
            made = Magnitudes(asked.step, self.numerics.history)
            key = asked.tensor_class, asked.tag
            self._magnitudes.setdefault(key, made).note(asked.step, amax)
