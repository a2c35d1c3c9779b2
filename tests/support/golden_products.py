"""The three products of a layer, by the golden model."""

from diastole_sim.golden.matrix_product import matrix_product
from diastole_sim.spec.operations import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT


def forward(x, w, numerics):
    """Y = X W."""
    return matrix_product(FORWARD, {"X": x, "W": w}, numerics)


def input_gradient(w, dy, numerics):
    """dX = dY W^T."""
    return matrix_product(INPUT_GRADIENT, {"W": w, "dY": dy}, numerics)


def weight_gradient(x, dy, numerics):
    """dW = X^T dY."""
    return matrix_product(WEIGHT_GRADIENT, {"X": x, "dY": dy}, numerics)
