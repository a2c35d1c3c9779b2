"""``quantise`` and ``dequantise``: what a researcher has without a machine."""

import doctest
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import diastole_sim
from diastole_sim import Codes, dequantise, quantise
from diastole_sim.codes import api
from diastole_sim.device.arrays import RoundedWarning
from diastole_sim.device.conversion import Conversion
from diastole_sim.golden.convert import quantise as convert
from diastole_sim.spec.numerics import Numerics
from oracle.libraries import ML_DTYPES

EMAX = {"mxfp8_e4m3": 8, "mxfp6_e3m2": 4, "mxfp6_e2m3": 2, "mxfp4_e2m1": 2}


def data(*shape, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=shape) * np.exp2(rng.integers(-8, 9, shape))).astype(np.float32)


def test_the_example_in_the_text():
    assert doctest.testmod(api).attempted == 8
    assert doctest.testmod(api).failed == 0


@pytest.mark.parametrize("name", EMAX)
@pytest.mark.parametrize("axis", [0, 1])
def test_microscaling_by_other_means(name, axis):
    """OCP MX 1.0, section 6.3: S from the largest magnitude, then nearest even by ml_dtypes."""
    array = data(40, 70)
    got = quantise(array, name, axis=axis, scale="floor")
    lines = array if axis else array.T
    padded = np.zeros((lines.shape[0], -(-lines.shape[1] // 32) * 32))
    padded[:, : lines.shape[1]] = lines
    groups = padded.reshape(lines.shape[0], -1, 32)
    shared = np.floor(np.log2(np.abs(groups).max(axis=2))) - EMAX[name]
    scaled = (groups / np.exp2(shared)[..., None]).reshape(padded.shape)[:, : lines.shape[1]]
    kind = ML_DTYPES[name]
    largest = {"mxfp8_e4m3": 448, "mxfp6_e3m2": 28, "mxfp6_e2m3": 7.5, "mxfp4_e2m1": 6}[name]
    codes = np.clip(scaled, -largest, largest).astype(np.float32).astype(kind).view(np.uint8)
    assert np.array_equal(got.codes, codes if axis else codes.T)
    scales = (shared + 127).astype(np.uint8)
    assert np.array_equal(got.scales, scales if axis else scales.T)


def machine(chosen, **draws):
    return Numerics.from_dict(
        {"x": chosen, "w": chosen, "dy": chosen}
        | {"block": 4, "random_bits": 5, "fraction": 0, "headroom": 1}
        | draws
    )


@pytest.mark.parametrize(
    "kind, grouping",
    [("bfp4", "8x8"), ("mxfp4_e2m1", "1x16"), ("fp8_e4m3", "tensor"), ("nvfp4", "16x16")],
)
def test_a_machine_stores_these_values(kind, grouping):
    """With its draws, those of the second copy too."""
    array = data(19, 37)
    at = {"tag": 8, "step": 2}
    rounding = {"rounding": "stochastic-c", "random_bits": 5, "seed": 3, **at}
    numerics = machine({"format": kind, "grouping": grouping, "rounding": "stochastic-c"})
    tensor = convert(array, Conversion("x", **at), numerics, seed=3)
    for number in range(len(tensor.copies)):
        got = quantise(array, kind, grouping=grouping, axis=1 - number, **rounding)
        assert np.array_equal(got.values(), tensor.values(number))
    assert not np.array_equal(got.codes, quantise(array, kind, grouping=grouping).codes)


@pytest.mark.parametrize(
    "draws, bits",
    [
        ({"rounding_kind": "lfsr", "lfsr_bits": 9}, 8),
        ({"rounding_kind": "lfsr3"}, 3),
        ({"rounding_kind": "data"}, 8),
    ],
)
@pytest.mark.parametrize("rule", ["stochastic-a", "stochastic-b"])
def test_draws_of_every_kind(draws, bits, rule):
    """With the bits that a kind has if nothing is said."""
    array, at = data(19, 37), {"tag": 8, "step": 2}
    where = {"seed": 3, **at}
    chosen = {"format": "mxfp4_e2m1", "grouping": "1x16", "rounding": rule}
    numerics = machine(chosen, random_bits=bits, **draws)
    tensor = convert(array, Conversion("x", **at), numerics, seed=3)
    for number in range(2):
        got = quantise(
            array, "mxfp4_e2m1", grouping="1x16", axis=1 - number, rounding=rule, **where, **draws
        )
        assert np.array_equal(got.values(), tensor.values(number))


def test_calls_draw_the_same_and_the_docstring_begins_with_that():
    array = data(19, 37)

    def drawn(kind, **where):
        return quantise(
            array, "mxfp4_e2m1", rounding="stochastic-b", rounding_kind=kind, **where
        ).codes

    for kind in ("counter", "lfsr", "lfsr3", "data"):
        first = drawn(kind)
        assert all(np.array_equal(drawn(kind), first) for _ in range(2))
        for where in ({"step": 1}, {"tag": 1}, {"seed": 1}):
            assert np.array_equal(drawn(kind, **where), first) == (kind == "data")
    said = " ".join(quantise.__doc__.split("Parameters")[0].split())
    assert "The same arguments give the same numbers in every call, by stochastic" in said
    assert "step=step" in said


@pytest.mark.parametrize(
    "shape, axis", [((50,), 0), ((3, 4, 50), 2), ((3, 50, 4), 1), ((50, 3), -2)]
)
@pytest.mark.parametrize("kind, grouping", [("mxfp8_e5m2", None), ("nvfp4", None), ("bfp4", "1x8")])
def test_vectors_along_any_axis(shape, axis, kind, grouping):
    array = data(*shape)
    got = quantise(array, kind, grouping=grouping, axis=axis)
    rows = np.ascontiguousarray(np.moveaxis(array, axis, -1)).reshape(-1, 50)
    wanted = quantise(rows, kind, grouping=grouping)
    assert got.shape == shape
    assert got.axis == axis % len(shape)

    def as_rows(part):
        return np.moveaxis(part, axis, -1).reshape(len(rows), -1)

    assert np.array_equal(as_rows(got.codes), wanted.codes)
    assert np.array_equal(as_rows(got.scales), wanted.scales)
    assert np.array_equal(as_rows(got.values()), wanted.values())


@pytest.mark.parametrize(
    "kind, grouping, text",
    [
        ("bfp4", None, "bfp4 8x8"),
        ("bfp4", "2x2", "bfp4 2x2"),
        ("fp8_e4m3", None, "fp8_e4m3 tensor"),
        ("e3m2", None, "e3m2 tensor"),
        ("bf16", None, "bf16 tensor"),
        ("mxint8", None, "mxint8 1x32"),
        ("mxint8", "1x2", "mxint8 1x2"),
        ("nvfp4", None, "nvfp4 1x16"),
    ],
)
def test_there_and_back(kind, grouping, text):
    array = data(33, 20)
    got = quantise(array, kind, grouping=grouping)
    assert str(got.form) == text
    values = dequantise(
        got.codes, got.scales, kind, grouping=grouping, tensor_scale=got.tensor_scale
    )
    assert np.array_equal(values.view(np.uint32), got.values().view(np.uint32))
    again = quantise(values, kind, grouping=grouping, tensor_scale=None)
    if kind != "nvfp4":
        assert np.array_equal(again.values(), values)
    error = np.abs(values - array) / np.abs(array).max()
    assert error.max() < 2.0 ** -(got.form.format.precision - 2)


def test_a_tensor_of_any_shape_has_one_scale():
    array = data(2, 3, 5)
    got = quantise(array, "fp8_e4m3")
    assert got.codes.shape == array.shape
    assert got.scales is None
    wanted = quantise(array.reshape(6, 5), "fp8_e4m3")
    assert np.array_equal(got.codes.ravel(), wanted.codes.ravel())
    assert quantise(data(7), "bf16").tensor_scale == 1.0


def test_a_scale_that_is_chosen():
    array = np.array([[1.0, 0.3, 1000.0]], np.float32)
    got = quantise(array, "fp8_e4m3", tensor_scale=0.25)
    assert got.tensor_scale == 0.25
    assert got.values().tolist() == [[1.0, 0.3125, 112.0]]
    beyond = {"tensor_scale": 2.0**-8, "overflow": "specification"}
    inf = quantise(array, "fp8_e5m2", **beyond, special="poison")
    assert inf.values().tolist() == [[1.0, 0.3125, np.inf]]
    largest = quantise(array, "fp8_e5m2", **beyond)  # flagged
    assert largest.values().tolist() == [[1.0, 0.3125, 224.0]]
    assert quantise(array, "nvfp4", tensor_scale=2.0**4).tensor_scale == 16.0


def test_rules_of_scales():
    array = np.array([[7.0, 1.0]])
    codes = {
        rule: quantise(array, "mxfp4_e2m1", scale=rule).values().tolist()
        for rule in ("floor", "even", "ceil", "rceil")
    }
    assert codes == {
        "floor": [[6.0, 1.0]],
        "even": [[8.0, 1.0]],
        "ceil": [[8.0, 1.0]],
        "rceil": [[8.0, 1.0]],
    }


def test_nan_and_inf():
    array = np.array([[1.0, np.nan, -np.inf, 0.5]])
    assert quantise(array, "mxfp8_e5m2").values()[0, 1] == 0
    poisoned = quantise(array, "mxfp8_e5m2", special="poison").values()[0].tolist()
    assert poisoned[0] == 1.0
    assert poisoned[1] != poisoned[1]
    assert poisoned[2] == -np.inf
    whole = quantise(array, "mxfp4_e2m1", special="poison")
    assert whole.scales.tolist() == [[255]]
    assert np.isnan(whole.values()).all()


@pytest.mark.parametrize(
    "kind",
    [
        *("bool", "int8", "uint64", ">i2", "float16", "float64", ">f4", "longdouble"),
        *(ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn, ml_dtypes.int4),
    ],
)
def test_numbers_of_every_type_are_taken(kind):
    array = np.array([[0, 1], [1, 0]], kind)
    assert quantise(array, "bfp4").values().tolist() == [[0, 1], [1, 0]]
    assert quantise(array.tolist(), "bfp4").values().tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize("special", ["flag", "poison"])
def test_finite_numbers_are_taken_by_formats_that_cannot_say_nan(special):
    assert quantise([[3.0, 1.0]], "e3m4", special=special).values().tolist() == [[3, 1]]
    kept = quantise([[3.0, np.nan]], "e3m4", special=special, grouping="8x8")
    assert np.isnan(kept.values()).all() == (special == "poison")


def test_the_package_has_these_names_and_imports_none_of_them_unasked():
    assert set(diastole_sim.__all__) <= set(dir(diastole_sim))
    assert diastole_sim.Codes is Codes
    with pytest.raises(AttributeError) as raised:
        diastole_sim.Devise  # noqa: B018
    assert str(raised.value) == "module 'diastole_sim' has no attribute 'Devise'"
    code = "import sys, diastole_sim; sys.exit('numpy' in sys.modules)"
    folder = diastole_sim.__path__[0].removesuffix("/diastole_sim")
    assert subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": folder}).returncode == 0


def test_what_float32_rounds_is_said():
    with pytest.warns(
        RoundedWarning,
        match="^array is rounded from float64 to float32, and 1 of 1 elements change; pass float32",
    ):
        found = quantise(np.array([[1.0625 * (1 + 2.0**-40)]]), "mxfp8_e4m3")
    assert found.values().tolist() == [[1.0]]  # rounded once more: 1.125 is nearer
