"""Operations as functions of symbols, with the names and arguments of torch.nn.functional."""

from diastole.nn.module import Parameter
from diastole.nn.symbol import Symbol


def linear(input: Symbol, weight: Parameter, bias: Parameter | None = None) -> Symbol:
    """Return input weight^T + bias, for an input of batch x features."""
    return input.apply("linear", weight, *(() if bias is None else (bias,)))


def relu(input: Symbol) -> Symbol:
    """Return the larger of 0 and each element."""
    return input.apply("relu")


def leaky_relu(input: Symbol, negative_slope: float = 0.01) -> Symbol:
    """Return each element above 0, otherwise ``negative_slope`` times the element."""
    return input.apply("leaky_relu", negative_slope=float(negative_slope))


def gelu(input: Symbol, approximate: str = "tanh") -> Symbol:
    """Return GELU in the tanh form, the only form that the machine computes."""
    return input.apply("gelu", approximate=approximate)


def silu(input: Symbol) -> Symbol:
    """Return each element times the sigmoid of the element."""
    return input.apply("silu")


def sigmoid(input: Symbol) -> Symbol:
    """Return 1 / (1 + exp(-z)) of each element z."""
    return input.apply("sigmoid")


def tanh(input: Symbol) -> Symbol:
    """Return the hyperbolic tangent of each element."""
    return input.apply("tanh")


def flatten(input: Symbol, start_dim: int = 1, end_dim: int = -1) -> Symbol:
    """Return the tensor with the axes ``start_dim`` to ``end_dim`` as one axis. The batch stays."""
    return input.apply("flatten", start_dim=start_dim, end_dim=end_dim)


def dropout(input: Symbol, p: float = 0.5) -> Symbol:
    """Return, in training, 0 with the probability ``p``, otherwise the element / (1 - p)."""
    return input.apply("dropout", p=float(p))


def cross_entropy(input: Symbol, target: Symbol) -> Symbol:
    """Return the mean cross-entropy of logits (batch, classes) and labels (batch)."""
    return input.apply("cross_entropy", target)


def mse_loss(input: Symbol, target: Symbol) -> Symbol:
    """Return the mean of the squared differences."""
    return input.apply("mse_loss", target)


def l1_loss(input: Symbol, target: Symbol) -> Symbol:
    """Return the mean of the absolute differences."""
    return input.apply("l1_loss", target)


def smooth_l1_loss(input: Symbol, target: Symbol, beta: float = 1.0) -> Symbol:
    """Return the mean of d^2 / (2 beta) where |d| < ``beta``, otherwise |d| - beta / 2."""
    return input.apply("smooth_l1_loss", target, beta=float(beta))
