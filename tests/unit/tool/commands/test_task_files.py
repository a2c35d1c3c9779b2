"""Files of a training of a task: `--save`, `--resume` and `--weights` with `--task`."""

import numpy as np
import pytest

from command_line import error
from diastole.learning.checkpoint import Checkpoint

TRAIN = ("train", "nano.toml", "--task", "digits", "--steps", "60", "--backend", "golden")


@pytest.mark.parametrize("options", [(), ("--hidden", "20,12", "--accumulate", "2")])
@pytest.mark.parametrize("vector", ["true", "false"])
def test_a_training_that_was_stopped_goes_on(diastole, monkeypatch, tmp_path, options, vector):
    words = (*TRAIN, "--set", f"vector.enable={vector}", *options, "--json")
    plain = diastole(*words, "--save", "whole.safetensors", "--weights", "w.npz").json
    keep = Checkpoint.keep

    def stopped(self, run, learnt):
        keep(self, run, learnt)
        raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "keep", stopped)
    assert diastole(*words, "--save", "part.safetensors").code == 130
    monkeypatch.setattr(Checkpoint, "keep", keep)
    resumed = diastole(*words, "--save", "part.safetensors", "--resume").json
    assert (
        resumed["weights_sha256"]
        == plain["weights_sha256"]
        == diastole(*words).json["weights_sha256"]
    )
    files = [(tmp_path / name).read_bytes() for name in ("whole.safetensors", "part.safetensors")]
    assert files[0] == files[1]
    with np.load(tmp_path / "w.npz") as found:
        assert found["0.weight"].shape == (20 if options else 64, 64)


def test_a_saved_task_predicts(diastole, tmp_path):
    """Its samples are rows of 64 numbers, and its classes are the digits."""
    accuracy = diastole(*TRAIN, "--save", "d.safetensors", "--json").json["accuracy"]
    from sklearn.datasets import load_digits

    digits = load_digits()
    np.savez(tmp_path / "all.npz", inputs=digits.data / 16, targets=digits.target)
    shown = diastole(
        "evaluate", "d.safetensors", "--data", "all.npz", "--backend", "golden", "--json"
    )
    assert shown.json["accuracy"] > accuracy - 0.02
    done = diastole(
        "predict", "d.safetensors", "--in", "all.npz", "--out", "p.csv", "--backend", "golden"
    )
    assert done.code == 0
    lines = (tmp_path / "p.csv").read_text().splitlines()
    found = [line.split(",")[0] for line in lines[1:]]
    right = [each == str(target) for each, target in zip(found, digits.target, strict=True)]
    assert np.mean(right) == pytest.approx(shown.json["accuracy"])


@pytest.mark.parametrize(
    "words, text",
    [
        (
            ("--resume",),
            "--resume needs --save FILE, the file of the training",
        ),
        (
            ("--save", "d.npz"),
            "--save must end in .safetensors, not d.npz",
        ),
        (
            ("--save", "d.safetensors", "--task", "text"),
            "--save does not work where a host trains, as for --task text: leave --save out",
        ),
    ],
)
def test_files_that_do_not_go(diastole, tmp_path, words, text):
    result = diastole(*TRAIN, *words)
    assert (result.code, result.err) == (2, error(text))
    assert not list(tmp_path.glob("d.*"))
