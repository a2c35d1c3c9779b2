"""Modes of the array, as hardware numbers the modes."""

from amaranth.lib import enum

from diastole_sim.spec.operations import OPERATIONS, MatrixProduct


class Mode(enum.Enum, shape=2):
    """Mode of the array: a forward product, dX, dW, or the fused pass of dX and dW."""

    FORWARD = 0
    DX = 1
    DW = 2
    FUSED = 3


OPERATION_OF = {
    Mode.FORWARD: OPERATIONS["forward"],
    Mode.DX: OPERATIONS["dx"],
    Mode.DW: OPERATIONS["dw"],
    Mode.FUSED: OPERATIONS["backward"],
}
"""Operation of each mode."""
PRODUCTS = tuple(mode for mode, does in OPERATION_OF.items() if len(does.products) == 1)
"""Modes with a single product."""


def product_of(mode: Mode) -> MatrixProduct:
    """Return the single product of ``mode``."""
    (product,) = OPERATION_OF[mode].products
    return product
