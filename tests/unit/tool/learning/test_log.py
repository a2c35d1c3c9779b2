"""Logs of trainings: steps, evaluations, and a resumed training."""

import json
from pathlib import Path

import pytest

from diastole import cli
from diastole.config.file import to_toml
from diastole.config.presets import PRODUCTS_ONLY
from support.own_networks import NUMBERS, write_networks


@pytest.fixture
def train(tmp_path, monkeypatch):
    """The command line in a folder with networks and data of a user; gives the exit code."""
    write_networks(tmp_path)
    (tmp_path / "nano.toml").write_text(to_toml(PRODUCTS_ONLY["nano"]))
    monkeypatch.chdir(tmp_path)
    return lambda *words: cli.main(words)


def lines_of(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_a_log(train):
    words = (*NUMBERS, "--log", "log.jsonl", "--save", "run.safetensors")
    assert train(*words) == 0
    lines = lines_of("log.jsonl")
    steps = [line for line in lines if "step" in line]
    assert [line["step"] for line in steps] == list(range(16))
    assert steps[0]["rate"] == pytest.approx(0.01)
    assert steps[8]["rate"] == pytest.approx(0.005)
    evaluations = [line for line in lines if "steps" in line]
    assert [line["steps"] for line in evaluations] == [4, 8, 12, 16]
    assert all(line["held_out_accuracy"] is None for line in evaluations)
    assert train(*words, "--resume") == 0
    again = lines_of("log.jsonl")
    assert list(map(str, again)) == list(map(str, lines))
