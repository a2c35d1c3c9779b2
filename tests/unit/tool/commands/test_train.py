"""`train`: the keys of its JSON, and what makes it fail."""

from command_line import Faulty, error, pretend
from diastole.commands import train as train_command
from diastole_sim.golden.device import GoldenDevice


def test_train_an_unknown_task(diastole):
    result = diastole("train", "nano.toml", "--task", "letters")
    assert (result.code, result.err) == (2, error("--task must be one of digits, not letters"))


TRAIN = ("train", "nano.toml", "--task", "digits", "--steps", "3")
TRAIN_KEYS = (
    "task backend steps seed loss accuracy float_accuracy cycles macs utilisation weights_sha256 "
    "verified mismatches compared seconds"
).split()


def test_train_golden(diastole):
    result = diastole(*TRAIN, "--backend", "golden", "--seed", "7", "--json")
    assert result.code == 0
    record = result.json
    assert set(TRAIN_KEYS) <= set(record)
    assert (record["task"], record["backend"]) == ("digits", "golden")
    assert (record["steps"], record["seed"]) == (3, 7)
    assert 0 <= record["accuracy"] <= 1
    assert 0 <= record["float_accuracy"] <= 1
    assert record["cycles"] is None
    assert record["utilisation"] is None
    assert len(record["weights_sha256"]) == 64
    assert record["verified"] is False
    assert record["compared"] == 0
    assert all(line.startswith("diastole: digits on golden: step ") for line in result.err)


def test_train_below_what_was_asked(diastole):
    result = diastole(*TRAIN, "--backend", "golden", "--min-accuracy", "0.999")
    assert result.code == 1
    assert result.err[-1].startswith("diastole: error: the accuracy is 0.")
    assert result.err[-1].endswith(", below 0.999")
    assert diastole(*TRAIN, "--backend", "golden", "--min-accuracy", "0").code == 0


def test_train_verify(diastole, monkeypatch):
    pretend(monkeypatch, train_command, GoldenDevice)
    result = diastole(*TRAIN, "--verify", "--json")
    assert result.code == 0
    assert result.json["verified"] is True
    assert result.json["mismatches"] == 0 < result.json["compared"]


def test_train_verify_finds_a_wrong_bit(diastole, monkeypatch):
    pretend(monkeypatch, train_command, Faulty)
    result = diastole(*TRAIN, "--verify", "--json")
    assert result.code == 1
    assert result.json["verified"] is False
    assert result.json["mismatches"] > 0
    last = result.err[-1]
    assert last.startswith(f"diastole: error: {result.json['mismatches']} of ")
    assert "first mismatch: tensor layer0.Y, step 0, index [1, 2]: " in last
