"""Programs on hardware without a vector unit: the hardware converts and multiplies, and the golden
code does the rest, with the bits of a machine that does all."""

import numpy as np
import pytest

from diastole.backend import make_machine, program_limits
from diastole.config.file import from_document
from diastole.execution import Execution
from diastole_sim.host.device_engine import DeviceEngine
from diastole_sim.program.run import ProgramRun, golden_machine
from diastole_sim.program.verified_run import VerifiedRun
from diastole_sim.train.master import Master
from diastole_sim.train.precision import Precision
from diastole_sim.train.tasks import find_task
from diastole_sim.trainer.options import ProgramOptions
from support.sweep import sweep

MACHINES = {
    "bfp4": ((1, 1, 8), {}),
    "vectors": ((2, 2, 4), {"format": {"dy": "bfp8"}, "block": {"x": "1x16", "w": "1x16"}}),
    "mxfp8": ((1, 1, 4), {"format": dict.fromkeys(("x", "w", "dy"), "mxfp8_e4m3")}),
    "delayed": (
        (1, 1, 4),
        {
            "format": dict.fromkeys(("x", "w", "dy"), "fp8_e4m3"),
            "scale": {"source": "delayed", "history": 3},
        },
    ),
    "current": ((1, 1, 4), {"format": dict.fromkeys(("x", "w", "dy"), "fp8_e4m3")}),
    "fast": ((1, 1, 4), {"format": dict.fromkeys(("x", "w", "dy"), "fast")}),
}
STEPS, SEED = 3, 7


def machine(name, *, vector):
    (rows, cols, block), tables = MACHINES[name]
    document = {
        "name": f"hosted_{name}",
        "array": {"rows": rows, "cols": cols, "block": block},
        "vector": {"enable": vector},
    }
    return from_document(document | tables)


def made_on(config):
    """The program of a small network, with loss scaling."""
    limits = program_limits(config)
    precision = Precision(kind="fast", classes=("x", "w", "dy"), alpha=0.45)
    options = ProgramOptions(
        limits=limits,
        hidden=(24,),
        loss_scale=6,
        precision=precision if limits.has_choices else None,
    )
    return options.program(find_task("digits"), config.numerics, steps=STEPS, seed=SEED), limits


@pytest.mark.parametrize("name, stalls", [("bfp4", None), *(sweep(name, 3) for name in MACHINES)])
def test_every_number_is_that_of_a_vector_unit(name, stalls):
    """Each command beside the golden machine; weights and losses those of a machine that does
    whole steps by itself."""
    config = machine(name, vector=False)
    made, limits = made_on(config)
    golden = golden_machine(made.program, config.numerics, limits, seed=SEED)
    execution = Execution(seed=SEED, stalls=stalls)
    with make_machine(execution, config, made.program) as hosted:
        assert isinstance(hosted.engine, DeviceEngine)
        run = VerifiedRun(program=made.program, machine=hosted, reference=golden)
        run.train(STEPS)
        result = run.evaluate()
        assert run.comparison.first is None
        assert hosted.engine.device.total_cycles > 0
        found = [*run.parameters().values(), run.losses(), result]
    whole = machine(name, vector=True)
    assert whole.numerics == config.numerics
    other, limits = made_on(whole)
    alone = golden_machine(other.program, whole.numerics, limits, seed=SEED)
    run = ProgramRun(program=other.program, machine=alone)
    run.train(STEPS)
    expected = [*run.parameters().values(), run.losses(), run.evaluate()]
    for one, another in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, another)


@pytest.mark.parametrize("name", ["bfp4", sweep("delayed"), sweep("fast")])
def test_weights_and_gradients_in_few_bits(name):
    """They are rounded where the golden code stores them; a run in parts goes on with them."""
    config = machine(name, vector=False)
    limits = program_limits(config)
    options = ProgramOptions(
        limits=limits,
        hidden=(24,),
        loss_scale=6,
        master=Master(kind="bf16"),
        gradient="fp8_e5m2",
        precision=Precision(kind="low-to-high", classes=("x", "w", "dy"), switch=2)
        if limits.has_choices
        else None,
    )
    made = options.program(find_task("digits"), config.numerics, steps=STEPS, seed=SEED)
    found = []
    for stalls in (None, 3):
        golden = golden_machine(made.program, config.numerics, limits, seed=SEED)
        execution = Execution(seed=SEED, stalls=stalls)
        with make_machine(execution, config, made.program) as hosted:
            run = VerifiedRun(program=made.program, machine=hosted, reference=golden)
            run.train(STEPS)
            assert run.comparison.first is None
            found.append(run.parameters())
    alone = golden_machine(made.program, config.numerics, limits, seed=SEED)
    run = ProgramRun(program=made.program, machine=alone)
    run.train(1)
    run.train(STEPS - 1)
    for each, values in run.parameters().items():
        assert np.array_equal(values, options.master.start(values))
        assert all(np.array_equal(values, other[each]) for other in found)
