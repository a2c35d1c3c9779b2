"""The golden device: what its conversions and products read, return and refuse."""

from dataclasses import replace

import numpy as np
import pytest

from diastole_sim.device.conversion import Conversion
from diastole_sim.device.tensor_scales import TensorScales
from diastole_sim.golden import numpy_device as device_module
from diastole_sim.golden.numpy_device import NumpyDevice, pieces
from diastole_sim.spec.formats import parse_format
from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.operations import OPERATIONS
from oracle import formats as oracle
from support.judge import with_specials
from support.stored import make_numerics

NUMERICS = Numerics.from_dict(
    {
        "block": 4,
        "x": {"format": "bfp4", "rounding": "stochastic-a"},
        "w": {"format": "bfp5", "rounding": "stochastic-b"},
        "dy": {"format": "bfp6", "rounding": "stochastic-c"},
        "random_bits": 7,
        "fraction": 18,
        "headroom": 14,
    }
)
RULES = {"X": ("stochastic-a", 4), "W": ("stochastic-b", 5), "dY": ("stochastic-c", 6)}
CLASSES = {"X": "x", "W": "w", "dY": "dy"}
TAGS = {"X": 0, "W": 1, "dY": 2}
COPIES = {"Y": {"X": 0, "W": 1}, "dX": {"dY": 0, "W": 0}, "dW": {"X": 1, "dY": 1}}
"""By result, the copies that its product reads."""


@pytest.fixture
def data(np_rng):
    shapes = {"X": (6, 5), "W": (5, 9), "dY": (6, 9)}
    return {n: np_rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}


def run(device, op, given, **options):
    return getattr(device, op)(*(given[name] for name in OPERATIONS[op].operand_names), **options)


def convert(device, data, **options):
    return {
        name: device.convert(array, CLASSES[name], tag=tag, **options)
        for tag, (name, array) in enumerate(data.items())
    }


# Operands.


@pytest.mark.parametrize("op", OPERATIONS)
def test_arrays_are_converted_with_seed_tag_and_step(op, data):
    tags = dict(zip(("X", "W", "dY"), (20, 21, 22), strict=True))
    chosen = tuple(tags[name] for name in OPERATIONS[op].operand_names)
    result = run(NumpyDevice(NUMERICS, seed=5), op, data, tags=chosen, step=3)
    assert result.op == op
    assert result.counters is None
    assert tuple(result.operands) == OPERATIONS[op].operand_names
    assert tuple(result.values) == OPERATIONS[op].result_names
    for name, tensor in result.operands.items():
        rule, bits = RULES[name]
        options = {"name": f"bfp{bits}", "kind": "square", "size": 4, "scale_rule": "floor"}
        where = {"seed": 5, "tag": tags[name], "step": 3}
        want = oracle.quantise(data[name].tolist(), block=4, bits=7, rule=rule, **options, **where)
        values = np.array(want.copies[0].values, dtype=np.float32)
        np.testing.assert_array_equal(tensor.values(), values)


@pytest.mark.parametrize("op", OPERATIONS)
def test_default_tags_are_layer_zero(op, data):
    device = NumpyDevice(NUMERICS, seed=1)
    result = run(device, op, data)
    for name, tensor in result.operands.items():
        number, tensor_class = {"X": (0, "x"), "W": (1, "w"), "dY": (2, "dy")}[name]
        want = device.convert(data[name], tensor_class, tag=number, step=0)
        np.testing.assert_array_equal(tensor.values(), want.values())


# Products.


@pytest.mark.parametrize("special", ["flag", "poison"])
@pytest.mark.parametrize("name", oracle.NAMES)
def test_products_with_the_identity_are_the_operand(name, special, np_rng):
    """What is stored is multiplied; whatever Inf and NaN reach is NaN. The identity is 1 x 1,
    so that a NaN reaches its own row alone; of NVFP4, whose scales have no 1/6, it is 6."""
    one = np.float32(6 if name == "nvfp4" else 1)
    column = np_rng.standard_normal((40, 1)).astype(np.float32)
    if name == "bf16":  # near the largest, which an Inf becomes, so that no product is rounded
        column = np.copysign(np.float32(1.5 * 2.0**120), column)
    column = with_specials(np_rng, column, 0.2)
    chosen = make_numerics(name, block=8, fraction=30, headroom=1, special=special)
    result = NumpyDevice(chosen).forward(column, one.reshape(1, 1))
    assert result.exact
    values = result.operands["X"].values()
    want = np.where(np.isfinite(values), values, np.nan)
    np.testing.assert_array_equal(result.y / one, want)


EXACT = {
    "bfp": (("bfp4", "bfp5", "bfp6"), {}),
    "vectors": ((("bfp4", "1x4"), ("bfp7", "1x8"), ("bfp2", "1x4")), {}),
    "e4m3": (("fp8_e4m3",), {"window": 0, "fraction": 0}),
    "mxfp6": ((("mxfp6_e3m2", "1x4"),), {}),
    "mxfp4 beside squares": ((("mxfp4_e2m1", "1x4"), ("mxint8", "1x4"), ("bfp3", "8x8")), {}),
    "nvfp4": ((("nvfp4", "1x4"), ("nvfp4", "8x8"), ("nvfp4", "1x8")), {"fraction": 28}),
}


@pytest.mark.parametrize("formats, options", EXACT.values(), ids=EXACT)
def test_values_are_the_three_equations(formats, options, data):
    """Of the copies that the products read; small enough for float64 to be exact."""
    device = NumpyDevice(make_numerics(*formats, **options), seed=3)
    given = convert(device, data)
    wide = {
        result: {name: given[name].values(copy % len(given[name].copies)).astype(np.float64)
                 for name, copy in read.items()}
        for result, read in COPIES.items()
    }  # fmt: skip
    want = {
        "Y": wide["Y"]["X"] @ wide["Y"]["W"],
        "dX": wide["dX"]["dY"] @ wide["dX"]["W"].T,
        "dW": wide["dW"]["X"].T @ wide["dW"]["dY"],
    }
    got = {op: run(device, op, given) for op in OPERATIONS}
    for op, result in got.items():
        assert result.exact
        assert not result.overflow
        assert result.operands == {
            name: given[name] for name in OPERATIONS[op].operand_names
        }  # the very tensors
        for name, values in result.values.items():
            np.testing.assert_array_equal(values, want[name].astype(np.float32), f"{op} {name}")


@pytest.mark.parametrize(
    "formats",
    ["fp8_e4m3", ("fp8_e5m2", "4x4"), "bf16", ("mxfp8_e4m3", "1x4"), ("mxfp8_e5m2", "1x8")],
)
@pytest.mark.parametrize("power", [0, -30])
def test_a_window_costs_little(formats, power, data):
    """Converter and product agree on what stored exponents are counted from: what the window drops
    is three orders below the elements' own rounding, wherever in the format's range the data is."""
    device = NumpyDevice(make_numerics(formats))
    given = convert(device, {name: array * np.float32(2.0**power) for name, array in data.items()})
    x, w = given["X"].values(0), given["W"].values(len(given["W"].copies) - 1)
    want = x.astype(np.float64) @ w.astype(np.float64)
    error = device.forward(given["X"], given["W"]).y - want
    assert np.abs(want).min() > 0
    assert np.sqrt(np.mean(error**2) / np.mean(want**2)) < 1e-3


def test_backward_joins_the_flags():
    """dX is inexact or overflows alone, then dW alone; backward says it of both."""
    device = NumpyDevice(NUMERICS)
    ones = np.ones((4, 8), np.float32)
    for huge, small in (("W", "X"), ("X", "W")):
        data = {"X": ones, "W": np.ones((8, 4), np.float32), "dY": np.ones((4, 4), np.float32)}
        data[huge] = data[huge] * np.float32(2.0**127)
        both = run(device, "backward", data)
        affected, other = (both.dx, both.dw) if huge == "W" else (both.dw, both.dx)
        assert both.overflow, small
        assert np.isinf(affected).all(), small
        assert np.isfinite(other).all(), small
        assert both.exact
    for name in ("dx", "dw"):
        data = {"X": np.ones((8, 4), np.float32), "W": np.ones((4, 8), np.float32)}
        data["dY"] = np.ones((8, 8), np.float32)
        data["dY"][:, :4] = data["dY"][:, :4] * np.float32(2.0**-30)
        if name == "dw":
            data["dY"] = data["dY"].T.copy()
        assert not run(device, name, data).exact
        assert run(device, "dw" if name == "dx" else "dx", data).exact
        assert not run(device, "backward", data).exact


@pytest.mark.parametrize("name", ["dx", "dw"])
def test_backward_is_exact_only_if_no_window_cuts(name):
    """Elements far below the top of their block, where one of the two contractions meets them."""
    device = NumpyDevice(make_numerics("fp8_e4m3", window=16))
    deep = np.ones((4, 4), np.float32)
    deep[:, 1] = 2.0**-13
    data = {name: np.ones((4, 4), np.float32) for name in CLASSES}
    data["W" if name == "dx" else "X"] = deep  # folding: 4 + 13 and 4 bits of 16
    assert not run(device, name, data).exact
    assert run(device, "dw" if name == "dx" else "dx", data).exact
    assert not run(device, "backward", data).exact


@pytest.mark.parametrize("special", ["flag", "poison"])
@pytest.mark.parametrize("formats", ["bfp4", "fp8_e5m2", ("mxfp4_e2m1", "1x4"), ("nvfp4", "1x4")])
def test_not_a_number_on_its_way_through_both_products(formats, special, data):
    """A NaN of dY at (4, 7) is in every dX of its row and in every dW of its column, and in those
    of its group where the format has no NaN."""
    device = NumpyDevice(make_numerics(formats, special=special))
    data["dY"][4, 7] = np.nan
    both = run(device, "backward", data)
    assert both.operands["dY"].nan
    squares = formats == "bfp4"
    rows, columns = (range(4, 6), range(4, 8)) if squares else ([4], [7])
    want = np.zeros(both.dx.shape, bool), np.zeros(both.dw.shape, bool)
    if special == "poison":
        want[0][rows, :] = True
        want[1][:, columns] = True
    np.testing.assert_array_equal(np.isnan(both.dx), want[0])
    np.testing.assert_array_equal(np.isnan(both.dw), want[1])


@pytest.mark.parametrize(
    "op, name",
    [("forward", "dX"), ("dx", "Y"), ("dw", "dX")],
)
def test_a_tensor_that_was_not_computed(op, name, data):
    with pytest.raises(KeyError):
        getattr(run(NumpyDevice(NUMERICS), op, data), name.lower())


# Stacks.

STACKED = EXACT | {
    "bfp, few bits": (("bfp3",), {"special": "poison", "fraction": 2}),
    "fp8": (("fp8_e4m3",), {"window": 16}),
    "fp8 e5m2": (("fp8_e5m2",), {"fraction": 14}),
    "delayed": (("fp8_e4m3",), {"source": "delayed"}),
    "bf16": (("bf16",), {}),
    "mxfp8, poison": ((("mxfp8_e4m3", "1x4"),), {"special": "poison"}),
    "mxfp8 e5m2": ((("mxfp8_e5m2", "1x8"),), {}),
    "nvfp4 in vectors": ((("nvfp4", "1x4"),), {}),
}


def stacks(np_rng, *, special):
    """Matrices of very different magnitudes, some of zeros, some not finite; one W for all."""
    shapes = {"X": (7, 6, 5), "W": (5, 9), "dY": (7, 6, 9)}
    found = {n: np_rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    for name in ("X", "dY"):
        found[name][1] *= np.float32(2.0**40)
        found[name][2] *= np.exp2(np_rng.integers(-20, 20, found[name][2].shape)).astype(np.float32)
        found[name][3] = 0
        found[name][4, 1:3, 2] = (np.nan, -np.inf) if special else 3.4e38
        found[name][5, :, 1:] *= np.float32(2.0**-25)
        found[name][6] *= np.float32(2.0**-120)
    return found


def alike(got, wanted):
    """Two converted tensors, bit for bit, and what is known of them."""
    for name, values in wanted.copy_values().items():
        np.testing.assert_array_equal(got.copy_values()[name].view("u4"), values.view("u4"))
    for name in ("shape", "tensor_class", "tensor_exponent", "amax", "nan", "inf"):
        assert getattr(got, name) == getattr(wanted, name), name
        assert type(getattr(got, name)) is type(getattr(wanted, name)), name
    for name in ("saturated", "underflowed"):
        assert getattr(got, name) == getattr(wanted, name), name
    for copy, want in zip(got.copies, wanted.copies, strict=True):
        assert (copy.transposed, copy.shape) == (want.transposed, want.shape)
        for name in ("codes", "exponents", "row_max", "col_max", "folds"):
            assert getattr(copy, name).dtype == getattr(want, name).dtype
            np.testing.assert_array_equal(getattr(copy, name), getattr(want, name), name)


@pytest.mark.parametrize("drawn", [False, True], ids=["finite", "drawn, special"])
@pytest.mark.parametrize("op", OPERATIONS)
@pytest.mark.parametrize("formats, options", STACKED.values(), ids=STACKED)
@pytest.mark.sampled(4)
def test_a_stack_is_the_loop(formats, options, op, drawn, np_rng):
    """Bit for bit, with one W for all, converted with the first product."""
    plain = make_numerics(*formats, **options).to_dict()
    if drawn:
        for name in CLASSES:
            plain[CLASSES[name]]["rounding"] = RULES[name][0]
            if parse_format(plain[CLASSES[name]]["format"]).must_saturate is None:
                plain[CLASSES[name]]["overflow"] = "specification"
    numerics, data = Numerics.from_dict(plain), stacks(np_rng, special=drawn)
    device, loop = NumpyDevice(numerics, seed=9), NumpyDevice(numerics, seed=9)
    result = run(device, op, data, step=2)
    w, results = data["W"], []
    for number in range(7):
        given = {"X": data["X"][number], "W": w, "dY": data["dY"][number]}
        tags = tuple(4 * number + TAGS[name] for name in OPERATIONS[op].operand_names)
        results.append(run(loop, op, given, tags=tags, step=2))
        w = results[0].operands.get("W", w)
    for name, values in result.values.items():
        want = np.stack([each.values[name] for each in results])
        assert values.dtype == np.float32
        np.testing.assert_array_equal(values.view("u4"), want.view("u4"))
    for name, tensor in result.operands.items():
        wanted = [each.operands[name] for each in results]
        own = tensor.tensors if name != "W" else [tensor]
        for got, want in zip(own, wanted, strict=name != "W"):
            alike(got, want)
    assert result.exact == all(each.exact for each in results)
    assert result.overflow == any(each.overflow for each in results)
    assert result.counters is None


def test_delayed_scales_of_a_stack_are_those_of_its_places():
    """Each matrix has the scale of the one before it at its own tag."""
    device = NumpyDevice(
        make_numerics("fp8_e4m3", window=0, fraction=0, headroom=4, source="delayed")
    )
    for step, powers, want in ((0, (3, 7), [3, 7]), (1, (5, 1), [3, 7]), (2, (0, 0), [5, 1])):
        stack = device.convert_stack(
            np.stack([scaled(power) for power in powers]), "x", tag=0, step=step
        )
        assert [tensor.tensor_exponent for tensor in stack.tensors] == want


def test_each_of_a_stack_overflows_alone():
    device = NumpyDevice(NUMERICS)
    x = np.ones((3, 4, 4), np.float32)
    x[1] = 2.0**127
    result = device.forward(x, 4 * np.ones((4, 4), np.float32))
    assert result.overflow
    assert np.isinf(result.y).any(axis=(1, 2)).tolist() == [False, True, False]


@pytest.mark.parametrize(
    "count, elements, lengths",
    [(5, 1 << 14, [2, 2, 1]), (4, 1 << 14, [2, 2]), (3, 1 << 20, [1, 1, 1]), (9, 1, [9])],
)
def test_pieces(count, elements, lengths):
    parts = [list(range(count)[part]) for part in pieces(count, elements)]
    assert [index for part in parts for index in part] == list(range(count))
    assert [len(part) for part in parts] == lengths


def test_stacks_are_done_in_pieces_that_stay_near(np_rng, monkeypatch):
    """As many matrices at once as are small together; nobody sees how many."""
    x = np_rng.standard_normal((5, 6, 5)).astype(np.float32)
    w = np_rng.standard_normal((5, 5, 9)).astype(np.float32)
    found = []
    for limit in (1, 2 * 9 * 6, 1 << 20):
        monkeypatch.setattr(device_module, "BATCH_ELEMENTS", limit)
        found.append(NumpyDevice(NUMERICS, seed=4).forward(x, w).y)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_copies_are_named_by_the_axes_of_their_groups(data):
    """X is M x K, W is K x N, dY is M x N: groups run along the columns' axis, then the rows'."""
    axes = {"X": ("k", "m"), "W": ("n", "k"), "dY": ("n", "m")}
    given = convert(NumpyDevice(make_numerics(("bfp2", "1x4"))), data)
    for name, tensor in given.items():
        assert tuple(tensor.copy_values()) == axes[name]
    assert tuple(convert(NumpyDevice(NUMERICS), data)["X"].copy_values()) == ("",)


# Scales of tensors.


def scaled(power, shape=(3, 5)):
    return np.full(shape, 1.5 * 2.0**power, np.float32)


def test_a_given_scale():
    """Elements of E4M3 go up to 1.75 * 2^e; a scale of 1 has e = 8."""
    device = NumpyDevice(make_numerics("fp8_e4m3", window=0, fraction=0, headroom=4, source="host"))
    for scale, power, want in ((4, 4, 1.5 * 2.0**4), (2, 4, 1.75 * 2.0**2), (None, 20, 448.0)):
        tensor = device.convert(scaled(power), "x", tag=0, scale=scale)
        assert tensor.tensor_exponent == (8 if scale is None else scale)
        assert (tensor.values() == want).all()
        assert tensor.saturated == (0 if scale == 4 else 15)


def test_a_given_scale_of_nvfp4():
    device = NumpyDevice(make_numerics("nvfp4", source="host"))
    assert device.convert(scaled(3), "x", tag=0).tensor_exponent == 0
    assert device.convert(scaled(3), "x", tag=0, scale=-5).tensor_exponent == -5


def test_a_delayed_scale_is_that_of_the_tensor_before():
    """Of the same class and tag; measured in the first step, and after a step of zeros."""
    device = NumpyDevice(
        make_numerics("fp8_e4m3", window=0, fraction=0, headroom=4, source="delayed")
    )

    def exponent(power, cls="x", tag=0, step=0):
        array = scaled(power) if power is not None else np.zeros((3, 5), np.float32)
        return device.convert(array, cls, tag=tag, step=step).tensor_exponent

    assert exponent(3) == 3
    assert exponent(7, step=1) == 3
    assert exponent(5, tag=4) == 5  # another tag
    assert exponent(-2, cls="w") == -2  # another class
    assert exponent(None, step=2) == 7
    assert exponent(1, step=3) == 1
    assert exponent(2, step=4) == 1


def test_a_conversion_that_is_refused_begins_no_step():
    device = NumpyDevice(
        make_numerics("fp8_e4m3", window=0, fraction=0, headroom=4, source="delayed")
    )
    device.convert(scaled(3), "x", tag=0, step=0)
    for wrong in ({"width": 3}, {"step": -1}):
        (key,) = wrong
        with pytest.raises(ValueError, match=f"^{key}"):
            device.convert(scaled(9), "x", tag=0, **{"step": 1} | wrong)
    assert device.convert(scaled(5), "x", tag=0, step=0).tensor_exponent == 5  # measured
    assert device.convert(scaled(1), "x", tag=0, step=1).tensor_exponent == 5


def test_a_delayed_scale_keeps_what_is_given_to_products():
    device = NumpyDevice(
        make_numerics("fp8_e4m3", window=0, fraction=0, headroom=4, source="delayed")
    )
    x, w = scaled(2, (4, 4)), scaled(0, (4, 4))
    assert device.forward(x, w, step=0).operands["X"].tensor_exponent == 2
    assert device.forward(x * 4, w, step=1).operands["X"].tensor_exponent == 2
    assert device.forward(x, w, step=2).operands["X"].tensor_exponent == 4


@pytest.mark.parametrize("history, margin", [(1, 0), (1, 3), (2, 0), (5, 1), (1024, 15)])
def test_a_delayed_scale_is_that_of_the_steps_before(history, margin, rng):
    """The largest of all conversions of the last steps that had one. What is expected is looked up
    in the list of all conversions."""
    numerics = make_numerics(
        "fp8_e4m3", window=0, fraction=0, headroom=4, source="delayed", history=history,
        margin=margin,
    )  # fmt: skip
    device = NumpyDevice(numerics)
    seen = {tag: [] for tag in (0, 4)}
    step = 0
    for _ in range(60):
        step += rng.choice([0, 0, 1, 1, 2, 7])
        tag, power = rng.choice([0, 4]), rng.randrange(-120, 127)
        steps = sorted({at for at, _ in seen[tag] if at != step})[-history:]
        before = [each for at, each in seen[tag] if at in steps]
        want = min(127, max(before) + margin) if before else power
        tensor = device.convert(scaled(power), "x", tag=tag, step=step)
        assert tensor.tensor_exponent == want
        seen[tag].append((step, power))


def test_micro_batches_of_a_step_have_one_scale():
    """Largest magnitudes 1, 100, 1 in each step: nothing of the second step saturates."""
    device = NumpyDevice(
        make_numerics("fp8_e4m3", window=0, fraction=0, headroom=4, source="delayed")
    )
    for step in range(3):
        for largest in (1, 100, 1):
            array = np.full((16, 16), largest, np.float32)
            tensor = device.convert(array, "x", tag=0, step=step)
            if step:
                assert tensor.tensor_exponent == 6  # of 100
                assert tensor.saturated == 0
            else:
                assert tensor.tensor_exponent == (6 if largest == 100 else 0)  # measured


@pytest.mark.parametrize("source", ["current", "delayed"])
@pytest.mark.parametrize("formats", ["bfp4", "fp8_e4m3"])
def test_scales_that_are_measured(source, formats):
    scales = TensorScales(make_numerics(formats, source=source))
    five, six = Conversion("x", step=5), Conversion("x", step=6)
    assert scales.choose(five) is None
    scales.remember(five, 0x4000_0000)  # 2
    delayed = (source, formats) == ("delayed", "fp8_e4m3")
    assert scales.choose(five) is None
    assert scales.choose(six) == (1 if delayed else None)
    assert scales.choose(replace(six, tag=1)) is None
