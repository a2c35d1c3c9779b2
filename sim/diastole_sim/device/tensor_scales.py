"""The scales of whole tensors, as far as a host chooses them."""

from collections import deque

from diastole_sim.device.conversion import Conversion
from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.scales import amax_exponent, delayed_exponent


class Magnitudes:
    """The largest magnitudes of one tensor, binary32 bits: in ``step``, and in the ``history``
    steps before that converted the tensor."""

    def __init__(self, step: int, history: int):
        self.step, self.history = step, history
        self.largest = 0
        self.before: deque[int] = deque([0], maxlen=history)

    def steps_before(self, step: int) -> list[int]:
        """The largest magnitude of each step before ``step``."""
        ended = [] if step == self.step else [self.largest]
        return [*self.before, *ended][-self.history :]

    def note(self, step: int, amax: int) -> None:
        """A tensor was converted in ``step``."""
        if step != self.step:
            self.before.append(self.largest)
            self.step, self.largest = step, 0
        self.largest = max(self.largest, amax)


class TensorScales:
    """The host's part of tensor scales: what a conversion is told, and what is kept of it.

    One per device, for ``numerics``. Where scales are ``delayed``, it remembers the largest
    magnitude of all conversions with the same class, tag and step, in this step and in
    ``numerics.history`` steps before.
    """

    def __init__(self, numerics: Numerics):
        self.numerics = numerics
        self._magnitudes: dict[tuple[str, int], Magnitudes] = {}

    def choose(self, asked: Conversion) -> int | None:
        """The scale to convert with, None to measure it. ValueError if the caller asks for one that
        has no place here.
        """
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
        """A tensor was converted whose largest finite magnitude has these bits as binary32."""
        if self.numerics.source == "delayed":
            made = Magnitudes(asked.step, self.numerics.history)
            key = asked.tensor_class, asked.tag
            self._magnitudes.setdefault(key, made).note(asked.step, amax)
