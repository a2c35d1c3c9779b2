"""A training that goes on from the state of another run is the training that was never stopped."""

import json

import numpy as np
import pytest

from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.spec.numerics import Numerics
from diastole_sim.train.history import History
from diastole_sim.train.job import run_task
from diastole_sim.train.loss_scaling import HostScale, LossScaling
from diastole_sim.train.master import FLOAT32, Master
from diastole_sim.train.samples import Samples
from diastole_sim.train.session import Session
from diastole_sim.train.state import TrainingState
from diastole_sim.train.transformer import Transformer, TransformerSizes
from support.host_perceptron import Perceptron, samples_by_host

CLASS = {"format": "bfp4", "rounding": "nearest"}
NUMERICS = Numerics.from_dict(
    {
        "block": 4,
        "x": CLASS,
        "w": CLASS,
        "dy": CLASS | {"rounding": "stochastic-b"},
        "random_bits": 8,
        "fraction": 18,
        "headroom": 4,
    }
)
STEPS = 7


class Stopped(Exception):
    pass


class Kept:
    """In memory, through the bytes of a file; stops a training after ``stop`` steps."""

    def __init__(self, stop=None):
        self.stop, self.state = stop, None

    def load(self):
        if self.state is None:
            return None
        record, arrays = self.state
        return TrainingState.read(json.loads(record), arrays)

    def keep(self, state):
        arrays = {name: each.copy() for name, each in state.arrays.items()}
        self.state = json.dumps(state.record()), arrays
        if state.steps == self.stop:
            raise Stopped


@pytest.fixture
def task():
    random = np.random.default_rng(3)
    inputs = random.standard_normal((40, 6)).astype(np.float32)
    return samples_by_host(Samples(inputs=inputs, labels=random.integers(3, size=40)), "mine")


def trained(task, keeper, master=FLOAT32, loss_scaling=None):
    device = NumpyDevice(NUMERICS, seed=2)
    how = {"master": master, "loss_scaling": loss_scaling, "keeper": keeper}
    if loss_scaling is not None:
        how["gradient"] = "fp8_e5m2"
    return run_task(task, device, backend="golden", steps=STEPS, seed=5, **how)


@pytest.mark.parametrize("master", [FLOAT32, Master(kind="bf16")], ids=["float32", "bf16"])
@pytest.mark.parametrize("stop", [1, 4, STEPS])
def test_the_same_training(task, stop, master):
    plain = trained(task, None, master)
    keeper = Kept(stop)
    with pytest.raises(Stopped):
        trained(task, keeper, master)
    keeper.stop = None
    resumed = trained(task, keeper, master)
    names = ("weights_sha256", "loss", "accuracy", "history", "macs", "products", "steps")
    for name in names:
        assert getattr(resumed, name) == getattr(plain, name), name


@pytest.mark.parametrize("stop", range(1, STEPS + 1))
def test_the_same_scale_of_the_loss(task, stop):
    """The floor rises with the steps of the training, not with those of a run: 3, then after two
    clean steps 4, 9 from step 4 on, 10 after two more."""
    scaling = LossScaling(exponent=3, window=2, floors=((4, 9),))
    keeper = Kept(stop)
    with pytest.raises(Stopped):
        trained(task, keeper, loss_scaling=scaling)
    assert keeper.load().scale["exponent"] == [3, 4, 4, 5, 9, 10, 10][stop - 1]
    keeper.stop = None
    resumed = trained(task, keeper, loss_scaling=scaling)
    plain = trained(task, None, loss_scaling=scaling)
    names = ("weights_sha256", "history", "last_loss_scale", "skipped_steps")
    for name in names:
        assert getattr(resumed, name) == getattr(plain, name), name
    assert (plain.last_loss_scale, plain.skipped_steps) == (10, 0)


def test_counts_go_on(task):
    keeper = Kept()
    trained(task, keeper)
    state = keeper.load()
    assert state.steps == STEPS
    assert state.counts["products"] > 0
    assert state.counts["cycles"] is state.counts["total_cycles"] is None


def some_network():
    sizes = TransformerSizes(context=4, width=8, heads=2, blocks=1, symbols=6)
    return Transformer(sizes, seed=1)


def test_every_parameter_of_a_network():
    for network in (Perceptron((3, 4, 2), seed=1), some_network()):
        before, session = network.sha256(), Session(NumpyDevice(NUMERICS))
        scale = HostScale()
        state = TrainingState.of(3, network, session, History(), scale)
        assert len(state.arrays) == 2 * sum(map(len, network.parameters_by_name.values()))
        changed = {name: each + np.float32(1) for name, each in state.arrays.items()}
        other = TrainingState.read(state.record(), changed)
        other.restore(network, session, scale)
        assert network.sha256() != before
        state.restore(network, session, scale)
        assert network.sha256() == before


def test_of_another_network():
    session = Session(NumpyDevice(NUMERICS))
    scale = HostScale()
    state = TrainingState.of(1, Perceptron((3, 4, 2), seed=1), session, History(), scale)
    with pytest.raises(
        ValueError, match=r"^parameter 0 of weights has a different shape in this training$"
    ):
        state.restore(Perceptron((5, 4, 2), seed=1), session, scale)
    with pytest.raises(KeyError):
        state.restore(Perceptron((3, 4, 2, 2), seed=1), session, scale)


def test_cycles_before(monkeypatch):
    session = Session(NumpyDevice(NUMERICS))
    assert session.total_cycles is None
    monkeypatch.setattr(NumpyDevice, "total_cycles", 5, raising=False)
    assert session.total_cycles == 5
    session.cycles_before = 7
    assert session.total_cycles == 12
