"""Training in PyTorch with the bits of a machine.

::

    import diastole.torch

    swapped = diastole.torch.convert(model, formats="bfp4", names="layers.*")
    print(swapped)                        # what was swapped, with the numbers of its draws
    ...                                   # train as before

``matmul`` and ``Linear`` are products of a ``diastole.GoldenDevice`` or a ``diastole.Device``, with
the gradients that its hardware computes: each operand is converted once, in the forward pass, and
read again in the backward pass. ``convert`` swaps the ``nn.Linear`` of a model, ``compare`` trains
copies of it in several formats. ``TorchGoldenDevice`` is a ``diastole.GoldenDevice`` whose exact
products run in torch, on any of its devices.

*Draws* of stochastic roundings are functions of (seed, tag, step). The seed is the device's. The
tags of a ``Linear`` with number n are 4 n, 4 n + 1 and 4 n + 2 for X, W and dY: layers of one
device count from 0, in the order in which they are made. The step is that of the device's
``Steps``, from 0: the first forward pass after a backward pass begins the next one. So a second
forward pass before that has the bits of the first: by gradient checkpointing too, whose forward
passes within the backward pass begin nothing.
"""

try:
    import torch as _torch
except ImportError as error:
    raise ImportError(
        "diastole.torch needs PyTorch, which is not installed: pip install diastole[torch]"
    ) from error

from diastole.torch.comparison import Comparison, compare
from diastole.torch.exact import TorchGoldenDevice
from diastole.torch.layers import Linear, Swapped, convert
from diastole.torch.products import matmul
from diastole.torch.steps import Steps, steps

__all__ = [
    "Comparison",
    "Linear",
    "Steps",
    "Swapped",
    "TorchGoldenDevice",
    "compare",
    "convert",
    "matmul",
    "steps",
]

del _torch
