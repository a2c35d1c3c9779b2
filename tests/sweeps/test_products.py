"""Golden products of random tensors in every format, and of formats mixed.

Where a product says that it is exact, its values are the rational products of the stored operands,
rounded once by MPFR: neither windows, nor folds, nor alignment may show. Where it does not, they
are those of the aligned sum of ``oracle.product``.
"""

import math
from fractions import Fraction

import numpy as np
import pytest

from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.spec.numerics import Numerics
from oracle import formats as oracle
from oracle import product
from support import judge

NAN = 0x7FC00000
COPIES = {"Y": {"X": 0, "W": 1}, "dX": {"dY": 0, "W": 0}, "dW": {"X": 1, "dY": 1}}
"""By result, the copies of its factors."""
M, K, N = 5, 11, 7
SHAPES = {"x": (M, K), "w": (K, N), "dy": (M, N)}
ALIKE = [((name,) * 3, kind) for name in oracle.NAMES for kind in judge.kinds_of(name)]
MIXED = [
    ("fp8_e4m3", "fp8_e4m3", "fp8_e5m2"),
    ("fp8_e5m2", "fp8_e4m3", "bfp4"),
    ("mxfp8_e4m3", "mxfp4_e2m1", "mxfp8_e5m2"),
    ("mxfp6_e3m2", "mxfp6_e2m3", "mxint8"),
    ("mxint8", "bfp1", "fp8_e4m3"),
    ("bf16", "bfp8", "bf16"),
    ("bf16", "mxfp4_e2m1", "fp8_e5m2"),
    ("bfp2", "mxfp6_e2m3", "bfp7"),
    ("e2m5", "e3m4", "e5m1"),
    ("mxfp4_e2m1", "fp8_e4m3", "bf16"),
]


def device(names, kinds, *, block=4, rule="nearest", **options):
    """Groups of 8 where they are vectors or squares larger than a block."""
    classes = {}
    for tensor_class, name, kind in zip(("x", "w", "dy"), names, kinds, strict=True):
        shown = {"vector": "1x8", "square": f"{block}x{block}", "tensor": "tensor"}[kind]
        classes[tensor_class] = {"format": name, "rounding": rule, "grouping": shown}
        if "overflow" in options and name in judge.SPECIFIED:
            classes[tensor_class]["overflow"] = options["overflow"]
    scalars = {"block": block, "random_bits": 8, "fraction": 8, "headroom": 9}
    rest = {key: value for key, value in options.items() if key != "overflow"}
    return NumpyDevice(Numerics.from_dict({**scalars, **classes, **rest}), seed=3)


def converted(on, arrays):
    return {name: on.convert(arrays[name], name, tag=tag) for tag, name in enumerate(SHAPES)}


def results(on, tensors):
    """By name: (values, exact, overflow). ``backward`` must be the two products at once."""
    x, w, dy = (tensors[name] for name in SHAPES)
    y, dx, dw, both = on.forward(x, w), on.dx(w, dy), on.dw(x, dy), on.backward(x, w, dy)
    same_bits(both.dx, dx.dx)
    same_bits(both.dw, dw.dw)
    assert (both.exact, both.overflow) == (dx.exact and dw.exact, dx.overflow or dw.overflow)
    return {"Y": y, "dX": dx, "dW": dw}


def same_bits(got, want):
    assert got.dtype == want.dtype == np.float32
    np.testing.assert_array_equal(got.view(np.uint32), want.view(np.uint32))


def stored_values(tensor, copy, special):
    """The fractions that a stored copy stands for, in the tensor's orientation; None poisons.

    Of flagged specials Inf is the largest element, and NaN nothing.
    """
    made = tensor.copies[copy if len(tensor.copies) == 2 else 0]
    name, grouping = tensor.storage.format.name, tensor.storage.grouping
    chosen, rows = oracle.element(name), []
    for i in range(made.shape[0]):
        rows.append([])
        for j in range(made.shape[1]):
            down, along = (1, grouping.size) if grouping.kind == "vector" else (tensor.block,) * 2
            byte = int(made.exponents[i // down, j // along])
            unit = oracle.group_value(name, byte, tensor.tensor_exponent)
            number = oracle.decode(chosen, int(made.codes[i, j]))
            rows[-1].append(_counted(number, unit, chosen, special))
    return oracle.transpose(rows) if made.transposed else rows


def _counted(number, unit, chosen, special):
    broken = [value for value in (number, unit) if isinstance(value, float)]
    if special == "poison" and broken:
        return None
    if unit is None or any(map(math.isnan, broken)):
        return Fraction(0)
    if broken:
        number = chosen.values[-1] * (1 if number > 0 else -1)
    return number * unit


FACTORS = {  # rows of A, rows of B along the contraction: is the tensor turned?
    "Y": (("x", False), ("w", True)),
    "dX": (("dy", False), ("w", False)),
    "dW": (("x", True), ("dy", True)),
}


def exact_bits(name, tensors, special):
    """The correctly rounded product of what is stored, and whether something overflowed."""
    sides = []
    for (tensor_class, turned), copy in zip(FACTORS[name], COPIES[name].values(), strict=True):
        values = stored_values(tensors[tensor_class], copy, special)
        sides.append(oracle.transpose(values) if turned else values)
    a, b = sides
    rows, over = [], False
    for row in a:
        rows.append([])
        for lane in b:
            if None in row or None in lane:
                rows[-1].append(NAN)
                continue
            value, beyond = product.binary32(sum(p * q for p, q in zip(row, lane, strict=True)))
            rows[-1].append(int(np.float32(value).view(np.uint32)))
            over |= beyond
    return np.array(rows, np.uint32), over


def check(on, arrays, must_be_exact=None):
    """All three products; how many were exact."""
    tensors = converted(on, arrays)
    count = 0
    for name, result in results(on, tensors).items():
        got = result.values[name].view(np.uint32)
        if must_be_exact is not None:
            assert result.exact == must_be_exact, name
        if result.exact:
            want, overflow = exact_bits(name, tensors, on.numerics.special)
            np.testing.assert_array_equal(got, want, err_msg=name)
            assert result.overflow == overflow
        count += result.exact
        aligned(name, result, tensors, on.numerics)
    return count


def aligned(name, result, tensors, numerics):
    """The same by the sum as the array forms it, and the same ``exact``."""
    (first, _), (second, _) = FACTORS[name]
    a, b = (
        product.read(tensors[tensor_class], copy)
        for tensor_class, copy in zip((first, second), COPIES[name].values(), strict=True)
    )
    values, exact = product.aligned_product(
        a,
        b,
        block=numerics.block,
        fraction=numerics.fraction,
        product_bits=numerics.product_bits(first, second),
        poison=numerics.special == "poison",
    )
    rows, columns = result.values[name].shape
    want = [
        [np.float32(np.nan if v is None else product.binary32(v)[0]) for v in row[:columns]]
        for row in values[:rows]
    ]
    same_bits(result.values[name], np.array(want, np.float32))
    assert result.exact == exact


def random_arrays(np_rng, **spread):
    return {name: judge.spread(np_rng, shape, **spread) for name, shape in SHAPES.items()}


def one_binade(np_rng):
    return {
        name: (np_rng.uniform(1, 2, shape) * np_rng.choice([-1, 1], shape)).astype(np.float32)
        for name, shape in SHAPES.items()
    }


@pytest.mark.parametrize("names, kind", ALIKE)
def test_one_binade_is_exact(names, kind, np_rng):
    """Elements between 1 and 2, signed: nothing is lost in any format."""
    for block in (1, 2, 4, 8):
        on = device(names, (kind,) * 3, block=block)
        assert check(on, one_binade(np_rng), must_be_exact=True) == 3


@pytest.mark.parametrize("rule", ["nearest", "stochastic-b"])
@pytest.mark.parametrize("names, kind", ALIKE)
def test_random_tensors(names, kind, rule, np_rng):
    on = device(names, (kind,) * 3, rule=rule)
    for width in (1, 3, 9):
        check(on, random_arrays(np_rng, low=-width, high=width))


@pytest.mark.parametrize("names", MIXED)
def test_mixed_formats(names, np_rng):
    for _ in range(4):
        kinds = [str(np_rng.choice(judge.kinds_of(name))) for name in names]
        on = device(names, kinds, special=str(np_rng.choice(["flag", "poison"])))
        assert check(on, one_binade(np_rng), must_be_exact=True) == 3
        for width in (1, 8):
            check(on, random_arrays(np_rng, low=-width, high=width))


@pytest.mark.parametrize("window", [16, 20, 30, 0])
@pytest.mark.parametrize("names", [("fp8_e4m3",) * 3, ("mxfp8_e4m3", "e3m4", "mxfp6_e3m2")])
def test_windows(names, window, np_rng):
    for kind in ("square", "vector"):
        on = device(names, (kind,) * 3, window=window, fraction=7)
        for width in (1, 5):
            check(on, random_arrays(np_rng, low=-width, high=width))


@pytest.mark.parametrize("special", ["flag", "poison"])
@pytest.mark.parametrize("names, kind", ALIKE)
def test_specials(names, kind, special, np_rng):
    """NaN and Inf among the data, and Inf and NaN codes from overflow."""
    on = device(names, (kind,) * 3, special=special, overflow="specification")
    for share in (0.02, 0.3):
        arrays = {
            name: judge.with_specials(np_rng, array, share)
            for name, array in random_arrays(np_rng, low=0, high=1).items()
        }
        check(on, arrays)


@pytest.mark.parametrize("powers", [(-66, -64), (-126, 3), (63, 64), (63, 62), (120, -120)])
@pytest.mark.parametrize("names, kind", ALIKE)
def test_ends_of_binary32(names, kind, powers, np_rng):
    """Results that overflow, that are flushed, and operands at both ends."""
    on = device(names, (kind,) * 3)
    arrays = random_arrays(np_rng, low=0, high=1)
    moved = {"x": powers[0], "w": powers[1], "dy": powers[0]}
    check(on, {name: np.ldexp(array, moved[name]) for name, array in arrays.items()})


@pytest.mark.parametrize("names", [("nvfp4",) * 3, ("fp8_e4m3",) * 3, ("e3m4",) * 3])
def test_given_scales(names, np_rng):
    kind = "vector" if names[0] == "nvfp4" else "tensor"
    on = device(names, (kind,) * 3, source="host")
    arrays = random_arrays(np_rng)
    for scales in ((0, 2, -3), (-9, 4, 8)):
        tensors = {
            name: on.convert(arrays[name], name, tag=tag, scale=scale)
            for tag, (name, scale) in enumerate(zip(SHAPES, scales, strict=True))
        }
        for name, result in results(on, tensors).items():
            aligned(name, result, tensors, on.numerics)
            if result.exact:
                want, _ = exact_bits(name, tensors, "flag")
                np.testing.assert_array_equal(result.values[name].view(np.uint32), want)
