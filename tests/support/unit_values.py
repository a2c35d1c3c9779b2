"""Payloads of streams and values of ports: set, compared, and shown to people."""

from enum import Enum

from amaranth.hdl import Shape, ShapeCastable, Value
from amaranth.lib import data


def plain(value):
    """A payload as integers, lists and dictionaries."""
    if isinstance(value, data.Const):
        shape = value.shape()
        if isinstance(shape, data.ArrayLayout):
            return [plain(each) for each in value]
        return {name: plain(value[name]) for name, _ in shape}
    return value.value if isinstance(value, Enum) else int(value)


def shown(value) -> str:
    """A payload for people: large integers in hexadecimal."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {shown(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(shown, value)) + "]"
    return hex(value) if type(value) is int and abs(value) > 9 else str(value)


def differences(want, got, name="") -> list[str]:
    """What ``got`` has of its members that ``want`` has not. What ``want`` does not name, and what
    is None there, may be anything."""
    if want is None:
        return []
    want = want.value if isinstance(want, Enum) else want
    if isinstance(want, dict):
        own = got if isinstance(got, dict) else {}
        return [
            each
            for key, value in want.items()
            for each in differences(value, own.get(key, "absent"), f"{name}.{key}" if name else key)
        ]
    if isinstance(want, list | tuple) and isinstance(got, list) and len(want) == len(got):
        pairs = enumerate(zip(want, got, strict=True))
        return [each for n, pair in pairs for each in differences(*pair, f"{name}[{n}]")]
    if want == got:
        return []
    return [f"{name}: " * bool(name) + f"{shown(got)}, not {shown(want)}"]


def parts_of(bits: int, width: int, count: int) -> list[int]:
    """So many parts of equal width, the lowest first."""
    size = width // count
    return [bits >> size * n & (1 << size) - 1 for n in range(count)]


def set_members(ctx, interface, **values):
    """Set inputs by their names; a value that does not fit is an error."""
    for name, value in values.items():
        assign(ctx, getattr(interface, name), value, name)


def assign(ctx, target, value, name):
    """Set an input, or several; an integer for a structure is all of its bits."""
    if isinstance(target, list | tuple):
        for number, each in enumerate(value):
            assign(ctx, target[number], each, f"{name}[{number}]")
        return
    if isinstance(value, int) and not isinstance(target, Value):
        target = Value.cast(target)
    check_fits(target.shape(), value, name)
    ctx.set(target, value)


def check_fits(shape, value, name):
    """Fail where a value would lose bits, which the simulator does not tell."""
    while isinstance(shape, ShapeCastable) and not isinstance(shape, data.Layout):
        shape = shape.as_shape()
    if isinstance(value, dict):
        for key, each in value.items():
            check_fits(shape[key].shape, each, f"{name}.{key}")
    elif isinstance(value, list | tuple):
        for number, each in enumerate(value):
            check_fits(shape.elem_shape, each, f"{name}[{number}]")
    elif isinstance(value, int):
        width, signed = (cast := Shape.cast(shape)).width, cast.signed
        low, high = (-(1 << width >> 1), 1 << width >> 1) if signed else (0, 1 << width)
        assert low <= value < high, f"{name} is given {shown(value)}, and has {width} bits"
