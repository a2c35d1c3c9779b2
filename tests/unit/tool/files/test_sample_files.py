"""A user's samples: what is taken, and what is said of the rest."""

import numpy as np
import pytest

from diastole.files.sample_files import read_samples


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.uint8])
def test_taken(tmp_path, kind):
    inputs = np.arange(60).reshape(12, 5).astype(kind)
    np.savez(tmp_path / "a.npz", inputs=inputs, labels=np.arange(12, dtype=np.uint8) % 3, more=[1])
    samples = read_samples(tmp_path / "a.npz")
    assert samples.inputs.dtype == np.float32
    assert samples.labels.dtype == np.int64
    assert samples.inputs.tolist() == np.arange(60).reshape(12, 5).tolist()
    assert samples.labels.tolist() == [0, 1, 2] * 4
