"""Runs on two machines: that nothing differs where nothing does, and every fault is found."""

import numpy as np
import pytest

from diastole_sim.golden.golden_machine import GoldenMachine
from diastole_sim.program.program import TRAINING
from diastole_sim.program.run import MachineStoppedError, ProgramRun, golden_machine
from diastole_sim.program.verified_run import VerifiedRun, memory_needed
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.command_table import Opcode
from diastole_sim.spec.limits import SlotWord
from diastole_sim.spec.registers import WAIT_REGISTERS
from diastole_sim.train.loss_scaling import LossScaling
from support.numerics import make_numerics
from support.optimisers import SETTINGS
from support.program_machines import Clocked, faulty
from support.small_programs import SmallRun


def verified(small, machine_class=GoldenMachine):
    """A run with a machine of a class."""
    size = memory_needed(small.program, small.limits)
    machine = machine_class(small.numerics, small.limits, memory_bytes=size)
    machine.training = small.program.areas[TRAINING].address
    reference = golden_machine(small.program, small.numerics, small.limits, seed=0)
    return VerifiedRun(program=small.program, machine=machine, reference=reference)


@pytest.mark.parametrize("scaled", [False, True], ids=["plain", "scaled"])
@pytest.mark.parametrize("panel", [16, 1024])
@pytest.mark.parametrize("formats", ["bf16", "nvfp4", "fp8_e4m3"])
@pytest.mark.sampled(3)
def test_equal_machines(formats, panel, scaled, np_rng):
    given = {"groupings": "1x16"} if formats == "nvfp4" else {}
    small = SmallRun(
        np_rng,
        SETTINGS["adamw"],
        steps=3,
        numerics=make_numerics(formats=formats, block=8, **given),
        limits={"panel_vectors": panel + 16},
        loss_scaling=LossScaling(exponent=3) if scaled else None,
    )
    run, alone = verified(small), small.start()
    for each in (run, alone):
        each.train(2)
        each.evaluate()
        each.train(1)
    assert run.done == 3
    assert run.comparison.mismatches == 0
    assert np.array_equal(run.losses(), alone.losses())
    assert np.array_equal(run.floats("0.weight"), alone.floats("0.weight"))
    assert np.array_equal(run.evaluate(), alone.evaluate())
    sizes = sum(area.shape[0] * area.shape[1] for area in small.program.areas.values()
                if area.name in ("0.weight", "2.weight"))  # fmt: skip
    assert run.comparison.compared > 3 * 3 * sizes  # w, m and v of every step


def place_of(small, name):
    return small.program.areas[name].address


def flip(machine, address):
    """The lowest bit of a byte in memory."""
    machine.write(address, machine.memory.read(address, 1) ^ np.uint8(1))


def number_of(small, opcode, which=0):
    """Of a command of the loop."""
    program = small.program.training
    (end,) = (n for n, each in enumerate(program) if each.opcode == Opcode.NEXT)
    found = [n for n in range(program[end].target, end) if program[n].opcode == opcode]
    return found[which]


def spoil_panel(machine, small):
    first, _ = small.program.panel["z of the loss"]
    machine.tables.panel[first + 1, 2] = 77


FAULTS = {
    "image": (
        Opcode.FORWARD_CHAIN,
        lambda machine, small: flip(machine, place_of(small, "1 image x") + 5),
        "1 image x",
        [0, 5],
    ),
    "mask": (
        Opcode.FORWARD_CHAIN,
        lambda machine, small: flip(machine, place_of(small, "1 kept")),
        "1 kept",
        [0, 0],
    ),
    "floats": (
        Opcode.CHAIN,
        lambda machine, small: flip(machine, place_of(small, "losses of rows") + 8),
        "losses of rows",
        [0, 2],
    ),
    "panel": (Opcode.CHAIN, spoil_panel, "z of the loss", [1, 2]),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(name, np_rng):
    opcode, spoil, tensor, index = FAULTS[name]
    numerics = make_numerics(formats="bfp4", block=4)
    small = SmallRun(np_rng, SETTINGS["momentum"], numerics=numerics)
    number = number_of(small, opcode)
    if name == "floats":
        number = number_of(small, opcode, 1)  # softmax B
    if name == "panel":
        number = number_of(small, Opcode.FORWARD_CHAIN, -1)  # softmax A
    made = faulty(lambda machine: spoil(machine, small), number=number, step=1)
    run = verified(small, made)
    run.train(3)
    first = run.comparison.first
    assert (first.tensor, first.step, list(first.index)) == (tensor, 1, index)
    assert run.comparison.mismatches > 0


def test_constants_and_slots_are_compared(np_rng):
    numerics = make_numerics(formats="fp8_e4m3", block=4, source="delayed")
    small = SmallRun(np_rng, SETTINGS["momentum"], numerics=numerics)

    def spoil_slot(machine):
        machine.tables.amax[small_slot, SlotWord.BEFORE] ^= 1

    small_slot = 4  # of the second layer's X
    number = number_of(small, Opcode.FORWARD_CHAIN)
    run = verified(small, faulty(spoil_slot, number=number, step=0))
    run.train(1)
    assert run.comparison.first.tensor == "amax 12"  # words of 3 a slot

    def spoil_constant(machine):
        machine.tables.constants[130] = 5

    number = number_of(small, Opcode.LOAD)
    run = verified(small, faulty(spoil_constant, number=number, step=0))
    run.train(1)
    assert run.comparison.first is None  # one that no command wrote
    first = next(c.first for c in small.program.training if c.advance)

    def spoil_rate(machine):
        machine.tables.constants[first] = 5

    run = verified(small, faulty(spoil_rate, number=number, step=0))
    run.train(1)
    assert run.comparison.first.tensor == f"constants {first}"
    assert str(run.comparison.first).startswith(
        f"first mismatch: tensor constants {first}, step 0, index [0, 0]: 5.0 (0x40a00000)"
    )


def test_a_machine_that_counts_steps_wrong(np_rng):
    small = SmallRun(np_rng, SETTINGS["momentum"], steps=3)

    def spoil(machine):
        machine.step += 1

    number = len(small.program.training) - 1
    number = next(n for n, each in enumerate(small.program.training) if each.opcode == Opcode.NEXT)
    run = verified(small, faulty(spoil, number=number, step=0))
    run.train(2)
    assert str(run.comparison.first) == (f"step of command {number} in step 0 is 2, expected 1")


def test_reports_are_compared(np_rng):
    numerics = make_numerics(formats="bfp4", block=4)
    small = SmallRun(np_rng, SETTINGS["momentum"], numerics=numerics)

    def spoil(machine):
        machine.status.saturated += 1

    number = number_of(small, Opcode.FORWARD_CHAIN)
    run = verified(small, faulty(spoil, number=number, step=0))
    run.train(1)
    said = str(run.comparison.first)
    assert said.startswith(f"saturated of command {number} in step 0 is ")
    run, alone = verified(small), small.start()
    for each in (run, alone):
        each.train(2)
        each.evaluate()
    assert run.reported == alone.reported
    assert run.reported["underflowed"] > 0


def test_errors_are_compared(np_rng):
    small = SmallRun(np_rng, SETTINGS["momentum"])

    def spoil(machine):
        machine.memory.write(place_of(small, TRAINING) + 64 * (number + 1), np.zeros(64, np.uint8))

    number = number_of(small, Opcode.FORWARD_CHAIN)
    run = verified(small, faulty(spoil, number=number, step=0))
    with pytest.raises(MachineStoppedError):
        run.train(1)
    said = str(run.comparison.first)
    assert said.startswith(f"error of command {number + 1} in step 0 is ")
    assert said.endswith(", expected NONE")


def test_a_loss_that_is_not_finite(np_rng):
    run = verified(SmallRun(np_rng, SETTINGS["momentum"]))
    bias = run.program.areas["2.bias"]
    for machine in (run.machine, run.reference):
        machine.write(bias.address, np.full(7, np.nan, np.float32).view(np.uint8))
    with pytest.raises(MachineStoppedError) as caught:
        run.train(1)
    assert caught.value.code == ErrorCode.NOT_FINITE
    assert run.comparison.mismatches == 0


def test_costs_of_commands(np_rng):
    small = SmallRun(np_rng, SETTINGS["momentum"], steps=3)
    run = verified(small, Clocked)
    run.train(2)
    run.train(1)
    run.evaluate()
    assert set(run.costs) == set(range(len(small.program.training)))
    end = next(n for n, cost in run.costs.items() if cost.opcode == "next")
    loop = small.program.training[end].target
    assert run.costs[loop].runs == 3
    assert run.costs[0].runs == 1
    assert run.costs[small.program.resume].runs == 2
    record = run.costs[loop].to_json()
    assert record["number"] == loop
    assert (record["runs"], record["cycles_total"], record["busy_slots"]) == (3, 30, 18)
    assert record["waits"] == dict.fromkeys(WAIT_REGISTERS, 0) | {"load": 12}
    every = sum(cost.runs for cost in run.costs.values())
    assert run.training["cycles_total"] == 10 * every
    assert run.evaluating["cycles_total"] == 10 * len(small.program.evaluation)


def test_a_plain_run_needs_less_memory(np_rng):
    small = SmallRun(np_rng, SETTINGS["momentum"])
    assert memory_needed(small.program, small.limits) == (
        small.program.memory_bytes + 64 + 1024 * 4 * small.numerics.block
    )
    ProgramRun(
        program=small.program,
        machine=golden_machine(small.program, small.numerics, small.limits, seed=0),
    ).train(1)
