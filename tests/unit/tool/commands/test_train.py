"""`train`: the keys of its JSON, and what makes it fail."""

import argparse
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from command_line import Faulty, pretend
from diastole.commands import train as train_command
from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.train.master import Master
from diastole_sim.train.tasks import find_task

TRAIN = ("train", "nano.toml", "--task", "digits", "--steps", "3")
TEXT = ("train", "nano.toml", "--task", "text", "--steps", "1")
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
    assert result.err[-1].endswith(", below the required 0.999")
    assert diastole(*TRAIN, "--backend", "golden", "--min-accuracy", "0").code == 0


def test_train_verify(diastole, monkeypatch):
    pretend(monkeypatch, train_command, NumpyDevice)
    result = diastole(*TRAIN, "--verify", "--json")
    assert result.code == 0
    assert result.json["verified"] is True
    assert result.json["mismatches"] == 0 < result.json["compared"]


def test_train_verify_finds_a_wrong_bit(diastole, monkeypatch):
    pretend(monkeypatch, train_command, Faulty)
    result = diastole(*TEXT, "--verify", "--json")
    assert result.code == 1
    assert result.json["verified"] is False
    assert result.json["mismatches"] > 0
    last = result.err[-1]
    assert last.startswith(f"diastole: error: {result.json['mismatches']} of ")
    assert "first mismatch: tensor layer0.Y, step 0, index [1, 2]: " in last


def test_a_training_that_diverges_fails(diastole, monkeypatch):
    """What is reported is null and has a reason, by step and tensor."""
    task = replace(find_task("text"), rate=math.inf, momentum=0.0)
    monkeypatch.setattr(train_command, "find_task", lambda name: task)
    result = diastole(*TEXT, "--backend", "golden", "--json")
    assert result.code == 1
    record = result.json
    assert record["loss"] is record["float_loss"] is None
    own, of_floats = result.err[-2:]
    assert own.startswith(f"diastole: error: {record['not_finite'][0]}; ")
    assert re.match(r"diastole: error: step 0: weights\[0\] has \d+ NaN and \d+ Inf among ", own)
    assert ", the held-out loss" in own
    assert of_floats.startswith("diastole: error: float32: step 0: weights[")


FAST = tuple(f"format.{name}=fast" for name in ("x", "w", "dy"))


def fast(*options, sets=FAST):
    laid = [word for each in sets for word in ("--set", each)]
    return (*TRAIN, "--backend", "golden", *laid, *options)


def test_train_in_two_widths(diastole):
    result = diastole(*fast("--json"))
    assert result.code == 0
    record = result.json
    assert record["precision"] == "fast"
    assert 1 < record["mean_passes"] <= 4
    assert set(record["pass_shares"]) <= {"1", "2", "4"}
    assert len(record["widths"]["layer0.W"]) == 3
    plain = diastole(*TRAIN, "--backend", "golden", "--json").json
    assert plain["precision"] is plain["mean_passes"] is plain["widths"] is None


def test_train_says_how_many_passes(diastole):
    result = diastole(*fast("--precision", "low-to-high", "--switch", "1"))
    (line,) = (line for line in result.out.splitlines() if line.startswith("precision"))
    assert line == (
        "precision low-to-high: 3.00 passes by MACs (products: 33% of 1, 67% of 4 passes)"
    )


def test_train_with_master_weights_in_bf16(diastole):
    words = (*TRAIN, "--backend", "golden", "--master", "bf16")
    record = diastole(*words, "--json").json
    said = record["master"], record["master_rounding"], record["master_bits"]
    assert said == ("bf16", "stochastic-b", 16)
    plain = diastole(*TRAIN, "--backend", "golden", "--json").json
    assert plain["weights_sha256"] != record["weights_sha256"]
    assert (plain["master"], plain["master_rounding"], plain["master_bits"]) == (
        "float32",
        None,
        None,
    )
    chosen = (*words, "--master-rounding", "stochastic-a", "--master-bits", "3")
    assert "master weights in bf16, stochastic-a with 3 random bits" in diastole(*chosen).out.split(
        "\n"
    )
    nearest = (*words, "--master-rounding", "nearest")
    assert "master weights in bf16, nearest" in diastole(*nearest).out.splitlines()


def test_train_by_the_recipe_of_intel(diastole):
    """From a scale at which gradients overflow, so that steps are skipped until none does."""
    words = (*TRAIN[:-1], "12", "--backend", "golden", "--set", "numbers=intel-fp8")
    result = diastole(*words, "--loss-scale", "24", "--json")
    assert result.code == 0
    record = result.json
    said = record["master"], record["master_rounding"], record["master_bits"]
    assert said == ("fp16", "nearest", None)
    assert record["gradient"] == "fp8_e5m2"
    assert record["loss_scale_floor"] == [[40_000, 13], [150_000, 15]]
    assert record["skipped_steps"] is None
    assert 12 < record["last_loss_scale"] < 24
    assert record["accuracy"] > 0.3  # some of 12 steps were skipped; by chance it is 0.1
    lines = diastole(*words).out.splitlines()
    assert "weight gradients in fp8_e5m2, stochastic-b" in lines
    assert "master weights in fp16, nearest" in lines
    stuck = diastole(*words, "--loss-scale", "24", "--loss-scale-floor", "0=24", "--json").json
    assert stuck["last_loss_scale"] == 24
    assert stuck["accuracy"] < 0.2  # every step was skipped
    plain = diastole(*words, "--json").json
    assert (plain["loss_scale"], plain["last_loss_scale"]) == (13, 13)
    assert abs(plain["loss"] / plain["float_loss"] - 1) < 0.15


@pytest.mark.parametrize(
    "given, want",
    [
        ((), Master(kind="e6m9", rounding="stochastic-c", bits=7)),
        (("--master", "float32"), Master()),
        (("--master", "bf16"), Master(kind="bf16")),
        (("--master-bits", "3"), Master(kind="e6m9", rounding="stochastic-c", bits=3)),
        (("--master-rounding", "nearest"), Master(kind="e6m9", rounding="nearest")),
        (
            ("--master-rounding", "stochastic-a"),
            Master(kind="e6m9", rounding="stochastic-a", bits=7),
        ),
    ],
)
def test_another_default_of_the_master(given, want):
    """As numbers may have that say more than formats."""
    parser = argparse.ArgumentParser()
    train_command.add_master(parser)
    default = Master(kind="e6m9", rounding="stochastic-c", bits=7)
    assert train_command.master_of(parser.parse_args(given), default) == want


def test_widths_are_drawn_and_priced(diastole):
    """Cells of 8x8 as they were measured; those of nano are 4 x 4 here."""
    result = diastole(*fast("--json", "--picture", "widths.png", sets=(*FAST, "array.block=8")))
    assert result.code == 0
    record = result.json
    assert record["area_passes"] == record["area_per_mac_nand2"] * record["mean_passes"]
    assert record["area_per_mac_nand2"] < record["wide_area_nand2"]
    assert Path("widths.png").read_bytes().startswith(b"\x89PNG")
    plain = diastole(*TRAIN, "--backend", "golden", "--json").json
    assert not {"area_passes", "area_per_mac_nand2"} & set(plain)
    result = diastole(*fast("--picture", "no/such/place.png"))
    assert result.code == 2
