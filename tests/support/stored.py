"""Stored tensors that no converter made: any code and any exponent that a tensor class allows.

The two copies of a class in vector groups are drawn apart, so that a product which reads the wrong
one is seen.
"""

import numpy as np

from diastole_sim.golden.convert import Quantised
from diastole_sim.golden.copies import Copy
from support import numerics

NAN_BYTES = {"e4m3": 0x7F}
"""Stored exponent of a group that is not a number, by kind of scale; 255 elsewhere."""


def make_numerics(x, w=None, dy=None, *, block=4, fraction=18, headroom=9, **options):
    """Numerics from formats: a name, or (name, grouping); ``w``, ``dy`` are as ``x`` if absent."""
    pairs = [(given, None) if isinstance(given, str) else given for given in (x, w or x, dy or x)]
    formats, groupings = zip(*pairs, strict=True)
    sizes = {"block": block, "fraction": fraction, "headroom": headroom}
    return numerics.make_numerics(
        formats=formats, groupings=groupings, roundings="nearest", **sizes, **options
    )


class Draws:
    """Random stored tensors of a device with ``numerics``.

    ``spread``: group exponents lie within as many binades of 0 (NVFP4: scale codes of any size).
    ``deep``: chance of an element far below the top of its group. ``specials``: chance of a NaN or
    Inf code, where there is one; ``nans``: of a group that is not a number.
    """

    def __init__(self, rng, numerics, *, spread=2, deep=0.3, specials=0.0, nans=0.0):
        self.rng, self.numerics, self.spread = rng, numerics, spread
        self.deep, self.specials, self.nans = deep, specials, nans

    def tensors(self, m, k, n):
        """X, W and dY."""
        shapes = {"x": (m, k), "w": (k, n), "dy": (m, n)}
        return tuple(self.tensor(name, shape) for name, shape in shapes.items())

    def tensor(self, name, shape):
        chosen = self.numerics.tensor_class(name)
        copies = [self._copy(chosen, shape, transposed=False)]
        if chosen.two_copies:
            copies.append(self._copy(chosen, shape[::-1], transposed=True))
        two_level = chosen.format.scale == "e4m3"
        return stored(
            name, self.numerics, shape, copies, int(self.rng.integers(-9, 9)) if two_level else None
        )

    def _copy(self, chosen, shape, *, transposed):
        block, kind = self.numerics.block, chosen.format
        blocks = [-(-side // block) for side in shape]
        padded = [side * block for side in blocks]
        down, along = (1, chosen.grouping.size) if chosen.two_copies else (block, block)
        bytes_ = self._bytes(kind, (padded[0] // down, -(-padded[1] // along)))
        if chosen.grouping.kind == "square":
            bytes_ = shared(bytes_, chosen.grouping.size // block)
        codes = np.zeros(padded, np.uint16)
        codes[: shape[0], : shape[1]] = self.codes(kind, shape)
        spread = bytes_.repeat(down, 0).repeat(along, 1)[: padded[0], : padded[1]]
        finite = (codes & (2**kind.magnitude_bits - 1)) <= kind.max_code
        codes[(spread == 0) & finite] = 0
        return finish(chosen, codes, bytes_, shape, transposed=transposed)

    def _bytes(self, kind, shape):
        if kind.scale == "e4m3":
            chosen = self.rng.integers(1, 0x7F, shape)
        else:
            chosen = 127 + self.rng.integers(-self.spread, self.spread + 1, shape)
        chosen[self.rng.random(shape) < 0.1] = 0
        chosen[self.rng.random(shape) < self.nans] = NAN_BYTES.get(kind.scale, 255)
        return chosen.astype(np.uint8)

    def codes(self, kind, shape):
        """Stored elements of a format."""
        top = self.rng.integers(
            max(1, kind.max_code - (2 << kind.precision)), kind.max_code + 1, shape
        )
        any_ = self.rng.integers(0, kind.max_code + 1, shape)
        codes = np.where(self.rng.random(shape) < self.deep, any_, top)
        if kind.overflow_code is not None:
            special = self.rng.integers(kind.overflow_code, 2**kind.magnitude_bits, shape)
            codes = np.where(self.rng.random(shape) < self.specials, special, codes)
        signs = self.rng.integers(0, 2, shape)
        signs[(codes == 0) & (not kind.signed_zero)] = 0
        return (codes | signs << kind.magnitude_bits).astype(np.uint16)


def shared(bytes_, times):
    """The same byte in squares of ``times`` x ``times``."""
    first = bytes_[::times, ::times]
    return first.repeat(times, 0).repeat(times, 1)[: bytes_.shape[0], : bytes_.shape[1]]


def finish(chosen, codes, bytes_, shape, *, transposed=False):
    """A copy, with its maxima."""
    numbers = np.where(bytes_ == NAN_BYTES.get(chosen.format.scale, 255), 0, bytes_)
    return Copy(
        transposed=transposed,
        shape=tuple(shape),
        codes=codes.astype(np.uint16),
        exponents=bytes_.astype(np.uint8),
        row_max=numbers.max(axis=1).astype(np.uint8),
        col_max=numbers.max(axis=0).astype(np.uint8)[: 0 if chosen.two_copies else None],
        folds=np.zeros_like(bytes_, dtype=np.uint8),
    )


def stored(name, numerics, shape, copies, tensor_exponent=None):
    """A tensor of these copies; its counts are 0."""
    return Quantised(
        shape=tuple(shape),
        tensor_class=name,
        storage=numerics.tensor_class(name),
        block=numerics.block,
        copies=tuple(copies),
        tensor_exponent=tensor_exponent,
        amax=0,
        nan=False,
        inf=False,
        saturated=0,
        underflowed=0,
    )


def by_hand(name, numerics, codes, bytes_, tensor_exponent=None):
    """A tensor of whole blocks from its stored elements and exponents; squares or ``tensor``."""
    codes, bytes_ = np.array(codes, np.uint16), np.array(bytes_, np.uint8)
    copy = finish(numerics.tensor_class(name), codes, bytes_, codes.shape)
    return stored(name, numerics, codes.shape, [copy], tensor_exponent)
