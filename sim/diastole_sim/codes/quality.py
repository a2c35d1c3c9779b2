"""Compare products of converted tensors with products of the original tensors.

The products are the machine's, bit for bit. Errors are measured against plain float64. A mean over
a result hides lost rows and columns, so the worst row and the worst column are reported too.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from diastole_sim.device.interface import Floats
from diastole_sim.golden.convert import Quantised
from diastole_sim.golden.matrix_product import ResultTensor, matrix_product
from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.operations import PRODUCTS

Doubles: TypeAlias = NDArray[np.float64]

LARGEST = float(np.finfo(np.float32).max)
TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, kw_only=True)
class Worst:
    """Row or column of a result with the lowest ratio of signal to noise: ``index`` from 0, ratio
    in dB."""

    index: int
    snr_db: float


@dataclass(frozen=True, kw_only=True)
class ResultQuality:
    """Quality of a result, compared with the float64 product of the unconverted float32 operands.

    ``counted``: number of compared elements. Elements that NaN or Inf reach in float64 are not
    compared. ``snr_db``: power of the exact elements over the power of the error, in decibels; None
    if no element has an error, or no element is compared. ``row``, ``column``: the worst row and
    column; None if no row, or column, has an error. Rows and columns of exact zeros have no ratio.
    ``exact``, ``overflow``: as in :class:`diastole_sim.device.interface.ProductResult`.
    """

    counted: int
    snr_db: float | None
    row: Worst | None
    column: Worst | None
    exact: bool
    overflow: bool


def plain_products(tensors: Mapping[str, Floats]) -> dict[str, Doubles]:
    """Return Y, dX and dW in float64: the products whose factors ``X``, ``W`` and ``dY`` are in
    ``tensors``."""
    wide = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}
    results: dict[str, Doubles] = {}
    with np.errstate(invalid="ignore"):  # Inf and NaN do not count
        if {"X", "W"} <= set(wide):
            results["Y"] = wide["X"] @ wide["W"]
        if {"W", "dY"} <= set(wide):
            results["dX"] = wide["dY"] @ wide["W"].T
        if {"X", "dY"} <= set(wide):
            results["dW"] = wide["X"].T @ wide["dY"]
    return results


def product_qualities(
    plain: Mapping[str, Doubles], converted: Mapping[str, Quantised], numerics: Numerics
) -> dict[str, ResultQuality]:
    """Return the quality of every product in ``plain``, from converted factors by name. ValueError
    as in :func:`diastole_sim.golden.matrix_product.matrix_product`."""
    return {
        name: result_quality(exact, matrix_product(PRODUCTS[name], converted, numerics))
        for name, exact in plain.items()
    }


def result_quality(plain: Doubles, result: ResultTensor) -> ResultQuality:
    """Return the quality of ``result`` against ``plain`` of equal shape. Inf counts as the largest
    float32."""
    counted = np.isfinite(plain) & ~np.isnan(result.values)
    stored = np.clip(result.values.astype(np.float64), -LARGEST, LARGEST)
    signal = np.square(np.where(counted, plain, 0.0))
    noise = np.square(np.subtract(plain, stored, out=np.zeros_like(plain), where=counted))
    return ResultQuality(
        counted=int(np.count_nonzero(counted)),
        snr_db=_decibels(float(signal.sum()), float(noise.sum())),
        row=_worst(signal.sum(axis=1), noise.sum(axis=1)),
        column=_worst(signal.sum(axis=0), noise.sum(axis=0)),
        exact=result.exact,
        overflow=result.overflow,
    )


def _worst(signal: Doubles, noise: Doubles) -> Worst | None:
    candidates = np.flatnonzero((signal > 0) & (noise > 0))
    if not candidates.size:
        return None
    index = int(candidates[np.argmin(signal[candidates] / noise[candidates])])
    decibels = _decibels(float(signal[index]), float(noise[index]))
    assert decibels is not None
    return Worst(index=index, snr_db=decibels)


def _decibels(signal: float, noise: float) -> float | None:
    """Return a ratio in decibels. None without an error; without a signal, a very low number."""
    return 10 * (math.log10(signal or TINY) - math.log10(noise)) if noise else None
