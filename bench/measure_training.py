"""Accuracy of training on the golden model, means of seeds; time of trainings and comparisons.

Digits, held-out fifth. A mean of five seeds is uncertain by about 0.3 points.
"""

import json
import multiprocessing
import sys
import time
from functools import cache, partial
from statistics import mean, stdev

from bench.figure import figure, shown
from bench.results import ROOT
from diastole.config.file import from_document
from diastole.config.presets import PRODUCTS_ONLY
from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.spec.formats import FORMAT_NAMES
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.system import children
from diastole_sim.train import TASKS, run_task
from diastole_sim.train.master import Master
from diastole_sim.train.precision import Precision
from support.host_perceptron import digits_by_host
from support.presets import changed

SEEDS = range(5)
WORKERS = 2
NANO = PRODUCTS_ONLY["nano"].numerics


def train(numerics, options, seed):
    device = NumpyDevice(numerics, seed)
    return run_task(digits_by_host(), device, backend="golden", seed=seed, **options)


def trained(numerics, seeds=SEEDS, **options):
    """Return a result for each seed."""
    with multiprocessing.Pool(WORKERS) as pool:
        return pool.map(partial(train, numerics, options), seeds, chunksize=1)


def accuracy(numerics, seeds=SEEDS, **options):
    return mean(result.accuracy for result in trained(numerics, seeds, **options))


def of_all(name):
    return dict.fromkeys(CLASS_NAMES, name)


@cache
def nano_runs():
    return trained(NANO)


@figure("accuracy of nano, seed 0", at_least=0.95)
def first_accuracy():
    return nano_runs()[0].accuracy


@figure("accuracy of nano, mean of seeds 0 to 4", at_least=0.96)
def mean_accuracy():
    return mean(run.accuracy for run in nano_runs())


@figure("accuracy of float32")
def float_accuracy():
    yield "seed 0", nano_runs()[0].float_accuracy
    yield "mean of seeds 0 to 4", mean(run.float_accuracy for run in nano_runs())


@figure("accuracy that nano loses to float32, mean of seeds 0 to 4", at_most=0.015)
def lost_accuracy():
    return mean(run.float_accuracy - run.accuracy for run in nano_runs())


GROUPED = ("bfp2", "bfp3", "bfp4", "bfp5", "bfp8")
"""Formats of squares that are trained in groups of 16, too."""


@figure(
    "accuracy in {name}, groups {groups}, mean of seeds 0 to 2",
    at_least=shown(
        *((name, "of the format") for name in FORMAT_NAMES), *((n, "1x16") for n in GROUPED)
    ),
)
def format_accuracy(name, groups):
    block = {} if groups == "of the format" else {"block": of_all(groups)}
    return accuracy(changed("nano", format=of_all(name), **block).numerics, range(3))


PRECISIONS = {
    "high": ({"kind": "high"}, 0.9789, 4),
    "low": ({"kind": "low"}, 0.9528, 1),
    "fast .6 .3": ({"kind": "fast"}, 0.9672, 1.34),
    "fast .6 .5": ({"kind": "fast", "beta": 0.5}, 0.9706, 2.08),
    "fast .4 .3": ({"kind": "fast", "alpha": 0.4}, 0.9739, 2.54),
    "low-to-high 250": ({"kind": "low-to-high", "switch": 250}, 0.9706, 1.5),
    "low-to-high 200": ({"kind": "low-to-high", "switch": 200}, 0.9733, 2),
}
"""By name how widths of the format `fast` are chosen, and what a prototype found: accuracy, passes
by multiplications."""


@cache
def precise(name):
    numerics = from_document({"format": of_all("fast")}).numerics
    return trained(numerics, precision=Precision(classes=CLASS_NAMES, **PRECISIONS[name][0]))


@figure(
    "accuracy in fast, precision {name}",
    near={name: accuracy for name, (_, accuracy, _) in PRECISIONS.items()},
    within=0.005,
)
def precision_accuracy(name):
    return mean(run.accuracy for run in precise(name))


@figure(
    "passes in fast, precision {name}",
    near={name: passes for name, (_, _, passes) in PRECISIONS.items()},
    within=0.15,
    form="{:.2f}",
)
def precision_passes(name):
    return mean(run.to_json()["mean_passes"] for run in precise(name))


ACCUMULATORS = {
    "integers": ["accumulator.kind=integer"],
    "e6m9, chunks of 64": [],
    "e6m9, chunks of 16": ["accumulator.chunk=16"],
    "e6m5, chunks of 16": ["accumulator.chunk=16", "accumulator.mantissa=e6m5"],
    "m = 3, chunks of 16": ["accumulator.chunk=16", "accumulator.mantissa=3"],
}
"""What differs from `numbers`. A contraction of the digits has 64 elements at most: one chunk."""


@figure("accuracy in {numbers}, accumulators", at_least=shown("ibm-fp8", "hfp8"))
def accumulator_accuracy(numbers):
    for name, keys in ACCUMULATORS.items():
        yield name, accuracy(from_document({"numbers": numbers}, keys).numerics)


DRAWS = {
    "counter, 8 bits": {"kind": "counter", "bits": 8},
    "counter, 3 bits": {"kind": "counter", "bits": 3},
    "lfsr, 8 of 24 bits": {"kind": "lfsr", "bits": 8, "lfsr_bits": 24},
    "lfsr3": {"kind": "lfsr3"},
    "data, 8 bits": {"kind": "data", "bits": 8},
}


@figure("accuracy in {name}, rule B of dY", at_least=shown("bfp4", "bfp2"))
def draw_accuracy(name):
    yield from drawn(name, ("dy",))


@figure("accuracy in {name}, rule B of X, W and dY", at_least=shown("bfp4", "bfp2"))
def draws_accuracy(name):
    yield from drawn(name, CLASS_NAMES)


def drawn(name, classes):
    rules = of_all("nearest") | dict.fromkeys(classes, "stochastic-b")
    for kind, keys in DRAWS.items():
        document = {"format": of_all(name), "rounding": rules | keys}
        yield kind, accuracy(from_document(document).numerics)


MASTERS = {
    "float32": Master(),
    "bf16 nearest": Master(kind="bf16", rounding="nearest"),
    "bf16 stochastic-b": Master(kind="bf16"),
    "bf16 stochastic-a, 4 bits": Master(kind="bf16", rounding="stochastic-a", bits=4),
    "bf16 stochastic-b, 4 bits": Master(kind="bf16", rounding="stochastic-b", bits=4),
    "fp16 nearest": Master(kind="fp16", rounding="nearest"),
    "fp16 stochastic-b": Master(kind="fp16"),
    "e6m9 nearest": Master(kind="e6m9", rounding="nearest"),
    "e6m9 stochastic-b": Master(kind="e6m9"),
}


@figure("accuracy of nano, master weights {name}", at_least=shown(*MASTERS))
def master_accuracy(name):
    accuracies = [run.accuracy for run in trained(NANO, master=MASTERS[name])]
    yield "mean", mean(accuracies)
    yield "deviation", stdev(accuracies)


TEXTS = {"bfp4 1x16": ("bfp4", "1x16"), "MXFP8 E4M3": ("mxfp8_e4m3", None)}
TEXTS |= {"bfp2 1x16": ("bfp2", "1x16")}


@cache
def text(name):
    """Return the result of 300 steps, and seconds of them and of the float32 run, on one core."""
    chosen, block = TEXTS[name]
    groups = {} if block is None else {"block": of_all(block)}
    device = NumpyDevice(from_document({"format": of_all(chosen)} | groups).numerics, 0)
    began = time.perf_counter()
    result = run_task(TASKS["text"], device, backend="golden")
    return result, time.perf_counter() - began


@figure(
    "text, 300 steps and float32 beside them, {name}",
    at_most={"bfp4 1x16": 240, "MXFP8 E4M3": 360},
    form="{:.0f} s",
)
def text_time(name):
    return text(name)[1]


@figure(
    "text, held-out loss over float32's, {name}",
    at_most={"bfp4 1x16": 0.03, "MXFP8 E4M3": 0.03, "bfp2 1x16": None},
    form="{:.1%}",
)
def text_loss(name):
    return text(name)[0].loss / text(name)[0].float_loss - 1


@figure("compare of docs/digits.toml, all cores, from the beginning", at_most=180, form="{:.0f} s")
def compare_time(tmp_path):
    plan, results = ROOT / "docs" / "digits.toml", tmp_path / "results.jsonl"
    words = ["compare", "--plan", plan, "--results", results, "--json"]
    began = time.perf_counter()
    done = children.run([sys.executable, "-m", "diastole", *map(str, words)], stderr=None)
    seconds = time.perf_counter() - began
    assert done.returncode == 0
    record = json.loads(done.stdout)
    assert len(record["configurations"]) * len(record["seeds"]) == 36
    return seconds
