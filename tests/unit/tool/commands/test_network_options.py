"""Options of `train` for a network and data of the user."""

from pathlib import Path

import numpy as np
import pytest

from support.own_networks import NUMBERS, TRAIN, write_networks


@pytest.fixture
def files(diastole, tmp_path):
    """The command line in a folder with networks and data of a user."""
    write_networks(tmp_path)
    return diastole


def test_weights_have_the_shapes_of_torch_and_begin_another_training(files):
    assert files(*NUMBERS, "--save", "run.safetensors", "--weights", "w.npz").code == 0
    with np.load("w.npz") as arrays:
        shapes = {name: each.shape for name, each in arrays.items()}
    assert shapes == {"0.weight": (8, 3), "0.bias": (8,), "2.weight": (2, 8), "2.bias": (2,)}
    found = [
        files(*NUMBERS, "--init", name, "--json").json for name in ("w.npz", "run.safetensors")
    ]
    assert found[0]["weights_sha256"] == found[1]["weights_sha256"]
    plain = files(*NUMBERS, "--json").json
    assert plain["weights_sha256"] != found[0]["weights_sha256"]
    assert found[0]["loss"] < plain["loss"]


@pytest.mark.parametrize("loss", ["mse", "l1", "smooth-l1"])
def test_losses_and_a_module_of_ones_own(loss, files):
    words = [*NUMBERS, "--graph", "nets.py:gated", "--loss", loss, "--standardize", "all"]
    record = files(*words, "--json").json
    assert record["float_loss"] == pytest.approx(record["loss"], rel=0.3)


REFUSED = {
    ("--graph", "nets.py:none"): "nets.py does not define none; the file defines numbers, classes, "
    "wide, fails, Gated, gated, broken",
    ("--graph", "nets.py:fails"): "nets.py:fails: must be a network, a Module of diastole.nn or a "
    "function of a symbol, not NoneType",
    ("--graph", "nets.py:wide"): "nets.py:wide: 0 (linear): the input has 3 features, but the "
    "weight has the shape 8 x 4: a weight of outputs x 3 is needed",
    ("--graph", "nets.py:broken"): "nets.py:broken: a network can add two tensors of one shape, "
    "not a tensor and 1",
    ("--graph", "nets.py:classes"): "nets.py:classes: the network has 3 results for a sample, but "
    "n.csv has 2 columns to learn, u, v: give the last layer 2 outputs",
    ("--data", "none.csv"): "none.csv: there is no such file",
    ("--target", "w"): "--target must name columns of n.csv, a, b, c, u, v, not w",
    ("--batch", "65"): "--batch must be at most 64, the number of training samples, not 65",
    ("--steps", "3"): "--steps does not work with --graph: give --epochs",
    ("--hidden", "3"): "--hidden does not work with --graph: leave --hidden out",
    ("--task", "digits"): "--graph and --task exclude each other: give one",
    ("--resume",): "--resume needs --save FILE, the file of the training",
    ("--min-accuracy", "0.5"): "--min-accuracy works only with --loss cross-entropy: leave it out",
    ("--save", "run.npz"): "--save must end in .safetensors, not run.npz",
    ("--init", "none.npz"): "none.npz: there is no such file",
}


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_mistakes(words, files):
    result = files(*NUMBERS, *words)
    assert result.code == 2
    assert result.err[0].startswith(f"diastole: error: {REFUSED[words]}")


def test_options_without_a_network(files):
    for words, said in (
        ((), "--task or --graph must be given: --task digits, or a network of your own"),
        (("--task", "digits", "--epochs", "3"),
         ("--epochs needs --graph, a network of your own: leave --epochs out")),
        (("--graph", "nets.py:numbers"), "--graph needs --data"),
    ):  # fmt: skip
        result = files(*TRAIN, *words)
        assert (result.code, result.err) == (2, [f"diastole: error: {said}"])


def with_vector_unit(enable):
    """The command for a machine with a vector unit, or without."""
    return [word.replace("=true", f"={enable}") for word in NUMBERS]


def test_a_machine_without_a_vector_unit_has_the_same_bits(files):
    """The hardware converts and multiplies, and golden code does the rest."""
    found = {}
    for enable in ("true", "false"):
        for backend in ("golden", "rtl"):
            more = ("--backend", backend, "--epochs", "1")
            result = files(*with_vector_unit(enable), *more, "--json")
            assert result.code == 0
            found[enable, backend] = result.json["weights_sha256"]
    assert len(set(found.values())) == 1


NO_UNIT = {
    (
        "--set",
        "numbers=ibm-fp8",
    ): "numbers = ibm-fp8 trains only on machines without a vector unit: "
    "give --set vector.enable=false; with vector.enable = true the machine keeps the weights in "
    "float32",
    ("--master", "bf16"): "--master works only on machines without a vector unit: give --set "
    "vector.enable=false; with vector.enable = true the machine keeps the weights in float32",
}


@pytest.mark.parametrize("words", NO_UNIT, ids=" ".join)
def test_numbers_that_a_vector_unit_has_not(words, files):
    result = files(*with_vector_unit("true"), *words)
    assert result.code == 2
    assert result.err[0] == f"diastole: error: {NO_UNIT[words]}"
    assert files(*with_vector_unit("false"), *words).code == 0


@pytest.mark.parametrize("enable", ["true", "false"])
def test_scales_of_a_host_are_1(enable, files):
    words = "--set", "format.x=fp8_e4m3", "--set", "scale.source=host"
    assert files(*with_vector_unit(enable), *words).code == 0


def test_schedules_change_the_training(files):
    found = {}
    for words in (
        (),
        ("--schedule", "constant"),
        ("--schedule", "cosine"),
        ("--warmup", "3"),
        ("--schedule", "step", "--step-size", "4"),
        ("--optimizer", "adagrad"),
    ):
        record = files(*NUMBERS, *words, "--json").json
        found[words] = record["weights_sha256"]
        assert record["float_loss"] == pytest.approx(record["loss"], rel=0.3)
    assert len(set(found.values())) == len(found)


def test_options_of_another_schedule(files):
    for words, said in (
        (
            ("--gamma", "0.5"),
            "--gamma is an option of --schedule step, not of linear: leave --gamma out",
        ),
        (
            ("--schedule", "step"),
            "--schedule step needs --step-size N, the steps between two changes",
        ),
    ):
        result = files(*NUMBERS, *words)
        assert (result.code, result.err) == (2, [f"diastole: error: {said}"])


def test_the_memory_of_a_program(files):
    record = files(*NUMBERS, "--json").json
    kib = -(-record["memory_bytes"] // 1024)
    assert files(*NUMBERS, "--memory", str(kib)).code == 0
    result = files(*NUMBERS, "--memory", "3")
    assert result.code == 2
    said = result.err[0]
    assert said.startswith("diastole: error: --memory: the program of nets.py:numbers needs at ")
    assert "more than 3; most is in use in " in said
    assert "and the largest are commands of training (" in said
    assert ": give more memory" in said


def test_advice_about_memory(files):
    """It follows from what is largest: more microbatches make more commands."""
    for words, advice in (
        (("--accumulate", "8"), "a smaller --accumulate"),
        (("--epochs", "1000"), "fewer steps"),
    ):
        said = files(*NUMBERS, "--batch", "16", *words, "--memory", "3").err[0]
        assert advice in said.partition(": give more memory")[2]


@pytest.mark.parametrize("enable", ["true", "false"])
@pytest.mark.parametrize("words", [(), ("--optimizer", "adam")], ids=str)
def test_samples_that_are_sent(words, enable, files):
    """A training whose samples do not fit has the bits of one whose samples do, resumed too."""
    given = (*with_vector_unit(enable), *words, "--save", "run.safetensors")
    whole = files(*given, "--json").json
    assert whole["steps_in_memory"] is None
    saved = Path("run.safetensors").read_bytes()
    kib = str(whole["memory_bytes"] // 1024 - 1)
    sent = files(*given, "--memory", kib, "--json").json
    assert 1 <= sent["steps_in_memory"] < whole["steps"]
    assert sent["memory_bytes"] <= 1024 * int(kib) < whole["memory_bytes"]
    for name in ("weights_sha256", "loss", "float_loss", "macs", "products", "converted"):
        assert sent[name] == whole[name]
    assert Path("run.safetensors").read_bytes() == saved
    assert files(*given, "--memory", kib, "--resume").code == 0
    assert Path("run.safetensors").read_bytes() == saved
    lines = files(*given, "--memory", kib).out
    assert "memory holds the training samples of " in lines


def test_the_layer_with_most_memory(files):
    """A wide layer in the middle: its gradient is alive beside all images."""
    Path("nets.py").write_text(
        "from diastole import nn\n"
        "wide = nn.Sequential(nn.Linear(3, 400), nn.ReLU(), nn.Linear(400, 300), nn.ReLU(), "
        "nn.Linear(300, 2))\n"
    )
    words = [word if word != "nets.py:numbers" else "nets.py:wide" for word in NUMBERS]
    result = files(*words, "--memory", "100", "--clip", "1")
    assert "most is in use in layer " in result.err[0]
    assert "2.weight" in result.err[0]


def test_mistakes_of_memory_and_log(files):
    for words, said in (
        (("--log", "log.txt"), "--log must end in .jsonl, not log.txt"),
        (("--log", "no/log.jsonl"), "no/log.jsonl: there is no folder no"),
        (("--memory", "0"), "--memory must be an integer in 1..1073741824, not 0"),
    ):
        result = files(*NUMBERS, *words)
        assert result.code == 2
        assert result.err[0].startswith(f"diastole: error: {said}")
    for words in (("--log", "log.jsonl"), ("--memory", "9")):
        result = files("train", "nano.toml", "--task", "text", *words)
        said = (
            f"{words[0]} does not work where a host trains, as for --task text: leave {words[0]} "
            "out"
        )
        assert (result.code, result.err) == (2, [f"diastole: error: {said}"])
