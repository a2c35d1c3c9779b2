"""Partial products as rows to add: Booth digits, squares, constants, and trees of adders."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_sim.spec.require import require_int


def booth_rows(m: Module, a, b, width: int, *, signed: bool) -> list:
    """Return rows whose sum, modulo 2^width, is ``a`` * ``b`` + :func:`booth_offset`: a times every
    Booth digit of b, -2 to 2. ``b`` is unsigned. ``a`` is signed if ``signed``.

    A negative row is the ones' complement. The missing unit is added in the next row. Sign
    extension needs a constant, which is the offset, and 1 bit per row.
    """
    padded = Cat(Const(0, 1), b, Const(0, 2))
    digits = len(b) // 2 + 1
    rows, last = [], None
    for number in range(digits):
        low, middle, high = padded[2 * number : 2 * number + 3]
        highest = number == digits - 1  # the highest digit is not negative
        negative = Const(0, 1) if highest else high
        once, twice = (Signal(name=f"{name}_{number}") for name in ("once", "twice"))
        m.d.comb += [
            once.eq(low ^ middle),
            twice.eq(Mux(negative, ~(low | middle), low & middle)),
        ]
        times = Signal(len(a) + 1, name=f"times_{number}")
        chosen = Mux(once, Cat(a, a[-1] & signed), 0) | Mux(twice, a << 1, 0)
        m.d.comb += times.eq(chosen ^ negative.replicate(len(times)))
        sign = times[-1] if signed else negative
        top = Cat(sign, sign, ~sign) if number == 0 else Cat(~sign, Const(1, 1))
        if highest and not signed:
            top = Const(0, 0)
        below = Const(0, 0) if last is None else Cat(Const(0, 2 * number - 2), last, Const(0, 1))
        row = Signal(width, name=f"row_{number}")
        m.d.comb += row.eq(Cat(below, times[:-1] if signed else times, top))
        rows.append(row)
        last = negative
    return rows


def booth_offset(a_bits: int, b_bits: int, *, signed: bool) -> int:
    """Return the offset that :func:`booth_rows` adds. Without ``signed``, b must have an even
    number of bits."""
    digits = b_bits // 2 + 1
    return 1 << (a_bits + 2 * digits if signed else a_bits + 1 + 2 * (digits - 1))


def square_rows(m: Module, x, width: int) -> list:
    """Return rows whose sum is ``x``^2. The product of 2 different bits appears once, with double
    weight."""
    rows = []
    for place in range(len(x)):
        row = Signal(width, name=f"square_{place}")
        more = Cat(Const(0, 1), x[place + 1 :]) if place + 1 < len(x) else Const(0, 0)
        bits = Cat(Const(1, 1), more) & x[place].replicate(len(more) + 1)
        m.d.comb += row.eq(Cat(Const(0, 2 * place), bits))
        rows.append(row)
    return rows


def constant_rows(m: Module, x, factor: int, width: int) -> list:
    """Return rows whose sum, modulo 2^width, is ``x`` * ``factor``: x, shifted, for every nonzero
    digit of the factor. The digits are -1, 0, 1, and neighbouring digits are never both nonzero."""
    rows, units, place = [], 0, 0
    while factor:
        digit = 2 - factor % 4 if factor % 2 else 0
        if digit:
            row = Signal(width, name=f"times_2_{place}")
            m.d.comb += row.eq(Cat(Const(0, place), x if digit > 0 else ~x))
            rows.append(row)
            if digit < 0:  # -x = ~x - (2^n - 1)
                units -= (2 ** len(x) - 1) << place
        factor, place = (factor - digit) // 2, place + 1
    return [*rows, Const(units % 2**width, width)] if units else rows


def two_rows(m: Module, rows: list, width: int, name: str) -> list:
    """Reduce ``rows`` to 2 rows with an equal sum, modulo 2^width. Carry-save adders replace 3 rows
    by 2, repeatedly."""
    while len(rows) > 2:
        sums, left = [], len(rows) % 3
        whole = rows[: len(rows) - left]
        triples = zip(whole[::3], whole[1::3], whole[2::3], strict=True)
        for number, (x, y, z) in enumerate(triples):
            place = f"{name}_{len(rows)}_{number}"
            differ, total, carries = (
                Signal(width, name=f"{kind}_{place}") for kind in ("differ", "sum", "carries")
            )
            m.d.comb += [
                differ.eq(x ^ y),
                total.eq(differ ^ z),
                carries.eq(((differ & z) | (~differ & x)) << 1),
            ]
            sums += [total, carries]
        rows = sums + rows[len(rows) - left :]
    return rows


class RowProduct(wiring.Component):
    """Compute ``total`` + ``carries`` = ``a`` * ``b`` + offset, modulo 2^width.

    Timing: combinational.

    Parameters
    ----------
    a_bits, b_bits : int
        2 to 32.
    signed : bool
        ``a`` is a signed number.
    width : int
        Up to 96. If 2^width is more than the offset, the sum of the rows stays below 2^width.

    Members
    -------
    a, b : In(a_bits), In(b_bits)
    total, carries : Out(width)
        The lowest bit of ``carries`` is 0.
    """

    def __init__(self, *, a_bits: int, b_bits: int, signed: bool, width: int):
        require_int("a_bits", a_bits, 2, 32)
        require_int("b_bits", b_bits, 2, 32)
        require_int("width", width, 2, 96)
        self.a_bits, self.b_bits = a_bits, b_bits
        self.signed, self.width = signed, width
        rows = {"total": Out(width), "carries": Out(width)}
        super().__init__({"a": In(a_bits), "b": In(b_bits)} | rows)

    @property
    def offset(self) -> int:
        """Excess of the sum of the rows over the product."""
        return booth_offset(self.a_bits, self.b_bits, signed=self.signed)

    def elaborate(self, platform):
        m = Module()
        rows = booth_rows(m, self.a, self.b, self.width, signed=self.signed)
        total, carries = two_rows(m, rows, self.width, "product")
        m.d.comb += [self.total.eq(total), self.carries.eq(carries)]
        return m
