"""A user's samples: what is taken, and what is said of the rest."""

import numpy as np
import pytest

from diastole.errors import BadInput
from diastole.files.samples import read_samples


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.uint8])
def test_taken(tmp_path, kind):
    inputs = np.arange(60).reshape(12, 5).astype(kind)
    np.savez(tmp_path / "a.npz", inputs=inputs, labels=np.arange(12, dtype=np.uint8) % 3, more=[1])
    samples = read_samples(tmp_path / "a.npz")
    assert samples.inputs.dtype == np.float32
    assert samples.labels.dtype == np.int64
    assert samples.inputs.tolist() == np.arange(60).reshape(12, 5).tolist()
    assert samples.labels.tolist() == [0, 1, 2] * 4


GOOD = {"inputs": np.zeros((12, 5)), "labels": np.arange(12) % 3}
NAN = np.zeros((12, 5))
NAN[3, 3] = np.nan


@pytest.mark.parametrize(
    "changed, problem",
    [
        ({"inputs": None}, "needs inputs (samples x features) and labels (samples); it has labels"),
        (
            {"inputs": np.zeros(12)},
            "inputs must be numbers (samples x features), not float64 of (12,)",
        ),
        (
            {"inputs": np.zeros((12, 5), complex)},
            "inputs must be numbers (samples x features), not complex128 of (12, 5)",
        ),
        ({"inputs": NAN}, "inputs must be finite"),
        ({"inputs": np.full((12, 5), 1e300)}, "inputs must be within the range of float32"),
        ({"labels": np.zeros(12)}, "labels must be integers (samples), not float64 of (12,)"),
        ({"labels": np.arange(12) - 1}, "labels must be in 0..65535, not -1..10"),
        ({"labels": np.arange(11) % 3}, "there must be a label for each of 12 inputs, not 11"),
        (
            {"labels": np.zeros(12, int)},
            "there must be at least 10 samples, and a label above 0; there are 12",
        ),
        (
            {"inputs": np.zeros((3, 5)), "labels": np.arange(3)},
            "there must be at least 10 samples, and a label above 0; there are 3",
        ),
    ],
)
def test_mistakes(tmp_path, changed, problem):
    path = tmp_path / "a.npz"
    given = {name: array for name, array in (GOOD | changed).items() if array is not None}
    np.savez(path, **given)
    with pytest.raises(BadInput) as caught:
        read_samples(path)
    assert caught.value.problems == (f"{path}: {problem}",)


def test_two_mistakes_at_once(tmp_path):
    np.savez(tmp_path / "a.npz", inputs=np.zeros(3), labels=np.zeros(3))
    with pytest.raises(BadInput) as caught:
        read_samples(tmp_path / "a.npz")
    assert len(caught.value.problems) == 2
