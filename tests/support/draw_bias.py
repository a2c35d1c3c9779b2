"""Bias and variance of stochastic rounding by the kind of its draws: by the definition, over all
draws of a period, and of the tensors that a machine stores, over the same draws.

A part of 8 bits is dropped, of each of its 256 values nu. Over the draws of a period an element is
rounded up in a share p of cases: the bias of nu is p - nu, its variance p (1 - p), in units of the
last place. Ideal draws have the bias 0 and in the mean the variance 1/6.
"""

from dataclasses import dataclass

import numpy as np

from diastole.config.file import from_document
from diastole_sim.golden.lfsr_draws import row_states
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.rounding import round_magnitude

RESIDUE_BITS = 8
RULES = ("stochastic-a", "stochastic-b", "stochastic-c")
"""Of X, W and dY."""
PAIR_PERIOD = 28
"""Columns after which pairs of three bits draw the same again."""
CHANCE = 0.08
"""Bias of any residue that a mean of the 1024 draws of ``counter`` does not have by chance."""
KINDS = {
    "lfsr3": {"kind": "lfsr3"},
    "lfsr, 8 of 8 bits": {"kind": "lfsr", "bits": 8, "lfsr_bits": 8},
    "lfsr, 3 of 3 bits": {"kind": "lfsr", "bits": 3, "lfsr_bits": 3},
    "counter, 8 bits": {"kind": "counter", "bits": 8},
    "data, 8 bits, of 8-bit residues": {"kind": "data", "bits": 8},
}
"""By name, the keys of ``rounding``. Every draw of the last one is 0."""


@dataclass(frozen=True, kw_only=True)
class Bias:
    """In units of the last place: ``mean`` over the residues, ``largest`` of one; mean variance."""

    mean: float
    largest: float
    variance: float

    @classmethod
    def of(cls, up) -> "Bias":
        """Return the bias by the share of cases in which each residue is rounded up."""
        bias = up - np.arange(up.size) / up.size
        return cls(
            mean=float(bias.mean()),
            largest=float(np.abs(bias).max()),
            variance=float((up * (1 - up)).mean()),
        )


def period_of(numerics):
    """Return every draw of a period once."""
    bits = numerics.random_bits
    if numerics.rounding_kind == "data":
        return np.zeros(1, dtype=np.int32)
    if not numerics.draws_by_rows:
        return np.arange(1 << bits, dtype=np.int32)
    states = row_states(
        np.zeros(1, np.uint32), (1 << numerics.state_bits) - 1, lfsr_bits=numerics.state_bits
    )[0]
    if numerics.rounding_kind == "lfsr3":
        return np.concatenate([states, (1 << bits) - 1 - states])
    return states & ((1 << bits) - 1)


def defined(numerics, rule, residue_bits=RESIDUE_BITS):
    """Return the bias of a rule by the definition, over a period."""
    residues, draws = np.meshgrid(
        np.arange(1 << residue_bits), period_of(numerics), indexing="ij", sparse=True
    )
    up = round_magnitude(rule, residues, residue_bits, draws, numerics.random_bits)
    return Bias.of(up.mean(axis=1))


def columns_of(numerics):
    """Return a number of columns in which a row has every draw of a period as often, or many."""
    if numerics.rounding_kind == "lfsr3":
        return PAIR_PERIOD
    return (1 << numerics.state_bits) - 1 if numerics.rounding_kind == "lfsr" else 1024


def measured(device, numerics, tensor_class):
    """Return the bias of what a device stores: a row for each residue, all elements in the top
    binade of `bfp4`, with the significands 8 to 15."""
    residues = np.arange(1 << RESIDUE_BITS)[:, None] / (1 << RESIDUE_BITS)
    kept = 8 + np.arange(columns_of(numerics)) % 7  # an element that is rounded up still fits
    values = ((kept + residues) / 8).astype(np.float32)
    tensor = device.convert(values, tensor_class, tag=CLASS_NAMES.index(tensor_class), step=0)
    return Bias.of((tensor.read().values(0) * 8 - kept).mean(axis=1))


def drawing(name):
    """Return a machine that rounds X, W and dY by :data:`RULES`, with draws of :data:`KINDS`."""
    rules = dict(zip(CLASS_NAMES, RULES, strict=True))
    return from_document(
        {
            "name": f"draws{list(KINDS).index(name)}",
            "array": {"rows": 1, "cols": 1, "block": 4},
            "rounding": rules | KINDS[name],
        }
    )
