"""Run ``nn.Linear`` and ``nn.Conv2d`` on a device."""

# pyright: reportUnknownMemberType=false, reportUntypedBaseClass=false

from math import prod
from typing import Any, Self, cast

import torch
from torch import nn
from torch.nn import functional

from diastole.torch.device_products import MAX_LAYER, device_product, layer_tags, uncompiled
from diastole.torch.exact_operands import INSTEAD, exact_operands
from diastole.torch.steps import restored_uses, uses_of
from diastole_sim.device.interface import DeviceProtocol
from diastole_sim.host import host_device as host
from diastole_sim.spec.require import require_int

LAYER_ATTRIBUTES = ("machine", "origin", "number", "watching")
"""Attributes of a device layer that the replaced module does not have."""


class SharedDevice:
    """Device that copies of a model share, as the layers of the model do. Pickling keeps the number
    of layers and the step of the device."""

    def __init__(self, device: DeviceProtocol):
        self.device = device

    def __deepcopy__(self, memo: Any) -> "SharedDevice":
        return self

    def __getstate__(self) -> dict[str, Any]:
        if isinstance(self.device, host.HostDevice):
            raise TypeError(
                "a model on a machine in simulation cannot be pickled: "
                "save model.state_dict(), or diastole.torch.restore(model) first"
            )
        uses = uses_of(self.device)
        return {"device": self.device, "layers": uses.layers, "steps": uses.steps}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.device = state["device"]
        restored_uses(self.device, state["layers"], state["steps"])


class Origin:
    """Hide the original module of a layer from searches for modules."""

    def __init__(self, module: nn.Module):
        self.module = module


def empty_hook(module: nn.Module, inputs: Any) -> None:
    """Do nothing, as a hook. Without gradients and without a hook in any module,
    ``nn.TransformerEncoderLayer`` reads the weights of its layers and does not call the layers."""


class DeviceLayer(nn.Module):
    """Base class of layers on a device. ``number``: layer number, which gives the tags."""

    plain: Any
    """Torch class that the layer replaces."""
    machine: SharedDevice
    origin: Origin | None
    number: int
    watching: Any

    @classmethod
    def of(cls, module: nn.Module, *, device: DeviceProtocol, number: int | None = None) -> Self:
        """Return a layer that shares parameters, buffers, hooks and mode with ``module``."""
        own = cls.__new__(cls)
        own.__dict__.update(cast(dict[str, Any], vars(module)))
        own._place(device, number)
        own.origin = Origin(module)
        return own

    def _place(self, device: DeviceProtocol, number: int | None) -> None:
        uses, count = uses_of(device), self._products()
        self.machine = SharedDevice(device)
        self.origin = None
        self.number = uses.number(count) if number is None else number
        require_int("number", self.number, 0, MAX_LAYER + 1 - count)
        self.watching = self.register_forward_pre_hook(empty_hook)

    @property
    def device(self) -> DeviceProtocol:
        """Device of Diastole."""
        return self.machine.device

    def restored(self) -> nn.Module:
        """Return the original module with the current parameters, hooks and mode; a new module if
        the layer was made without an original module."""
        plain: Any = self.plain.__new__(self.plain) if self.origin is None else self.origin.module
        self.watching.remove()
        attributes = cast(dict[str, Any], vars(self))
        own = {name: each for name, each in attributes.items() if name not in LAYER_ATTRIBUTES}
        plain.__dict__.clear()  # drops removed attributes, as the weight by remove_weight_norm
        plain.__dict__.update(own)
        return plain

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, number={self.number}"

    def _products(self) -> int:
        """Return the number of products of the layer. Every product is a layer of the device."""
        return 1

    def __prepare_scriptable__(self) -> Any:
        """Raise RuntimeError for torch.jit.script, whose own message names functions of
        Diastole."""
        raise RuntimeError(f"torch.jit.script cannot compile a product of a device: {INSTEAD}")


class Linear(DeviceLayer, nn.Linear):
    """``nn.Linear`` with product and gradients computed by a device.

    ``device``: device of Diastole, not of torch. ``number``: layer number, which gives the tags; by
    default the next number of the device. The step is the step in :class:`diastole.torch.Steps`.
    The bias is added in float32, and the sum is rounded to the type of the result, if the type is
    narrower. Parameters are the parameters of ``nn.Linear``: W is the transpose of ``weight``.
    """

    plain = nn.Linear

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        device: DeviceProtocol,
        number: int | None = None,
    ):
        super().__init__(in_features, out_features, bias)
        self._place(device, number)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Map ``input`` (..., in_features) to (..., out_features), see
        :func:`diastole.torch.matmul`."""
        return _linear(self, input)


class Conv2d(DeviceLayer, nn.Conv2d):
    """``nn.Conv2d`` with products of the unfolded image on a device.

    X has a row for every pixel of the result, and W has a column for every channel of the result. K
    is the number of values that a pixel of the result sees: ``in_channels / groups`` times the size
    of the kernel, in the order of ``weight``. Groups are a stack of products, with consecutive
    numbers from ``number`` on. The parts of dX for a pixel of the image are added in float32. X
    takes the memory of the image times the size of the kernel, over the strides. Everything else is
    as in :class:`Linear`, and the parameters are the parameters of ``nn.Conv2d``.
    """

    plain = nn.Conv2d

    def __init__(
        self, *args: Any, device: DeviceProtocol, number: int | None = None, **options: Any
    ):
        super().__init__(*args, **options)
        self._place(device, number)

    def _products(self) -> int:
        return int(self.groups)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Convolve ``input`` (N, channels, rows, columns), or without N, as ``nn.Conv2d`` does."""
        return _convolved(self, input)


@uncompiled
def _linear(layer: Linear, arguments: torch.Tensor) -> torch.Tensor:
    x, w, kind = exact_operands(arguments, layer.weight, ("input", "weight"))
    y = device_product(x, w.t(), layer.device, layer_tags(layer.number))
    bias: Any = layer.bias
    return (y if bias is None else y + bias.float()).to(kind)


@uncompiled
def _convolved(layer: Conv2d, arguments: torch.Tensor) -> torch.Tensor:
    x, w, kind = exact_operands(arguments, layer.weight, ("input", "weight"))
    if x.ndim not in (3, 4) or x.shape[-3] != layer.in_channels:
        raise ValueError(
            f"input must be (N, {layer.in_channels}, rows, columns), or without N, "
            f"not {tuple(x.shape)}"
        )
    images = x if x.ndim == 4 else x[None]
    # Multiply the unfolded images by the kernels, a product per group.
    count, groups, channels = images.shape[0], layer.groups, layer.out_channels // layer.groups
    rows, size = _unfolded(layer, images)
    columns = w.reshape(groups, channels, rows.shape[-1]).transpose(1, 2)
    if groups == 1:
        rows, columns = rows[0], columns[0]
    y = device_product(rows, columns, layer.device, layer_tags(layer.number))
    # Restore the axes of the images, add the bias, and round.
    y = y.reshape(groups, count, *size, channels).permute(1, 0, 4, 2, 3)
    y = y.reshape(count, layer.out_channels, *size)
    bias: Any = layer.bias
    if bias is not None:
        y = y + bias.float()[:, None, None]
    y = y.to(kind).contiguous(memory_format=_memory_format(arguments, layer.weight))
    return y if arguments.ndim == 4 else y[0]


def _unfolded(layer: Conv2d, x: torch.Tensor) -> tuple[torch.Tensor, tuple[int, int]]:
    """Return the values that every pixel of the result sees (groups, N * rows * columns, K), and
    the numbers of rows and columns of the result."""
    padding: Any = layer._reversed_padding_repeated_twice
    if any(padding):
        mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
        x = functional.pad(x, padding, mode=mode)
    (high, wide), (down, across) = layer.kernel_size, layer.stride
    spans = [(side - 1) * gap + 1 for side, gap in zip((high, wide), layer.dilation, strict=True)]
    if x.shape[2] < spans[0] or x.shape[3] < spans[1]:
        raise ValueError(
            f"input must have at least the {spans[0]} x {spans[1]} pixels that the kernel spans, "
            f"not {x.shape[2]} x {x.shape[3]} with its padding"
        )
    size = (x.shape[2] - spans[0]) // down + 1, (x.shape[3] - spans[1]) // across + 1
    length = layer.in_channels // layer.groups * high * wide
    if length == 0:  # unfold refuses a length of 0
        return x.reshape(0).expand(layer.groups, x.shape[0] * prod(size), 0), size
    windows = functional.unfold(x, layer.kernel_size, layer.dilation, 0, layer.stride)
    windows = windows.reshape(x.shape[0], layer.groups, length, prod(size))
    return windows.permute(1, 0, 3, 2).reshape(layer.groups, x.shape[0] * prod(size), length), size


def _memory_format(*tensors: torch.Tensor) -> Any:
    """Return the order in memory that ``nn.Conv2d`` gives: channels last if an operand has channels
    last."""
    last = torch.channels_last
    for each in tensors:
        if each.ndim == 4 and each.is_contiguous(memory_format=last) and not each.is_contiguous():
            return last
    return torch.contiguous_format
