"""Layers with the names and arguments of torch.nn."""

from collections.abc import Iterator

from diastole.nn import functional as F
from diastole.nn.module import Module, Parameter
from diastole.nn.symbol import Symbol
from diastole_sim.graph.graph import ZEROS
from diastole_sim.spec.require import require_int


class Linear(Module):
    """Fully connected layer: y = x weight^T + bias, for x of batch x ``in_features``.

    The weight (out_features, in_features) begins as He et al. (ICCV 2015) draw weights, and the
    bias (out_features) begins as zeros.
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True):
        for name, value in (("in_features", in_features), ("out_features", out_features)):
            require_int(name, value, 1, 2**24 - 1)
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter((out_features, in_features))
        self.bias = Parameter((out_features,), initial=ZEROS) if bias else None

    def forward(self, *inputs: Symbol) -> Symbol:
        (symbol,) = inputs
        return F.linear(symbol, self.weight, self.bias)


class ReLU(Module):
    """The larger of 0 and each element."""

    def forward(self, *inputs: Symbol) -> Symbol:
        return F.relu(*inputs)


class LeakyReLU(Module):
    """Each element above 0, otherwise ``negative_slope`` times the element."""

    def __init__(self, negative_slope: float = 0.01):
        self.negative_slope = negative_slope

    def forward(self, *inputs: Symbol) -> Symbol:
        return F.leaky_relu(*inputs, negative_slope=self.negative_slope)


class GELU(Module):
    """GELU in the tanh form, the only form that the machine computes."""

    def __init__(self, approximate: str = "tanh"):
        self.approximate = approximate

    def forward(self, *inputs: Symbol) -> Symbol:
        return F.gelu(*inputs, approximate=self.approximate)


class SiLU(Module):
    """Each element times the sigmoid of the element."""

    def forward(self, *inputs: Symbol) -> Symbol:
        return F.silu(*inputs)


class Sigmoid(Module):
    """1 / (1 + exp(-z)) of each element z."""

    def forward(self, *inputs: Symbol) -> Symbol:
        return F.sigmoid(*inputs)


class Tanh(Module):
    """The hyperbolic tangent of each element."""

    def forward(self, *inputs: Symbol) -> Symbol:
        return F.tanh(*inputs)


class Flatten(Module):
    """Join the axes from ``start_dim`` to ``end_dim``. The batch, axis 0, stays."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1):
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, *inputs: Symbol) -> Symbol:
        return F.flatten(*inputs, start_dim=self.start_dim, end_dim=self.end_dim)


class Dropout(Module):
    """Set each element to 0 with the probability ``p`` in training, otherwise multiply the element
    by 1 / (1 - p)."""

    def __init__(self, p: float = 0.5):
        self.p = p

    def forward(self, *inputs: Symbol) -> Symbol:
        return F.dropout(*inputs, p=self.p)


class Identity(Module):
    """Return the input."""

    def forward(self, *inputs: Symbol) -> Symbol:
        (symbol,) = inputs
        return symbol


class Sequential(Module):
    """Modules one after another. The names of the modules are their numbers."""

    def __init__(self, *modules: Module):
        self._modules = modules

    def children(self) -> Iterator[tuple[str, Module]]:
        return ((str(number), module) for number, module in enumerate(self._modules))

    def __getitem__(self, number: int) -> Module:
        return self._modules[number]

    def __len__(self) -> int:
        return len(self._modules)

    def forward(self, *inputs: Symbol) -> Symbol:
        (symbol,) = inputs
        for module in self._modules:
            symbol = module(symbol)
        return symbol


class Residual(Module):
    """Sum of ``body`` and ``shortcut``, both of the same input. Without ``shortcut`` the input
    itself is added."""

    def __init__(self, body: Module, shortcut: Module | None = None):
        self.body = body
        self.shortcut = Identity() if shortcut is None else shortcut

    def forward(self, *inputs: Symbol) -> Symbol:
        return self.body(*inputs) + self.shortcut(*inputs)
