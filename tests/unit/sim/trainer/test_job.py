"""A training whose every step the machine does: what comes back."""

import hashlib
import re
from dataclasses import replace

import numpy as np
import pytest

from diastole_sim.golden.golden_machine import GoldenMachine
from diastole_sim.program.not_finite import WatchedRun, first_not_finite
from diastole_sim.program.program import TRAINING
from diastole_sim.program.recipe import Sgd
from diastole_sim.program.run import MachineStoppedError, ProgramRun, golden_machine
from diastole_sim.program.verified_run import VerifiedRun, memory_needed
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.registers import WAIT_REGISTERS
from diastole_sim.train.loss_scaling import LossScaling
from diastole_sim.train.samples import Samples
from diastole_sim.train.tasks import task_of_samples
from diastole_sim.trainer.job import run_program
from diastole_sim.trainer.options import ProgramOptions
from diastole_sim.trainer.tasks import task_program
from support.numerics import make_numerics
from support.program_machines import Clocked, faulty
from support.small_programs import make_limits

NUMERICS = make_numerics(block=8)
LIMITS = make_limits(NUMERICS)
STEPS, EVERY = 5, 2


@pytest.fixture
def made(np_rng):
    inputs = np_rng.normal(size=(60, 5)).astype(np.float32)
    task = task_of_samples(Samples(inputs=inputs, labels=np.arange(60) % 3), "own")
    task = replace(task, evaluate_every=EVERY)
    return ProgramOptions(limits=LIMITS, hidden=(12,)).program(task, NUMERICS, steps=STEPS, seed=1)


def machine_of(made, kind=GoldenMachine):
    size = memory_needed(made.program, LIMITS)
    return kind(NUMERICS, LIMITS, memory_bytes=size, seed=1)


def result_of(made, run, **given):
    options = ProgramOptions(limits=LIMITS, hidden=(12,))
    given = {"float_run": False} | given
    return run_program(run, made, options, backend="any", seed=1, **given)


def test_a_result(made):
    seen = []
    run = ProgramRun(program=made.program, machine=machine_of(made))
    result = result_of(made, run, progress=lambda *given: seen.append(given), float_run=True)
    history = result.history
    assert [done for done, _, _ in history.held_out] == [2, 4, 5]
    assert (result.loss, result.accuracy) == history.held_out[-1][1:]
    assert len(history.losses) == STEPS
    assert [given[:2] for given in seen] == [(2, 5), (4, 5), (5, 5)]
    assert seen[0][2] == history.losses[1]
    assert len(result.float_history.losses) == STEPS
    assert [done for done, _, _ in result.float_history.held_out] == [2, 4, 5]
    assert result.float_loss == pytest.approx(result.loss, rel=0.1)
    assert result.cycles is result.cycles_total is result.waits is result.commands is None
    assert (result.verified, result.compared) == (False, 0)
    rows = len(made.held_out.labels)
    batch = made.recipe.batch
    inside = 5 * 12 + 12 * 3
    assert result.macs == STEPS * batch * (2 * inside + 12 * 3) + 3 * rows * inside
    assert result.products == STEPS * 5 + 3 * 2
    weights, inputs = inside, 5 + 12
    assert result.converted == (
        weights + STEPS * (weights + batch * (inputs + 12 + 3)) + 3 * rows * inputs
    )
    assert result.underflowed == run.reported["underflowed"] > 0
    assert result.saturated == run.reported["saturated"]
    assert result.inexact_products is None
    record = result.to_json()
    assert record["hidden"] == [12]
    assert record["float_loss"] == result.float_loss
    assert "history" not in record


def test_the_hash_is_of_weights_and_biases(made):
    run = ProgramRun(program=made.program, machine=machine_of(made))
    result = result_of(made, run)
    digest = hashlib.sha256()
    for name, shape in (
        ("0.weight", (5, 12)),
        ("0.bias", (12,)),
        ("2.weight", (12, 3)),
        ("2.bias", (3,)),
    ):
        values = run.floats(name)
        assert values.shape == shape
        assert np.abs(values).max() > 0
        digest.update(values.tobytes())
    assert result.weights_sha256 == digest.hexdigest()


def test_stretches_and_verification_change_nothing(made):
    plain = result_of(made, ProgramRun(program=made.program, machine=machine_of(made)))
    one = replace(made, task=replace(made.task, evaluate_every=STEPS))
    whole = result_of(one, ProgramRun(program=made.program, machine=machine_of(made)))
    golden = golden_machine(made.program, NUMERICS, LIMITS, seed=1)
    run = VerifiedRun(program=made.program, machine=machine_of(made), reference=golden)
    verified = result_of(made, run)
    assert plain.weights_sha256 == whole.weights_sha256 == verified.weights_sha256
    assert (verified.verified, verified.mismatches) == (True, 0)
    assert verified.compared > 1000
    assert verified.commands is None


def test_a_clock(made):
    golden = golden_machine(made.program, NUMERICS, LIMITS, seed=1)
    run = VerifiedRun(program=made.program, machine=machine_of(made, Clocked), reference=golden)
    result = result_of(made, run, multipliers=256)
    count = sum(cost.runs for cost in result.commands)
    assert result.cycles_total == 10 * count
    assert result.busy_slots == 6 * count
    assert result.waits == dict.fromkeys(WAIT_REGISTERS, 0) | {"load": 4 * count}
    assert result.busy_slots + sum(result.waits.values()) == result.cycles_total
    evaluations = 3 * len(made.program.evaluation)
    assert result.cycles == result.total_cycles == 10 * (count + evaluations)
    assert result.utilisation == result.macs / (256 * result.cycles)
    record = result.to_json()
    assert [each["number"] for each in record["commands"]] == list(range(len(run.costs)))
    assert record["commands"][-1]["opcode"] == "chain"


def test_what_differs(made):
    place = made.program.areas["2.weight"].address

    def spoil(machine):
        machine.write(place, machine.memory.read(place, 1) ^ np.uint8(1))

    number = len(made.program.training) - 4  # copies w from the panel, and then v and the bias
    kind = faulty(spoil, number=number, step=EVERY)
    kind.training = made.program.areas[TRAINING].address
    golden = golden_machine(made.program, NUMERICS, LIMITS, seed=1)
    run = VerifiedRun(program=made.program, machine=machine_of(made, kind), reference=golden)
    result = result_of(made, run)
    assert not result.verified
    assert result.mismatches > 0
    assert str(result.first_mismatch).startswith("first mismatch: tensor 2.weight, step 2, ")


def growing(np_rng, step, **given):
    """A training whose weights are too large for float32 behind a step: its rate is then 1e38."""
    inputs = 100 * np_rng.normal(size=(60, 5)).astype(np.float32)
    task = task_of_samples(Samples(inputs=inputs, labels=np.arange(60) % 3), "own")
    rate = Sgd(rate=lambda number: 1e38 if number == step else 0.0)
    machine = {"numerics": NUMERICS, "limits": LIMITS}
    return task_program(task, steps=STEPS, seed=1, hidden=(12,), optimiser=rate, **machine, **given)


@pytest.mark.parametrize("kind", [GoldenMachine, Clocked])
def test_weights_that_are_not_finite_after_the_last_step(kind, np_rng):
    """The host looks once, behind step 4: which step it was is found all the same."""
    made = growing(np_rng, STEPS - 1)
    run = ProgramRun(program=made.program, machine=machine_of(made, kind))
    result = result_of(made, run)
    assert np.isfinite(result.history.losses).all()
    w = run.floats("0.weight")
    inf = np.isinf(w).sum()
    assert inf
    assert not np.isnan(w).any()
    assert result.not_finite[0] == f"step 4: 0.weight has {inf} Inf among 60 numbers"
    assert result.to_json()["not_finite"] == result.not_finite
    assert run.done == STEPS


def test_a_step_before_the_last_is_found(np_rng):
    """Formats that flag an Inf go on with their largest number: the losses stay finite."""
    made = growing(np_rng, STEPS - 2, clip=1e30)
    spoilt = made.program.areas["0.weight"]
    made.program.initial["0.weight"] = np.full(spoilt.length // 4, np.nan, "<f4").tobytes()
    run = ProgramRun(program=made.program, machine=machine_of(made))
    result = result_of(made, run)
    assert np.isfinite(result.history.losses).all()
    assert result.not_finite[0] == "step 0: 0.weight has 60 NaN among 60 numbers"


def test_what_the_golden_model_does_not_find(made):
    """A machine of other numbers: the steps between two looks are named."""
    place = made.program.areas["2.weight"].address

    def spoil(machine):
        machine.write(place, np.full(2, np.nan, np.float32).view(np.uint8))

    kind = faulty(spoil, number=len(made.program.training) - 1, step=0)
    kind.training = made.program.areas[TRAINING].address
    result = result_of(made, ProgramRun(program=made.program, machine=machine_of(made, kind)))
    assert result.not_finite[0].startswith("steps 0 to 1: 2.weight has 2 NaN among 36 numbers")


def test_a_float_run_that_is_not_finite(np_rng):
    inputs = np.full((60, 5), 1e30, np.float32)
    task = task_of_samples(Samples(inputs=inputs, labels=np.arange(60) % 3), "own")
    options = ProgramOptions(limits=LIMITS, hidden=(12,), clip=1.0)
    made = options.program(task, NUMERICS, steps=1, seed=1)
    found = []
    for values in (1e30, np.inf):
        made.training.inputs[:] = values  # those that the float run reads
        run = ProgramRun(program=made.program, machine=machine_of(made))
        with np.errstate(all="ignore"):
            found.append(result_of(made, run, float_run=True))
    good, result = found
    assert good.not_finite == []
    assert result.history.not_finite == {}
    assert result.not_finite[0] == "float32: step 0: the loss of the minibatch is NaN"


def stopped(made, kind=GoldenMachine):
    """The error of a run that ends with one."""
    with pytest.raises(MachineStoppedError) as caught:
        result_of(made, ProgramRun(program=made.program, machine=machine_of(made, kind)))
    return caught.value


def test_the_tensor_that_stopped_a_machine(np_rng):
    """An update begins at the last layer. The parameters are those of another run, which ends
    before the loss of step 2 is not finite."""
    made = growing(np_rng, 1)
    found = stopped(made)
    assert (found.code, found.step) == (ErrorCode.NOT_FINITE, 2)
    run = ProgramRun(program=made.program, machine=machine_of(made))
    run.train(1)
    assert all(np.isfinite(values).all() for values in run.parameters().values())
    run.train(1)
    wrong = {name: np.isinf(values).sum() for name, values in run.parameters().items()}
    assert wrong["0.weight"]
    assert wrong["2.weight"]
    pattern = rf"step 1, command \d+: 2.weight, panel has {wrong['2.weight']} Inf among 128 numbers"
    assert re.fullmatch(pattern, found.not_finite)
    assert str(found).endswith(f"; the first value that is not finite: {found.not_finite}")


def test_a_machine_of_other_numbers_that_stops(made):
    """The golden model has no such number; the parameters of the machine do. It stops in step 2,
    for it takes two steps at a time."""
    place = made.program.areas["2.bias"].address

    def spoil(machine):
        machine.write(place, np.full(3, np.nan, np.float32).view(np.uint8))

    kind = faulty(spoil, number=len(made.program.training) - 1, step=0)
    kind.training = made.program.areas[TRAINING].address
    assert stopped(made, kind).not_finite == ("step 2: 2.bias has 3 NaN among 3 numbers")


def test_gradients_of_steps_that_are_skipped(np_rng):
    """A scale of the loss that is too large gives Inf, which is no fault: the step is skipped."""
    scaling = LossScaling(exponent=24, smallest=0, largest=24, window=100)
    made = growing(np_rng, STEPS, loss_scaling=scaling)
    length = made.program.areas["training samples"].length
    made.program.initial["training samples"] = np.full(length // 4, 1e33, "<f4").tobytes()
    golden = machine_of(made)
    watched = WatchedRun(program=made.program, machine=golden, golden=golden)
    seen = []
    while watched.done < STEPS:
        watched.train(1)
        seen.append(watched.machine.loss.exponent)
    assert seen[0] < 24, "an overflow"
    assert watched.first is None
    assert first_not_finite(made.program, machine_of(made), STEPS) is None
