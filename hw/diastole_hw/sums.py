"""Sums of several numbers, with one carry chain."""

from amaranth.hdl import Cat, Const, Value


def sum_of_three(first: Value, second: Value, third: Value) -> Value:
    """``first`` + ``second`` + ``third``, unsigned, of as many bits as ``first`` has.

    The three bits of a place are two of their sum before anything is carried: tools for FPGAs make
    two carry chains behind each other of two additions. Source: L. Dadda, "Some schemes for
    parallel multipliers", Alta Frequenza 34 (1965).
    """
    bits = len(first)
    low = max(len(second), len(third))
    one, two, three = (
        Cat(value, Const(0, max(low - len(value), 0)))[:low] for value in (first, second, third)
    )
    halves = one ^ two ^ three
    carries = (one & two) | (one & three) | (two & three)
    total = Value.cast(Cat(halves, first[low:])[:bits]) + Cat(Const(0, 1), carries)
    return Value.cast(total[:bits])
