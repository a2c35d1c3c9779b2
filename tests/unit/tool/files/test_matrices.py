"""Matrices of any name: what is taken, what is left out, what is refused."""

import numpy as np
import pytest

from diastole.errors import BadInput
from diastole.files.matrices import operands_of, read_matrices

GOOD = np.array([[1.5, -2], [0.25, 3]], np.float32)


@pytest.fixture
def npz(tmp_path):
    def write(**arrays):
        np.savez(tmp_path / "a.npz", **arrays)
        return tmp_path / "a.npz"

    return write


@pytest.mark.parametrize("kind", ["<f2", ">f4", "<f8", np.longdouble])
@pytest.mark.parametrize("order", ["C", "F"])
def test_floats_of_any_kind_become_float32(npz, kind, order):
    found, notes = read_matrices(npz(A=np.array(GOOD, kind, order=order), B=GOOD))
    assert list(found) == ["A", "B"]
    for matrix in found.values():
        assert matrix.dtype == np.dtype("=f4")
        assert matrix.flags.c_contiguous
        np.testing.assert_array_equal(matrix, GOOD)
    assert notes == [f"A was converted from {np.dtype(kind)} to float32"]


def test_what_is_too_large_is_infinite(npz):
    found, _ = read_matrices(npz(A=np.array([[1e300, -1e300]])))
    assert found["A"].tolist() == [[np.inf, -np.inf]]


@pytest.mark.parametrize(
    "array, reason",
    [
        (np.ones((2, 2), np.int8), "the array holds int8, not floats"),
        (np.ones((2, 2), complex), "the array holds complex128, not floats"),
        (np.array([["a"]]), "the array holds <U1, not floats"),
        (np.array([[None]]), "the array holds Python objects"),
        (np.float32(1), "the shape () is not the shape of a matrix"),
        (np.ones((2, 2, 2)), "the shape (2, 2, 2) is not the shape of a matrix"),
        (np.ones((2, 0)), "the shape (2, 0) is not the shape of a matrix"),
    ],
)
def test_what_is_no_matrix_is_left_out(npz, array, reason):
    found, notes = read_matrices(npz(bad=array, good=GOOD))
    assert (list(found), notes) == (["good"], [f"bad was left out: {reason}"])
    path = npz(bad=array)
    with pytest.raises(BadInput) as caught:
        read_matrices(path)
    assert caught.value.problems == (
        f"{path}: has no matrix of floats",
        f"{path}: bad was left out: {reason}",
    )


def test_what_is_damaged_is_refused(npz):
    """A file with a broken array is not to be trusted in the others; each is named."""
    path = npz(A=GOOD, B=2 * GOOD, C=4 * GOOD, ids=np.ones(3))
    content = path.read_bytes()
    path.write_bytes(
        content.replace((2 * GOOD).tobytes(), bytes(16)).replace((4 * GOOD).tobytes(), bytes(16))
    )
    with pytest.raises(BadInput) as caught:
        read_matrices(path)
    assert caught.value.problems == tuple(
        f"{path}: the array {name} cannot be read: Bad CRC-32 for file '{name}.npy'"
        for name in "BC"
    )


@pytest.mark.parametrize(
    "array, problem",
    [
        (np.ones((2, 2), complex), "must hold real numbers, not complex128"),
        (np.array([["a"]]), "must hold real numbers, not <U1"),
        (np.array([["2026-01-01"]], "datetime64[D]"), "must hold real numbers, not datetime64[D]"),
        (np.array(None), "must hold real numbers, not Python objects"),
        (np.ones((2, 2), [("a", "f4")]), "must hold real numbers, not [('a', '<f4')]"),
        (np.ones(3), "must have 2 dimensions, not 1; the shape is (3,)"),
        (np.ones((2, 2, 2)), "must have 2 dimensions, not 3; the shape is (2, 2, 2)"),
        (np.ones((2, 0)), "must not have an empty axis; the shape is (2, 0)"),
    ],
)
@pytest.mark.parametrize("name", ["X", "w", "DY"])
def test_an_operand_is_not_left_out_but_refused(npz, name, array, problem):
    path = npz(**{name: array, "good": GOOD})
    with pytest.raises(BadInput) as caught:
        read_matrices(path)
    assert caught.value.problems == (f"{path}: {name} {problem}",)


@pytest.mark.parametrize("kind", [np.int8, np.uint64, bool])
def test_operands_may_be_whole_numbers(npz, kind):
    found, notes = read_matrices(npz(X=np.array([[0, 1]], kind)))
    assert found["X"].dtype == np.float32
    assert found["X"].tolist() == [[0, 1]]
    assert notes == [f"X was converted from {np.dtype(kind)} to float32"]


def test_operands_by_their_names(npz):
    found, _ = read_matrices(npz(dy=GOOD, other=GOOD, X=2 * GOOD))
    assert {name: each.tolist() for name, each in operands_of(found).items()} == {
        "X": (2 * GOOD).tolist(),
        "dY": GOOD.tolist(),
    }


def test_two_of_one_operand(npz):
    path = npz(X=GOOD, x=GOOD, dY=GOOD, dy=np.ones(3), A=GOOD, a=GOOD)
    with pytest.raises(BadInput) as caught:
        read_matrices(path)
    assert caught.value.problems == (
        f"{path}: dy must have 2 dimensions, not 1; the shape is (3,)",
        f"{path}: X and x are the same tensor: keep one",
        f"{path}: dY and dy are the same tensor: keep one",
    )
