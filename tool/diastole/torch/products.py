"""A matrix product of a device as a function of autograd.

The operands are converted in the forward pass and kept as they are stored; the backward pass
converts dY and reads them again, as the hardware does.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from diastole.torch.steps import Steps, uses_of
from diastole_sim.device.interface import TAGS_PER_LAYER, DeviceProtocol
from diastole_sim.spec.check import require_int

HALVES = (torch.float16, torch.bfloat16)
MAX_LAYER = 2**29 - 1
"""Behind it tags have the bit of second copies."""
Tags = tuple[int, int, int]


@dataclass(frozen=True, kw_only=True, eq=False)
class Call:
    """A product: on which device, with which ``tags`` of X, W and dY, in which ``step``."""

    device: Any
    tags: Tags
    step: int
    steps: Steps


def matmul(
    x: torch.Tensor,
    w: torch.Tensor,
    *,
    device: DeviceProtocol,
    tags: Tags | None = None,
    step: int | None = None,
) -> torch.Tensor:
    """Y = X W on a device, with its gradients: float32 tensors of torch.

    ``x`` (..., K) and ``w`` (K, N) give (..., N): axes in front are one, so that there is one
    product. A ``w`` with more axes makes a stack of products, as ``torch.matmul`` has it. ``tags``:
    of X, W and dY in the draws of stochastic roundings; without, those of the device's next layer:
    every call is a layer of its own. ``step``: of the draws of all three, without it that of the
    device's :class:`diastole.torch.Steps`.

    Gradients that nobody asks for are not computed. Where autocast is on, float16 and bfloat16
    become float32, which holds each. TypeError for what is no tensor, no device or of another type,
    ValueError for shapes that do not agree and what else the device refuses. There are no
    gradients of gradients: RuntimeError, torch's own. ``torch.compile`` leaves it out.
    """
    return _uncompiled(x, w, device, tags, step)


def _multiply(x: Any, w: Any, device: Any, tags: Tags | None, step: int | None) -> Any:
    x, w = _taken("x", x), _taken("w", w)
    uses = uses_of(device)
    if x.device != w.device:
        raise ValueError(f"x and w must be on one torch device, not on {x.device} and {w.device}")
    if x.ndim == 0 or w.ndim < 2 or x.shape[-1] != w.shape[-2]:
        raise ValueError(
            "x must be (..., K) and w (K, N), or (..., K, N) in a stack, "
            f"not {tuple(x.shape)} and {tuple(w.shape)}"
        )
    if x.numel() == 0 or w.numel() == 0:
        raise ValueError(f"no axis may be empty, as of {tuple(x.shape)} and {tuple(w.shape)}")
    products = math.prod(torch.broadcast_shapes(x.shape[:-2], w.shape[:-2])) if w.ndim > 2 else 1
    call = Call(
        device=uses.stand_in or device,
        tags=layer_tags(uses.number(products)) if tags is None else _checked(tags),
        step=uses.steps.enter() if step is None else step,
        steps=uses.steps,
    )
    if w.ndim > 2:
        return DeviceProduct.apply(x, w, call)
    rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
    return DeviceProduct.apply(rows, w, call).reshape(*x.shape[:-1], w.shape[-1])


_uncompiled: Any = torch.compiler.disable(_multiply)
"""Else tensors would be made of numpy's arrays, with other bits."""


def layer_tags(layer: int) -> Tags:
    """Of X, W and dY of a layer with this number. ValueError if there is none."""
    first = TAGS_PER_LAYER * require_int("number", layer, 0, MAX_LAYER)
    return first, first + 1, first + 2


class DeviceProduct(torch.autograd.Function):
    """Of matrices, or of stacks of them."""

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any, call: Call) -> Any:
        result = call.device.forward(_numbers(x), _numbers(w), tags=call.tags[:2], step=call.step)
        need_x, need_w, _ = ctx.needs_input_grad
        ctx.call = call
        ctx.x = result.operands["X"] if need_w else None
        ctx.w = result.operands["W"] if need_x else None
        ctx.shapes = x.shape, w.shape
        return torch.from_numpy(result.y).to(x.device)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Any) -> tuple[Any, Any, None]:
        call = ctx.call
        call.steps.end()
        device, step, (tag_x, tag_w, tag_dy) = call.device, call.step, call.tags
        numbers, dx, dw = _numbers(dy), None, None
        if ctx.x is not None and ctx.w is not None:
            both = device.backward(ctx.x, ctx.w, numbers, tags=call.tags, step=step)
            dx, dw = both.dx, both.dw
        elif ctx.x is not None:
            dw = device.dw(ctx.x, numbers, tags=(tag_x, tag_dy), step=step).dw
        elif ctx.w is not None:
            dx = device.dx(ctx.w, numbers, tags=(tag_w, tag_dy), step=step).dx
        x, w = (
            None if each is None else torch.from_numpy(each).to(dy.device).sum_to_size(shape)
            for each, shape in zip((dx, dw), ctx.shapes, strict=True)
        )
        return x, w, None


def _numbers(tensor: Any) -> Any:
    return tensor.detach().cpu().numpy()


def _taken(name: str, given: Any) -> Any:
    if not isinstance(given, torch.Tensor):
        raise TypeError(f"{name} must be a tensor of torch, not {type(given).__name__}")
    if given.layout != torch.strided:
        raise TypeError(f"{name} must be a dense tensor, not one of layout {given.layout}")
    if given.is_nested:
        raise TypeError(
            f"{name} must be a dense tensor, not a nested one "
            "(nn.TransformerEncoder makes those unless enable_nested_tensor=False)"
        )
    if given.dtype in HALVES and torch.is_autocast_enabled(given.device.type):
        return given.float()
    if given.dtype != torch.float32:
        raise TypeError(
            f"{name} must be float32, which is what a machine reads, not {given.dtype}: "
            "convert it with .float()"
        )
    return given


def _checked(tags: Any) -> Tags:
    if len(tags) != 3:
        raise ValueError(f"tags must be 3 integers, of X, W and dY, not {tags!r}")
    return tags
