"""The user's tensors: what is taken, what is refused and in which words."""

import io

import numpy as np
import pytest

from diastole import tensors
from diastole.errors import BadInput
from diastole.presets import PRESETS

NUMERICS = PRESETS["nano"].numerics
SHORT = (
    PRESETS["pico"]
    .model_copy(
        update={"accumulator": PRESETS["pico"].accumulator.model_copy(update={"headroom": 2})}
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
    got, notes = tensors.read(path, op)
    assert list(got) == names
    assert notes == []
    path = npz(other=zeros)
    assert refused(tensors.read, path, op) == [
        f"{path}: has no array {name} (it has other)" for name in names
    ]


@pytest.mark.parametrize("kind", ["float64", "float16", "int64", "uint8", "bool", ">f4"])
def test_other_numbers_are_converted_and_that_is_said(npz, kind):
    values = np.array([[0, 1, 0], [1, 1, 0]], kind)
    got, notes = tensors.read(npz(X=values, W=values.T.astype(np.float32)), "forward")
    assert got["X"].dtype == np.dtype(np.float32) and got["X"].flags.c_contiguous
    assert np.array_equal(got["X"], values)
    assert notes == [f"X was converted from {np.dtype(kind)} to float32"]


def test_conversion_rounds_once_and_overflows_to_inf(npz):
    values = np.array([[1 + 2.0**-24, 1e300, 2**53 + 1]])
    got, _ = tensors.read(npz(X=values, W=np.zeros((3, 1), np.float32)), "forward")
    assert got["X"].tolist() == [[1.0, np.inf, 2.0**53]]
    assert tensors.warnings(got) == [
        "X holds Inf (1 of 3 elements), taken as the largest magnitude of its block"
    ]


def test_warnings_name_the_tensor():
    bad = np.array([[np.nan, np.inf], [-np.inf, 0]], np.float32)
    good = np.zeros((2, 2), np.float32)
    assert tensors.warnings({"X": good, "W": bad}) == [
        "W holds NaN (1 of 4 elements), taken as +0",
        "W holds Inf (2 of 4 elements), taken as the largest magnitude of its block",
    ]


@pytest.mark.parametrize(
    "array, message",
    [
        (np.zeros(3), "X must have 2 dimensions, not 1 (its shape is (3,))"),
        (np.float32(3), "X must have 2 dimensions, not 0 (its shape is ())"),
        (np.zeros((1, 2, 3)), "X must have 2 dimensions, not 3 (its shape is (1, 2, 3))"),
        (np.zeros((0, 3)), "X must not have an empty axis (its shape is (0, 3))"),
        (np.zeros((3, 0)), "X must not have an empty axis (its shape is (3, 0))"),
        (np.zeros((2, 2), complex), "X must hold real numbers, not complex128"),
        (np.array([["a"]]), "X must hold real numbers, not <U1"),
        (
            np.array([[None]]),
            "the array X cannot be read: Object arrays cannot be loaded when allow_pickle=False",
        ),
    ],
)
def test_unusable_arrays(npz, array, message):
    path = npz(X=array, W=np.zeros((2, 2)))
    assert refused(tensors.read, path, "forward") == [f"{path}: {message}"]


def test_every_unusable_array_is_named(npz):
    path = npz(X=np.zeros(1), W=np.zeros((0, 1)))
    assert refused(tensors.read, path, "backward") == [
        f"{path}: has no array dY (it has X, W)",
        f"{path}: X must have 2 dimensions, not 1 (its shape is (1,))",
        f"{path}: W must not have an empty axis (its shape is (0, 1))",
    ]


def as_npy():
    buffer = io.BytesIO()
    np.save(buffer, np.zeros((2, 2)))
    return buffer.getvalue()


@pytest.mark.parametrize("content", [b"", b"hello", as_npy()], ids=["empty", "text", "npy"])
def test_no_npz(tmp_path, content):
    path = tmp_path / "a.npz"
    path.write_bytes(content)
    assert refused(tensors.read, path, "forward") == [f"{path}: is no .npz file"]


def test_truncated_npz(npz):
    path = npz(X=np.zeros((50, 50)), W=np.zeros((50, 50)))
    path.write_bytes(path.read_bytes()[:-200])
    assert refused(tensors.read, path, "forward") == [f"{path}: is no .npz file"]


def test_damaged_array(npz):
    path = npz(X=np.zeros((50, 50)), W=np.zeros((50, 50)))
    content = bytearray(path.read_bytes())
    content[1000] ^= 1
    path.write_bytes(content)
    assert refused(tensors.read, path, "forward") == [
        f"{path}: the array X cannot be read: Bad CRC-32 for file 'X.npy'"
    ]


def test_no_file(tmp_path):
    path = tmp_path / "a.npz"
    assert refused(tensors.read, path, "forward") == [f"{path}: No such file or directory"]
    assert refused(tensors.read, tmp_path, "forward") == [f"{tmp_path}: Is a directory"]


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
    given = {name: given[name] for name in tensors.OPERATIONS[op]}
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
    with pytest.raises(OSError, match="full"):
        tensors.write(path, floats(Y=(2, 3)))
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["b.npz"]


def test_where_no_file_can_be(tmp_path):
    missing = tmp_path / "no" / "b.npz"
    assert refused(tensors.check_writable, tmp_path) == [f"{tmp_path}: is a directory"]
    assert refused(tensors.check_writable, missing) == [
        f"{missing}: there is no folder {missing.parent}"
    ]
