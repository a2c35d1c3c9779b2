"""Decode stored elements to elements of the array: make the hidden bit and the exponent
explicit."""

from functools import reduce

from amaranth.hdl import Cat, Const, Mux

from diastole_hw.cell.cell_shape import CellShape, Element
from diastole_sim.spec.formats import Format


def decoded(stored: Format, magnitude, sign, shape: CellShape, target: Element):
    """Return an element of the format ``stored`` in the layout ``target``, and whether the element
    is NaN or Inf.

    NaN becomes zero. Inf becomes the largest element with the sign of the Inf, or zero if
    ``shape.poison``.
    """
    own = Element(significand_bits=stored.precision, depth=stored.depth)
    if not stored.depth:
        element = Cat(magnitude[: stored.magnitude_bits], sign)
        return shape.resized(element, own, target), Const(0, 1)
    fraction = magnitude[: stored.fraction_bits]
    exponent = magnitude[stored.fraction_bits : stored.magnitude_bits]
    normal = exponent != 0
    lowest = Mux(fraction == 0, 0, stored.depth)
    fall = Mux(normal, stored.depth + 1 - exponent, lowest)[: own.depth_bits]
    finite, infinite, nan = _kinds(stored, fraction, exponent)
    largest = 0 if shape.poison else stored.max_significand
    special = Mux(infinite, Const(largest, stored.precision), 0)
    significand = Mux(finite, Cat(fraction, normal), special)
    element = Cat(significand, Mux(finite, fall, 0), sign)
    return shape.resized(element, own, target), infinite | nan


def _kinds(stored: Format, fraction, exponent):
    """Return whether a code is finite, Inf or NaN, as three bits."""
    if stored.specials == "none":
        return Const(1, 1), Const(0, 1), Const(0, 1)
    top = exponent.all()
    if stored.specials == "nan":
        nan = top & fraction.all()
        return ~nan, Const(0, 1), nan
    return ~top, top & (fraction == 0), top & (fraction != 0)


def extent(elements, layout: Element, precision):
    """Return the largest d + p of the elements that are not zero, or 0 if all elements are zero.

    All elements have a common format. ``precision``: p of the format, a value. A zero has d 0.
    """
    present = reduce(lambda a, b: a | b, (layout.significand(each) != 0 for each in elements))
    drops = [layout.exponent_drop(each) for each in elements]
    while len(drops) > 1:
        pairs = zip(drops[::2], drops[1::2], strict=True)
        drops = [Mux(a > b, a, b) for a, b in pairs]
    return Mux(present, drops[0] + precision, 0)
