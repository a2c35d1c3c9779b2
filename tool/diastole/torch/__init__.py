"""Train PyTorch models with the bits of a machine.

::

    import diastole.torch

    model = diastole.torch.convert(model, formats="bfp4", names=["*", "!head"])
    print(diastole.torch.report(model))   # which layers, and their part of the multiplications
    ...                                   # train as before
    model = diastole.torch.restore(model) # the layers that the model had, trained

``matmul``, ``Linear`` and ``Conv2d`` run products on a ``diastole.GoldenDevice`` or a
``diastole.Device``, with the gradients that the hardware computes. Every operand is converted once,
in the forward pass, and read again in the backward pass. ``convert`` swaps the ``nn.Linear`` and
``nn.Conv2d`` layers of a model, ``restore`` undoes the swap, and ``compare`` trains copies of a
model in several formats. ``TorchGoldenDevice`` is a ``diastole.GoldenDevice`` that runs exact
products in torch, on any device of torch.

*Types.* Operands in bfloat16 and float16 are read exactly. Results and gradients of the device are
float32 and are rounded once, to the type that torch would give: the type of the operands, or the
type of autocast.

*Random bits* of stochastic roundings are functions of (seed, tag, step). The seed is the seed of
the device. A layer with number n has the tags 4 n, 4 n + 1 and 4 n + 2 for X, W and dY. Layers of a
device are numbered from 0, in the order of their creation. Every group of a ``Conv2d`` has a
number. The step is the step in the device's ``Steps``, from 0. The first forward pass after a
backward pass begins the next step. A second forward pass before a backward pass therefore has the
random bits of the first pass. Gradient checkpointing repeats the random bits too: forward passes
within a backward pass begin no step.
"""

try:
    import torch as _torch
except ImportError as error:
    raise ImportError(
        "diastole.torch needs PyTorch, which is not installed: pip install diastole[torch]"
    ) from error

from diastole.torch.comparison import Comparison, compare
from diastole.torch.coverage import Report, report
from diastole.torch.device_layers import Conv2d, Linear
from diastole.torch.device_products import matmul
from diastole.torch.exact import TorchGoldenDevice
from diastole.torch.steps import Steps, steps
from diastole.torch.swaps import convert, restore

__all__ = [
    "Comparison",
    "Conv2d",
    "Linear",
    "Report",
    "Steps",
    "TorchGoldenDevice",
    "compare",
    "convert",
    "matmul",
    "report",
    "restore",
    "steps",
]

del _torch
