"""A host of a machine with a program: parts of a run, and errors."""

from dataclasses import replace

import numpy as np
import pytest

from diastole_sim.golden.golden_machine import GoldenMachine
from diastole_sim.program.program import TRAINING
from diastole_sim.program.run import MachineStoppedError, ProgramRun
from diastole_sim.spec.command_errors import ERROR_MEANINGS, ErrorCode
from diastole_sim.spec.command_table import COMMAND_BYTES, Opcode
from diastole_sim.train.loss_scaling import LossScaling
from support.numerics import make_numerics
from support.optimisers import SETTINGS
from support.small_programs import SmallRun
from support.texts import exactly


def everything(run):
    """All of memory."""
    return run.machine.memory.read(0, run.machine.memory.size).tobytes()


def test_a_run_in_parts_is_the_same(np_rng):
    drawn = make_numerics(formats="bfp4", roundings="stochastic-b")
    small = SmallRun(np_rng, SETTINGS["adamw"], steps=5, numerics=drawn)
    whole, parts = small.start(), small.start()
    whole.train(5)
    for count in (2, 1, 2):
        parts.machine.tables.panel[:] = np.nan  # is filled anew
        parts.train(count)
    assert parts.done == 5
    assert whole.machine.command_first == 0
    assert parts.machine.command_first == small.program.resume  # no image of W is made again
    assert everything(whole) == everything(parts)
    assert len(whole.losses()) == 5


def test_an_evaluation_changes_nothing(np_rng):
    small = SmallRun(np_rng, SETTINGS["momentum"], steps=4)
    run, looked = small.start(), small.start()
    run.train(4)
    looked.train(2)
    first = looked.evaluate()
    assert np.array_equal(first, looked.evaluate())
    looked.train(2)
    assert np.array_equal(run.losses(), looked.losses())
    assert np.array_equal(run.evaluate(), looked.evaluate())
    assert everything(run) == everything(looked)


def test_what_was_read_stays(np_rng):
    """Later runs change no array that a run returned, and no state."""
    small = SmallRun(np_rng, SETTINGS["momentum"], steps=4)
    run = small.start()
    run.train(2)
    found = {"result": run.evaluate(), "losses": run.losses(), **run.parameters()}
    state = run.state()
    before = {name: values.copy() for name, values in (found | state).items()}
    run.train(2)
    run.evaluate()
    for name, values in (found | state).items():
        np.testing.assert_array_equal(values, before[name], err_msg=name)
    assert any((run.state()[name] != values).any() for name, values in state.items())


def test_the_seed_is_that_of_the_draws(np_rng):
    small = SmallRun(np_rng, SETTINGS["momentum"])
    runs = [small.start(seed) for seed in (0, 0, 1)]
    for run in runs:
        run.train(2)
    losses = [run.losses().tobytes() for run in runs]
    assert losses[0] == losses[1]
    assert losses[0] != losses[2]


def test_registers_of_the_losss_scale(np_rng):
    scaling = LossScaling(exponent=3, smallest=-2, largest=7, window=5)
    loss = SmallRun(np_rng, SETTINGS["momentum"], loss_scaling=scaling).start().machine.loss
    assert (loss.on, loss.exponent, loss.smallest, loss.largest, loss.window) == (True, 3, -2, 7, 5)


def test_a_loss_that_is_not_finite_stops_the_run(np_rng):
    run = SmallRun(np_rng, SETTINGS["momentum"]).start()
    run.train(1)
    bias = run.program.areas["2.bias"]
    run.machine.memory.write(bias.address, np.full(7, np.nan, np.float32).view(np.uint8))
    with pytest.raises(MachineStoppedError) as caught:
        run.train(1)
    stopped = caught.value
    assert (stopped.code, stopped.step, stopped.counters) == (ErrorCode.NOT_FINITE, 1, {})
    command = run.program.training[stopped.index]
    assert (command.opcode, command.m) == (Opcode.CHAIN, 1)
    assert str(stopped) == (
        f"step 1, command {stopped.index}: a chain wrote a NaN or an Inf to a watched constant"
    )


def test_errors_name_the_command(np_rng):
    run = SmallRun(np_rng, SETTINGS["momentum"]).start()
    place = run.program.areas[TRAINING].address + COMMAND_BYTES
    wrong = replace(run.program.training[1], m=0).encode()
    run.machine.write(place, np.frombuffer(wrong, np.uint8))
    meaning = ERROR_MEANINGS[ErrorCode.ZERO_SIZE]
    with pytest.raises(MachineStoppedError, match=exactly(f"step 0, command 1: {meaning}")):
        run.train(1)


class Counting(GoldenMachine):
    """Has a clock, of 10 cycles a run."""

    def counters(self):
        return {"cycles_total": 10}


def test_counters_are_added_up(np_rng):
    small = SmallRun(np_rng, SETTINGS["momentum"], steps=3)
    size = small.program.memory_bytes
    machine = Counting(small.numerics, small.limits, memory_bytes=size)
    run = ProgramRun(program=small.program, machine=machine)
    run.train(1)
    run.train(2)
    run.evaluate()
    assert (run.training, run.evaluating) == ({"cycles_total": 20}, {"cycles_total": 10})
