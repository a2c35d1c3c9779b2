"""From stored elements to those inside the array: the hidden bit and the exponent made explicit."""

from functools import reduce

from amaranth.hdl import Cat, Const, Mux

from diastole_hw.cell.cell_shape import CellShape, Element
from diastole_sim.spec.formats import Format


def decoded(stored: Format, magnitude, sign, shape: CellShape, target: Element):
    """An element of the format ``stored`` in the layout ``target``, and whether it is NaN or Inf.

    NaN is a zero; Inf is the largest element with its sign, or a zero too where it is poison.
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
    """Whether a code is finite, Inf or NaN."""
    if stored.specials == "none":
        return Const(1, 1), Const(0, 1), Const(0, 1)
    top = exponent.all()
    if stored.specials == "nan":
        nan = top & fraction.all()
        return ~nan, Const(0, 1), nan
    return ~top, top & (fraction == 0), top & (fraction != 0)


def extent(elements, layout: Element, precision):
    """Largest d + p of the elements that are not zero, all of one format; 0 if all are zero.

    ``precision`` p of their format: a value. A zero has d 0.
    """
    present = reduce(lambda a, b: a | b, (layout.significand(each) != 0 for each in elements))
    falls = [layout.fall(each) for each in elements]
    while len(falls) > 1:
        pairs = zip(falls[::2], falls[1::2], strict=True)
        falls = [Mux(a > b, a, b) for a, b in pairs]
    return Mux(present, falls[0] + precision, 0)
