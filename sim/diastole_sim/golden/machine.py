"""The golden device: the whole machine's results, without its clock."""

import numpy as np

from diastole_sim.check import require_int
from diastole_sim.device_api import OPERATIONS, OUTPUTS, Floats, Operand, ProductResult
from diastole_sim.golden.convert import Quantised, amax_exponent, quantise
from diastole_sim.golden.product import forward, input_gradient, require_equal, weight_gradient
from diastole_sim.numerics import Numerics, TensorClass

CLASS_OF = {"X": "x", "W": "w", "dY": "dy"}
"""The class that a tensor must have in a product, by the tensor's name."""

PRODUCTS = {
    "Y": ("X", "W", forward),
    "dX": ("W", "dY", input_gradient),
    "dW": ("X", "dY", weight_gradient),
}
"""Every result, the operands that its function takes, and the function."""


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


class GoldenDevice:
    """A :class:`diastole_sim.device_api.Device` in numpy, bit-exact to the generated hardware.

    ``numerics``: what decides the bits. ``seed``: 32 bits, of every stochastic rounding.
    """

    def __init__(self, numerics: Numerics, seed: int = 0):
        self.numerics = numerics
        self.seed = require_int("seed", seed, 0, 2**32 - 1)
        self._scales = TensorScales(numerics)

    def convert(
        self,
        array: Floats,
        tensor_class: str,
        *,
        tag: int,
        step: int = 0,
        scale: int | None = None,
    ) -> Quantised:
        """Quantise a float32 array; see :func:`diastole_sim.golden.convert.quantise`."""
        converted = quantise(
            array,
            tensor_class,
            self.numerics,
            seed=self.seed,
            tag=tag,
            step=step,
            scale=self._scales.choose(tensor_class, tag, scale),
        )
        self._scales.remember(tensor_class, tag, converted.amax)
        return converted

    def forward(
        self, x: Operand, w: Operand, *, tags: tuple[int, int] = (0, 1), step: int = 0
    ) -> ProductResult:
        """Y = X W."""
        return self._run("forward", (x, w), tags, step)

    def dx(
        self, w: Operand, dy: Operand, *, tags: tuple[int, int] = (1, 2), step: int = 0
    ) -> ProductResult:
        """dX = dY W^T."""
        return self._run("dx", (w, dy), tags, step)

    def dw(
        self, x: Operand, dy: Operand, *, tags: tuple[int, int] = (0, 2), step: int = 0
    ) -> ProductResult:
        """dW = X^T dY."""
        return self._run("dw", (x, dy), tags, step)

    def backward(
        self,
        x: Operand,
        w: Operand,
        dy: Operand,
        *,
        tags: tuple[int, int, int] = (0, 1, 2),
        step: int = 0,
    ) -> ProductResult:
        """dX and dW; ``exact`` only if both are, ``overflow`` if one has."""
        return self._run("backward", (x, w, dy), tags, step)

    def _run(
        self, op: str, given: tuple[Operand, ...], tags: tuple[int, ...], step: int
    ) -> ProductResult:
        operands = {
            name: self._operand(name, operand, tag, step)
            for name, operand, tag in zip(OPERATIONS[op], given, tags, strict=True)
        }
        if op == "backward":  # neither of its products contracts K
            x, w = operands["X"], operands["W"]
            require_equal("the columns of X", x.shape[1], "the rows of W", w.shape[0])
        results = {
            name: product(operands[first], operands[second], self.numerics)
            for name, (first, second, product) in PRODUCTS.items()
            if name in OUTPUTS[op]
        }
        return ProductResult(
            op=op,
            values={name: result.values for name, result in results.items()},
            operands=operands,
            exact=all(result.exact for result in results.values()),
            overflow=any(result.overflow for result in results.values()),
        )

    def _operand(self, name: str, operand: Operand, tag: int, step: int) -> Quantised:
        wanted = CLASS_OF[name]
        if isinstance(operand, np.ndarray):
            return self.convert(operand, wanted, tag=tag, step=step)
        if not isinstance(operand, Quantised):
            raise ValueError(f"{name} must be a float32 array or a tensor of this device")
        if operand.tensor_class != wanted:
            raise ValueError(
                f"{name} must be a tensor of class {wanted}, not {operand.tensor_class}"
            )
        ours = self.numerics.tensor_class(wanted), self.numerics.block
        if (operand.chosen, operand.block) != ours:
            raise ValueError(
                f"{name} is {_words(operand.chosen, operand.block)}; "
                f"this device has {_words(*ours)}"
            )
        return operand


def _words(chosen: TensorClass, block: int) -> str:
    return (
        f"{chosen.format.name} in groups of {chosen.grouping} and blocks of {block} "
        f"({chosen.rounding}, {chosen.scale}, {chosen.overflow})"
    )
