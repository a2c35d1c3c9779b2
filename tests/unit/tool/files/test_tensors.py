"""The user's tensors: what is taken, what is refused and in which words."""

import io

import numpy as np
import pytest

from diastole.config.presets import PRODUCTS_ONLY
from diastole.errors import BadInput
from diastole.files import tensors
from diastole_sim.spec.numerics import Numerics

NUMERICS = PRODUCTS_ONLY["nano"].numerics
SHORT = (
    PRODUCTS_ONLY["pico"]
    .model_copy(
        update={"accumulator": PRODUCTS_ONLY["pico"].accumulator.model_copy(update={"headroom": 2})}
    )
    .numerics
)  # at most 4 blocks of 4


@pytest.fixture
def npz(tmp_path):
    """``npz(X=...)`` writes a file of these arrays and returns its path."""

    def write(**arrays):
        path = tmp_path / "a.npz"
        np.savez(path, **arrays)
        return path

    return write


def refused(function, *arguments):
    with pytest.raises(BadInput) as caught:
        function(*arguments)
    return list(caught.value.problems)


@pytest.mark.parametrize(
    "op, names",
    [
        ("forward", ["X", "W"]),
        ("dx", ["W", "dY"]),
        ("dw", ["X", "dY"]),
        ("backward", ["X", "W", "dY"]),
    ],
)
def test_reads_what_the_operation_needs(npz, op, names):
    zeros = np.zeros((2, 2), np.float32)
    path = npz(X=zeros, W=zeros, dY=zeros, other=np.zeros(3))
    given = tensors.read_tensors(path, op, NUMERICS)
    assert list(given.tensors) == names
    assert (given.notes, given.scales) == ([], {})
    path = npz(other=zeros)
    assert refused(tensors.read_tensors, path, op, NUMERICS) == [
        f"{path}: has no array {name}; the arrays of the file are other" for name in names
    ]


@pytest.mark.parametrize("kind", ["float64", "float16", "int64", "uint8", "bool", ">f4"])
def test_other_numbers_are_converted_and_that_is_said(npz, kind):
    values = np.array([[0, 1, 0], [1, 1, 0]], kind)
    given = tensors.read_tensors(npz(X=values, W=values.T.astype(np.float32)), "forward", NUMERICS)
    got = given.tensors
    assert got["X"].dtype == np.dtype(np.float32)
    assert got["X"].flags.c_contiguous
    assert np.array_equal(got["X"], values)
    assert given.notes == [f"X was converted from {np.dtype(kind)} to float32"]


def test_conversion_rounds_once_and_overflows_to_inf(npz):
    values = np.array([[1 + 2.0**-24, 1e300, 2**53 + 1]])
    path = npz(X=values, W=np.zeros((3, 1), np.float32))
    got = tensors.read_tensors(path, "forward", NUMERICS).tensors
    assert got["X"].tolist() == [[1.0, np.inf, 2.0**53]]
    assert tensors.warnings(got, "flag") == [f"X holds Inf (1 of 3 elements), {LARGEST}"]


LARGEST = (
    "which become the largest magnitude of the group (0 in a group of zeros with a scale "
    "of its own)"
)


def test_warnings_name_the_tensor():
    bad = np.array([[np.nan, np.inf], [-np.inf, 0]], np.float32)
    good = np.zeros((2, 2), np.float32)
    assert tensors.warnings({"X": good, "W": bad}, "flag") == [
        "W holds NaN (1 of 4 elements), which become +0",
        f"W holds Inf (2 of 4 elements), {LARGEST}",
    ]
    assert tensors.warnings({"X": good, "W": bad}, "poison") == [
        "W holds NaN (1 of 4 elements), which turn every dependent result into NaN",
        "W holds Inf (2 of 4 elements), which turn every dependent result into NaN",
    ]


@pytest.mark.parametrize(
    "array, message",
    [
        (np.zeros(3), "X must have 2 dimensions, not 1; the shape is (3,)"),
        (np.float32(3), "X must have 2 dimensions, not 0; the shape is ()"),
        (np.zeros((1, 2, 3)), "X must have 2 dimensions, not 3; the shape is (1, 2, 3)"),
        (np.zeros((0, 3)), "X must not have an empty axis; the shape is (0, 3)"),
        (np.zeros((3, 0)), "X must not have an empty axis; the shape is (3, 0)"),
        (np.zeros((2, 2), complex), "X must hold real numbers, not complex128"),
        (np.array([["a"]]), "X must hold real numbers, not <U1"),
        (
            np.array([[None]]),
            "the array X cannot be read: the array holds Python objects, which are not loaded",
        ),
    ],
)
def test_unusable_arrays(npz, array, message):
    path = npz(X=array, W=np.zeros((2, 2)))
    assert refused(tensors.read_tensors, path, "forward", NUMERICS) == [f"{path}: {message}"]


def test_every_unusable_array_is_named(npz):
    path = npz(X=np.zeros(1), W=np.zeros((0, 1)))
    assert refused(tensors.read_tensors, path, "backward", NUMERICS) == [
        f"{path}: X must have 2 dimensions, not 1; the shape is (1,)",
        f"{path}: W must not have an empty axis; the shape is (0, 1)",
        f"{path}: has no array dY; the arrays of the file are X, W",
    ]


def as_npy():
    buffer = io.BytesIO()
    np.save(buffer, np.zeros((2, 2)))
    return buffer.getvalue()


@pytest.mark.parametrize("content", [b"", b"hello", as_npy()], ids=["empty", "text", "npy"])
def test_no_npz(tmp_path, content):
    path = tmp_path / "a.npz"
    path.write_bytes(content)
    assert refused(tensors.read_tensors, path, "forward", NUMERICS) == [
        f"{path}: is not a .npz file"
    ]


def test_truncated_npz(npz):
    path = npz(X=np.zeros((50, 50)), W=np.zeros((50, 50)))
    path.write_bytes(path.read_bytes()[:-200])
    assert refused(tensors.read_tensors, path, "forward", NUMERICS) == [
        f"{path}: is not a .npz file"
    ]


def test_damaged_array(npz):
    path = npz(X=np.zeros((50, 50)), W=np.zeros((50, 50)))
    content = bytearray(path.read_bytes())
    content[1000] ^= 1
    path.write_bytes(content)
    assert refused(tensors.read_tensors, path, "forward", NUMERICS) == [
        f"{path}: the array X cannot be read: Bad CRC-32 for file 'X.npy'"
    ]


def test_no_file(tmp_path):
    path = tmp_path / "a.npz"
    assert refused(tensors.read_tensors, path, "forward", NUMERICS) == [
        f"{path}: there is no such file"
    ]
    assert refused(tensors.read_tensors, tmp_path, "forward", NUMERICS) == [
        f"{tmp_path}: Is a directory"
    ]


def floats(**shapes):
    return {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize(
    "op, shapes, macs",
    [
        ("forward", {"X": (3, 5), "W": (5, 7)}, 105),
        ("dx", {"W": (5, 7), "dY": (3, 7)}, 105),
        ("dw", {"X": (3, 5), "dY": (3, 7)}, 105),
        ("backward", {"X": (3, 5), "W": (5, 7), "dY": (3, 7)}, 210),
    ],
)
def test_sizes(op, shapes, macs):
    sizes = tensors.check_sizes(op, floats(**shapes), NUMERICS)
    assert sizes == tensors.Sizes(m=3, k=5, n=7)
    assert sizes.macs(op) == macs


@pytest.mark.parametrize(
    "op, shapes, messages",
    [
        ("forward", {"X": (3, 5), "W": (6, 7)}, ["K is 5 in X (3 x 5) but 6 in W (6 x 7)"]),
        ("dx", {"W": (5, 7), "dY": (3, 8)}, ["N is 7 in W (5 x 7) but 8 in dY (3 x 8)"]),
        ("dw", {"X": (3, 5), "dY": (4, 7)}, ["M is 3 in X (3 x 5) but 4 in dY (4 x 7)"]),
        (
            "backward",
            {"X": (3, 5), "W": (6, 7), "dY": (4, 8)},
            [
                "K is 5 in X (3 x 5) but 6 in W (6 x 7)",
                "M is 3 in X (3 x 5) but 4 in dY (4 x 8)",
                "N is 7 in W (6 x 7) but 8 in dY (4 x 8)",
            ],
        ),
    ],
)
def test_shapes_that_do_not_agree(op, shapes, messages):
    assert refused(tensors.check_sizes, op, floats(**shapes), NUMERICS) == messages


def too_long(result, axis, size, blocks):
    return (
        f"the contraction of {result} over {axis} = {size} must be at most "
        f"2^accumulator.headroom = 4 blocks of 4, not {blocks}"
    )


@pytest.mark.parametrize(
    "op, m, k, n, messages",
    [
        ("forward", 99, 16, 99, []),
        ("forward", 1, 17, 1, [too_long("Y", "K", 17, 5)]),
        ("dx", 99, 99, 16, []),
        ("dx", 1, 1, 17, [too_long("dX", "N", 17, 5)]),
        ("dw", 16, 99, 99, []),
        ("dw", 17, 1, 1, [too_long("dW", "M", 17, 5)]),
        ("backward", 16, 99, 16, []),
        ("backward", 99, 1, 17, [too_long("dX", "N", 17, 5), too_long("dW", "M", 99, 25)]),
    ],
)
def test_contractions_that_are_too_long(op, m, k, n, messages):
    given = floats(X=(m, k), W=(k, n), dY=(m, n))
    given = {name: given[name] for name in tensors.OPERATIONS[op].operand_names}
    if messages:
        assert refused(tensors.check_sizes, op, given, SHORT) == messages
    else:
        assert tensors.check_sizes(op, given, SHORT) == tensors.Sizes(m, k, n)


def test_write_replaces_the_file_and_leaves_nothing_beside_it(tmp_path):
    path = tmp_path / "b.out"
    path.write_text("old")
    tensors.write(path, floats(Y=(2, 3)))
    assert np.load(path)["Y"].shape == (2, 3)
    assert [file.name for file in tmp_path.iterdir()] == ["b.out"]


def test_a_failed_write_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "b.npz"
    path.write_text("old")
    monkeypatch.setattr(np, "savez", lambda *_, **__: (_ for _ in ()).throw(OSError("full")))
    assert refused(tensors.write, path, floats(Y=(2, 3))) == [f"{path}: full"]
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["b.npz"]


# Scales and codes.


def chosen(source="current", special="flag", **given):
    """Numerics with classes of one kind, in blocks of 4."""
    classes = dict.fromkeys(("x", "w", "dy"), {"rounding": "nearest"} | given)
    return Numerics.from_dict(
        classes
        | {"block": 4, "random_bits": 8, "fraction": 9, "headroom": 4}
        | {"source": source, "special": special}
    )


GIVEN = chosen("host", format="fp8_e4m3")
ONES = {"X": np.ones((2, 3), np.float32), "W": np.ones((3, 2), np.float32)}


@pytest.mark.parametrize(
    "scale, exponent",
    [
        (1, 8),
        (1.0, 8),
        (np.float32(0.25), 6),
        (np.int64(1024), 18),
        ([2.0], 9),
        (2.0**-134, -126),
        (2.0**119, 127),
    ],
)
def test_scales_that_are_given(npz, scale, exponent):
    got = tensors.read_tensors(npz(**ONES, X_scale=scale), "forward", GIVEN)
    assert (got.scales, got.notes) == ({"X": exponent}, [])
    two_level = chosen("host", format="nvfp4")
    if exponent <= 117 + 8:
        got = tensors.read_tensors(npz(**ONES, W_scale=scale), "forward", two_level)
        assert got.scales == {"W": exponent - 8}


@pytest.mark.parametrize(
    "scale, shown",
    [
        (3, "3"),
        (0, "0"),
        (-2, "-2"),
        (np.nan, "nan"),
        (np.inf, "inf"),
        (2.0**120, repr(2.0**120)),
        (2.0**-135, repr(2.0**-135)),
        (True, "True"),
        ("2", "'2'"),
        ([1.0, 1.0], "float64 of shape (2,)"),
    ],
)
def test_scales_that_are_none(npz, scale, shown):
    path = npz(**ONES, X_scale=scale)
    assert refused(tensors.read_tensors, path, "forward", GIVEN) == [
        f"{path}: X_scale must be a power of two in 2^-134..2^119, not {shown}"
    ]


@pytest.mark.parametrize(
    "numerics, what",
    [
        (NUMERICS, "bfp4 in groups 8x8, and scale.source is current"),
        (chosen(format="fp8_e4m3"), "fp8_e4m3 in groups tensor, and scale.source is current"),
        (chosen("host", format="bf16"), "bf16 in groups tensor, and scale.source is host"),
    ],
)
def test_scales_that_are_not_used(npz, numerics, what):
    got = tensors.read_tensors(npz(**ONES, X_scale=2), "forward", numerics)
    assert (got.scales, got.notes) == ({}, [f"X_scale is not used: X is {what}"])


MX = chosen(format="mxfp8_e4m3", grouping="1x4")
MX_X = {
    "X_format": "mxfp8_e4m3 1x4",
    "X_codes_k": np.array([[0x38, 0x80, 0xB8, 0x01, 0x7E]], np.uint8),
    "X_scales_k": np.array([[127, 130]], np.uint8),
    "X_codes_m": np.full((1, 5), 0x38, np.uint8),
    "X_scales_m": np.full((1, 5), 126, np.uint8),
}
MX_W = {"W": np.ones((5, 2), np.float32)}


def test_operands_by_codes(npz):
    got = tensors.read_tensors(npz(**MX_X, **MX_W), "forward", MX, codes=True)
    x = got.tensors["X"]
    assert (x.shape, got.notes) == ((1, 5), [])
    assert x.values(0).tolist() == [[1.0, 0.0, -1.0, 2.0**-9, 448 * 8]]
    assert x.values(1).tolist() == [[0.5] * 5]
    assert got.tensors["W"].dtype == np.float32
    assert tensors.check_sizes("forward", got.tensors, MX) == tensors.Sizes(m=1, k=5, n=2)
    path = npz(**MX_X, **MX_W)
    assert (
        f"{path}: has no array X; the arrays of the file are"
        in refused(tensors.read_tensors, path, "forward", MX)[0]
    )


def test_nan_and_inf_in_codes_are_warned_of(npz):
    numerics = chosen(format="fp8_e5m2", special="poison")
    codes = np.array([[0x7C, 0xFC, 0x7F, 0x3C]], np.uint8)
    coded = {"X_codes": codes, "X_format": "fp8_e5m2 tensor", "X_tensor_scale": [2.0]}
    got = tensors.read_tensors(npz(**coded, W=np.ones((4, 1))), "forward", numerics, codes=True)
    assert tensors.warnings(got.tensors, "poison") == [
        "X holds NaN (1 of 4 elements), which turn every dependent result into NaN",
        "X holds Inf (2 of 4 elements), which turn every dependent result into NaN",
    ]


def test_minus_128_is_noted(npz):
    numerics = chosen(format="mxint8", grouping="4x4")
    coded = {
        "X_format": "mxint8 4x4",
        "X_codes": np.array([[0x80, 0x81, 0x7F, 0x80]], np.uint8),
        "X_scales": np.array([[127 + 6]], np.uint8),
    }
    got = tensors.read_tensors(
        npz(**coded, W=np.ones((4, 1), np.float32)), "forward", numerics, codes=True
    )
    assert got.notes == ["X_codes: 2 elements of -128 were taken as -127"]
    assert got.tensors["X"].values().tolist() == [[-127, -127, 127, -127]]


@pytest.mark.parametrize(
    "change, messages",
    [
        ({"X_codes_m": None}, ["has no array X_codes_m; the arrays of the file are {names}"]),
        ({"X_format": None}, ["has no array X_format; the arrays of the file are {names}"]),
        (
            {"X_format": "mxfp8_e5m2 1x4"},
            [
                (
                    'X_format must be "mxfp8_e4m3 1x4", as the configuration has it, '
                    'not "mxfp8_e5m2 1x4"'
                )
            ],
        ),
        (
            {"X_format": "mxfp8_e4m3 1x32"},
            [
                (
                    'X_format must be "mxfp8_e4m3 1x4", as the configuration has it, '
                    'not "mxfp8_e4m3 1x32"'
                )
            ],
        ),
        (
            {"X_codes_k": MX_X["X_codes_k"].astype(np.int64)},
            ["X_codes_k must be uint8 for mxfp8_e4m3 1x4, not int64"],
        ),
        (
            {"X_scales_k": MX_X["X_scales_k"].T},
            [
                (
                    "X_scales_k must be uint8 of shape (1, 2) for mxfp8_e4m3 1x4, "
                    "not uint8 of shape (2, 1)"
                )
            ],
        ),
        (
            {"X_scales_m": None},
            ["X_scales_m must be uint8 of shape (1, 5) for mxfp8_e4m3 1x4, not absent"],
        ),
        (
            {"X_scales_k": np.array([[0, 130]], np.uint8)},
            [
                (
                    "X_scales_k must not be 0 in a group with nonzero elements; 3 nonzero "
                    "elements have the scale 0"
                )
            ],
        ),
        (
            {"X_tensor_scale": 1.0},
            ["X_tensor_scale must be left out: mxfp8_e4m3 1x4 has no scale of the whole tensor"],
        ),
        ({"X": np.ones((1, 5))}, ["X and the codes of X exclude each other: keep one"]),
        (
            {"X_codes_m": np.full((2, 5), 1, np.uint8)},
            ["X: both copies of a tensor must have the same shape and the same tensor scale"],
        ),
        (
            {"X_scales_m": np.full((1, 5), 254, np.uint8), "X_codes_m": MX_X["X_codes_m"] + 64},
            ["X: elements of mxfp8_e4m3 must be at most 1.75 * 2^127 in a machine"],
        ),
    ],
)
def test_codes_that_are_refused(npz, change, messages):
    arrays = MX_X | MX_W | change
    arrays = {name: array for name, array in arrays.items() if array is not None}
    path = npz(**arrays)
    names = ", ".join(arrays)
    assert refused(lambda: tensors.read_tensors(path, "forward", MX, codes=True)) == [
        f"{path}: {message.format(names=names)}" for message in messages
    ]


def test_codes_out_of_range(npz):
    numerics = chosen(format="mxfp6_e2m3", grouping="1x4")
    copies = {
        f"X_{part}_{axis}": array
        for axis in "km"
        for part, array in (("codes", np.full((4, 4), 64, np.uint8)), ("scales", None))
        if array is not None
    }
    scales = {"X_scales_k": np.full((4, 1), 127, np.uint8)}
    scales["X_scales_m"] = scales["X_scales_k"].T
    path = npz(X_format="mxfp6_e2m3 1x4", **copies, **scales, W=np.ones((4, 1)))
    assert refused(lambda: tensors.read_tensors(path, "forward", numerics, codes=True)) == [
        f"{path}: X_codes_{axis} must hold codes of mxfp6_e2m3, 0..63, not 64" for axis in "km"
    ]
