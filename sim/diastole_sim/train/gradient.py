"""Round weight gradients on a host, between the product and the update.

A gradient dW, scaled as the loss is, is rounded once into E5M2 of OCP's OFP8, (1,5,2): bias 15,
subnormals, Inf from 61440 on at the latest. The rule is ``stochastic-b``. Element number i, counted
row by row, uses its 16 random bits of (seed, tag, step). The tag is the tag of the weight's update
with bit 29 set. Gradients of biases, tables and gains stay float32.

Source: Mellempudi et al., "Mixed Precision Training With 8-bit Floating Point", arXiv:1905.12334,
with weight gradients in this format and stochastic rounding.
"""

from diastole_sim.device.interface import Floats
from diastole_sim.golden.random import tensor_draws
from diastole_sim.spec.require import require_choice
from diastole_sim.spec.rounding import DRAW_BITS
from diastole_sim.train.master import MasterFormat

FORMATS = {"float32": None, "fp8_e5m2": MasterFormat(exponent_bits=5, fraction_bits=2)}
"""Formats by name, None without rounding."""
GRADIENT_TAG = 1 << 29
"""Bit that is set in the tags of random bits for gradients, and in no tag of a conversion or an
update."""
RULE = "stochastic-b"


def require_gradient(kind: str) -> str:
    """Return ``kind`` if :data:`FORMATS` has the name; ValueError otherwise."""
    return require_choice("gradient", kind, tuple(FORMATS))


def round_gradient(values: Floats, kind: str, *, seed: int, tag: int, step: int) -> Floats:
    """Return a gradient of weights rounded to a format. ``tag``: tag of the weights' update."""
    format = FORMATS[kind]
    if format is None:
        return values
    draws = tensor_draws(
        (1, values.size), seed=seed, tag=tag | GRADIENT_TAG, step=step, bits=DRAW_BITS
    )
    codes = format.encode(values.reshape(1, -1), RULE, draws, DRAW_BITS)
    return format.decode(codes).reshape(values.shape)
