"""`train --state`: another run of the same command goes on."""

from command_line import error
from diastole.files.training_state import StateFile

TRAIN = ("train", "nano.toml", "--task", "text", "--steps", "4", "--backend", "golden")


def stop_after(monkeypatch, steps, stopping):
    keep = StateFile.keep

    def stopped(self, state):
        keep(self, state)
        if state.steps == steps:
            raise stopping

    monkeypatch.setattr(StateFile, "keep", stopped)
    return keep


def test_interrupted_and_again(diastole, monkeypatch, tmp_path):
    plain = diastole(*TRAIN, "--json").json
    keep = stop_after(monkeypatch, 2, KeyboardInterrupt)
    result = diastole(*TRAIN, "--state", "state.npz", "--json")
    assert (result.code, result.out) == (130, "")
    goes_on = "state.npz has the state after step 2: the same command continues from this step"
    assert result.err[-2:] == [f"diastole: {goes_on}", "diastole: error: interrupted"]
    monkeypatch.setattr(StateFile, "keep", keep)
    result = diastole(*TRAIN, "--state", "state.npz", "--json")
    assert result.code == 0
    for name in ("weights_sha256", "accuracy", "loss", "products"):
        assert result.json[name] == plain[name]
    assert not any("step 1 of" in line or "step 2 of" in line for line in result.err)
    again = diastole(*TRAIN, "--state", "state.npz", "--json").json
    assert again["weights_sha256"] == plain["weights_sha256"]
    result = diastole(*TRAIN, "--state", "state.npz", "--seed", "1")
    text = "state.npz: is the state of another training, in which seed is 0, not 1: give the "
    text += "options of that training, or another file"
    assert (result.code, result.err[-1:]) == (2, error(text))


def test_another_scale_of_the_loss(diastole, tmp_path):
    """The floor belongs to the training: with another one the state is of another training."""
    scaled = ("--loss-scale", "3", "--loss-scale-floor", "2=7")
    first = diastole(*TRAIN, *scaled, "--state", "state.npz", "--json").json
    again = diastole(*TRAIN, *scaled, "--state", "state.npz", "--json").json
    for name in ("weights_sha256", "last_loss_scale", "skipped_steps"):
        assert again[name] == first[name]
    assert first["last_loss_scale"] == 7
    result = diastole(*TRAIN, *scaled[:2], "--state", "state.npz")
    assert result.code == 2
    assert result.err[-1].startswith(
        "diastole: error: state.npz: is the state of another training, in which loss_scaling is "
    )
