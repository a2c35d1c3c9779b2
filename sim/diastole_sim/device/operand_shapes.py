"""Check the operands of a device before an operation begins. All devices raise ValueError with the
same messages."""

from collections.abc import Iterable, Mapping

import numpy as np

from diastole_sim.device.interface import Floats
from diastole_sim.spec.formats import Format
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
        raise ValueError(
            "a tensor must be a matrix with at least one row and one column; the shape is "
            f"{shape or '()'}"
        )


def require_storage(
    name: str, storage: TensorClass, block: int, device_storage: TensorClass, device_block: int
) -> None:
    """Raise ValueError unless the storage of a tensor is the storage of a device with the class
    ``device_storage`` and blocks of ``device_block``. ``name``: description of the tensor for the
    message."""
    if (storage, block) != (device_storage, device_block):
        raise ValueError(
            f"{name} is stored as {_stored(storage, block)}, but "
            f"this device stores "
            f"{_stored(device_storage, device_block)}"
        )


def _stored(storage: TensorClass, block: int) -> str:
    return (
        f"{_named(storage.format)} in groups of {storage.grouping} and blocks of {block} "
        f"({storage.rounding}, {storage.scale}, {storage.overflow})"
    )


def _named(kind: Format) -> str:
    """Return the name of a format, with the width where the format has several widths."""
    return f"{kind.name} of {kind.fraction_bits} bits" if kind.planes else kind.name


def sizes_of(shapes: Mapping[str, tuple[int, int]]) -> dict[str, int]:
    """Return M, N and K by their small letters, as far as the operands with these shapes have the
    axes.

    ValueError if two operands do not agree.
    """
    sizes: dict[str, int] = {}
    names: dict[str, str] = {}
    for tensor in OPERANDS:
        if tensor.name not in shapes:
            continue
        axes = zip(tensor.axes, shapes[tensor.name], ("rows", "columns"), strict=True)
        for axis, length, where in axes:
            what = f"the number of {where} of {tensor.name}"
            if sizes.setdefault(axis, length) != length:
                raise ValueError(
                    f"{names[axis]} is {sizes[axis]}, but {what} is {length}; the two "
                    "numbers must be equal"
                )
            names.setdefault(axis, what)
    return sizes


def require_contractions(
    products: Iterable[MatrixProduct], sizes: Mapping[str, int], numerics: Numerics
) -> None:
    """Raise ValueError if a product sums over more elements than the accumulators can hold."""
    for product in products:
        length = sizes[product.contraction]
        if length > numerics.max_contraction:
            raise ValueError(
                f"the contraction has {length} elements, but a headroom of "
                f"{numerics.headroom} allows at most {numerics.max_contraction} "
                f"(2^{numerics.headroom} blocks of {numerics.block}); raise "
                "accumulator.headroom"
            )
