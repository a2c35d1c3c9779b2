"""Define the arithmetic of a chain: binary32 to the bit, or float64 for its mathematics.

In ``FLOAT64`` only zeros count as zeros, functions are those of numpy, and stored values are not
rounded. The equations of a program can therefore be compared with other equations, and derived.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from diastole_sim.golden.vector import functions, numbers
from diastole_sim.spec.micro import NEUTRAL, MicroOp
from diastole_sim.spec.stream_table import Kind

Numbers: TypeAlias = NDArray[Any]
"""Array of the arithmetic's type."""
Operate: TypeAlias = Callable[..., Numbers]


@dataclass(frozen=True, kw_only=True, eq=False)
class Arithmetic:
    """Arithmetic of a chain.

    - ``dtype``: type of all numbers.
    - ``operations``: functions of arrays that broadcast, with the operands of the operation in the
      order a, b, c.
    - ``negate``: function that flips the sign, except of NaN.
    - ``stored``: by kind of output, the function from a written number to the number that memory
      holds, if the two differ.
    """

    dtype: type[np.floating[Any]]
    operations: Mapping[MicroOp, Operate]
    negate: Operate
    stored: Mapping[Kind, Operate]

    def neutral(self, op: int) -> Numbers:
        """Return the number by which the bit ``fresh`` of an instruction replaces operand c: the
        neutral number of the operation ``op``."""
        bits = np.array(NEUTRAL[MicroOp(op)], dtype=np.uint32)
        return bits.view(np.float32).astype(self.dtype)

    def array(self, values: Any) -> Numbers:
        """Return numbers of this type; float32 numbers stay bit for bit if the type is float32."""
        return np.asarray(values, dtype=self.dtype)

    def stores(self, kind: int, values: Numbers) -> Numbers:
        """Return the numbers that an output of a kind holds after ``values`` are written."""
        store = self.stored.get(Kind(kind))
        return values if store is None else store(values)


def _bfloat16(values: Numbers) -> Numbers:
    return numbers.from_bf16(numbers.to_bf16(values))


def _byte(values: Numbers) -> Numbers:
    return numbers.to_u8(values).astype(np.float32)


def _bit(values: Numbers) -> Numbers:
    return (~numbers.is_zero(values)).astype(np.float32)


def _select(a: Numbers, b: Numbers, c: Numbers) -> Numbers:
    return numbers.sel(b, a, c)


BINARY32 = Arithmetic(
    dtype=np.float32,
    operations={
        MicroOp.MAD: numbers.mad,
        MicroOp.MUL: numbers.mul,
        MicroOp.ADD: numbers.add,
        MicroOp.MAX: numbers.maximum,
        MicroOp.MIN: numbers.minimum,
        MicroOp.GT: numbers.gt,
        MicroOp.EQ: numbers.eq,
        MicroOp.SEL: _select,
        MicroOp.MOV: numbers.move,
        MicroOp.EXP: functions.exp,
        MicroOp.RCP: functions.rcp,
        MicroOp.RSQ: functions.rsq,
        MicroOp.LGE: functions.lge,
        MicroOp.LGM: functions.lgm,
        MicroOp.LGG: functions.lgg,
    },
    negate=numbers.negate,
    stored={Kind.BF16: _bfloat16, Kind.U8: _byte, Kind.MASK: _bit},
)
"""Arithmetic of the machine; see ``numbers`` and ``functions``."""


def _quiet(operate: Operate) -> Operate:
    """Return the operation without numpy's warnings of overflow, of NaN and of division by zero."""

    def done(*operands: Numbers) -> Numbers:
        with np.errstate(all="ignore"):
            return np.asarray(operate(*operands))

    return done


def _mad(a: Numbers, b: Numbers, c: Numbers) -> Numbers:
    return a * b + c


def _mul(a: Numbers, b: Numbers) -> Numbers:
    return a * b


def _add(a: Numbers, c: Numbers) -> Numbers:
    return a + c


def _max(a: Numbers, c: Numbers) -> Numbers:
    return np.where(np.isnan(a) | np.isnan(c), np.nan, np.where(a > c, a, c))


def _min(a: Numbers, c: Numbers) -> Numbers:
    return np.where(np.isnan(a) | np.isnan(c), np.nan, np.where(a < c, a, c))


def _gt(a: Numbers, c: Numbers) -> Numbers:
    return np.where(a > c, 1.0, 0.0)


def _eq(a: Numbers, c: Numbers) -> Numbers:
    return np.where(a == c, 1.0, 0.0)


def _sel(a: Numbers, b: Numbers, c: Numbers) -> Numbers:
    return np.where(b != 0, a, c)


def _mov(a: Numbers) -> Numbers:
    return a


def _rcp(a: Numbers) -> Numbers:
    return 1 / a


def _rsq(a: Numbers) -> Numbers:
    return np.where(a == 0, np.inf, 1 / np.sqrt(a))


def _nonzero(a: Numbers) -> Numbers:
    return np.where(a == 0, 0.0, 1.0)


def _log_parts(x: Numbers) -> tuple[Numbers, Numbers]:
    """Return E and D of x = (1 + D) 2^E, D in [-1/4, 1/2)."""
    half, exponent = np.frexp(x)
    small = half < 0.75
    scaled = np.where(small, 2 * half, half)
    return exponent - small.astype(np.float64), scaled - 1


def _where_regular(x: Numbers, values: Numbers, at_zero: float, at_inf: float) -> Numbers:
    values = np.where(x == 0, at_zero, values)
    values = np.where(np.isposinf(x), at_inf, values)
    return np.where((x < 0) | np.isnan(x), np.nan, values)


def _lge(x: Numbers) -> Numbers:
    return _where_regular(x, _log_parts(x)[0], -np.inf, np.inf)


def _lgm(x: Numbers) -> Numbers:
    return _where_regular(x, _log_parts(x)[1], 0.0, 0.0)


def _lgg(x: Numbers) -> Numbers:
    part = _log_parts(x)[1]
    ratio = np.log1p(part) / np.where(part == 0, 1.0, part)
    return _where_regular(x, np.where(part == 0, 1.0, ratio), 1.0, 1.0)


FLOAT64 = Arithmetic(
    dtype=np.float64,
    operations={
        op: _quiet(operate)
        for op, operate in {
            MicroOp.MAD: _mad,
            MicroOp.MUL: _mul,
            MicroOp.ADD: _add,
            MicroOp.MAX: _max,
            MicroOp.MIN: _min,
            MicroOp.GT: _gt,
            MicroOp.EQ: _eq,
            MicroOp.SEL: _sel,
            MicroOp.MOV: _mov,
            MicroOp.EXP: np.exp,
            MicroOp.RCP: _rcp,
            MicroOp.RSQ: _rsq,
            MicroOp.LGE: _lge,
            MicroOp.LGM: _lgm,
            MicroOp.LGG: _lgg,
        }.items()
    },
    negate=np.negative,
    stored={Kind.MASK: _nonzero},
)
"""Arithmetic of mathematics: lge ln 2 + lgm lgg is the logarithm."""
