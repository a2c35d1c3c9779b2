"""The file of a training's state: whole, of one training, and nothing else."""

import numpy as np
import pytest

from diastole.errors import BadInput
from diastole.files.training_state import StateFile
from diastole_sim.train.history import History
from diastole_sim.train.state import TrainingState
from support.texts import exactly

TRAINING = {"task": "digits", "seed": 3, "master": {"kind": "float32", "bits": None}}
STATE = TrainingState(
    steps=4,
    arrays={"weights.0.value": np.float32([[1, -0.0], [np.nan, 1e-45]])},
    counts={"cycles": 7, "total_cycles": None},
    scale={"exponent": 3, "clean": 1, "skipped": 0},
    history=History(losses=[0.5, 0.25], accuracies=[0.1, 1.0], held_out=[(4, 0.3, 0.9)]),
)


def test_what_is_kept_is_there(tmp_path):
    path = tmp_path / "state.npz"
    file = StateFile(path, TRAINING)
    assert file.load() is None
    assert file.steps is None
    file.keep(STATE)
    assert file.steps == 4
    assert [each.name for each in tmp_path.iterdir()] == ["state.npz"]
    again = StateFile(path, TRAINING)
    found = again.load()
    assert again.steps == 4
    assert found.record() == STATE.record()
    assert found.history == STATE.history
    ((name, array),) = found.arrays.items()
    assert array.tobytes() == STATE.arrays[name].tobytes()


def test_of_another_training(tmp_path):
    path = tmp_path / "state.npz"
    StateFile(path, TRAINING).keep(STATE)
    text = f"{path}: is the state of another training, in which seed is 3, not 4: give the "
    text += "options of that training, or another file"
    with pytest.raises(BadInput, match=exactly(text)):
        StateFile(path, TRAINING | {"seed": 4}).load()


def test_what_is_no_state(tmp_path):
    path = tmp_path / "state.npz"
    text = exactly(f"{path}: is not the state of a training; give another file")
    for arrays in ({"X": np.ones(3)}, {"record": np.frombuffer(b"{}", np.uint8)}):
        np.savez(path, **arrays)
        with pytest.raises(BadInput, match=text):
            StateFile(path, TRAINING).load()
    path.write_bytes(b"no archive")
    with pytest.raises(BadInput, match=r"state\.npz"):
        StateFile(path, TRAINING).load()
    with pytest.raises(BadInput, match="there is no folder"):
        StateFile(tmp_path / "no" / "state.npz", TRAINING)
