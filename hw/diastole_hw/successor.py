"""Whether a number is the one behind another, or the last one."""

from amaranth.hdl import Cat, Const, Mux, Value


def is_successor(number, before) -> Value:
    """``number`` == ``before`` + 1, both unsigned.

    Nothing is carried: the lowest bit changes, and any other where the one below goes from 1 to 0.
    """
    number, before = Value.cast(number), Value.cast(before)
    bits = max(len(number), len(before)) + 1
    after, at = (Cat(value, Const(0, bits - len(value))) for value in (number, before))
    changes = after ^ at
    return Cat(changes[0], ~(changes[1:] ^ (at & ~after)[:-1])).all()


def is_last(number, extent, log: int) -> Value:
    """Whether part ``number``, from 0, of those of 2^``log`` elements into which ``extent``
    elements, at least 1, are cut is the last one; of a part beyond that it says anything.
    Nothing is carried."""
    number, extent = Value.cast(number), Value.cast(extent)
    follows = is_successor(extent[log:], number)
    return Mux(extent[:log].any(), extent[log:] == number, follows) if log else follows
