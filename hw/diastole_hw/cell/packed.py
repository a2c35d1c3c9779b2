"""How a cell keeps the elements of its block: in as few bits as say the same."""

from amaranth.hdl import Cat, Const
from amaranth.utils import bits_for

from diastole_hw.cell.cell_shape import Element


def _field_bits(element: Element) -> int:
    """Of a field that takes 0 to D, and all ones."""
    return bits_for(element.depth + 1)


def packed_bits(element: Element) -> int:
    """Bits of a packed element. The top bit of a significand that is ``derived`` is not kept."""
    if not element.derived:
        return element.bits
    return element.significand_bits - 1 + _field_bits(element) + 1


def pack(element: Element, value):
    """``value`` as it is kept: d is all ones where the significand's top bit is 0."""
    if not element.derived:
        return value
    *low, top = element.significand(value)
    field = Cat(element.fall(value), Const(0, _field_bits(element) - element.depth_bits))
    return Cat(*low, field | (~top).replicate(len(field)), value[-1])


def unpack(element: Element, packed):
    """sig and d of what :func:`pack` made; d of a zero may be anything."""
    if not element.derived:
        return element.significand(packed), element.fall(packed)
    low, field = packed[: element.significand_bits - 1], packed[element.significand_bits - 1 : -1]
    subnormal = field.all()
    cleared = [place for place in range(len(field)) if not element.depth >> place & 1]
    fall = [bit & ~subnormal if place in cleared else bit for place, bit in enumerate(field)]
    return Cat(low, ~subnormal), Cat(*fall[: element.depth_bits])
