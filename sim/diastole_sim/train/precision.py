"""Widths that change while a network trains: which one the next conversion of a tensor has.

The host decides, from what the monitor said of the last conversion of the same tag, or from the
step alone; the machine only counts. Steps and layers count from 0.

Source: Zhang, McDanel, Kung: FAST, HPCA 2022, with r as
:mod:`diastole_sim.golden.improvement` has it.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from diastole_sim.golden.improvement import THRESHOLD_BITS, Monitored
from diastole_sim.spec.formats import PLANE_BITS
from diastole_sim.spec.operations import OPERAND_OF, Operation
from diastole_sim.spec.require import require_choice

PRECISIONS = ("fast", "low", "high", "low-to-high")
"""By the monitor; always 2 or 4 bits; 2 up to a step and then 4."""
MACHINE_PRECISIONS = ("fast", "low", "high")
"""Those of a machine that does whole steps."""
LOW, HIGH = 2, 4
ALPHA, BETA = 0.6, 0.3


@dataclass(frozen=True, kw_only=True)
class Precision:
    """``kind``: of :data:`PRECISIONS`. ``classes``: those whose width is chosen.

    ``alpha``, ``beta``: of ``fast``; the threshold that r must exceed falls with the steps and with
    the layers. ``switch``: of ``low-to-high``, the first step with 4 bits. ValueError for another
    kind, or where ``switch`` is missing or has no meaning.
    """

    kind: str
    classes: tuple[str, ...]
    alpha: float = ALPHA
    beta: float = BETA
    switch: int | None = None

    def __post_init__(self) -> None:
        require_choice("precision", self.kind, PRECISIONS)
        if (self.switch is None) == (self.kind == "low-to-high"):
            raise ValueError("a step to switch at goes with low-to-high, and with nothing else")

    def threshold(self, step: int, steps: int, layer: int, layers: int) -> int:
        """max(0, alpha - beta step/steps - beta layer/layers), in units of 2^-16, ties to even."""
        eps = self.alpha - self.beta * step / steps - self.beta * layer / layers
        return round(2**THRESHOLD_BITS * max(0.0, eps))


@dataclass(kw_only=True)
class Widths:
    """The widths of a run of ``steps`` steps on a network of ``layers`` layers.

    Layers behind the last are those of held-out samples: they take the widths that hold, and decide
    and count nothing. ``chosen``: by tensor the width of every conversion in its order;
    ``products``: how many took so many passes; ``passes``, ``work``: MACs times passes, and MACs.
    """

    precision: Precision
    steps: int
    layers: int
    chosen: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    products: Counter[int] = field(default_factory=Counter[int])
    passes: int = 0
    work: int = 0
    _next: dict[str, int] = field(default_factory=dict[str, int])

    def choose(self, tensor_class: str, layer: int, step: int) -> int | None:
        """The width of a conversion; None where the class has one width only."""
        if tensor_class not in self.precision.classes:
            return None
        name = self._name(tensor_class, layer)
        width = self._width(name, step)
        if layer < self.layers:
            self.chosen.setdefault(name, []).append(width)
        return width

    def see(self, tensor_class: str, layer: int, step: int, converted: object) -> None:
        """What a conversion was, for the next one of its tag."""
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
        """The passes of an operation's products; ``widths`` by the operands' names, ``sizes`` by
        axis."""
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
        """Passes of a product, by MACs; 1 if there was none."""
        return float(Fraction(self.passes, self.work)) if self.work else 1.0

    @property
    def shares(self) -> dict[str, float]:
        """Of all products those of so many passes, in ascending order."""
        total = self.products.total()
        return {str(passes): count / total for passes, count in sorted(self.products.items())}

    def log(self) -> dict[str, str]:
        """By tensor the widths of its conversions, a digit each."""
        return {name: "".join(map(str, widths)) for name, widths in sorted(self.chosen.items())}

    def _name(self, tensor_class: str, layer: int) -> str:
        return f"layer{layer % self.layers}.{OPERAND_OF[tensor_class].name}"

    def _width(self, name: str, step: int) -> int:
        kind, switch = self.precision.kind, self.precision.switch
        if kind == "fast":
            return self._next.get(name, HIGH)
        if switch is not None:
            return LOW if step < switch else HIGH
        return {"low": LOW, "high": HIGH}[kind]
