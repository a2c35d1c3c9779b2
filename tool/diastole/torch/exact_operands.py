"""Read torch tensors as operands of a device, and refuse unreadable tensors with a message."""

from typing import Any

import torch
from torch.autograd import forward_ad
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

TYPES = (torch.float32, torch.bfloat16, torch.float16)
"""Types that a machine reads: float32, and the types that float32 holds exactly."""
INSTEAD = "diastole.torch.restore(model) gives the layers of torch back, for which it works"


def exact_operands(x: Any, w: Any, names: tuple[str, str] = ("x", "w")) -> tuple[Any, Any, Any]:
    """Return two operands exactly in float32, and the type that torch would give the product.

    The type is the type of the operands. With autocast, the type is the type of autocast, and the
    operands may have two types.
    """
    for name, operand in zip(names, (x, w), strict=True):
        require_readable(name, operand)
    first, second = names
    if x.device != w.device:
        raise ValueError(
            f"{first} and {second} must be on one torch device, not on {x.device} and {w.device}"
        )
    if torch.is_autocast_enabled(x.device.type):
        kind = torch.get_autocast_dtype(x.device.type)
    elif x.dtype == w.dtype:
        kind = x.dtype
    else:
        raise TypeError(
            f"{first} and {second} must have one type where autocast is off, "
            f"not {x.dtype} and {w.dtype}"
        )
    return x.float(), w.float(), kind


def require_readable(name: str, operand: Any) -> None:
    """Refuse a value without readable numbers: TypeError, or RuntimeError for a tensor that stands
    for other tensors, as in ``vmap`` or an export."""
    if isinstance(operand, torch.fx.Proxy):
        raise RuntimeError(f"torch.fx cannot trace a product of a device: {INSTEAD}")
    if not isinstance(operand, torch.Tensor):
        raise TypeError(f"{name} must be a tensor of torch, not {type(operand).__name__}")
    if torch.jit.is_tracing():
        raise RuntimeError(
            "torch.jit.trace, and the ONNX export that uses it, cannot record a product of a "
            f"device: {INSTEAD}"
        )
    _require_numbers(name, operand)
    if operand.layout != torch.strided:
        raise TypeError(f"{name} must be a dense tensor, not one of layout {operand.layout}")
    if operand.is_nested:
        raise TypeError(
            f"{name} must be a dense tensor, not a nested one "
            "(nn.TransformerEncoder makes those unless enable_nested_tensor=False)"
        )
    if operand.dtype not in TYPES:
        raise TypeError(
            f"{name} must be float32, which is what a machine reads, or bfloat16 or float16, "
            f"not {operand.dtype}: convert it with .float()"
        )


def _require_numbers(name: str, operand: Any) -> None:
    if torch._C._functorch.is_functorch_wrapped_tensor(operand):
        raise RuntimeError(
            "vmap, grad, jvp and the other functions of torch.func cannot differentiate or batch "
            "the work of a device: layers and matmul take axes in front, matmul a stack of w too, "
            "and backward() gives the gradients"
        )
    if forward_ad.unpack_dual(operand).tangent is not None:
        raise RuntimeError("a device has no forward mode of autograd: call backward() instead")
    if torch.compiler.is_compiling() or _is_traced(operand):
        raise RuntimeError(
            f"torch.export, and the ONNX export that uses it, cannot record a product of a device: "
            f"{INSTEAD}"
        )
    if operand.is_meta:
        raise RuntimeError(f"{name} must hold numbers: a tensor on the device meta has none")
    if is_traceable_wrapper_subclass(operand):
        raise TypeError(
            f"{name} must be a plain tensor, not a {type(operand).__name__}, which wraps others"
        )


def _is_traced(operand: Any) -> bool:
    fake = isinstance(operand, torch._subclasses.FakeTensor)
    return fake or torch.fx.experimental.proxy_tensor.get_proxy_mode() is not None
