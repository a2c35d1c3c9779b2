"""Describe networks with the names and arguments of torch.nn, without PyTorch.

    from diastole import nn

    net = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 1))
    graph = nn.trace(net, (8,), batch=64, loss="mse")

A module of your own derives from :class:`Module`, has its layers as attributes, and computes in
``forward``. :mod:`diastole.nn.functional` has the operations as functions.
"""

from typing import TYPE_CHECKING

from diastole.nn import functional
from diastole.nn.layers import (
    GELU,
    Dropout,
    Flatten,
    Identity,
    LeakyReLU,
    Linear,
    ReLU,
    Residual,
    Sequential,
    Sigmoid,
    SiLU,
    Tanh,
)
from diastole.nn.module import Module, Parameter
from diastole.nn.symbol import Symbol
from diastole.nn.tracing import trace

__all__ = [
    "GELU",
    "Dropout",
    "Flatten",
    "Identity",
    "LeakyReLU",
    "Linear",
    "Module",
    "Parameter",
    "ReLU",
    "Residual",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Symbol",
    "Tanh",
    "functional",
    "trace",
]

if not TYPE_CHECKING:  # a checker shall see which names are absent

    def __getattr__(name: str) -> object:
        """Raise AttributeError with the names of all layers."""
        kinds = [each for each in __all__ if isinstance(globals()[each], type)]
        layers = [each for each in kinds if issubclass(globals()[each], Module)]
        layers.remove("Module")
        raise AttributeError(f"diastole.nn has no {name}; the layers are {', '.join(layers)}")
