"""The converter: a float32 tensor to square blocks that share an exponent."""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from diastole_sim.device_api import Floats
from diastole_sim.formats import EXPONENT_BIAS, BlockFormat
from diastole_sim.numerics import Numerics
from diastole_sim.random import tensor_draws
from diastole_sim.rounding import is_stochastic, round_magnitude

Scalar = TypeVar("Scalar", bound=np.generic)

SIGNIFICAND_BITS = 24
"""Of binary32, the hidden bit included."""
SPECIAL_EXPONENT = 255
"""Exponent field of Inf and NaN."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Quantised:
    """A tensor in blocks; a :class:`diastole_sim.device_api.ConvertedTensor`.

    ``shape``: rows and columns, unpadded. ``magnitudes`` (0..max) and ``negative``: elements,
    padded with zeros to RB x CB whole blocks of side ``block``; a zero is never negative.
    ``exponents``: RB x CB stored exponents (e + 127, 1..254; 0 for a block of zeros). ``row_max``
    (RB) and ``col_max`` (CB): the largest of each row and column of them. ``nan``, ``inf``: whether
    the data held one. ``saturated``: finite elements whose rounded magnitude did not fit.
    """

    shape: tuple[int, int]
    tensor_class: str
    format: BlockFormat
    block: int
    magnitudes: NDArray[np.uint8]
    negative: NDArray[np.bool_]
    exponents: NDArray[np.uint8]
    row_max: NDArray[np.uint8]
    col_max: NDArray[np.uint8]
    nan: bool
    inf: bool
    saturated: int

    def signed(self) -> NDArray[np.float64]:
        """Sign and magnitude as one integer per element, padded; exact in float64."""
        magnitudes = self.magnitudes.astype(np.float64)
        return np.where(self.negative, -magnitudes, magnitudes)

    def values(self) -> Floats:
        """The stored numbers, unpadded: (-1)^s * mag * 2^(e - point).

        Each is exact in float32. Those of a block with an exponent near -126 may be subnormal.
        """
        scale = self.exponents.astype(np.int32) - (EXPONENT_BIAS + self.format.point)
        rows, columns = self.shape
        values = np.ldexp(self.signed(), expand(scale, self.block))[:rows, :columns]
        return values.astype(np.float32)


def quantise(
    array: Floats, tensor_class: str, numerics: Numerics, *, seed: int, tag: int, step: int
) -> Quantised:
    """Convert a float32 array of at least 1 x 1 as its class says.

    A block's exponent is the largest exponent field of its finite elements. An element's magnitude
    is |x| / 2^(e - m + 1), rounded once by the class's rule with the element's own draw; above
    2^m - 1 it saturates and is counted. Subnormals count as zero. NaN becomes +0; Inf becomes the
    largest magnitude with its sign, uncounted; neither counts for the exponent. A block without a
    finite element that is not zero is a block of zeros. ValueError if the array is no such array.
    """
    require_matrix(array)
    chosen = numerics.tensor_class(tensor_class)
    block, (rows, columns) = numerics.block, array.shape
    bits = _padded(array, block).view(np.uint32)
    field = (bits >> 23).astype(np.int64) & 0xFF
    fraction = (bits & 0x7FFFFF).astype(np.int64)
    special = field == SPECIAL_EXPONENT
    infinite = special & (fraction == 0)
    exponents = _block_max(np.where(special, 0, field), block)

    shared = expand(exponents, block)
    significand = np.where(special | (field == 0), 0, fraction | 1 << (SIGNIFICAND_BITS - 1))
    shift = chosen.format.kept_shift(SIGNIFICAND_BITS) + np.maximum(shared - field, 0)
    draws: NDArray[np.int64] = np.zeros((1, 1), dtype=np.int64)
    if is_stochastic(chosen.rounding):
        draws = np.zeros(bits.shape, dtype=np.int64)
        draws[:rows, :columns] = tensor_draws(
            rows, columns, seed=seed, tag=tag, step=step, bits=numerics.random_bits
        )
    rounded = round_magnitude(chosen.rounding, significand, shift, draws, numerics.random_bits)
    largest = chosen.format.max_magnitude
    magnitudes = np.minimum(rounded, largest)
    magnitudes[infinite & (shared != 0)] = largest
    return Quantised(
        shape=(rows, columns),
        tensor_class=tensor_class,
        format=chosen.format,
        block=block,
        magnitudes=_frozen(magnitudes.astype(np.uint8)),
        negative=_frozen((bits >> 31 == 1) & (magnitudes != 0)),
        exponents=_frozen(exponents.astype(np.uint8)),
        row_max=_frozen(exponents.max(axis=1).astype(np.uint8)),
        col_max=_frozen(exponents.max(axis=0).astype(np.uint8)),
        nan=bool((special & ~infinite).any()),
        inf=bool(infinite.any()),
        saturated=int((rounded > largest).sum()),
    )


def require_matrix(array: Floats) -> None:
    """ValueError unless ``array`` is a two-dimensional float32 array with no empty axis."""
    what = str(getattr(array, "dtype", type(array).__name__))
    if what != "float32":
        raise ValueError(f"a tensor must be a float32 array, not {what}")
    if array.ndim != 2 or 0 in array.shape:
        shape = " x ".join(str(side) for side in array.shape)
        raise ValueError(f"a tensor must have two axes, none empty, not the shape {shape or '()'}")


def expand(per_block: NDArray[Scalar], block: int) -> NDArray[Scalar]:
    """Repeat every entry ``block`` times along both axes: from one per block to one per element."""
    return per_block.repeat(block, axis=0).repeat(block, axis=1)


def _padded(array: Floats, block: int) -> Floats:
    rows, columns = (-(-side // block) * block for side in array.shape)
    padded = np.zeros((rows, columns), dtype=np.float32)
    padded.view(np.uint32)[: array.shape[0], : array.shape[1]] = array.view(np.uint32)
    return padded


def _block_max(field: NDArray[np.int64], block: int) -> NDArray[np.int64]:
    rows, columns = (side // block for side in field.shape)
    return field.reshape(rows, block, columns, block).max(axis=(1, 3))


def _frozen(array: NDArray[Scalar]) -> NDArray[Scalar]:
    array.flags.writeable = False
    return array
