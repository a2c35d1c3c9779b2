"""Training in PyTorch with the bits of a machine.

::

    import diastole.torch

    model = diastole.torch.convert(model, formats="bfp4", names=["*", "!head"])
    print(diastole.torch.report(model))   # which layers, and their part of the multiplications
    ...                                   # train as before
    model = diastole.torch.restore(model) # the layers that the model had, trained

``matmul``, ``Linear`` and ``Conv2d`` are products of a ``diastole.GoldenDevice`` or a
``diastole.Device``, with the gradients that its hardware computes: each operand is converted once,
in the forward pass, and read again in the backward pass. ``convert`` swaps the ``nn.Linear`` and
``nn.Conv2d`` of a model, ``restore`` undoes it, ``compare`` trains copies of a model in several
formats. ``TorchGoldenDevice`` is a ``diastole.GoldenDevice`` whose exact products run in torch, on
any of its devices.

*Types.* Operands in bfloat16 and float16 are read exactly. Results and gradients of the device are
float32 and are rounded once, to the type that torch would give: that of the operands, or of
autocast.

*Draws* of stochastic roundings are functions of (seed, tag, step). The seed is the device's. The
tags of a layer with number n are 4 n, 4 n + 1 and 4 n + 2 for X, W and dY: layers of one
device count from 0, in the order in which they are made; each group of a ``Conv2d`` has a number.
The step is that of the device's
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
