"""`evaluate` on samples with known targets."""

import pytest

from diastole_sim.train.draws import SPLIT_TAG, permutation
from support.own_networks import CLASSES, write_networks


@pytest.fixture
def files(diastole, tmp_path):
    """The command line in a folder with networks and data of a user."""
    write_networks(tmp_path)
    return diastole


def test_the_last_evaluation_of_the_training(files, tmp_path):
    """On the same samples the loss is that of the training."""
    record = files(*CLASSES, "--save", "run.safetensors", "--json").json
    lines = (tmp_path / "c.csv").read_text().splitlines()
    order = split_order(80)[:16]
    held_out = [lines[0], *(lines[1 + place] for place in order)]
    (tmp_path / "h.csv").write_text("\n".join(held_out) + "\n")
    words = ("evaluate", "run.safetensors", "--data", "h.csv", "--backend", "golden")
    measured = files(*words, "--json").json
    assert measured["loss"] == record["loss"]
    assert measured["accuracy"] == record["accuracy"]
    said = files(*words).out
    assert said == (
        f"16 samples of h.csv: accuracy {record['accuracy']:.2%}, loss {record['loss']:.4f}\n"
    )


def split_order(count):
    """The order in which samples are held out."""
    return permutation(count, seed=0, tag=SPLIT_TAG, step=0)


def test_another_class_is_refused(files, tmp_path):
    assert files(*CLASSES, "--save", "run.safetensors").code == 0
    text = (tmp_path / "c.csv").read_text().replace("red", "pink")
    (tmp_path / "p.csv").write_text(text)
    result = files("evaluate", "run.safetensors", "--data", "p.csv", "--backend", "golden")
    assert result.code == 2
    assert "the class must be one of blue, green, red, not pink" in result.err[0]
