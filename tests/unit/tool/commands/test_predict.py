"""`predict` for new samples: from the file of a training to a table."""

import numpy as np
import pytest

from support.own_networks import CLASSES, NUMBERS, read_table, write_networks


@pytest.fixture
def files(diastole, tmp_path):
    """The command line in a folder with networks and data of a user."""
    write_networks(tmp_path)
    return diastole


def test_numbers_from_a_csv_file_to_predictions(files):
    more = ("--epochs", "40", "--rate", "0.03")
    words = [*NUMBERS, *more, "--standardize", "all", "--save", "run.safetensors"]
    result = files(*words, "--json")
    assert result.code == 0
    record = result.json
    assert (record["task"], record["steps"]) == ("nets.py:numbers", 40 * (64 // 16))
    assert record["accuracy"] is record["activation"] is None
    assert record["hidden"] == []
    assert record["float_loss"] == pytest.approx(record["loss"], rel=0.3)
    predict = ("predict", "run.safetensors", "--backend", "golden")
    assert files(*predict, "--in", "x.csv", "--out", "y.csv").code == 0
    assert files(*predict, "--in", "x.csv", "--out", "y.npy").code == 0
    found = np.array([[float(row["u"]), float(row["v"])] for row in read_table("y.csv")])
    np.testing.assert_allclose(found, np.load("y.npy"), rtol=1e-6)
    wanted = np.array([[float(row["u"]), float(row["v"])] for row in read_table("n.csv")])
    error = np.abs(found - wanted).mean()
    assert error < 0.7 * np.abs(wanted - wanted.mean(axis=0)).mean()
    measured = files("evaluate", "run.safetensors", "--data", "n.csv", "--backend", "golden",
                     "--json").json  # fmt: skip
    assert measured["mean_absolute_error"] == pytest.approx(error, rel=1e-5)
    assert measured["samples"] == 80
    assert measured["accuracy"] is None


def test_classes_keep_their_names(files):
    assert files(*CLASSES, "--save", "run.safetensors").code == 0
    predict = ("predict", "run.safetensors", "--in", "x.csv", "--out", "y.csv")
    assert files(*predict, "--backend", "golden").code == 0
    found = [row["class"] for row in read_table("y.csv")]
    right = np.mean([a == row["colour"] for a, row in zip(found, read_table("c.csv"), strict=True)])
    measured = files("evaluate", "run.safetensors", "--data", "c.csv", "--backend", "golden",
                     "--json").json  # fmt: skip
    assert measured["accuracy"] == pytest.approx(right)
    assert right > 0.6
    assert all(1 / 3 <= float(row["probability"]) <= 1 for row in read_table("y.csv"))


def test_files_that_are_no_networks(files, tmp_path):
    (tmp_path / "bad.safetensors").write_bytes(b"1234567890")
    for command in (
        ("predict", "--in", "x.csv", "--out", "y.csv"),
        ("evaluate", "--data", "n.csv"),
    ):
        name, *words = command
        result = files(name, "bad.safetensors", *words)
        wrong = "is not a network that diastole train --save wrote, or was cut off"
        said = f"diastole: error: bad.safetensors: {wrong}"
        assert (result.code, result.err) == (2, [said])
        assert not (tmp_path / "y.csv").exists()


def test_the_input_is_not_overwritten(files, tmp_path):
    assert files(*NUMBERS, "--save", "run.safetensors").code == 0
    before = (tmp_path / "x.csv").read_bytes()
    result = files("predict", "run.safetensors", "--in", "x.csv", "--out", "x.csv")
    assert (result.code, result.err) == (2, ["diastole: error: --in and --out must be two files"])
    assert (tmp_path / "x.csv").read_bytes() == before
