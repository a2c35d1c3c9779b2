"""All runs of a comparison: the list of runs, and the results of each configuration."""

from dataclasses import replace

import pytest

from diastole.backend import program_limits
from diastole.compare.runs import RunnableConfig, Runs, step_shapes
from diastole.compare.study import Named
from diastole.config.file import from_document
from diastole.config.presets import PRESETS
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.train import TASKS
from diastole_sim.train.precision import Precision
from diastole_sim.trainer.options import ProgramOptions
from support.host_perceptron import digits_by_host

DIGITS = digits_by_host()


def settled(name, document, **options):
    config = from_document(document)
    return RunnableConfig(named=Named(name=name, settings={}), config=config, options=options)


def runs():
    wide = {"array": {"rows": 4}}
    several = [
        settled("plain", {}),
        settled("wide", wide),
        settled("bfp2", {"format": dict.fromkeys(("x", "w", "dy"), "bfp2")}),
    ]
    return Runs.of(dict.fromkeys((3, 1), DIGITS), several, 20)


def test_every_configuration_with_every_seed_and_float32():
    """Machines that differ in their geometry alone have the same bits, and share one run under the
    first name."""
    jobs = runs().jobs
    assert [str(job) for job in jobs.values()] == [
        f"{name}, seed {seed}" for seed in (3, 1) for name in ("float32", "plain", "bfp2")
    ]
    assert {job.steps for job in jobs.values()} == {20}
    assert all(key == job.key for key, job in jobs.items())


def test_results_go_to_their_configurations():
    """Results are found by key. Configurations that share a run have equal results. A failed run is
    absent."""
    of = runs()
    done = {}
    for key, job in of.jobs.items():
        value = {"float32": 1.0, "plain": 2.0, "bfp2": 3.0}[job.name] + job.seed / 8
        done[key] = {"key": key, "loss": value, "accuracy": 0.5, "mean_passes": None, "widths": {}}
    failed = next(key for key, job in of.jobs.items() if (job.name, job.seed) == ("bfp2", 1))
    del done[failed]
    plain, wide, bfp2 = of.summarise(done)
    reference = plain.reference
    assert wide.reference is bfp2.reference is reference
    assert [run["loss"] for run in reference.runs.values()] == [1.375, 1.125]
    assert plain.runs == wide.runs
    assert [run["loss"] for run in plain.runs.values()] == [2.375, 2.125]
    assert list(bfp2.runs) == [3]
    assert plain.over(reference, "loss").mean == 1
    assert wide.cost.cycles_per_step != plain.cost.cycles_per_step
    assert wide.cost.bits_per_element == plain.cost.bits_per_element
    assert plain.cost.passes == 1
    assert reference.cost is None


def test_costs_of_widths_that_were_chosen_are_means_of_the_seeds():
    fast = {"format": dict.fromkeys(("x", "w", "dy"), "fast")}
    of = Runs.of(dict.fromkeys((0, 1), DIGITS), [settled("fast", fast)], 20)
    names = [f"layer{layer}.{name}" for layer in (0, 1) for name in ("X", "W", "dY")]
    done = {}
    for key, job in of.jobs.items():
        width = 2.0 if job.seed else 4.0
        passes = None if job.numerics is None else width
        done[key] = {"key": key, "loss": 1.0, "accuracy": 0.5, "mean_passes": passes}
        done[key]["widths"] = dict.fromkeys(names, width)
    (found,) = of.summarise(done)
    assert found.cost.passes == 3
    assert found.cost.bits_per_element == 1.5 * (3 + 8 / 64)


def test_layers_of_a_step():
    """64 samples of 64 pixels; 256 bytes."""
    assert [(s.m, s.k, s.n, s.input_gradient) for s in step_shapes(DIGITS, {})] == [
        (64, 64, 64, False), (64, 64, 10, True)
    ]  # fmt: skip
    shapes = [(s.m, s.k, s.n, s.input_gradient) for s in step_shapes(TASKS["text"], {})]
    block = [(64, 192), (64, 64), (64, 256), (256, 64)]
    assert shapes == [(256, *pair, True) for pair in [*block, *block, (64, 256)]]


WHOLE = PRESETS["nano"].model_dump(exclude_none=True)
WHOLE["vector"]["panel_kib"] = 128


def whole(name, document=WHOLE, **given):
    """A machine that does whole steps, with options of `train` as settings and as values."""
    config = from_document(document)
    options = {key: value for key, value in given.items() if key != "precision"}
    program = ProgramOptions(limits=program_limits(config), **options)
    if "precision" in given:
        kind = Precision(kind=given["precision"], classes=CLASS_NAMES)
        program = replace(program, precision=kind)
    settings = {key: str(value) for key, value in given.items()}
    return RunnableConfig(
        named=Named(name=name, settings=settings), config=config, options={"program": program}
    )


def test_each_configuration_has_the_float32_of_its_recipe():
    """What is of the machine's numbers alone makes no other; a host's is another again."""
    of = Runs.of(
        {0: DIGITS},
        [
            whole("sgd"),
            whole("scaled", loss_scale=8),
            whole("adamw", optimizer="adamw"),
            whole("small", hidden=(32, 32)),
            settled("host", {}),
        ],
        20,
    )
    names = [job.name for job in of.jobs.values()]
    assert names == [
        "float32", "sgd", "scaled", "float32 optimizer=adamw", "adamw",
        "float32 hidden=(32, 32)", "small", "float32 of host", "host",
    ]  # fmt: skip
    recipes = [job.options.get("recipe") for job in of.jobs.values() if job.numerics is None]
    assert [each and (each.optimizer, each.hidden) for each in recipes] == [
        ("sgd", (64,)), ("adamw", (64,)), ("sgd", (32, 32)), None
    ]  # fmt: skip
    found = of.summarise({})
    assert [each.reference.name for each in found] == [
        "float32", "float32", "float32 optimizer=adamw", "float32 hidden=(32, 32)",
        "float32 of host",
    ]  # fmt: skip


def test_layers_are_those_of_the_configuration():
    shapes = step_shapes(DIGITS, whole("small", hidden=(32, 16, 8)).options)
    assert [(s.m, s.k, s.n, s.input_gradient) for s in shapes] == [
        (64, 64, 32, False), (64, 32, 16, True), (64, 16, 8, True), (64, 8, 10, True)
    ]  # fmt: skip


def costs(*several):
    """Of configurations whose runs have ended, in the mean with as many passes as they are named
    with."""
    of = Runs.of({0: DIGITS}, several, 20)
    done = {
        key: {"key": key, "loss": 1.0, "accuracy": 0.5, "mean_passes": None, "widths": {}}
        for key in of.jobs
    }
    return [each.cost for each in of.summarise(done)]


def test_a_step_costs_what_the_verilog_takes():
    """Counted on the hardware: 11 578 and 23 342 cycles (docs/figures.md); the model is within
    3 %."""
    sgd, adamw, small = costs(
        whole("sgd"), whole("adamw", optimizer="adamw"), whole("small", hidden=(8,))
    )
    assert sgd.cycles_per_step == pytest.approx(11_578, rel=0.03)
    assert adamw.cycles_per_step == pytest.approx(23_342, rel=0.03)
    assert sgd.macs == adamw.macs == 64 * (2 * 64 * 64 + 3 * 64 * 10)
    assert small.macs == 64 * (2 * 64 * 8 + 3 * 8 * 10)
    assert small.cycles_per_step < 0.7 * sgd.cycles_per_step


def test_a_step_of_chosen_widths_is_between_the_narrowest_and_the_widest():
    fast = WHOLE | {"format": dict.fromkeys(("x", "w", "dy"), "fast")}
    several = [whole(kind, fast, precision=kind) for kind in ("low", "fast", "high")]
    of = Runs.of({0: DIGITS}, several, 20)
    passes = {"low": 1.0, "fast": 2.5, "high": 4.0}
    names = [f"layer{layer}.{name}" for layer in (0, 1) for name in ("X", "W", "dY")]
    done = {
        key: {
            "key": key, "loss": 1.0, "accuracy": 0.5, "mean_passes": passes.get(job.name),
            "widths": dict.fromkeys(names, 3.0),
        }
        for key, job in of.jobs.items()
    }  # fmt: skip
    low, mean, high = (each.cost.cycles_per_step for each in of.summarise(done))
    assert low < mean < high
    assert mean == pytest.approx((low + high) / 2, rel=0.01)  # of fast, which decides besides
