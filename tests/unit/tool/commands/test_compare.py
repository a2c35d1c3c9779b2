"""`compare`: what it takes, prints and keeps; killed, it goes on where it was."""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from diastole.commands import compare
from diastole.compare import jobs as jobs_module
from diastole.compare.study import ComparisonPlan, Named
from diastole_sim.train import TASKS
from diastole_sim.trainer.job import run_program


@pytest.fixture
def data(tmp_path, rng):
    """Three classes that are easily told apart."""
    random = np.random.default_rng(rng.randrange(2**32))
    labels = np.arange(60) % 3
    inputs = random.standard_normal((60, 6)) + 3 * np.eye(3)[labels].repeat(2, axis=1)
    np.savez(tmp_path / "mine.npz", inputs=inputs.astype(np.float32), labels=labels)
    return tmp_path / "mine.npz"


MINE = ("compare", "--data", "mine.npz", "--steps", "4", "--jobs", "1")


def without_times(record):
    """All that must be the same again."""
    if isinstance(record, dict):
        return {k: without_times(v) for k, v in record.items() if k not in ("seconds", "results")}
    return [without_times(each) for each in record] if isinstance(record, list) else record


def lines_of(name):
    return [json.loads(line) for line in Path(name).read_text().splitlines()]


def test_for_scripts(diastole, data):
    given = ("--over", "format=bfp2,bfp8", "--over", "rounding.dy=nearest", "--seeds", "0,4")
    result = diastole(*MINE, *given, "--json")
    assert result.code == 0
    record = result.json
    assert (record["task"], record["steps"], record["seeds"]) == ("mine.npz", 4, [0, 4])
    assert [each["name"] for each in record["configurations"]] == ["bfp2 nearest", "bfp8 nearest"]
    assert record["configurations"][0]["set"] == {"format": "bfp2", "rounding.dy": "nearest"}
    assert (record["failures"], record["results"]) == ([], "comparison.jsonl")
    assert record["verdict"]["plain"] == "bfp2 nearest"
    lines = lines_of("comparison.jsonl")
    assert len(lines) == 6
    assert len({line["key"] for line in lines}) == 6
    of_seed_4 = record["configurations"][1]["runs"][1]
    (line,) = (each for each in lines if each["key"] == of_seed_4["key"])
    assert (line["seed"], line["numerics"]["x"]["format"]) == (4, "bfp8")
    assert line["weights_sha256"] == of_seed_4["weights_sha256"]
    losses = [run["loss"] for run in record["configurations"][1]["runs"]]
    floats = [run["loss"] for run in record["float32"]["runs"]]
    differences = [a - b for a, b in zip(losses, floats, strict=True)]
    over = record["configurations"][1]["loss_over_float32"]
    assert over["mean"] == pytest.approx(np.mean(differences))
    assert over["error"] == pytest.approx(np.std(differences, ddof=1) / 2**0.5)


def test_the_digits_as_train_trains_them(diastole):
    given = ("--task", "digits", "--steps", "3", "--seeds", "7", "--configuration", "format=bfp4")
    record = diastole("compare", "nano.toml", *given, "--jobs", "1", "--json").json
    train = ("train", "nano.toml", "--task", "digits", "--backend", "golden", "--steps", "3")
    trained = diastole(*train, "--seed", "7", "--json").json
    (run,) = record["configurations"][0]["runs"]
    assert run["weights_sha256"] == trained["weights_sha256"]
    (single,) = record["float32"]["runs"]
    assert single["accuracy"] == trained["float_accuracy"]
    assert single["loss"] == trained["float_loss"]


WHOLE = ("compare", "nano.toml", "--set", "vector.enable=true", "--task", "digits", "--steps", "3")


def test_each_row_is_beside_its_own_float32(diastole):
    """Recipes and networks of whole steps: what `train` says of each alone."""
    rows = {
        "a": "optimizer=sgd",
        "b": "optimizer=adamw weight-decay=0.5",
        "c": "hidden=32,32,32 activation=tanh clip=0.5",
    }
    given = [word for name, row in rows.items() for word in ("--configuration", f"{name}: {row}")]
    result = diastole(*WHOLE, *given, "--seeds", "7", "--jobs", "1", "--json")
    assert result.code == 0
    compared = result.json["configurations"]
    assert result.json["float32"] == compared[0]["float32"]
    for each, row in zip(compared, rows.values(), strict=True):
        options = [f"--{word}" for word in row.split()]
        words = ("--task", "digits", "--backend", "golden", "--steps", "3", "--seed", "7")
        alone = diastole("train", "nano.toml", *WHOLE[2:4], *words, *options, "--json").json
        (run,), (single,) = each["runs"], each["float32"]["runs"]
        assert run["weights_sha256"] == alone["weights_sha256"]
        assert (single["loss"], single["accuracy"]) == (
            alone["float_loss"], alone["float_accuracy"]
        )  # fmt: skip
        assert each["loss_over_float32"]["mean"] == run["loss"] - single["loss"]
    sgd, adamw, deep = compared
    assert len({each["float32"]["runs"][0]["weights_sha256"] for each in compared}) == 3
    assert sgd["macs_per_step"] == adamw["macs_per_step"] == 64 * (2 * 64 * 64 + 3 * 64 * 10)
    assert deep["macs_per_step"] == 64 * (2 * 64 * 32 + 3 * (2 * 32 * 32 + 32 * 10))
    assert adamw["cycles_per_step"] > 1.5 * sgd["cycles_per_step"]


def test_for_people(diastole, data):
    pytest.importorskip("matplotlib")
    given = (
        "--configuration",
        "plain: format=bfp4",
        "--configuration",
        "format=fast precision=low",
    )
    result = diastole(*MINE, *given, "--out", "a.png")
    assert result.code == 0
    assert result.err[-1].startswith("diastole: comparing, runs: step 9 of 9")
    lines = result.out.splitlines()
    assert [line.split("  ")[0] for line in lines[:4]] == [
        "configuration", "float32", "plain", "fast low"
    ]  # fmt: skip
    assert lines[3].split()[-3:-1] == ["218", "3.12"]  # a cell of bfp2 with F = 22, and a plane
    assert lines[-2:] == [
        "wrote a.png", "next: more --seeds narrow the errors; runs are kept in comparison.jsonl"
    ]  # fmt: skip
    assert Path("a.png").stat().st_size > 1000


def test_runs_that_are_there_are_not_run_again(diastole, data, monkeypatch):
    first = diastole(*MINE, "--over", "format=bfp2,bfp4", "--json")
    monkeypatch.setattr(jobs_module, "run_program", None)
    again = diastole(*MINE, "--over", "format=bfp2,bfp4", "--json")
    assert again.err == ["diastole: 9 of 9 runs are in comparison.jsonl already"]
    assert again.out == first.out
    more = diastole(*MINE, "--over", "format=bfp2,bfp4,bfp8", "--seeds", "0")
    assert more.err[0] == "diastole: 3 of 4 runs are in comparison.jsonl already"
    assert more.err[-1].startswith("diastole: error: bfp8, seed 0: TypeError: ")


def test_a_killed_comparison_goes_on(diastole, data, tmp_path):
    """SIGKILL in the middle, and a line that is half written. No process is left: each of them
    would hold the pipe open."""
    over = ("--over", "format=bfp2,bfp3,bfp4", "--seeds", "0,1")
    given = ("compare", "--data", "mine.npz", "--steps", "40", *over)
    results = tmp_path / "killed.jsonl"
    command = [sys.executable, "-m", "diastole", *given, "--jobs", "2", "--results", results]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not results.exists() or results.read_bytes().count(b"\n") < 2:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    done = results.read_bytes().splitlines(keepends=True)
    kept = [line for line in done if line.endswith(b"\n")]
    assert 2 <= len(kept) < 8
    results.write_bytes(b"".join(kept[:-1]) + kept[-1][:100])
    result = diastole(*given, "--jobs", "1", "--results", "killed.jsonl", "--json")
    assert (result.code, result.err[:2]) == (
        0,
        [
            "diastole: killed.jsonl: the last line is incomplete and was dropped",
            f"diastole: {len(kept) - 1} of 8 runs are in killed.jsonl already",
        ],
    )
    assert results.read_bytes().startswith(b"".join(kept[:-1]))
    keys = [json.loads(line)["key"] for line in results.read_bytes().splitlines()]
    assert len(keys) == len(set(keys)) == 8
    fresh = diastole(*given, "--jobs", "1", "--results", "fresh.jsonl", "--json")
    assert without_times(fresh.json) == without_times(result.json)


def test_a_run_that_fails_is_said_and_the_others_go_on(diastole, data, monkeypatch):
    def failing(run, made, options, **others):
        if made.numerics.x.format.name == "bfp3":
            raise ValueError("three\nis odd")
        return run_program(run, made, options, **others)

    monkeypatch.setattr(jobs_module, "run_program", failing)
    given = (*MINE, "--over", "format=bfp2,bfp3,bfp4", "--seeds", "0,1", "--json")
    result = diastole(*given)
    assert result.code == 1
    said = [f"bfp3, seed {seed}: ValueError: three\nis odd" for seed in (0, 1)]
    assert result.json["failures"] == said
    found = {each["name"]: len(each["runs"]) for each in result.json["configurations"]}
    assert found == {"bfp2": 2, "bfp3": 0, "bfp4": 2}
    lines = lines_of("comparison.jsonl")
    assert sum(line["error"] is not None for line in lines) == 2
    monkeypatch.undo()
    os.chdir(data.parent)
    again = diastole(*given)
    assert again.code == 0
    assert again.err[0] == "diastole: 6 of 8 runs are in comparison.jsonl already"


def test_runs_that_diverge_are_failures(diastole, data):
    """Each is named with its step and tensor, now and when it is read again."""
    with np.load(data) as mine:
        np.savez(data, inputs=np.float32(1e36) * mine["inputs"], labels=mine["labels"])
    for _ in range(2):
        words = ("--configuration", "bfp8: format=bfp8")
        result = diastole(*MINE, *words, "--seeds", "0", "--json")
        assert result.code == 1
        (record,) = result.json["configurations"]
        assert (record["loss"], record["runs"]) == (None, [])
        assert sorted(text.split(":")[0] for text in result.json["failures"]) == [
            "bfp8, seed 0",
            "float32, seed 0",
        ]
        assert all("step " in text for text in result.json["failures"])
        assert all(f"diastole: error: {text}" in result.err for text in result.json["failures"])


def test_configurations_that_are_no_machines(diastole, data):
    """Of axes they are left out; asked for by name they are failures, and the others go on."""
    axes = ("--over", "format=bfp4,fast", "--over", "precision=low")
    result = diastole(*MINE, *axes, "--seeds", "0", "--json")
    assert result.code == 0
    said = (
        "bfp4 low: --precision needs a machine with the format fast: "
        "give --set format.x=fast --set format.w=fast --set format.dy=fast"
    )
    assert result.err[0] == f"diastole: left out: {said}"
    assert (result.json["left_out"], result.json["failures"]) == ([said], [])
    result = diastole(
        *MINE, "--configuration", "format=bfp4", "--configuration", "format=bfp99", "--seeds", "0"
    )
    assert result.code == 1
    assert result.err[0].startswith("diastole: error: bfp99: format must be one of bfp1, ")
    assert result.out.splitlines()[2].startswith("bfp4")


PLAN = """
data = "mine.npz"
steps = 3
seeds = [5]
preset = "pico"
set = { accumulator.fraction = 20, rounding.bits = 5 }
[[configuration]]
name = "one"
format = "fast"
block = "4x4"
precision = "low-to-high"
switch = 2
[[configuration]]
name = "two"
preset = "nano"
rounding.bits = 6
"""


def test_a_plan(diastole, data):
    """What the command says goes before; a configuration may have another preset."""
    (data.parent / "plan.toml").write_text(PLAN)
    record = diastole("compare", "--plan", "plan.toml", "--jobs", "1", "--json").json
    assert (record["steps"], record["seeds"], record["task"]) == (3, [5], "mine.npz")
    assert [each["name"] for each in record["configurations"]] == ["one", "two"]
    assert record["configurations"][0]["passes"] == pytest.approx(2, abs=0.1)  # 1, 1, 4
    lines = {line["name"]: line for line in lines_of("comparison.jsonl")}
    assert (lines["one"]["numerics"]["block"], lines["two"]["numerics"]["block"]) == (4, 8)
    assert lines["one"]["options"]["program"]["precision"]["switch"] == 2
    numerics = lines["one"]["numerics"], lines["two"]["numerics"]
    assert [(each["fraction"], each["random_bits"]) for each in numerics] == [(20, 5), (20, 6)]
    given = ("--plan", "plan.toml", "--jobs", "1", "--steps", "2", "--seeds", "1,2", "--json")
    record = diastole("compare", *given).json
    assert (record["steps"], record["seeds"]) == (2, [1, 2])


def test_the_machine_of_a_board(diastole, data):
    """By its name, for all configurations or for one: that of ulx3s has blocks of 4."""
    given = ("--configuration", "format=bfp4", "--configuration", "preset=kv260", "--seeds", "0")
    assert diastole(*MINE, "--preset", "ulx3s", *given).code == 0
    jobs = [line for line in lines_of("comparison.jsonl") if line["numerics"] != "float32"]
    assert sorted(line["numerics"]["block"] for line in jobs) == [4, 8]


def test_what_follows_from_a_format_follows(diastole, data):
    """F is 14 and twice the widest magnitude of fast, 18 elsewhere, unless it is said."""
    given = ("--configuration", "format=bfp4", "--configuration", "format=fast")
    more = ("--configuration", "format=fast accumulator.fraction=19", "--seeds", "0")
    assert diastole(*MINE, *given, *more).code == 0
    fractions = {line["name"]: line["numerics"] for line in lines_of("comparison.jsonl")[1:]}
    assert {name: each["fraction"] for name, each in fractions.items()} == {
        "bfp4": 18, "fast": 22, "fast fraction=19": 19
    }  # fmt: skip


@pytest.mark.parametrize(
    "overrides, of_plan, own, formats",
    [
        ([], {"format.x": "bfp2"}, {"format": "bfp4"}, ("bfp4", "bfp4")),
        (["format.x=bfp3"], {"format": "bfp2"}, {}, ("bfp3", "bfp2")),
        (["format.x=bfp3"], {"format": "bfp2"}, {"format": "bfp5"}, ("bfp5", "bfp5")),
        ([], {}, {"format": "bfp5", "format.x": "bfp3"}, ("bfp3", "bfp5")),
    ],
)
def test_whose_key_goes_before(overrides, of_plan, own, formats):
    """A configuration's own, then --set, then what the plan sets for all of them."""
    given = argparse.Namespace(file=None, preset="nano", overrides=overrides)
    named = [Named(name="one", settings=own)]
    (settled,), left_out, refused = compare.runnable_configs(
        given, ComparisonPlan(settings=of_plan), named, TASKS["digits"]
    )
    assert left_out == refused == []
    assert (settled.config.format.x, settled.config.format.w) == formats


NET = """
from diastole import nn
net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
numbers = nn.Linear(6, 2)
"""
OWN = ("compare", "--graph", "net.py:net", "--data", "mine.npz", "--loss", "cross-entropy")
OWN = (*OWN, "--epochs", "2", "--batch", "8", "--standardize", "inputs", "--jobs", "1")


@pytest.fixture
def network(data):
    (data.parent / "net.py").write_text(NET)


def test_a_network_of_ones_own(diastole, network, data):
    """The runs are trainings of `train`, with and without a vector unit."""
    for machine in ("false", "true"):
        words = ("--set", f"vector.enable={machine}", "--over", "format=bfp4,bf16", "--json")
        record = diastole(*OWN, *words, "--seeds", "3,4").json
        assert (record["task"], record["steps"], record["failures"]) == ("net.py:net", 12, [])
        for each in record["configurations"]:
            form = each["set"]["format"]
            common = (*OWN[1:-2], *words[:2], "--backend", "golden", "--json")
            formats = [f"--set=format.{name}={form}" for name in ("x", "w", "dy")]
            for run in each["runs"]:
                alone = diastole("train", "nano.toml", *common, *formats, "--seed", run["seed"])
                for name in ("loss", "accuracy", "weights_sha256"):
                    assert run[name] == alone.json[name]
                floats = {one["seed"]: one["loss"] for one in each["float32"]["runs"]}
                assert floats[run["seed"]] == alone.json["float_loss"]
            assert each["cycles_per_step"] > 1000


def test_a_network_that_learns_numbers(diastole, network, rng, tmp_path):
    random = np.random.default_rng(rng.randrange(2**32))
    inputs, targets = (random.standard_normal((30, n)).astype(np.float32) for n in (6, 2))
    np.savez(tmp_path / "numbers.npz", inputs=inputs, targets=targets)
    words = ("--graph", "net.py:numbers", "--data", "numbers.npz", "--loss", "mse", "--jobs", "1")
    result = diastole("compare", *words, "--seeds", "0,1", "--over", "format=bfp2,bf16", "--json")
    for each in result.json["configurations"]:
        assert each["accuracy"] is each["float32"]["accuracy"] is None
        assert each["loss"]["mean"] > 0


def test_another_network_is_another_run(diastole, network, data):
    """Runs are found by the content of the network, not by its name."""
    words = (*OWN, "--seeds", "0", "--over", "format=bfp4", "--json")
    first = diastole(*words).json["configurations"][0]["runs"][0]
    assert diastole(*words).json["configurations"][0]["runs"][0]["seconds"] == first["seconds"]
    (data.parent / "net.py").write_text(NET.replace("Tanh", "GELU"))
    second = diastole(*words).json["configurations"][0]["runs"][0]
    assert second["key"] != first["key"]
    assert second["weights_sha256"] != first["weights_sha256"]


def test_microbatches_of_a_comparison(diastole, network, data):
    """Microbatches are of equal size, and share the float32 of the whole batch."""
    result = diastole(*OWN, "--seeds", "0", "--over", "accumulate=1,3,4", "--json")
    record = result.json
    assert [each["name"] for each in record["configurations"]] == ["accumulate=1", "accumulate=4"]
    assert record["left_out"] == [
        "accumulate=3: accumulate must divide the 8 samples of a step, as 2 and 4, not 3"
    ]
    keys = {each["float32"]["runs"][0]["key"] for each in record["configurations"]}
    assert len(keys) == 1
    assert diastole(*OWN, "--seeds", "0", "--configuration", "accumulate=5").code == 2


GRAPH_PLAN = """
graph = "net.py:net"
data = "mine.npz"
loss = "cross-entropy"
epochs = 2
batch = 8
standardize = "inputs"
seeds = [3]
[over]
format = ["bfp4", "bf16"]
"""


def test_a_plan_with_a_network(diastole, network, data, tmp_path, monkeypatch):
    """Files of a plan are beside the plan. An option of the command goes before the plan."""
    (tmp_path / "plan.toml").write_text(GRAPH_PLAN)
    direct = diastole(*OWN, "--seeds", "3", "--over", "format=bfp4,bf16", "--json").json
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    plan = ("compare", "--plan", "../plan.toml", "--jobs", "1", "--json")
    record = diastole(*plan).json
    for one, other in zip(record["configurations"], direct["configurations"], strict=True):
        assert one["runs"][0]["weights_sha256"] == other["runs"][0]["weights_sha256"]
    assert record["steps"] == 12
    assert diastole(*plan, "--epochs", "3").json["steps"] == 18
    assert diastole(*plan, "--task", "digits", "--steps", "2").json["task"] == "digits"


@pytest.mark.parametrize(
    "words, said",
    [
        ((*OWN, "--steps", "3"), "--steps does not work with --graph: give --epochs"),
        ((*OWN, "--task", "digits"), "--graph and --task exclude each other: give one"),
        (OWN[:3], "--graph needs --data"),
        (("compare", "--loss", "mse"), "--loss needs --graph, a network of your own: leave"),
        (("compare", "--data", "mine.npz", "--epochs", "3"), "--epochs needs --graph, a network"),
        (
            (*OWN, "--weight-decay", "0.5"),
            "the command does not accept --weight-decay; give --over weight-decay=0.5, for all",
        ),
        ((*OWN, "--verify"), "the command does not accept --verify; diastole run, diastole train"),
        ((*OWN, "--over", "hidden=3"), "--hidden does not work with --graph: leave --hidden out"),
        ((*OWN, "--over", "batch=3"), "--over: batch cannot be varied; the option does not belong"),
        (
            ("compare", "--plan", "bad.toml"),
            "bad.toml: batch must be an integer in 1..65536, not 0",
        ),
    ],
)
def test_mistakes_about_networks(diastole, network, data, words, said):
    (data.parent / "bad.toml").write_text('graph = "net.py:net"\nbatch = 0\n')
    over = ("--over", "format=bfp4") if "--over" not in words else ()
    result = diastole(*words, *over)
    assert result.code == 2
    assert result.err[0].startswith(f"diastole: error: {said}")


OF_PICO = ("compare", "--data", "mine.npz", "--jobs", "1", "--preset", "pico")


def test_networks_of_several_layers(diastole, data):
    """Each row is of its own network: the model counts more cycles for more layers, and float32 of
    the same network stands before it. Values with commas are in brackets or quotes."""
    over = ("--set", "vector.enable=true", "--over", 'hidden=8,[8,8],"8,8,8"', "--steps", "2")
    result = diastole(*OF_PICO, *over, "--seeds", "0", "--json")
    assert result.code == 0
    found = result.json["configurations"]
    assert [each["name"] for each in found] == ["hidden=8", "hidden=[8,8]", "hidden=8,8,8"]
    cycles = [each["cycles_per_step"] for each in found]
    assert cycles == sorted(set(cycles))
    losses = [each["float32"]["loss"]["mean"] for each in found]
    assert len(set(losses)) == 3


def test_a_row_that_ends_in_nan_is_the_only_one(diastole, data):
    """It has no loss; the others keep theirs, and the exit code tells."""
    wild = "wild: hidden=4 rate=1000 weight-decay=1000"
    named = [
        word
        for text in ("a: hidden=8", wild, "b: hidden=8,8")
        for word in ("--configuration", text)
    ]
    words = (*OF_PICO, "--set", "vector.enable=true", "--steps", "8", "--seeds", "0,1", *named)
    result = diastole(*words, "--json")
    assert result.code == 1
    found = {each["name"]: each for each in result.json["configurations"]}
    assert list(found) == ["a", "wild", "b"]
    assert {name: each["loss"] is None for name, each in found.items()} == {
        "a": False, "wild": True, "b": False,
    }  # fmt: skip
    names = {text.split(",")[0] for text in result.json["failures"]}
    assert names == {"wild", "float32 hidden=4 rate=1000 weight-decay=1000"}
    alone = diastole(
        *words[:-6], "--configuration", "a: hidden=8", "--results", "r.jsonl", "--json"
    )
    assert alone.code == 0
    assert alone.json["configurations"][0]["loss"] == found["a"]["loss"]
