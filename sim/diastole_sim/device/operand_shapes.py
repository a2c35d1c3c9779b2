"""Check the operands of a device before an operation begins. All devices raise ValueError with the
same messages."""

from collections.abc import Iterable, Mapping

import numpy as np

from diastole_sim.device.interface import Floats
from diastole_sim.spec.numerics import Numerics, TensorClass
from diastole_sim.spec.operations import OPERANDS, MatrixProduct


def require_matrix(array: Floats) -> None:
    """Raise ValueError unless ``array`` is a two-dimensional float32 array with no empty axis."""
    what = str(getattr(array, "dtype", type(array).__name__))
    if isinstance(array, np.ma.MaskedArray):  # the mask would be lost
        what = "masked"
    if what != "float32":
        raise ValueError(f"a tensor must be a float32 array, not {what}")
    if array.ndim != 2 or 0 in array.shape:
        shape = " x ".join(str(side) for side in array.shape)
        raise ValueError(f"a tensor must have two axes, none empty, not the shape {shape or '()'}")


def require_storage(
    what: str, chosen: TensorClass, block: int, own: TensorClass, side: int
) -> None:
    """Raise ValueError unless the storage of a tensor is the storage of a device with the class
    ``own`` and blocks of ``side``. ``what``: description of the tensor for the message."""
    if (chosen, block) != (own, side):
        raise ValueError(
            f"{what} is {_stored(chosen, block)}; this device has {_stored(own, side)}"
        )


def _stored(chosen: TensorClass, block: int) -> str:
    return (
        f"{chosen.format.name} in groups of {chosen.grouping} and blocks of {block} "
        f"({chosen.rounding}, {chosen.scale}, {chosen.overflow})"
    )


def sizes_of(shapes: Mapping[str, tuple[int, int]]) -> dict[str, int]:
    """Return M, N and K by their small letters, as far as the operands with these shapes have the
    axes.

    ValueError if two operands do not agree.
    """
    sizes: dict[str, int] = {}
    said: dict[str, str] = {}
    for tensor in OPERANDS:
        if tensor.name not in shapes:
            continue
        axes = zip(tensor.axes, shapes[tensor.name], ("rows", "columns"), strict=True)
        for axis, length, where in axes:
            what = f"the {where} of {tensor.name}"
            if sizes.setdefault(axis, length) != length:
                raise ValueError(
                    f"{said[axis]} are {sizes[axis]}, but {what} are {length}; they must be equal"
                )
            said.setdefault(axis, what)
    return sizes


def require_contractions(
    products: Iterable[MatrixProduct], sizes: Mapping[str, int], numerics: Numerics
) -> None:
    """Raise ValueError if a product sums over more elements than the accumulators can hold."""
    for product in products:
        length = sizes[product.contraction]
        if length > numerics.max_contraction:
            raise ValueError(
                f"the contraction has {length} elements, more than the "
                f"{numerics.max_contraction} that a headroom of {numerics.headroom} bits allows "
                f"(2^{numerics.headroom} blocks of {numerics.block})"
            )
