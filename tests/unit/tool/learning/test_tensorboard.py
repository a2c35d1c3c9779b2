"""Event files for TensorBoard: their curves, and those of a resumed training."""

import json
import struct
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from tensorboardX.proto import event_pb2

from diastole import cli, install
from diastole.config.file import to_toml
from diastole.config.presets import PRODUCTS_ONLY
from support.own_networks import NUMBERS, write_networks


@pytest.fixture
def train(tmp_path, monkeypatch):
    """The command line in a folder with networks and data of a user; gives the exit code."""
    write_networks(tmp_path)
    (tmp_path / "nano.toml").write_text(to_toml(PRODUCTS_ONLY["nano"]))
    monkeypatch.chdir(tmp_path)
    return lambda *words: cli.main([*map(str, words)])


def events_of(path):
    """The events of a file: each a length of 8 bytes, a checksum of 4, the event, a checksum."""
    data, place, events = Path(path).read_bytes(), 0, []
    while place < len(data):
        (length,) = struct.unpack_from("<Q", data, place)
        events.append(event_pb2.Event.FromString(data[place + 12 : place + 12 + length]))
        place += 16 + length
    return events


def curves_of(path):
    curves = defaultdict(dict)
    for event in events_of(path):
        for value in event.summary.value:
            curves[value.tag][event.step] = value.simple_value
    return curves


def logged(path):
    curves = defaultdict(dict)
    names = {"loss": "loss/step", "held_out_loss": "loss/held-out", "rate": "rate"}
    for line in Path(path).read_text().splitlines():
        values = json.loads(line)
        step = values.pop("step", None)
        step = values.pop("steps", None) if step is None else step
        for name, value in values.items():
            if value is not None:
                curves[names.get(name, f"counters/{name}")][step] = np.float32(value)
    return curves


def test_curves_are_those_of_the_log(train):
    words = (*NUMBERS, "--log", "log.jsonl", "--tensorboard", "curves")
    assert train(*words) == 0
    (file,) = Path("curves").iterdir()
    found = curves_of(file)
    assert found == logged("log.jsonl")
    assert sorted(found["loss/step"]) == list(range(16))
    assert sorted(found["loss/held-out"]) == [4, 8, 12, 16]


def test_a_resumed_training_begins_anew(train):
    """With all steps, and a mark by which TensorBoard forgets the files before."""
    words = (*NUMBERS, "--save", "run.safetensors", "--tensorboard", "curves")
    assert train(*words) == 0
    (first,) = Path("curves").iterdir()
    before = curves_of(first)
    first.rename("first")
    assert train(*words, "--resume") == 0
    (second,) = Path("curves").iterdir()
    assert curves_of(second) == before
    marks = [event for event in events_of(second) if event.HasField("session_log")]
    assert [(each.step, each.session_log.status) for each in marks] == [
        (0, event_pb2.SessionLog.START)
    ]


def test_mistakes(train, tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    for folder, said in (
        ("file", "--tensorboard must be a folder, not file, which is a file"),
        ("absent/curves", "absent/curves: there is no folder absent"),
    ):
        assert train(*NUMBERS, "--tensorboard", folder) == 2
        assert capsys.readouterr().err == f"diastole: error: {said}\n"
    words = ("train", "nano.toml", "--task", "text", "--tensorboard", "curves")
    assert train(*words) == 2
    assert (
        "--tensorboard does not work where a host trains, as for --task text"
        in capsys.readouterr().err
    )
    monkeypatch.setattr(install, "TENSORBOARD", install.Dependency("x", "y", False, "absent-x"))
    assert train(*NUMBERS, "--tensorboard", "curves") == 3
    assert not (tmp_path / "curves").exists()
