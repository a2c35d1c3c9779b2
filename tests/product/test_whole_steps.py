"""Machines that do whole training steps: geometry, stalls and verification decide no bit."""

from functools import cache

import numpy as np
import pytest

from diastole.backend import make_machine, program_limits
from diastole.config.file import from_document
from diastole.execution import Execution
from diastole_sim.host.control import control_bit
from diastole_sim.program.program import TRAINING
from diastole_sim.program.run import MachineStoppedError, ProgramRun, golden_machine
from diastole_sim.program.verified_run import VerifiedRun
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.command_table import COMMAND_BYTES, Opcode
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.registers import WAIT_REGISTERS
from diastole_sim.train.precision import Precision
from diastole_sim.train.tasks import find_task
from diastole_sim.trainer.job import run_program
from diastole_sim.trainer.options import ProgramOptions
from support.products import SEED, STEPS_1X1
from support.sweep import sweep

STEPS = 5


def machine(rows, cols, block, *, tables=None, **array):
    """With a vector unit, random numbers and a small panel. ``tables``: of its document, others."""
    return from_document(
        {
            "name": f"steps_{rows}x{cols}",
            "array": {"rows": rows, "cols": cols, "block": block, **array},
            "vector": {"enable": True, "panel_kib": 16, "draws": True},
        }
        | (tables or {})
    )


DELAYED = {
    "name": "steps_delayed",
    "bus": {"data_width": 64},
    "format": dict.fromkeys(("x", "w", "dy"), "fp8_e4m3"),
    "scale": {"source": "delayed", "history": 3, "margin": 1},
}


FAST = {
    "name": "steps_fast",
    "bus": {"data_width": 64},
    "format": dict.fromkeys(("x", "w", "dy"), "fast"),
}
PRECISION = Precision(kind="fast", classes=CLASS_NAMES, alpha=0.45)
"""Of it: both widths are met in the first steps."""


MACHINES = {
    "2x2": machine(2, 2, 8),
    "1x1": STEPS_1X1,
    "3x2": machine(3, 2, 4),
    "4x1": machine(4, 1, 4, transpose="edge"),
    "delayed": machine(1, 1, 8, tables=DELAYED),
    "fast": machine(1, 1, 4, tables=FAST),
}
"""The first and the last two are of other numbers than the rest."""
RUNS = [
    ("1x1", None, True),
    ("1x1", 1, False),
    sweep("delayed", 5, False),
    sweep("fast", 2, True),
    sweep("2x2", None, False),
    sweep("2x2", 2, True),
    sweep("3x2", None, False),
    sweep("3x2", 3, False),
    sweep("4x1", 4, True),
]


def options_of(name):
    limits = program_limits(MACHINES[name])
    precision = PRECISION if limits.has_choices else None
    return ProgramOptions(limits=limits, hidden=(24,), precision=precision)


@cache
def made_of(name):
    numerics = MACHINES[name].numerics
    return options_of(name).program(find_task("digits"), numerics, steps=STEPS, seed=SEED)


def result_of(name, run):
    return run_program(
        run, made_of(name), options_of(name), backend="any", seed=SEED, float_run=False
    )


def golden_result(config):
    """Of the first machine with such numbers."""
    return golden_result_of(
        next(name for name, each in MACHINES.items() if each.numerics == config.numerics)
    )


@cache
def golden_result_of(name):
    made = made_of(name)
    limits = program_limits(MACHINES[name])
    golden = golden_machine(made.program, MACHINES[name].numerics, limits, seed=SEED)
    return result_of(name, ProgramRun(program=made.program, machine=golden))


@pytest.mark.parametrize("name, stalls, verify", RUNS)
def test_one_result(name, stalls, verify):
    config, made = MACHINES[name], made_of(name)
    with make_machine(Execution(seed=SEED, stalls=stalls), config, made.program) as rtl:
        run = ProgramRun(program=made.program, machine=rtl)
        if verify:
            limits = program_limits(config)
            golden = golden_machine(made.program, config.numerics, limits, seed=SEED)
            run = VerifiedRun(program=made.program, machine=rtl, reference=golden)
        result = result_of(name, run)
    assert result.first_mismatch is None
    expected = golden_result(config)
    assert result.history.losses == expected.history.losses
    assert result.weights_sha256 == expected.weights_sha256
    assert result.accuracy == expected.accuracy
    for name in ("converted", "saturated", "underflowed", "widths", "mean_passes"):
        assert getattr(result, name) == getattr(expected, name)
    assert sum(result.waits.values()) + result.busy_slots == result.cycles_total > 0


@pytest.mark.sweep
@pytest.mark.parametrize("name, hidden", [("1x1", (72, 40)), ("delayed", (96,))])
def test_layers_that_no_tile_holds(name, hidden):
    """Every image at a drain comes in patches; each command beside the golden machine's."""
    config, limits = MACHINES[name], program_limits(MACHINES[name])
    options = ProgramOptions(limits=limits, hidden=hidden)
    made = options.program(find_task("digits"), config.numerics, steps=2, seed=SEED)
    kinds = {command.opcode for command in made.program.training}
    assert {Opcode.FORWARD_CHAIN, Opcode.DX_CHAIN, Opcode.DW_CHAIN} <= kinds
    with make_machine(Execution(seed=SEED, stalls=3), config, made.program) as rtl:
        golden = golden_machine(made.program, config.numerics, limits, seed=SEED)
        run = VerifiedRun(program=made.program, machine=rtl, reference=golden)
        result = run_program(run, made, options, backend="any", seed=SEED, float_run=False)
    assert result.first_mismatch is None


def test_a_far_memory():
    """Nothing is read before it is written, however late that is answered."""
    config, made = MACHINES["1x1"], made_of("1x1")
    with make_machine(Execution(seed=SEED, latency=400), config, made.program) as rtl:
        result = result_of("1x1", ProgramRun(program=made.program, machine=rtl))
    assert result.weights_sha256 == golden_result(config).weights_sha256


def test_a_loss_that_is_not_finite():
    """Stops the machine, which says where, and what it counted; it is as good as new then."""
    config, made = MACHINES["1x1"], made_of("1x1")
    with make_machine(Execution(seed=SEED), config, made.program) as rtl:
        run = ProgramRun(program=made.program, machine=rtl)
        run.train(2)
        bias = run.program.areas["2.bias"]
        good = rtl.read_rows(bias.address, 1, 0, bias.length)[0].copy()
        rtl.write(bias.address, np.full(10, np.nan, np.float32).view(np.uint8))
        with pytest.raises(MachineStoppedError) as caught:
            run.train(STEPS - 2)
        stopped = caught.value
        assert (stopped.code, stopped.step) == (ErrorCode.NOT_FINITE, 2)
        assert made.program.training[stopped.index].m == 1  # the mean of the losses
        counted = stopped.counters
        waits = sum(counted[name] for name in WAIT_REGISTERS.values())
        assert waits + counted["busy_slots"] == counted["cycles_total"] > 0
        rtl.write(bias.address, good)
        assert np.isfinite(run.evaluate()).all()


@pytest.mark.parametrize("scale, weights", [(None, 1e21), (24, 1e14)])
def test_a_norm_that_overflows(scale, weights):
    """Large weights of the last layer make gradients whose squares overflow, scaled or as they are.
    Scaled, the step is skipped; else its factor is 0. No weight moves in golden and Verilog."""
    config, limits = MACHINES["1x1"], program_limits(MACHINES["1x1"])
    options = ProgramOptions(limits=limits, hidden=(24,), clip=1.0, loss_scale=scale)
    made = options.program(find_task("digits"), config.numerics, steps=1, seed=SEED)
    with make_machine(Execution(seed=SEED), config, made.program) as rtl:
        golden = golden_machine(made.program, config.numerics, limits, seed=SEED)
        run = VerifiedRun(program=made.program, machine=rtl, reference=golden)
        names = [f"{layer}.{each}" for layer in (0, 2) for each in ("weight", "bias")]
        area = made.program.areas["2.weight"]
        first = np.frombuffer(made.program.initial["2.weight"], "<f4") * np.float32(weights)
        for machine in (rtl, golden):
            machine.write(area.address, first.view(np.uint8))
        before = {name: run.floats(name).copy() for name in names}
        run.train(1)
        assert run.comparison.first is None
        for name in names:
            np.testing.assert_array_equal(run.floats(name), before[name], err_msg=name)
        gradient = run.floats("0.weight gradient")
        assert np.isfinite(gradient).all()
        assert np.square(gradient, dtype=np.float64).sum() > np.finfo(np.float32).max
        assert scale is None or (rtl.loss.exponent, rtl.loss.clean) == (23, 0)


def test_a_floor_of_the_scale_rises():
    """Every step overflows, so that the scale falls by one, unless a floor stops it: the exponents
    follow by hand, from floors 10 from step 1 on and 12 from step 3 on."""
    config, limits = MACHINES["1x1"], program_limits(MACHINES["1x1"])
    floors = ((1, 10), (3, 12))
    options = ProgramOptions(
        limits=limits, hidden=(24,), clip=1.0, loss_scale=11, loss_scale_floor=floors
    )
    made = options.program(find_task("digits"), config.numerics, steps=5, seed=SEED)
    with make_machine(Execution(seed=SEED), config, made.program) as rtl:
        golden = golden_machine(made.program, config.numerics, limits, seed=SEED)
        run = VerifiedRun(program=made.program, machine=rtl, reference=golden)
        alone = ProgramRun(
            program=made.program,
            machine=golden_machine(made.program, config.numerics, limits, seed=SEED),
        )
        area = made.program.areas["2.weight"]
        first = np.frombuffer(made.program.initial["2.weight"], "<f4") * np.float32(1e17)
        for machine in (rtl, golden, alone.machine):
            machine.write(area.address, first.view(np.uint8))
        found = []
        for _ in range(5):
            run.train(1)
            assert run.comparison.first is None
            assert vars(rtl.loss) == vars(golden.loss)
            found.append((rtl.loss.exponent, rtl.loss.smallest))
        assert found == [(10, -14), (10, 10), (10, 10), (12, 12), (12, 12)]
        alone.train(5)
        assert vars(alone.machine.loss) == vars(rtl.loss)


@pytest.mark.parametrize("cycles", [1, 700, 20_000])
def test_a_reset_in_the_middle_of_a_step(cycles):
    """The machine is as good as new: the same run again has the same bits."""
    config, made = MACHINES["1x1"], made_of("1x1")
    with make_machine(Execution(seed=SEED), config, made.program) as rtl:
        run = ProgramRun(program=made.program, machine=rtl)
        commands = made.program.areas[TRAINING]
        rtl.control.write("step_end", STEPS)
        rtl.control.set("command_count", commands.length // COMMAND_BYTES)
        rtl.control.set("command_address", commands.address)
        rtl.control.write("control", control_bit("start"))
        rtl.machine.idle(cycles)
        assert rtl.control.status("busy")
        rtl.control.reset()
        run.fill(rtl)
        result = result_of("1x1", run)
    assert result.weights_sha256 == golden_result(config).weights_sha256
