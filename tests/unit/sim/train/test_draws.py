"""The host's random choices: complete, uniform, and a function of the seed and the tag."""

import numpy as np
import pytest

from diastole_sim.train.draws import initial_weights, permutation
from diastole_sim.train.job import minibatches
from diastole_sim.train.tasks import Samples, find_task, load_digits, split


def test_a_permutation_has_everything_once():
    order = permutation(1000, seed=1, tag=2, step=3)
    assert sorted(order.tolist()) == list(range(1000))
    assert abs(np.corrcoef(order, np.arange(1000))[0, 1]) < 0.1


@pytest.mark.parametrize("other", [{"seed": 5}, {"tag": 5}, {"step": 5}])
def test_permutations_differ(other):
    given = {"seed": 1, "tag": 2, "step": 3}
    assert not np.array_equal(permutation(100, **given), permutation(100, **(given | other)))


def test_initial_weights_fill_their_range():
    weights = initial_weights(64, 100, seed=0, layer=0)
    limit = np.sqrt(6 / 64)
    assert weights.shape == (64, 100)
    assert weights.dtype == np.float32
    assert -limit <= weights.min() < -0.99 * limit
    assert 0.99 * limit < weights.max() < limit
    assert abs(weights.mean()) < 0.02 * limit
    assert weights.std() == pytest.approx(limit / np.sqrt(3), rel=0.02)
    assert not np.array_equal(weights, initial_weights(64, 100, seed=0, layer=1))
    assert not np.array_equal(weights, initial_weights(64, 100, seed=1, layer=0))


def test_digits_are_split_without_overlap_and_loss():
    samples = load_digits()
    assert samples.inputs.shape == (1797, 64)
    assert samples.inputs.dtype == np.float32
    assert (samples.inputs.min(), samples.inputs.max()) == (0, 1)
    numbered = Samples(inputs=np.arange(1797, dtype=np.float32)[:, None], labels=samples.labels)
    training, held_out = split(numbered, seed=0)
    assert (len(training.labels), len(held_out.labels)) == (1437, 360)
    everything = np.concatenate([training.inputs, held_out.inputs])[:, 0].astype(int)
    assert sorted(everything) == list(range(1797))
    labels = np.concatenate([training.labels, held_out.labels])
    assert np.array_equal(labels, samples.labels[everything])
    assert not np.array_equal(held_out.inputs, split(numbered, seed=1)[1].inputs)


def test_an_epoch_of_minibatches_takes_no_sample_twice():
    samples = Samples(inputs=np.arange(10, dtype=np.float32)[:, None], labels=np.arange(10))
    batches = minibatches(samples, 4, seed=0)
    epochs = [np.concatenate([next(batches).labels for _ in range(2)]) for _ in range(3)]
    for epoch in epochs:
        assert len(set(epoch.tolist())) == 8
    assert not np.array_equal(epochs[0], epochs[1])


def test_another_name_of_the_digits():
    assert find_task("digits-mlp") is find_task("digits")
