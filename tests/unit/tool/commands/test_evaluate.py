"""`evaluate` on samples with known targets."""

import numpy as np
import pytest

from diastole_sim.train.draws import SPLIT_TAG, permutation
from support.own_networks import CLASSES, NUMBERS, read_table, write_networks, write_table


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


@pytest.fixture
def numbers(files):
    """A saved network that learns two columns, not standardised."""
    assert files(*NUMBERS, "--save", "run.safetensors").code == 0
    return files


def test_columns_are_found_by_name(numbers, tmp_path):
    """In any order, beside others."""
    order = ["v", "c", "u", "a", "b"]
    rows = [[n, *(row[each] for each in order)] for n, row in enumerate(read_table("n.csv"))]
    write_table(tmp_path / "m.csv", ["id", *order], rows)
    found = [
        numbers("evaluate", "run.safetensors", "--data", name, "--backend", "golden", "--json").json
        for name in ("n.csv", "m.csv")
    ]
    assert found[0]["loss"] == found[1]["loss"]


def test_samples_of_another_width(numbers, tmp_path):
    x, t = np.zeros((20, 3), np.float32), np.zeros((20, 2), np.float32)
    for inputs, targets, said in (
        (np.zeros((20, 4)), t, "reads 3 numbers of a sample, but the samples have 4"),
        (np.zeros((20, 1, 2)), t, "reads 3 numbers of a sample, but the samples have 2"),
        (x, t[:, :1], "the network has 2 columns to learn, but the samples have 1"),
    ):
        np.savez(tmp_path / "o.npz", inputs=inputs, targets=targets)
        result = numbers("evaluate", "run.safetensors", "--data", "o.npz", "--backend", "golden")
        assert result.code == 2
        assert said in result.err[0]
    result = numbers("evaluate", "run.safetensors", "--data", "diabetes", "--backend", "golden")
    assert result.code == 2
    assert "was trained on other columns or classes than diabetes" in result.err[0]


def test_a_loss_that_is_not_finite(numbers, tmp_path):
    np.savez(tmp_path / "h.npz", inputs=np.zeros((20, 3)), targets=np.full((20, 2), 3e38))
    result = numbers("evaluate", "run.safetensors", "--data", "h.npz", "--backend", "golden")
    said = "diastole: error: the loss on h.npz is not finite"
    assert (result.code, result.err) == (1, [said])
