"""The four uses of the array, as hardware numbers them."""

from amaranth.lib import enum

from diastole_sim.spec.operations import OPERATIONS, MatrixProduct


class Mode(enum.Enum, shape=2):
    """The four uses of the array."""

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
"""What each mode does."""
PRODUCTS = tuple(mode for mode, does in OPERATION_OF.items() if len(does.products) == 1)
"""The modes that are one product."""


def product_of(mode: Mode) -> MatrixProduct:
    """Of a mode that is one product."""
    (product,) = OPERATION_OF[mode].products
    return product
