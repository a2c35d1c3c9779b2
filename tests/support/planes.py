"""Tensors in planes, from the definition: a magnitude of m bits is m/2 digits to the base 4, the
highest in plane 0, each beside the sign; what a group's elements are is the oracle's."""

from dataclasses import dataclass

import numpy as np

from diastole_sim.spec.image import ImageLayout, StoredCopy
from diastole_sim.spec.numerics import Numerics
from oracle import formats as oracle
from oracle.binary32 import finite

PLANE_ELEMENT_BITS = 3
COUNTER_MAX = 2**32 - 1


@dataclass(frozen=True, kw_only=True)
class PlanarTensor:
    """``images``: of each copy, its planes behind each other; ``lengths``: bytes of a plane of
    each. ``monitor``: sums of |k4 - 4 k2| and of k2. ``nan`` to ``underflowed`` as the converter
    says them."""

    images: tuple[bytes, ...]
    lengths: tuple[int, ...]
    monitor: tuple[int, int]
    nan: bool
    inf: bool
    saturated: int
    underflowed: int


def digits(code: int, planes: int) -> list[int]:
    """Of an element, by plane: a digit, and the sign above it."""
    sign, k = divmod(code, 4**planes)
    return [4 * sign + k // 4 ** (planes - 1 - i) % 4 for i in range(planes)]


def planar_tensor(array, name: str, numerics: Numerics, planes: int, data_width: int, **where):
    """A matrix of float32 as its class stores it in so many planes; ``where``: seed, tag, step."""
    converted = _quantised(array, name, numerics, 2 * planes, **where)
    images, lengths = [], []
    for copy, stored in enumerate(converted.copies):
        image = b"".join(
            plane_layout(array.shape, name, numerics, data_width, copy)
            .pack(plane_copy(stored, number, planes))
            .tobytes()
            for number in range(planes)
        )
        images.append(image)
        lengths.append(len(image) // planes)
    return PlanarTensor(
        images=tuple(images), lengths=tuple(lengths), monitor=monitored(array, name, numerics),
        **{key: getattr(converted, key) for key in ("nan", "inf", "saturated", "underflowed")},
    )  # fmt: skip


def plane_layout(shape, name, numerics, data_width, copy=0) -> ImageLayout:
    """Of one plane of a copy."""
    chosen = numerics.tensor_class(name)
    rows, cols = shape[::-1] if copy else shape
    vector = chosen.grouping.size if chosen.two_copies else None
    return ImageLayout(
        rows=rows, cols=cols, block=numerics.block, element_bits=PLANE_ELEMENT_BITS,
        data_width=data_width, vector=vector, header=False,
    )  # fmt: skip


def monitored(array, name: str, numerics: Numerics) -> tuple[int, int]:
    """Of the first copy, of what lies inside the tensor; to nearest even, whatever the class has;
    counters stop at all ones."""
    rows, cols = array.shape
    found = []
    for bits in (4, 2):
        stored = _quantised(array, name, numerics, bits, rule="nearest").copies[0].codes
        found.append([code % 2**bits for line in stored[:rows] for code in line[:cols]])
    k4, k2 = found
    num = sum(abs(a - 4 * b) for a, b in zip(k4, k2, strict=True))
    return min(num, COUNTER_MAX), min(sum(k2), COUNTER_MAX)


def _quantised(array, name, numerics, bits, rule=None, **where):
    """As block floating point of so many bits."""
    chosen = numerics.tensor_class(name)
    return oracle.quantise(
        array.tolist(), name=f"bfp{bits}", kind=chosen.grouping.kind, size=chosen.grouping.size,
        block=numerics.block, scale_rule=chosen.scale, rule=rule or chosen.rounding,
        bits=numerics.random_bits, special=numerics.special, **where,
    )  # fmt: skip


def plane_copy(stored, number: int, planes: int) -> StoredCopy:
    """One plane of a copy whose codes have all bits."""

    def small(rows):
        return np.array(rows, np.uint8)

    codes = [[digits(int(code), planes)[number] for code in line] for line in stored.codes]
    return StoredCopy(
        codes=np.array(codes, np.uint16), exponents=small(stored.exponents),
        row_max=small(stored.row_max), col_max=small(stored.col_max),
    )  # fmt: skip


def largest_magnitude(array) -> int:
    """Bits of its largest finite one that is no subnormal, as binary32."""
    numbers = [abs(float(v)) for v in array.flat if np.isfinite(v) and finite(float(v))]
    return int(np.float32(max(numbers, default=0)).view(np.uint32))
