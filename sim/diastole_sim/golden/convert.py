"""Convert a float32 tensor to elements in groups that share a scale.

All decisions are made on integers: the exponent fields and 24-bit significands of binary32.
Subnormals of binary32 count as zeros throughout. This module converts the tensor and finds the
tensor's scale. ``copies`` converts every stored copy, ``element`` rounds, ``magnitudes`` encodes
and folds elements, and :mod:`diastole_sim.spec.scales` has the rules from a largest magnitude to an
exponent.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from diastole_sim.device.conversion import Conversion
from diastole_sim.device.interface import Floats
from diastole_sim.device.operand_shapes import require_matrix
from diastole_sim.golden.copies import Copy, Counts, Fields, convert_copy, copy_values
from diastole_sim.golden.element_draws import element_draws
from diastole_sim.golden.improvement import Improvement, improvements
from diastole_sim.golden.partition import nonzeros
from diastole_sim.golden.random import DrawKey
from diastole_sim.spec.numerics import Numerics, TensorClass
from diastole_sim.spec.operations import OPERAND_BY_CLASS
from diastole_sim.spec.require import require_int
from diastole_sim.spec.rounding import is_stochastic
from diastole_sim.spec.scales import amax_exponent


@dataclass(frozen=True, kw_only=True, eq=False)
class Quantised:
    """Tensor as stored; a :class:`diastole_sim.device.interface.ConvertedTensor`.

    - ``shape``: numbers of rows and columns, without padding.
    - ``copies``: one copy, or with vector groups two copies, of the tensor and of its transpose.
    - ``tensor_exponent``: exponent e of the top binade of the tensor's scale, or T of NVFP4; None
      if the tensor has no scale.
    - ``amax``: bits of the largest finite magnitude as binary32, 0 if no element is finite and
      nonzero.
    - ``nan``, ``inf``: True if the data held a NaN or an Inf, or if a finite element became NaN or
      Inf by the class's ``specification``.
    - ``saturated``: finite elements beyond the largest element.
    - ``underflowed``: finite nonzero elements that are stored as zeros.
    - ``improvement``: improvement of 4 bits over 2 bits in the format ``fast``, else None.

    ``saturated`` and ``underflowed`` count over all copies, without the groups that are not
    numbers.
    """

    shape: tuple[int, int]
    tensor_class: str
    storage: TensorClass
    block: int
    copies: tuple[Copy, ...]
    tensor_exponent: int | None
    amax: int
    nan: bool
    inf: bool
    saturated: int
    underflowed: int
    improvement: Improvement | None = None

    @property
    def width(self) -> int | None:
        """Bits of a magnitude that were chosen for the tensor in the format ``fast``, else None."""
        return self.storage.format.fraction_bits if self.storage.format.planes else None

    @property
    def stored(self) -> int:
        """Number of elements over all copies."""
        return len(self.copies) * math.prod(self.shape)

    def read(self) -> "Quantised":
        """Return the tensor as stored: the object itself."""
        return self

    def values(self, copy: int = 0) -> Floats:
        """Return the numbers of a copy in the tensor's own orientation; see
        ``copies.copy_values``."""
        stored = self.copies[copy]
        values = copy_values(stored, self.storage, self.block, self.tensor_exponent)
        return np.ascontiguousarray(values.T) if stored.transposed else values

    def copy_values(self) -> dict[str, Floats]:
        """Return :meth:`values` of every copy, by the axis of the copy's groups. The key is ``""``
        if only one copy exists."""
        names = OPERAND_BY_CLASS[self.tensor_class].copy_names if len(self.copies) > 1 else ("",)
        return {name: self.values(number) for number, name in enumerate(names)}


def quantise(array: Floats, request: Conversion, numerics: Numerics, *, seed: int) -> Quantised:
    """Convert a float32 array of at least 1 x 1 elements as the class specifies.

    A group's exponent follows from the group's largest finite magnitude by the rule of the class,
    or all groups share the exponent of the tensor. The exponent of the tensor is ``scale`` (e, or T
    of NVFP4), or follows from the largest magnitude of the whole tensor. Every element is rounded
    once by the rule of the class, with the draw of the element's place in the untransposed tensor.

    An element beyond the largest representable element becomes the largest, or, with
    ``specification`` and ``poison``, the format's Inf or NaN. With ``flag`` NaN becomes +0 and Inf
    becomes the largest element. In a group whose other elements give no exponent, Inf becomes a
    zero. If the tensor has an exponent, Inf is always the largest element. With ``poison`` NaN and
    Inf become the codes of NaN and Inf; if the format has no such codes, their whole group is not a
    number. Zeros keep a sign if the format has signed zeros.

    ``width``: bits of a magnitude in the format ``fast``; None for the widest. ValueError for any
    other array, and if ``scale`` or ``width`` is out of range or does not belong to the class.
    """
    require_matrix(array)
    (converted,) = quantise_stack(array[None], (request,), numerics, seed=seed)
    return converted


def quantise_stack(
    arrays: Floats, requests: Sequence[Conversion], numerics: Numerics, *, seed: int
) -> list[Quantised]:
    """Convert every matrix of ``arrays`` (count, rows, columns) as :func:`quantise` does.
    ``requests``: one request per matrix. The requests differ in tags, and in scales if the class
    has tensor scales."""
    first = requests[0]
    tensor_class = first.tensor_class
    storage = numerics.converted_class(tensor_class, first.width)
    fields = Fields.of(arrays)
    _, rows, columns = arrays.shape
    amax: list[int] = fields.finite.max(axis=(1, 2)).tolist()
    exponents = [
        _tensor_exponent(storage, largest, each.scale)
        for largest, each in zip(amax, requests, strict=True)
    ]
    of_tensors = None if None in exponents else np.array(exponents)[:, None, None]
    key = DrawKey(seed=seed, tags=tuple(each.tag for each in requests), step=first.step)
    done: list[tuple[Copy, Counts]] = []
    for transposed in (False, True)[: 1 + storage.two_copies]:
        draws: NDArray[np.int32] = np.zeros((1, 1, 1), dtype=np.int32)
        if is_stochastic(storage.rounding):
            draws = element_draws(fields.finite, numerics, replace(key, second=transposed))
        done.append(convert_copy(fields, draws, numerics, first, of_tensors, transposed))
    improved = improvements(fields, numerics, tensor_class) if storage.format.planes else None
    saturated = np.sum([counts.saturated for _, counts in done], axis=0)
    nan, inf = (nonzeros(special) != 0 for special in (fields.nan, fields.inf))
    if numerics.flags_overflow(tensor_class):
        nan |= (saturated != 0) & (storage.format.specials == "nan")
        inf |= (saturated != 0) & (storage.format.specials == "ieee")
    underflowed = np.sum([counts.underflowed for _, counts in done], axis=0).tolist()
    return [
        Quantised(
            shape=(rows, columns),
            tensor_class=tensor_class,
            storage=storage,
            block=numerics.block,
            copies=tuple(copy.matrix(index) for copy, _ in done),
            tensor_exponent=exponents[index],
            amax=amax[index],
            nan=bool(nan[index]),
            inf=bool(inf[index]),
            saturated=int(saturated[index]),
            underflowed=underflowed[index],
            improvement=improved[index] if improved else None,
        )
        for index in range(len(requests))
    ]


def _tensor_exponent(storage: TensorClass, amax: int, exponent: int | None) -> int | None:
    if not storage.has_tensor_scale:
        if exponent is not None:
            name, grouping = storage.format.name, storage.grouping
            raise ValueError(
                f"scale must be left out: {name} in groups {grouping} has no scale of the "
                "whole tensor"
            )
        return None
    if exponent is None:
        return amax_exponent(amax, storage)
    return require_int("scale", exponent, *storage.format.tensor_exponents)
