"""Whether a number is the one behind another."""

from amaranth.hdl import Cat, Const, Value


def is_successor(number, before) -> Value:
    """``number`` == ``before`` + 1, both unsigned.

    Nothing is carried: the lowest bit changes, and any other where the one below goes from 1 to 0.
    """
    number, before = Value.cast(number), Value.cast(before)
    bits = max(len(number), len(before)) + 1
    after, at = (Cat(value, Const(0, bits - len(value))) for value in (number, before))
    changes = after ^ at
    return Cat(changes[0], ~(changes[1:] ^ (at & ~after)[:-1])).all()
