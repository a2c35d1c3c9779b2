"""Pack the elements of a cell's block into as few bits as hold the same information."""

from amaranth.hdl import Cat, Const
from amaranth.utils import bits_for

from diastole_hw.cell.cell_shape import Element


def _field_bits(element: Element) -> int:
    """Return the bits of a field for the numbers 0 to D and, as a further value, all ones."""
    return bits_for(element.depth + 1)


def packed_bits(element: Element) -> int:
    """Return the bits of a packed element. The top bit of a ``derived`` significand is not
    stored."""
    if not element.derived:
        return element.bits
    return element.significand_bits - 1 + _field_bits(element) + 1


def pack(element: Element, value):
    """Return ``value`` packed: d is all ones where the top bit of a ``derived`` significand is
    0."""
    if not element.derived:
        return value
    *low, top = element.significand(value)
    field = Cat(element.exponent_drop(value), Const(0, _field_bits(element) - element.depth_bits))
    return Cat(*low, field | (~top).replicate(len(field)), value[-1])


def unpack(element: Element, packed):
    """Return sig and d of an element packed by :func:`pack`. For a zero, d may be any number."""
    if not element.derived:
        return element.significand(packed), element.exponent_drop(packed)
    low, field = packed[: element.significand_bits - 1], packed[element.significand_bits - 1 : -1]
    subnormal = field.all()
    cleared = [place for place in range(len(field)) if not element.depth >> place & 1]
    drop = [bit & ~subnormal if place in cleared else bit for place, bit in enumerate(field)]
    return Cat(low, ~subnormal), Cat(*drop[: element.depth_bits])
