"""Keep master weights in fewer bits than binary32: compute the update in float32, and round once.

``value' = round(value - rate * velocity')``; a velocity stays float32. A master format has a sign,
E bits of exponent with bias 2^(E-1) - 1, M bits of fraction, subnormals, and Inf and NaN in the top
exponent, as IEEE 754 has them. A code has 16 bits.

Let u be the distance of the format's numbers in the binade of a magnitude v, or the distance of the
subnormals for v below the smallest normal number. v / u is rounded to an integer by a rule of
:mod:`diastole_sim.spec.rounding`. The rule uses the top ``bits`` of the 16 random bits of element
number i, counted row by row, for (seed, tag, step). A result above the largest number is Inf. Signs
stay, including signs of zeros. Every NaN becomes the positive quiet NaN.

The tag of weights is the tag of the weights in products, 4 * layer + 1, with bit 30 set. The tag of
a bias is 4 * layer + 3 with bit 30 set. Initial weights are rounded to nearest, ties to even.

Sources: bfloat16, the upper half of binary32; fp16, (1,5,10), binary16 of IEEE 754; (1,6,9): Wang
et al., "Training deep neural networks with 8-bit floating point numbers", NeurIPS 2018,
arXiv:1812.08011, with the same rounding of updates.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diastole_sim.device.interface import TAGS_PER_LAYER, Floats
from diastole_sim.golden.random import tensor_draws
from diastole_sim.spec.operations import OPERAND_BY_CLASS
from diastole_sim.spec.require import require_choice, require_int
from diastole_sim.spec.rounding import DRAW_BITS, RULES, is_stochastic, round_magnitude

Codes = NDArray[np.uint16]

UPDATE_TAG = 1 << 30
"""Bit that is set in the tags of random bits for updates, and in no tag of a converted tensor."""
BIAS_NUMBER = 3
"""Number of the tag that no operand has, among the four tags of a layer."""
FRACTION_BITS, BIAS = 23, 127
"""Bits of the fraction and bias of binary32."""
DEFAULT_ROUNDING = "stochastic-b"


@dataclass(frozen=True, kw_only=True)
class MasterFormat:
    """Master format of 16 bits: a sign, ``exponent_bits`` (E) and ``fraction_bits`` (M)."""

    exponent_bits: int
    fraction_bits: int

    @property
    def lowest(self) -> int:
        """Exponent of the smallest normal number."""
        return 2 - 2 ** (self.exponent_bits - 1)

    @property
    def inf(self) -> int:
        """Code of +Inf."""
        return ((1 << self.exponent_bits) - 1) << self.fraction_bits

    @property
    def nan(self) -> int:
        """Code of the only NaN that rounding makes."""
        return self.inf | 1 << (self.fraction_bits - 1)

    def encode(
        self,
        values: Floats,
        rule: str = "nearest",
        draws: NDArray[Any] | int = 0,
        bits: int = DRAW_BITS,
    ) -> Codes:
        """Return the codes of binary32 numbers. ``draws``: random bits of each number for
        stochastic rules, 0..2^bits - 1."""
        word = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.int64)
        magnitude, negative = word & 0x7FFFFFFF, word >> 31
        field = magnitude >> FRACTION_BITS
        fraction = magnitude & (1 << FRACTION_BITS) - 1
        significand = np.where(field > 0, fraction | 1 << FRACTION_BITS, fraction)
        exponent = np.maximum(field, 1) - BIAS
        binade = np.maximum(exponent, self.lowest)
        shift = FRACTION_BITS - self.fraction_bits + binade - exponent
        rounded = round_magnitude(rule, significand, shift, draws, bits)
        # The leading bit of a normal number and a carry of the rounding count up the exponent.
        code = np.minimum(((binade - self.lowest) << self.fraction_bits) + rounded, self.inf)
        code |= negative << 15
        code[magnitude > 0xFF << FRACTION_BITS] = self.nan
        return code.astype(np.uint16)

    def decode(self, codes: Codes) -> Floats:
        """Return the numbers of codes, all exact."""
        code = codes.astype(np.int64)
        magnitude = code & 0x7FFF
        field = magnitude >> self.fraction_bits
        fraction = magnitude & (1 << self.fraction_bits) - 1
        significand = np.where(field > 0, fraction | 1 << self.fraction_bits, fraction)
        exponent = np.maximum(field, 1) - 1 + self.lowest - self.fraction_bits
        values = np.ldexp(significand.astype(np.float64), exponent.astype(np.int32))
        values[magnitude == self.inf] = np.inf
        values = np.where(code >> 15 == 1, -values, values)
        values[magnitude > self.inf] = np.nan
        return values.astype(np.float32)


FORMATS = {
    "float32": None,
    "bf16": MasterFormat(exponent_bits=8, fraction_bits=7),
    "fp16": MasterFormat(exponent_bits=5, fraction_bits=10),
    "e6m9": MasterFormat(exponent_bits=6, fraction_bits=9),
}
"""Formats by name, None without rounding."""
NARROW = "bf16, fp16 and e6m9"
"""Names of the formats with rounding, for messages."""


@dataclass(frozen=True, kw_only=True)
class Master:
    """Format of master weights and biases, and rounding of updates to the format.

    - ``kind``: name of a format, of :data:`FORMATS`.
    - ``rounding``: rule of :mod:`diastole_sim.spec.rounding`, None for ``stochastic-b``.
    - ``bits``: random bits of stochastic rules, 1 to 16, None for 16.

    ``rounding`` and ``bits`` become None if they have no meaning. ValueError for unknown values,
    and for a value without a meaning.
    """

    kind: str = "float32"
    rounding: str | None = None
    bits: int | None = None

    def __post_init__(self) -> None:
        require_choice("master", self.kind, tuple(FORMATS))
        if self.format is None:
            for name in ("rounding", "bits"):
                if getattr(self, name) is not None:
                    raise ValueError(
                        f"master {name} is an option of {NARROW}: float32 weights are not rounded"
                    )
            return
        rule = DEFAULT_ROUNDING if self.rounding is None else self.rounding
        require_choice("master rounding", rule, tuple(RULES))
        object.__setattr__(self, "rounding", rule)
        if is_stochastic(rule):
            bits = DRAW_BITS if self.bits is None else self.bits
            object.__setattr__(self, "bits", require_int("master bits", bits, 1, DRAW_BITS))
        elif self.bits is not None:
            raise ValueError(
                "master bits is an option of stochastic roundings: nearest draws no random bits"
            )

    @property
    def format(self) -> MasterFormat | None:
        return FORMATS[self.kind]

    def start(self, values: Floats) -> Floats:
        """Return initial values rounded to nearest, ties to even."""
        return values if self.format is None else self.format.decode(self.format.encode(values))

    def round(self, values: Floats, *, seed: int, tag: int, step: int) -> Floats:
        """Return the rounded values of an update. ``tag``: :func:`weight_tag` or
        :func:`bias_tag`."""
        if self.format is None:
            return values
        draws, bits = np.zeros((1, 1), np.int64), DRAW_BITS
        if self.bits is not None:
            bits = self.bits
            draws = tensor_draws((1, values.size), seed=seed, tag=tag, step=step, bits=bits)
        flat = values.reshape(1, -1)
        codes = self.format.encode(flat, self.rounding or "nearest", draws, bits)
        return self.format.decode(codes).reshape(values.shape)

    def to_bytes(self, values: Floats) -> bytes:
        """Return the little-endian codes of values in the format, row by row."""
        if self.format is None:
            return values.astype("<f4").tobytes()
        return self.format.encode(values).astype("<u2").tobytes()


FLOAT32 = Master()


def weight_tag(layer: int) -> int:
    """Return the tag of the random bits for a layer's weights."""
    return UPDATE_TAG | TAGS_PER_LAYER * layer + OPERAND_BY_CLASS["w"].number


def bias_tag(layer: int) -> int:
    """Return the tag of the random bits for a layer's bias."""
    return UPDATE_TAG | TAGS_PER_LAYER * layer + BIAS_NUMBER
