"""The scale of the loss of a training, and its floors; what is expected follows by hand."""

import numpy as np
import pytest

from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.train.loss_scaling import UNSCALED, HostScale, LossScaling
from diastole_sim.train.samples import Samples
from diastole_sim.train.session import Session
from diastole_sim.train.transformer import Transformer, TransformerSizes
from support.host_perceptron import Perceptron
from support.numerics import make_numerics

GNMT = ((40_000, 13), (150_000, 15))


@pytest.mark.parametrize(
    "step, floor",
    [(0, -14), (39_999, -14), (40_000, 13), (149_999, 13), (150_000, 15), (999_999, 15)],
)
def test_floor_of_a_step(step, floor):
    assert LossScaling(floors=GNMT).floor(step) == floor


def test_steps_of_a_host():
    """Overflows in steps 2, 3 and 6; a window of 2; floors 4 from step 4, 7 from step 6 on."""
    scale = HostScale(LossScaling(exponent=3, window=2, largest=9, floors=((4, 4), (6, 7))))
    one = np.array([2.0], np.float32)
    used, after = [], []
    for step in range(8):
        scale.begin_step(step)
        used.append(scale.scaled(one)[0] / 2)
        overflows = step in (2, 3, 6)
        found = scale.unscaled([one, np.float32([np.inf if overflows else 4.0])], overflowed=False)
        assert bool(found) is not overflows
        if found:
            assert found[0][0] == 2 / used[-1]
            assert found[1][0] == 4 / used[-1]
        after.append((scale.state.exponent, scale.state.clean))
    assert used == [8, 8, 16, 8, 16, 16, 128, 128]
    assert after == [(3, 1), (4, 0), (3, 0), (2, 0), (4, 1), (5, 0), (7, 0), (7, 1)]
    assert scale.record() == {"exponent": 7, "clean": 1, "skipped": 3}


def test_a_host_goes_on():
    scaling = LossScaling(exponent=3, window=2, floors=((4, 4),))
    first, second = HostScale(scaling), HostScale(scaling)
    first.begin_step(0)
    first.unscaled([np.float32([1.0])], overflowed=True)
    second.restore(first.record())
    assert (second.state.exponent, second.skipped) == (2, 1)
    for each in (first, second):
        each.begin_step(4)
    assert vars(first.state) == vars(second.state)


def test_without_a_scale_nothing_changes():
    one = np.float32([np.inf])
    assert UNSCALED.scaled(one) is one
    assert UNSCALED.unscaled([one], overflowed=True) == [one]
    assert UNSCALED.record() == {"exponent": 0, "clean": 0, "skipped": 0}


def small():
    """Networks with a batch each."""
    random = np.random.default_rng(3)
    inputs = random.standard_normal((8, 6)).astype(np.float32)
    labels = random.integers(3, size=8)
    yield Perceptron((6, 4, 3), seed=1), Samples(inputs=inputs, labels=labels)
    sizes = TransformerSizes(context=4, width=8, heads=2, blocks=1, symbols=6)
    symbols = random.integers(6, size=(2, 5))
    yield Transformer(sizes, seed=1), Samples(inputs=symbols[:, :-1], labels=symbols[:, 1:])


class Overflowing(HostScale):
    def scaled(self, gradient):
        return gradient * np.float32(np.inf)


@pytest.mark.parametrize("which", [0, 1], ids=["perceptron", "transformer"])
def test_networks(which):
    """A power of two changes no bit where nothing is rounded differently; a step that overflows
    changes no parameter."""
    shas, scaling = [], LossScaling(exponent=5)
    for scale in (UNSCALED, HostScale(scaling), Overflowing(scaling)):
        network, batch = list(small())[which]
        session = Session(NumpyDevice(make_numerics(formats="bf16", roundings=("nearest",) * 3)))
        shas.append(network.sha256())
        with np.errstate(all="ignore"):
            network.train_step(
                session, batch, step=0, rate=np.float32(0.5), momentum=0.8, scale=scale
            )
        shas.append(network.sha256())
    before, plain, _, scaled, _, skipped = shas
    assert scaled == plain != before
    assert skipped == before
    assert (scale.skipped, scale.state.exponent) == (1, 4)


@pytest.mark.parametrize(
    "value, overflow, overflowed",
    [
        (57344.0, "specification", False),
        (61440.0, "specification", True),
        (61440.0, "saturate", False),
        (np.inf, "saturate", True),
        (np.nan, "saturate", True),
    ],
)
def test_gradients_that_overflow_in_their_format(value, overflow, overflowed):
    """E5M2 without a scale ends at 57344; what lies halfway to 65536 is Inf, where it is not
    saturated. Activations and weights are no gradients."""
    roundings, overflows = ("nearest",) * 3, (overflow,) * 3
    numerics = make_numerics(
        formats="fp8_e5m2", roundings=roundings, overflows=overflows, source="host"
    )
    session = Session(NumpyDevice(numerics))
    tensor = np.full((4, 4), value, np.float32)
    for name in ("x", "w"):
        session.convert(tensor, name, layer=0, step=0)
    assert not session.overflowed
    session.convert(tensor, "dy", layer=0, step=0)
    assert session.overflowed is overflowed


def test_products_that_overflow():
    numerics = make_numerics(formats="bf16", roundings=("nearest",) * 3)
    session = Session(NumpyDevice(numerics))
    large = session.convert(np.full((4, 4), 2.0**100, np.float32), "x", layer=0, step=0)
    small, wide = (
        session.convert(np.full((4, 4), each, np.float32), "w", layer=0, step=0)
        for each in (1.0, 2.0**100)
    )
    session.forward(large, small, layer=0, step=0)
    assert not session.overflowed
    session.forward(large, wide, layer=0, step=0)
    assert session.overflowed
