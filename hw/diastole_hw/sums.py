"""Sums of several numbers, with one carry chain."""

from amaranth.hdl import Cat, Const, Value


def carry_save(first: Value, second: Value, third: Value) -> tuple[Value, Value]:
    """Two numbers of the sum of three, unsigned: what its places have before anything is carried,
    of as many bits as ``first`` has, and what they carry, which counts twice.

    Source: L. Dadda, "Some schemes for parallel multipliers", Alta Frequenza 34 (1965).
    """
    bits = len(first)
    low = max(len(second), len(third))
    one, two, three = (
        Cat(value, Const(0, max(low - len(value), 0)))[:low] for value in (first, second, third)
    )
    halves = one ^ two ^ three
    carries = (one & two) | (one & three) | (two & three)
    return Value.cast(Cat(halves, first[low:])[:bits]), Value.cast(carries)


def sum_of_three(first: Value, second: Value, third: Value) -> Value:
    """``first`` + ``second`` + ``third``, unsigned, of as many bits as ``first`` has.

    Tools for FPGAs make two carry chains behind each other of two additions; here is one.
    """
    halves, carries = carry_save(first, second, third)
    total = Value.cast(halves) + Cat(Const(0, 1), carries)
    return Value.cast(total[: len(first)])
