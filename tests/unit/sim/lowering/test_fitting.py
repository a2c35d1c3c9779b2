"""Programs that fit into a memory: what memory holds, and the same training in any memory."""

import numpy as np
import pytest

from diastole_sim.golden.golden_machine import GoldenMachine
from diastole_sim.graph.perceptron import perceptron_graph
from diastole_sim.lowering import fitting
from diastole_sim.lowering.fitting import fitting_program
from diastole_sim.lowering.program import training_program
from diastole_sim.lowering.recipe import TrainingRecipe
from diastole_sim.lowering.samples import Room, StoredSamples
from diastole_sim.program.recipe import Adam
from diastole_sim.program.run import ProgramRun, golden_machine
from diastole_sim.program.verified_run import VerifiedRun, memory_needed
from support.numerics import make_numerics
from support.small_programs import make_limits, samples

BATCH, SAMPLES, HELD_OUT, STEPS = 12, 200, 130, 11
WIDTHS = (13, 11, 8)
NUMERICS = make_numerics(block=4, roundings="stochastic-b")
LIMITS = make_limits(NUMERICS)


def numbers(rng, count, widths=(WIDTHS[0], WIDTHS[-1])):
    """Samples with numbers to learn."""
    inputs, targets = (rng.standard_normal((count, width)).astype("f4") for width in widths)
    return StoredSamples(inputs=inputs, targets=targets)


@pytest.fixture(params=["bytes", "floats", "numbers"])
def fitted(request, np_rng):
    """Programs by memory, of one training."""
    if request.param == "numbers":
        data = [numbers(np_rng, count) for count in (SAMPLES, HELD_OUT)]
    else:
        as_bytes = request.param == "bytes"
        data = [
            samples(np_rng, count, WIDTHS[0], WIDTHS[-1], as_bytes=as_bytes)
            for count in (SAMPLES, HELD_OUT)
        ]
    loss = "mse_loss" if request.param == "numbers" else "cross_entropy"
    recipe = TrainingRecipe(
        graph=perceptron_graph(WIDTHS, batch=BATCH // 2, loss=loss),
        optimiser=Adam(rate=lambda step: 0.01),
        batches=np_rng.integers(0, SAMPLES, (STEPS, BATCH)),
    )

    def fit(memory_bytes):
        machine = {"numerics": NUMERICS, "limits": LIMITS}
        return fitting_program(recipe, *data, **machine, memory_bytes=memory_bytes)

    return fit


def trained(program, stretches=(STEPS,)):
    golden = golden_machine(program, NUMERICS, LIMITS, seed=3)
    run = ProgramRun(program=program, machine=golden)
    for steps in stretches:
        run.train(steps)
        run.evaluate()
    return run


def test_the_training_is_the_same_in_any_memory(fitted):
    whole = fitted(None)
    assert whole.sent is whole.held_out is None
    expected = trained(whole)
    kinds, smallest = set(), fitted(1)
    step = (whole.memory_bytes - smallest.memory_bytes) // 7
    for memory_bytes in range(smallest.memory_bytes, whole.memory_bytes + 1, step):
        program = fitted(memory_bytes)
        assert program.memory_bytes <= memory_bytes
        kinds.add((program.sent is not None, program.held_out is not None))
        run = trained(program, (1, 4, STEPS - 5))
        np.testing.assert_array_equal(run.losses(), expected.losses())
        for name, values in run.parameters().items():
            np.testing.assert_array_equal(values, expected.parameters()[name])
        assert run.evaluate().shape == (HELD_OUT, WIDTHS[-1])
    assert kinds >= {(True, False), (True, True)}


def test_the_smallest_program(fitted):
    """If nothing fits, the smallest program comes back."""
    program = fitted(1)
    assert program.memory_bytes > 1
    assert program.sent.steps == 1
    order = np.concatenate(program.held_out.order)
    assert order.tolist() == [*range(HELD_OUT), HELD_OUT - 1, HELD_OUT - 1]
    assert fitted(program.memory_bytes - 1).memory_bytes == program.memory_bytes


def test_the_longest_stretches_that_fit(np_rng, monkeypatch):
    """Samples of several steps may be in one line of memory, so a step may need no more memory. Few
    programs are tried."""
    built = []

    def build(*given, room, **machine):
        built.append(room.steps)
        return training_program(*given, room=room, **machine)

    monkeypatch.setattr(fitting, "training_program", build)
    data = [numbers(np_rng, count, (1, 1)) for count in (600, 20)]
    recipe = TrainingRecipe(
        graph=perceptron_graph((1, 1), batch=1, loss="mse_loss"),
        optimiser=Adam(rate=lambda step: 0.01),
        batches=np_rng.integers(0, 600, (500, 1)),
    )
    machine = {"numerics": NUMERICS, "limits": LIMITS}
    sizes = {
        steps: training_program(recipe, *data, **machine, room=Room(steps=steps)).memory_bytes
        for steps in (1, 2, 100, 101)
    }
    assert sizes[1] == sizes[2]
    program = fitting_program(recipe, *data, **machine, memory_bytes=sizes[100])
    steps = program.sent.steps
    assert steps >= 100
    longer = training_program(recipe, *data, **machine, room=Room(steps=steps + 1))
    assert program.memory_bytes <= sizes[100] < longer.memory_bytes
    assert len(built) < 13


def test_a_restored_training_has_the_samples_of_the_next_step(fitted):
    program = fitted(fitted(1).memory_bytes)
    run = trained(program, (STEPS - 4,))
    again = trained(program, (2,))
    again.restore(run.state(), run.done, run.machine.loss)
    for each in (run, again):
        each.train(4)
    for name, values in run.parameters().items():
        np.testing.assert_array_equal(values, again.parameters()[name])


def test_a_verified_run_sends_to_both_machines(fitted):
    program = fitted(fitted(1).memory_bytes)
    size = memory_needed(program, LIMITS)
    machine = GoldenMachine(NUMERICS, LIMITS, memory_bytes=size, seed=3)
    golden = golden_machine(program, NUMERICS, LIMITS, seed=3)
    run = VerifiedRun(program=program, machine=machine, reference=golden)
    run.train(3)
    run.evaluate()
    assert run.comparison.first is None
    assert run.comparison.compared > 0


def test_evaluations_in_parts(np_rng):
    """Parts of whole blocks change nothing without random bits and scales of whole tensors."""
    data = [samples(np_rng, count, WIDTHS[0], WIDTHS[-1]) for count in (SAMPLES, 11 * BATCH)]
    recipe = TrainingRecipe(
        graph=perceptron_graph(WIDTHS, batch=BATCH),
        optimiser=Adam(rate=lambda step: 0.01),
        batches=np_rng.integers(0, SAMPLES, (STEPS, BATCH)),
    )
    numerics = make_numerics(block=4)
    limits = make_limits(numerics)
    found = []
    for memory_bytes in (None, 1):
        program = fitting_program(
            recipe, *data, numerics=numerics, limits=limits, memory_bytes=memory_bytes
        )
        golden = golden_machine(program, numerics, limits, seed=3)
        run = ProgramRun(program=program, machine=golden)
        run.train(3)
        found.append(run.evaluate())
    np.testing.assert_array_equal(*found)
