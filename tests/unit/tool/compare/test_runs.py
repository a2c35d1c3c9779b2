"""All runs of a comparison: which there are, and whose results are whose."""

from diastole.compare.plan import Named
from diastole.compare.runs import Runs, Settled, step_shapes
from diastole.config.file import from_document
from diastole_sim.train import TASKS

DIGITS = TASKS["digits"]


def settled(name, document, **options):
    config = from_document(document)
    return Settled(named=Named(name=name, settings={}), config=config, options=options)


def runs():
    wide = {"array": {"rows": 4}}
    several = [
        settled("plain", {}),
        settled("wide", wide),
        settled("bfp2", {"format": dict.fromkeys(("x", "w", "dy"), "bfp2")}),
    ]
    return Runs.of(DIGITS, several, (3, 1), 20)


def test_every_configuration_with_every_seed_and_float32():
    """Machines that differ in their geometry alone have the same bits: one run, by the first."""
    jobs = runs().jobs
    assert [str(job) for job in jobs.values()] == [
        f"{name}, seed {seed}" for seed in (3, 1) for name in ("float32", "plain", "bfp2")
    ]
    assert {job.steps for job in jobs.values()} == {20}
    assert all(key == job.key for key, job in jobs.items())


def test_results_go_to_their_configurations():
    """By key; two that share a run both have it; one that failed is absent."""
    of = runs()
    done = {}
    for key, job in of.jobs.items():
        value = {"float32": 1.0, "plain": 2.0, "bfp2": 3.0}[job.name] + job.seed / 8
        done[key] = {"key": key, "loss": value, "accuracy": 0.5, "mean_passes": None, "widths": {}}
    failed = next(key for key, job in of.jobs.items() if (job.name, job.seed) == ("bfp2", 1))
    del done[failed]
    reference, (plain, wide, bfp2) = of.summarise(done)
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
    of = Runs.of(DIGITS, [settled("fast", fast)], (0, 1), 20)
    names = [f"layer{layer}.{name}" for layer in (0, 1) for name in ("X", "W", "dY")]
    done = {}
    for key, job in of.jobs.items():
        width = 2.0 if job.seed else 4.0
        passes = None if job.numerics is None else width
        done[key] = {"key": key, "loss": 1.0, "accuracy": 0.5, "mean_passes": passes}
        done[key]["widths"] = dict.fromkeys(names, width)
    _, (found,) = of.summarise(done)
    assert found.cost.passes == 3
    assert found.cost.bits_per_element == 1.5 * (3 + 8 / 64)


def test_layers_of_a_step():
    """64 samples of 64 pixels; 256 bytes."""
    assert [(s.m, s.k, s.n, s.input_gradient) for s in step_shapes(DIGITS)] == [
        (64, 64, 64, False), (64, 64, 10, True)
    ]  # fmt: skip
    shapes = [(s.m, s.k, s.n, s.input_gradient) for s in step_shapes(TASKS["text"])]
    block = [(64, 192), (64, 64), (64, 256), (256, 64)]
    assert shapes == [(256, *pair, True) for pair in [*block, *block, (64, 256)]]
