"""The scales of whole tensors, as far as a host chooses them."""

from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.scales import amax_exponent


class TensorScales:
    """The host's part of tensor scales: what a conversion is told, and what is kept of it.

    One per device, for ``numerics``; it remembers the largest magnitude that each class and tag
    was last converted with, where scales are ``delayed``.
    """

    def __init__(self, numerics: Numerics):
        self.numerics = numerics
        self._amax: dict[tuple[str, int], int] = {}

    def choose(self, tensor_class: str, tag: int, given: int | None = None) -> int | None:
        """The scale to convert with, None to measure it; ``given``: what the caller asks for.

        ValueError if ``given`` has no place here.
        """
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
        before = self._amax.get((tensor_class, tag), 0)
        return amax_exponent(before, chosen) if before else None

    def remember(self, tensor_class: str, tag: int, amax: int) -> None:
        """A tensor was converted whose largest finite magnitude has these bits as binary32."""
        self._amax[tensor_class, tag] = amax
