"""Choose widths that change while a network trains: the width of the next conversion of a tensor.

The host decides, from the monitor's result for the last conversion with the same tag, or from the
number of the step alone. The machine only counts. Steps and layers count from 0.

Source: Zhang, McDanel, Kung: FAST, HPCA 2022, with r as :mod:`diastole_sim.golden.improvement`
defines it.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from diastole_sim.golden.improvement import THRESHOLD_BITS, Monitored
from diastole_sim.spec.formats import PLANE_BITS
from diastole_sim.spec.operations import OPERAND_BY_CLASS, Operation
from diastole_sim.spec.require import require_choice

PRECISIONS = ("fast", "low", "high", "low-to-high")
"""Rules for widths: by the monitor; always 2 bits; always 4 bits; 2 bits up to a step and then 4
bits."""
LOW, HIGH = 2, 4
ALPHA, BETA = 0.6, 0.3


@dataclass(frozen=True, kw_only=True)
class Precision:
    """Rule for widths.

    - ``kind``: name of the rule, of :data:`PRECISIONS`.
    - ``classes``: classes with chosen widths.
    - ``alpha``, ``beta``: parameters of ``fast``. The threshold that r must exceed falls with the
      steps and with the layers.
    - ``switch``: first step with 4 bits, for ``low-to-high``.

    ValueError for an unknown kind, and if ``switch`` is missing or has no meaning.
    """

    kind: str
    classes: tuple[str, ...]
    alpha: float = ALPHA
    beta: float = BETA
    switch: int | None = None

    def __post_init__(self) -> None:
        require_choice("precision", self.kind, PRECISIONS)
        if (self.switch is None) == (self.kind == "low-to-high"):
            raise ValueError(
                "switch, a step, must be given with low-to-high, and with no other precision"
            )

    @property
    def by_step(self) -> bool:
        """True if the number of the step decides the widths."""
        return self.switch is not None

    def width(self, step: int) -> int:
        """Return the width of the tensors of a step, or of the first step for ``fast``."""
        if self.switch is not None:
            return LOW if step < self.switch else HIGH
        return LOW if self.kind == "low" else HIGH

    def threshold(self, step: int, steps: int, layer: int, layers: int) -> int:
        """Return max(0, alpha - beta step/steps - beta layer/layers) in units of 2^-16, ties to
        even."""
        eps = self.alpha - self.beta * step / steps - self.beta * layer / layers
        return round(2**THRESHOLD_BITS * max(0.0, eps))


@dataclass(kw_only=True)
class Widths:
    """Widths of a run of ``steps`` steps on a network of ``layers`` layers.

    Layers after the last layer are layers of held-out samples. Such layers take the present widths,
    and decide and count nothing.

    - ``history``: widths of every conversion in order, by tensor.
    - ``products``: number of products by number of passes.
    - ``passes``, ``work``: sum of MACs times passes, and sum of MACs.
    """

    precision: Precision
    steps: int
    layers: int
    history: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    products: Counter[int] = field(default_factory=Counter[int])
    passes: int = 0
    work: int = 0
    _next: dict[str, int] = field(default_factory=dict[str, int])

    def choose(self, tensor_class: str, layer: int, step: int) -> int | None:
        """Return the width of a conversion; None if the class has one width only."""
        if tensor_class not in self.precision.classes:
            return None
        name = self._name(tensor_class, layer)
        width = self._width(name, step)
        if layer < self.layers:
            self.history.setdefault(name, []).append(width)
        return width

    def see(self, tensor_class: str, layer: int, step: int, converted: object) -> None:
        """Note the result of a conversion, for the width of the next conversion with the same
        tag."""
        if self.precision.kind != "fast" or layer >= self.layers:
            return
        if isinstance(converted, Monitored) and converted.improvement is not None:
            seen = converted.improvement
            eps = self.precision.threshold(step, self.steps, layer, self.layers)
            self._next[self._name(tensor_class, layer)] = HIGH if seen.exceeds(eps) else LOW

    def count(
        self,
        operation: Operation,
        widths: Mapping[str, int | None],
        sizes: Mapping[str, int],
        layer: int,
    ) -> None:
        """Count the passes of an operation's products. ``widths``: widths by name of the operand.
        ``sizes``: sizes by axis."""
        if layer >= self.layers:
            return
        for product in operation.products:
            factors = (widths[tensor.name] or PLANE_BITS for tensor in product.factors)
            passes = math.prod(width // PLANE_BITS for width in factors)
            work = math.prod(sizes.values())
            self.products[passes] += 1
            self.passes += passes * work
            self.work += work

    @property
    def mean_passes(self) -> float:
        """Mean passes of a product, weighted by MACs; 1 without products."""
        return float(Fraction(self.passes, self.work)) if self.work else 1.0

    @property
    def shares(self) -> dict[str, float]:
        """Fraction of all products by number of passes, in ascending order."""
        total = self.products.total()
        return {str(passes): count / total for passes, count in sorted(self.products.items())}

    def log(self) -> dict[str, str]:
        """Return the widths of every tensor's conversions, a digit each, by tensor."""
        return {name: "".join(map(str, widths)) for name, widths in sorted(self.history.items())}

    def _name(self, tensor_class: str, layer: int) -> str:
        return f"layer{layer % self.layers}.{OPERAND_BY_CLASS[tensor_class].name}"

    def _width(self, name: str, step: int) -> int:
        if self.precision.kind == "fast":
            return self._next.get(name, HIGH)
        return self.precision.width(step)
