"""Float tensors for the benches."""

import numpy as np

# Zeros, subnormals, Inf, NaN, the largest, the smallest, and one unit below powers of two.
SPECIALS = np.array(
    [
        0,
        2147483648,
        1,
        2155872255,
        2139095040,
        4286578688,
        2143289344,
        4286578689,
        2139095039,
        8388608,
        2155872256,
        1073741823,
        3221225471,
    ],
    dtype=np.uint32,
).view(np.float32)


def tensor(rng, rows: int, cols: int, *, spread: int = 6):
    """Signed values over ``2 * spread`` powers of two, a tenth of them zero."""
    exponents = rng.integers(-spread, spread, (rows, cols))
    values = np.ldexp(rng.standard_normal((rows, cols)), exponents)
    values[rng.random((rows, cols)) < 0.1] = 0
    return values.astype(np.float32)


def special_tensor(rng, rows: int, cols: int):
    """Such values, a third of them ties of rounding, and a seventh of them special."""
    ties = np.ldexp(rng.integers(-63, 64, (rows, cols)), -4).astype(np.float32)
    values = np.where(rng.random((rows, cols)) < 0.3, ties, tensor(rng, rows, cols))
    return np.where(rng.random((rows, cols)) < 0.15, rng.choice(SPECIALS, (rows, cols)), values)
