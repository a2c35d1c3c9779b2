"""`program`: build, dump, run and export."""

import re

import numpy as np
import pytest

from support.own_networks import NUMBERS, write_networks

DIGITS = ("--task", "digits", "--steps", "12")
NO_STEPS = "a host trains text, without a program: give --graph, or --task digits"
GOLDEN = ("--backend", "golden")
OWN = tuple(word for word in NUMBERS[1:] if word not in GOLDEN)


@pytest.fixture
def files(diastole, tmp_path):
    """The command line in a folder with networks and data of a user."""
    write_networks(tmp_path)
    assert diastole("init", "my.toml", "--preset", "pico").code == 0
    return diastole


@pytest.fixture
def built(files):
    """The same with a program of 12 steps on the digits."""
    result = files("program", "build", "my.toml", *DIGITS, "--out", "p.safetensors")
    assert result.code == 0
    line = r"wrote p\.safetensors: digits, 12 steps, \d+ commands, \d+ bytes of memory\nnext: "
    assert re.match(line, result.out)
    return files


def test_a_run_has_the_weights_of_the_training(built):
    found = built("program", "run", "p.safetensors", *GOLDEN, "--json").json
    trained = built("train", "my.toml", *DIGITS, *GOLDEN, "--json").json
    assert found["weights_sha256"] == trained["weights_sha256"]
    assert (found["steps"], found["cycles"], found["mismatches"]) == (12, None, 0)


def test_files_of_a_run(built):
    more = ("--memory", "m.bin", "--out", "r.npz", "--verify", "--json")
    record = built("program", "run", "p.safetensors", *GOLDEN, *more).json
    with np.load("r.npz") as found:
        assert found["losses"].shape == (12,)
        assert found["losses"][-1] == np.float32(record["loss"])
        assert found["result"].shape == (360, 10)
        assert found["0.weight"].shape == (64, 64)
    assert record["verified"]
    assert record["compared"] > 1000
    memory = np.fromfile("m.bin", np.uint8)
    assert len(memory) > 100_000


def test_fewer_steps(built):
    part = built("program", "run", "p.safetensors", *GOLDEN, "--steps", "5", "--json").json
    assert part["steps"] == 5
    result = built("program", "run", "p.safetensors", *GOLDEN, "--steps", "13")
    said = "diastole: error: --steps must be at most 12, the steps of the program"
    assert (result.code, result.err) == (2, [said])


def test_a_program_of_a_network(files):
    assert files("program", "build", *OWN, "--out", "n.safetensors").code == 0
    found = files("program", "run", "n.safetensors", *GOLDEN, "--json").json
    trained = files(*NUMBERS, "--json").json
    assert found["weights_sha256"] == trained["weights_sha256"]


def test_a_program_with_groups(files):
    words = (*OWN, "--group", "*.bias:weight-decay=0.5", "--group", "0.*:rate=0.1")
    assert files("program", "build", *words, "--out", "n.safetensors").code == 0
    found = files("program", "run", "n.safetensors", *GOLDEN, "--json").json
    trained = files(*NUMBERS, *words[-4:], "--json").json
    assert found["weights_sha256"] == trained["weights_sha256"]


def test_a_dump(built):
    result = built("program", "dump", "p.safetensors")
    assert result.code == 0
    text = result.out
    assert re.match(r"digits on diastole_pico: 12 steps of 64 samples, seed 0", text)
    assert re.search(r"a step takes \d+ cycles by the model: busy_slots \d+", text)
    assert re.search(r"forward_chain +ahead|forward_chain m 64 n 64 k 64", text)
    assert "commands of evaluation: " in text
    counted = sum(map(int, re.findall(r"# (\d+) cycles", text)))
    assert counted == pytest.approx(int(re.search(r"takes (\d+) cycles", text)[1]), rel=0.01)


def test_an_export(built, tmp_path):
    (tmp_path / "ex").mkdir()
    (tmp_path / "ex" / "other.txt").write_text("mine")
    result = built("program", "export", "p.safetensors", "--out", "ex")
    assert result.code == 0
    names = {path.name for path in (tmp_path / "ex").iterdir()}
    line = "make -C product/sw HOST=../../ex/train.c IMAGE=../../ex/program.bin runs the program"
    assert f"next: {line} in simulation" in result.out
    assert names == {"program.bin", "program.h", "train.c", "other.txt"}
    header = (tmp_path / "ex" / "program.h").read_text()
    size = int(re.search(r"#define PROGRAM_BYTES (\d+)u", header)[1])
    assert (tmp_path / "ex" / "program.bin").stat().st_size == size


@pytest.mark.parametrize(
    "words, said",
    [
        (("build", "my.toml", "--task", "text", "--out", "x.safetensors"),
         NO_STEPS),
        (("build", "my.toml", *DIGITS, "--out", "x.bin"),
         "--out must end in .safetensors, not x.bin"),
        (("run", "no.safetensors"), "no.safetensors: there is no such file"),
        (("run", "p.safetensors", "--memory", "m.txt"), "--memory must end in .bin, not m.txt"),
        (("export", "p.safetensors", "--out", "p.safetensors"),
         "--out must name a folder, not p.safetensors"),
        (("dump", "my.toml"),
         "my.toml: is not a program that diastole program build wrote, or was cut off"),
    ],
)  # fmt: skip
def test_wrong_words(built, words, said):
    result = built("program", *words)
    assert (result.code, result.err) == (2, [f"diastole: error: {said}"])


def test_an_export_needs_a_vector_unit(files):
    words = [word for word in OWN if word not in ("--set", "vector.enable=true")]
    more = ("--set", "vector.enable=false", "--out", "n.safetensors")
    assert files("program", "build", *words, *more).code == 0
    assert files("program", "run", "n.safetensors", *GOLDEN).code == 0
    assert files("program", "dump", "n.safetensors").code == 0
    result = files("program", "export", "n.safetensors", "--out", "ex")
    assert result.code == 2
    assert "only a machine with a vector unit runs a program without Python" in result.err[0]
