"""Make a matrix product of a device a function of autograd.

The forward pass converts the operands and keeps the stored images. The backward pass converts dY
and reads the images again, as the hardware does.
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
"""Largest layer number. Tags of larger numbers would have the bit of second copies."""
Tags = tuple[int, int, int]


@dataclass(frozen=True, kw_only=True, eq=False)
class Call:
    """Call of a product on ``device``, with the ``tags`` of X, W and dY, in ``step``. ``uses``:
    state that is kept for the device."""

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
    """Compute Y = X W on a device, with gradients.

    ``x`` (..., K) and ``w`` (K, N) give (..., N). The leading axes of ``x`` are merged to a single
    axis, and the device computes a single product. A ``w`` with more axes makes a stack of
    products, as in ``torch.matmul``.

    Operands are float32, bfloat16 or float16, and are read exactly. The result has the type that
    ``torch.matmul`` gives: the type of the operands or, with autocast, the type of autocast.
    Results and gradients of the device are float32, and are rounded to a narrower type once. An
    empty axis gives an empty result, or zeros.

    ``tags``: tags of X, W and dY for the random bits of stochastic roundings. By default the tags
    are the tags of the device's next layer: every call is a separate layer. ``step``: step of the
    random bits of X, W and dY, by default the step in the device's :class:`diastole.torch.Steps`.
    Calls with equal ``tags`` therefore get equal random bits until a backward pass begins the next
    step.

    Gradients are computed only on request. TypeError for an operand that is no tensor or has
    another type, and for a ``device`` that is no device. ValueError for shapes that do not agree,
    and for everything else that the device refuses. RuntimeError for operations that are impossible
    with a device: gradients of gradients, functions of ``torch.func``, exports. ``torch.compile``
    leaves the product out.
    """
    return _uncompiled(x, w, device, tags, step)


def device_product(
    x: Any, w: Any, device: DeviceProtocol, tags: Tags | None = None, step: int | None = None
) -> Any:
    """Compute :func:`matmul` of float32 tensors, in float32."""
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
    """Return a function that ``torch.compile`` leaves alone. Compilation would turn numpy's arrays
    into tensors, with different bits. If ``torch.compile`` may leave nothing alone, torch names the
    remedy."""
    disable = torch.compiler.disable
    reason = f"a product of a device cannot be compiled or exported: {COMPILING}; {INSTEAD}"
    if "reason" in inspect.signature(disable).parameters:
        return disable(function, reason=reason)
    return disable(function)


_uncompiled: Any = uncompiled(_multiply)


def _products(x: Any, w: Any) -> int:
    """Return the number of products of a call."""
    return math.prod(torch.broadcast_shapes(x.shape[:-2], w.shape[:-2])) if w.ndim > 2 else 1


def _multiplications(x: Any, w: Any) -> int:
    rows = math.prod(x.shape[-2:-1]) if w.ndim > 2 else math.prod(x.shape[:-1])
    return _products(x, w) * rows * x.shape[-1] * w.shape[-1]


def layer_tags(layer: int) -> Tags:
    """Return the tags of X, W and dY of a layer. ValueError if the number is out of range."""
    first = TAGS_PER_LAYER * require_int("number", layer, 0, MAX_LAYER)
    return first, first + 1, first + 2


class DeviceProduct(torch.autograd.Function):
    """Product of float32 matrices, or of stacks of matrices."""

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
    """Return the requested gradients dX and dW in numpy; None for a gradient without a request."""
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
        raise ValueError(f"tags must be 3 integers, for X, W and dY, not {tags!r}")
    return tags
