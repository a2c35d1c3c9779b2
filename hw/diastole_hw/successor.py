"""Test without carries whether a number is the successor of another, or the last of a range."""

from amaranth.hdl import Cat, Const, Mux, Value


def is_successor(number, before) -> Value:
    """Return ``number`` == ``before`` + 1, both unsigned.

    There is no carry chain: the lowest bit changes, and any higher bit changes exactly if the bit
    below goes from 1 to 0.
    """
    number, before = Value.cast(number), Value.cast(before)
    bits = max(len(number), len(before)) + 1
    after, at = (Cat(value, Const(0, bits - len(value))) for value in (number, before))
    changes = after ^ at
    return Cat(changes[0], ~(changes[1:] ^ (at & ~after)[:-1])).all()


def is_last(number, extent, log: int) -> Value:
    """Return whether part ``number``, counted from 0, is the last part. The parts result from
    cutting ``extent`` elements, at least 1, into parts of 2^``log`` elements. For a number beyond
    the last part the result is undefined. There is no carry chain."""
    number, extent = Value.cast(number), Value.cast(extent)
    follows = is_successor(extent[log:], number)
    return Mux(extent[:log].any(), extent[log:] == number, follows) if log else follows
