"""Master weights in fewer bits than binary32: the update is made in float32 and rounded once.

``value' = round(value - rate * velocity')``, and a velocity stays float32. A master format has a
sign, E bits of exponent with bias 2^(E-1) - 1, M bits of fraction, subnormals, and Inf and NaN in
its top exponent, as IEEE 754 has them; a code is 16 bits. With u the distance of the format's
numbers in the binade of a magnitude v (of its subnormals below the smallest normal one), v / u is
rounded to an integer by a rule of :mod:`diastole_sim.spec.rounding`, with the top ``bits`` of the
16 that element number i, row by row, has in the draws of (seed, tag, step). What comes out above
the largest number is Inf. Signs stay, those of zeros too; every NaN becomes the positive quiet one.

The tag is that of the weight in the products, 4 * layer + 1, with bit 30 set; of a bias it is
4 * layer + 3 with bit 30 set. Initial weights are rounded to nearest, ties to even.

Sources: bfloat16, the upper half of binary32; fp16, (1,5,10), binary16 of IEEE 754; (1,6,9): Wang
et al., "Training deep neural networks with 8-bit floating point numbers", NeurIPS 2018,
arXiv:1812.08011, which rounds updates so.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diastole_sim.device.interface import TAGS_PER_LAYER, Floats
from diastole_sim.golden.random import tensor_draws
from diastole_sim.spec.operations import OPERAND_OF
from diastole_sim.spec.require import require_choice, require_int
from diastole_sim.spec.rounding import DRAW_BITS, RULES, is_stochastic, round_magnitude

Codes = NDArray[np.uint16]

UPDATE_TAG = 1 << 30
"""Set in the tags of what an update draws; no tensor that is converted has it."""
BIAS_NUMBER = 3
"""Of a layer's four tags the one that no operand has."""
FRACTION_BITS, BIAS = 23, 127
"""Of binary32."""
DEFAULT_ROUNDING = "stochastic-b"


@dataclass(frozen=True, kw_only=True)
class MasterFormat:
    """``exponent_bits``: E; ``fraction_bits``: M; a sign makes them 16."""

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
        """Code of the only NaN that is ever made."""
        return self.inf | 1 << (self.fraction_bits - 1)

    def encode(
        self,
        values: Floats,
        rule: str = "nearest",
        draws: NDArray[Any] | int = 0,
        bits: int = DRAW_BITS,
    ) -> Codes:
        """Codes of binary32 numbers; ``draws``: 0..2^bits - 1 each, of stochastic rules."""
        word = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.int64)
        magnitude, negative = word & 0x7FFFFFFF, word >> 31
        field = magnitude >> FRACTION_BITS
        fraction = magnitude & (1 << FRACTION_BITS) - 1
        significand = np.where(field > 0, fraction | 1 << FRACTION_BITS, fraction)
        exponent = np.maximum(field, 1) - BIAS
        binade = np.maximum(exponent, self.lowest)
        shift = FRACTION_BITS - self.fraction_bits + binade - exponent
        kept = round_magnitude(rule, significand, shift, draws, bits)
        # A normal number's leading bit, and what rounding carries, count up the exponent.
        code = np.minimum(((binade - self.lowest) << self.fraction_bits) + kept, self.inf)
        code |= negative << 15
        code[magnitude > 0xFF << FRACTION_BITS] = self.nan
        return code.astype(np.uint16)

    def decode(self, codes: Codes) -> Floats:
        """The numbers, each exactly."""
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
"""By name; None where nothing is rounded."""
NARROW = "bf16, fp16 and e6m9"
"""Those that round, for people."""


@dataclass(frozen=True, kw_only=True)
class Master:
    """In what master weights and biases are kept, and how updates are rounded to it.

    ``kind``: of :data:`FORMATS`. ``rounding``: a rule of :mod:`diastole_sim.spec.rounding`, None
    for ``stochastic-b``. ``bits``: random bits of stochastic rules, 1 to 16, None for 16. Both
    become None where they have no meaning. ValueError for anything else, and where one is given
    that has no meaning.
    """

    kind: str = "float32"
    rounding: str | None = None
    bits: int | None = None

    def __post_init__(self) -> None:
        require_choice("master", self.kind, tuple(FORMATS))
        if self.format is None:
            for name in ("rounding", "bits"):
                if getattr(self, name) is not None:
                    raise ValueError(f"master {name} is of {NARROW}: float32 rounds nothing")
            return
        rule = DEFAULT_ROUNDING if self.rounding is None else self.rounding
        require_choice("master rounding", rule, tuple(RULES))
        object.__setattr__(self, "rounding", rule)
        if is_stochastic(rule):
            bits = DRAW_BITS if self.bits is None else self.bits
            object.__setattr__(self, "bits", require_int("master bits", bits, 1, DRAW_BITS))
        elif self.bits is not None:
            raise ValueError("master bits are of stochastic roundings: nearest draws none")

    @property
    def format(self) -> MasterFormat | None:
        return FORMATS[self.kind]

    def start(self, values: Floats) -> Floats:
        """Initial values, rounded to nearest, ties to even."""
        return values if self.format is None else self.format.decode(self.format.encode(values))

    def round(self, values: Floats, *, seed: int, tag: int, step: int) -> Floats:
        """What an update computed, rounded; ``tag``: of :func:`weight_tag` or :func:`bias_tag`."""
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
        """Values of the format as its little-endian codes, row by row."""
        if self.format is None:
            return values.astype("<f4").tobytes()
        return self.format.encode(values).astype("<u2").tobytes()


FLOAT32 = Master()


def weight_tag(layer: int) -> int:
    """Of the draws of a layer's weights."""
    return UPDATE_TAG | TAGS_PER_LAYER * layer + OPERAND_OF["w"].number


def bias_tag(layer: int) -> int:
    """Of the draws of a layer's bias."""
    return UPDATE_TAG | TAGS_PER_LAYER * layer + BIAS_NUMBER
