"""Bias and variance of stochastic rounding by the kind of its draws: by the definition, over all
draws of a period, and of what a machine stores, over the same.

A part of 8 bits is dropped, of each of its 256 values nu. Over the draws of a period an element is
rounded up in a share p of cases: the bias of nu is p - nu, its variance p (1 - p), in units of the
last place. Ideal draws have the bias 0 and in the mean the variance 1/6.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from diastole.backend import cached_product
from diastole.config.file import from_document
from diastole.config.keys import Config
from diastole.devices import Device
from diastole.measure.figure import Figure
from diastole_sim.device.interface import ConvertedTensor, Floats
from diastole_sim.golden.convert import Quantised
from diastole_sim.golden.lfsr import row_states
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics
from diastole_sim.spec.rounding import round_magnitude

RESIDUE_BITS = 8
RULES = ("stochastic-a", "stochastic-b", "stochastic-c")
PRECISION = 4
"""Of `bfp4`: an element of the top binade has the significands 8 to 15."""
PAIR_PERIOD = 28
"""Columns after which pairs of three bits draw the same again."""
CHANCE = 0.08
"""Beyond which a mean of as many draws as are measured does not lie by chance, of any residue."""
KINDS = {
    "lfsr3": {"kind": "lfsr3"},
    "lfsr, 8 of 8 bits": {"kind": "lfsr", "bits": 8, "lfsr_bits": 8},
    "lfsr, 3 of 3 bits": {"kind": "lfsr", "bits": 3, "lfsr_bits": 3},
    "counter, 8 bits": {"kind": "counter", "bits": 8},
    "data, 8 bits, of 8-bit residues": {"kind": "data", "bits": 8},
}
"""By name, the keys of ``rounding``. Of the last every draw is 0."""

Draws = NDArray[np.int32]


class Readable(Protocol):
    """What every device's tensor is."""

    def read(self) -> Quantised: ...


class Converting(Protocol):
    """What this needs of a device."""

    def convert(
        self, array: Floats, tensor_class: str, *, tag: int, step: int
    ) -> ConvertedTensor: ...


@dataclass(frozen=True, kw_only=True)
class Bias:
    """In units of the last place: ``mean`` over the residues, ``largest`` of one; mean variance."""

    mean: float
    largest: float
    variance: float

    @classmethod
    def of(cls, up: NDArray[np.floating]) -> "Bias":
        """From the share of cases in which each residue is rounded up."""
        bias = up - np.arange(up.size) / up.size
        return cls(
            mean=float(bias.mean()),
            largest=float(np.abs(bias).max()),
            variance=float((up * (1 - up)).mean()),
        )


def period_of(numerics: Numerics) -> Draws:
    """The draws of a period, of any place: those of ``lfsr3`` are of both sides of a pair."""
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


def defined(numerics: Numerics, rule: str) -> Bias:
    """By the definition, over a period."""
    residues, draws = np.meshgrid(
        np.arange(1 << RESIDUE_BITS), period_of(numerics), indexing="ij", sparse=True
    )
    up = round_magnitude(rule, residues, RESIDUE_BITS, draws, numerics.random_bits)
    return Bias.of(up.mean(axis=1))


def columns_of(numerics: Numerics) -> int:
    """So many that a row has every draw of a period as often; else many."""
    if numerics.rounding_kind == "lfsr3":
        return PAIR_PERIOD
    return (1 << numerics.state_bits) - 1 if numerics.rounding_kind == "lfsr" else 1024


def measured(device: Converting, numerics: Numerics, tensor_class: str) -> Bias:
    """Of what a device stores: a row for each residue, all elements in the top binade of `bfp4`."""
    residues = np.arange(1 << RESIDUE_BITS)[:, None] / (1 << RESIDUE_BITS)
    kept = 8 + np.arange(columns_of(numerics)) % 7  # what is rounded up still fits
    values = ((kept + residues) / 8).astype(np.float32)
    tensor = device.convert(values, tensor_class, tag=CLASS_NAMES.index(tensor_class), step=0)
    stored = cast(Readable, tensor).read().values(0)
    return Bias.of((stored * 8 - kept).mean(axis=1))


def machine(number: int, name: str) -> Config:
    """One that rounds X, W and dY by A, B and C."""
    rules = dict(zip(CLASS_NAMES, RULES, strict=True))
    document = {
        "name": f"draws{number}",
        "array": {"rows": 1, "cols": 1, "block": 4},
        "rounding": rules | KINDS[name],
    }
    return from_document(document)


def generated(config: Config) -> AbstractContextManager[Converting]:
    return Device(cached_product(config), memory_bytes=1 << 24)


Make = Callable[[Config], AbstractContextManager[Converting]]


def figures(make: Make = generated) -> Iterator[Figure]:
    """Of every kind and rule: what is defined, and what is measured of the Verilog."""
    for number, name in enumerate(KINDS):
        config = machine(number, name)
        numerics = config.numerics
        with make(config) as device:
            for tensor_class, rule in zip(CLASS_NAMES, RULES, strict=True):
                want, got = defined(numerics, rule), measured(device, numerics, tensor_class)
                within = CHANCE if numerics.rounding_kind == "counter" else 1e-12
                near = abs(want.mean - got.mean) <= within
                yield Figure(
                    what=f"{name}, {rule[-1].upper()}: bias mean, largest, variance",
                    asked=_written(want),
                    measured=_written(got),
                    met=near and abs(want.largest - got.largest) <= within,
                )


def _written(bias: Bias) -> str:
    return f"{bias.mean:+.4f} {bias.largest:.3f} {bias.variance:.3f}"
