"""Messages that recommend a key: a user who types the key gets what was asked for."""

import re
import shlex

import numpy as np
import pytest

from diastole.config.file import to_toml
from diastole.config.presets import PRESETS

RECOMMENDED = re.compile(r"--set ([a-z_.]+=[a-z0-9_]+)")
FAST = tuple(word for name in ("x", "w", "dy") for word in ("--set", f"format.{name}=fast"))
GOLDEN = ("--task", "digits", "--steps", "1", "--backend", "golden")
HOST, WHOLE = ("train", "nano.toml", *GOLDEN), ("train", "pico.toml", *GOLDEN)
COMPARE = ("compare", "--steps", "1", "--seeds", "0", "--jobs", "1", "--data", "mine.npz")


@pytest.fixture
def data(tmp_path, diastole):
    (tmp_path / "pico.toml").write_text(to_toml(PRESETS["pico"]))
    inputs = np.arange(96, dtype=np.float32).reshape(24, 4) % 7
    np.savez(tmp_path / "mine.npz", inputs=inputs, labels=np.arange(24) % 3)


def with_recommended(words, keys):
    """A user replaces a key that is there."""
    names = [key.partition("=")[0] for key in keys]
    kept, place = [], 0
    while place < len(words):
        if words[place] == "--set" and words[place + 1].partition("=")[0] in names:
            place += 2
            continue
        kept.append(words[place])
        place += 1
    return [*kept, *(word for key in keys for word in ("--set", key))]


@pytest.mark.parametrize(
    "words",
    [
        (*HOST, "--precision", "low"),
        (*WHOLE, "--alpha", "0.5"),
        (*WHOLE, "--master", "bf16"),
        (*WHOLE, "--set", "numbers=ibm-fp8"),
        (*COMPARE, "--preset", "pico", "--over", "precision=low,high"),
        ("estimate", "nano.toml", "--task", "digits"),
        ("explain", "--preset", "pico", "--op", "dw", "--sizes", "4,4,4", "-o", "e.html", *FAST),
    ],
    ids=lambda words: " ".join((words[0], *words[-4:])),
)
def test_what_is_recommended_works(diastole, data, words):
    refused = diastole(*words)
    assert refused.code == 2
    keys = RECOMMENDED.findall(refused.err[0])
    assert keys, refused.err
    again = with_recommended(words, keys)
    done = diastole(*again)
    assert done.code == 0, (again, done.err)


def test_the_next_command_is_of_the_same_machine(diastole, tmp_path):
    """With its keys, and with a name that a shell would take apart."""
    line = diastole("init", "my machine.toml", "--preset", "pico").out.splitlines()[-1]
    words = shlex.split(line.removeprefix("next: edit the file, then diastole "))
    checked = diastole(*words, "--set", "array={rows=2, cols=1, block=4}")
    assert checked.code == 0
    line = checked.out.splitlines()[-1]
    words = shlex.split(line.removeprefix("next: diastole "))
    assert words[-2:] == ["-o", "product"]
    again = diastole("check", *words[1:-2])
    assert "2 x 1 cells with blocks of 4 x 4" in again.out
    assert again.out == checked.out
