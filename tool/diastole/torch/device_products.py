"""A matrix product of a device as a function of autograd.

The operands are converted in the forward pass and kept as they are stored; the backward pass
converts dY and reads them again, as the hardware does.
"""

import inspect
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from diastole.torch.exact_operands import INSTEAD, exact_operands
from diastole.torch.multiplications import is_dry, on_device
from diastole.torch.steps import Uses, uses_of
from diastole_sim.device.interface import TAGS_PER_LAYER, DeviceProtocol
from diastole_sim.spec.require import require_int

COMPILING = "torch.compile leaves it out unless fullgraph=True"
MAX_LAYER = 2**29 - 1
"""Behind it tags have the bit of second copies."""
Tags = tuple[int, int, int]


@dataclass(frozen=True, kw_only=True, eq=False)
class Call:
    """A product: on which device, with which ``tags`` of X, W and dY, in which ``step``."""

    device: Any
    tags: Tags
    step: int
    uses: Uses


def matmul(
    x: torch.Tensor,
    w: torch.Tensor,
    *,
    device: DeviceProtocol,
    tags: Tags | None = None,
    step: int | None = None,
) -> torch.Tensor:
    """Y = X W on a device, with its gradients.

    ``x`` (..., K) and ``w`` (K, N) give (..., N): axes in front are one, so that there is one
    product. A ``w`` with more axes makes a stack of products, as ``torch.matmul`` has it.

    Operands are float32, bfloat16 or float16, each read exactly. The result has the type that
    ``torch.matmul`` gives: that of the operands or, where autocast is on, of autocast. Results and
    gradients of the device are float32, and are rounded to a narrower type once. An empty axis
    gives an empty result, or zeros.

    ``tags``: of X, W and dY in the draws of stochastic roundings; without, those of the device's
    next layer: every call is a layer of its own. ``step``: of the draws of all three, without it
    that of the device's :class:`diastole.torch.Steps`. So calls with ``tags`` draw the same numbers
    until a backward pass begins the next step.

    Gradients that nobody asks for are not computed. TypeError for what is no tensor, no device or
    of another type, ValueError for shapes that do not agree and what else the device refuses,
    RuntimeError for what cannot be done with a device: gradients of gradients, the functions of
    ``torch.func``, exports. ``torch.compile`` leaves the product out.
    """
    return _uncompiled(x, w, device, tags, step)


def device_product(
    x: Any, w: Any, device: DeviceProtocol, tags: Tags | None = None, step: int | None = None
) -> Any:
    """As :func:`matmul`, of float32 tensors, in float32."""
    uses = uses_of(device)
    if x.ndim == 0 or w.ndim < 2 or x.shape[-1] != w.shape[-2]:
        raise ValueError(
            "x must be (..., K) and w (K, N), or (..., K, N) in a stack, "
            f"not {tuple(x.shape)} and {tuple(w.shape)}"
        )
    if is_dry():
        with on_device(_multiplications(x, w)):
            return x @ w
    call = Call(
        device=uses.stand_in or device,
        tags=layer_tags(uses.number(_products(x, w))) if tags is None else _checked(tags),
        step=uses.steps.enter() if step is None else step,
        uses=uses,
    )
    if w.ndim > 2:
        rows = x[None] if x.ndim == 1 else x
        y = DeviceProduct.apply(rows, w, call)
        return y[..., 0, :] if x.ndim == 1 else y
    rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
    return DeviceProduct.apply(rows, w, call).reshape(*x.shape[:-1], w.shape[-1])


def _multiply(x: Any, w: Any, device: Any, tags: Tags | None, step: int | None) -> Any:
    x, w, kind = exact_operands(x, w)
    return device_product(x, w, device, tags, step).to(kind)


def uncompiled(function: Any) -> Any:
    """Return a function that ``torch.compile`` leaves alone: else tensors would be made of numpy's
    arrays, with other bits. Where nothing may be left alone, torch says what to do."""
    disable = torch.compiler.disable
    reason = f"a product of a device cannot be compiled or exported: {COMPILING}; {INSTEAD}"
    if "reason" in inspect.signature(disable).parameters:
        return disable(function, reason=reason)
    return disable(function)


_uncompiled: Any = uncompiled(_multiply)


def _products(x: Any, w: Any) -> int:
    """Count the products of a call."""
    return math.prod(torch.broadcast_shapes(x.shape[:-2], w.shape[:-2])) if w.ndim > 2 else 1


def _multiplications(x: Any, w: Any) -> int:
    rows = math.prod(x.shape[-2:-1]) if w.ndim > 2 else math.prod(x.shape[:-1])
    return _products(x, w) * rows * x.shape[-1] * w.shape[-1]


def layer_tags(layer: int) -> Tags:
    """Of X, W and dY of a layer with this number. ValueError if there is none."""
    first = TAGS_PER_LAYER * require_int("number", layer, 0, MAX_LAYER)
    return first, first + 1, first + 2


class DeviceProduct(torch.autograd.Function):
    """A product of float32 matrices, or of stacks of matrices."""

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any, call: Call) -> Any:
        need_x, need_w, _ = ctx.needs_input_grad
        ctx.call = call
        ctx.shapes = x.shape, w.shape
        ctx.empty = x.numel() == 0 or w.numel() == 0
        with on_device(_multiplications(x, w)), call.uses.lock:
            if ctx.empty:
                stack = torch.broadcast_shapes(x.shape[:-2], w.shape[:-2])
                return x.new_zeros(*stack, x.shape[-2], w.shape[-1])
            operands = _numbers(x), _numbers(w)
            result = call.device.forward(*operands, tags=call.tags[:2], step=call.step)
            ctx.x = result.operands["X"] if need_w else None
            ctx.w = result.operands["W"] if need_x else None
            return torch.from_numpy(result.y).to(x.device)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Any) -> tuple[Any, Any, None]:
        call = ctx.call
        with call.uses.lock:
            call.uses.steps.end()
            if ctx.empty:
                x, w = (
                    dy.new_zeros(shape) if needed else None
                    for shape, needed in zip(ctx.shapes, ctx.needs_input_grad[:2], strict=True)
                )
                return x, w, None
            x, w = (
                None if each is None else torch.from_numpy(each).to(dy.device).sum_to_size(shape)
                for each, shape in zip(_gradients(ctx, _numbers(dy)), ctx.shapes, strict=True)
            )
        return x, w, None


def _gradients(ctx: Any, dy: Any) -> tuple[Any, Any]:
    """What is asked for of dX and dW, in numpy."""
    device, step, (tag_x, tag_w, tag_dy) = ctx.call.device, ctx.call.step, ctx.call.tags
    if ctx.x is not None and ctx.w is not None:
        both = device.backward(ctx.x, ctx.w, dy, tags=ctx.call.tags, step=step)
        return both.dx, both.dw
    if ctx.x is not None:
        return None, device.dw(ctx.x, dy, tags=(tag_x, tag_dy), step=step).dw
    if ctx.w is not None:
        return device.dx(ctx.w, dy, tags=(tag_w, tag_dy), step=step).dx, None
    return None, None


def _numbers(tensor: Any) -> Any:
    return tensor.detach().cpu().numpy()


def _checked(tags: Any) -> Tags:
    if len(tags) != 3:
        raise ValueError(f"tags must be 3 integers, of X, W and dY, not {tags!r}")
    return tags
