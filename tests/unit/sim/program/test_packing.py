"""Memory that tensors share: lives that never meet, and results that no byte of a dead tensor
changes."""

import itertools

import numpy as np
import pytest

from diastole_sim.lowering.program import training_program
from diastole_sim.lowering.recipe import TrainingRecipe
from diastole_sim.program.memory_plan import Life
from diastole_sim.program.packing import IN_FLIGHT, peak_of
from diastole_sim.program.program import EVALUATION, LOSSES, OUTPUT, TRAINING
from diastole_sim.program.recipe import Sgd
from diastole_sim.program.run import ProgramRun, golden_machine
from diastole_sim.program.stepped import in_their_order
from diastole_sim.spec.command_table import Opcode
from diastole_sim.train.loss_scaling import LossScaling
from diastole_sim.train.precision import Precision
from support.graphs import random_graph
from support.numerics import make_numerics
from support.optimisers import SETTINGS
from support.small_programs import SmallRun, make_limits
from unit.sim.lowering.test_graphs import SAMPLES, samples

STEPS = 3
POISON = 0xFF
"""Byte of a dead tensor: NaN as a float, and the largest element of most formats."""
DELAYED = {"source": "delayed", "history": 2}
CASES = {
    "plain": ({}, {}, {}),
    "clipped": ({}, {"clip": 0.3}, {}),
    "loss scale": ({}, {"loss_scaling": LossScaling(exponent=24)}, {}),
    "small panel": ({}, {"clip": 0.3}, {"panel_vectors": 128}),
    "two copies": ({"formats": "mxfp8_e4m3", "block": 8}, {}, {}),
    "two scales": ({"formats": "nvfp4", "block": 16}, {}, {}),
    "delayed": ({"formats": "fp8_e4m3", "block": 8, **DELAYED}, {"clip": 0.3}, {}),
}


class PoisonedRun(ProgramRun):
    """A run that overwrites every temporary before the first run, and at the end of its life."""

    def __post_init__(self):
        super().__post_init__()
        self.poison(area for area in self.program.areas.values() if area.life is not None)

    def ring(self, name, first, step_end, counters):
        program, machine = self.program, self.machine
        commands = program.training if name == TRAINING else program.evaluation
        machine.step_end = step_end
        for number, _ in in_their_order(commands, machine, first, step_end):
            machine.command_first = number
            outcome = machine.run_at(program.areas[name].address, number + 1)
            self.require_done(outcome, counters)
            lives = ((area, area.life) for area in program.areas.values())
            self.poison(
                area
                for area, life in lives
                if life and life.at(name, number) and life.last == number
            )

    def poison(self, areas):
        for area in areas:
            self.machine.write(area.address, np.full(area.length, POISON, np.uint8))


def shared(program):
    """Pairs of areas that share bytes."""
    areas = sorted(program.areas.values(), key=lambda area: area.address)
    for one, other in itertools.combinations(areas, 2):
        if one.address < other.end and other.address < one.end:
            yield one, other


def check(program, numerics, limits):
    for one, other in shared(program):
        assert one.life, one.name
        assert other.life, other.name
        if one.life.run == other.life.run:
            first, second = sorted((one.life, other.life), key=lambda life: life.first)
            assert second.first >= first.last + IN_FLIGHT, (one.name, other.name)
    runs = []
    for kind in (ProgramRun, PoisonedRun):
        machine = golden_machine(program, numerics, limits, seed=3)
        run = kind(program=program, machine=machine)
        run.train(1)
        first = run.evaluate()
        run.train(STEPS - 1)
        runs.append([run.losses(), first, run.evaluate(), *run.parameters().values()])
    for plain, poisoned in zip(*runs, strict=True):
        np.testing.assert_array_equal(plain, poisoned)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.sampled(2)
def test_perceptrons(case, setting, np_rng):
    numerics, others, limits = CASES[case]
    run = SmallRun(
        np_rng,
        SETTINGS[setting],
        steps=STEPS,
        numerics=make_numerics(**numerics) if numerics else None,
        limits=limits,
        **others,
    )
    assert any(area.life for area in run.program.areas.values())
    check(run.program, run.numerics, run.limits)


def test_widths_that_the_machine_decides(np_rng):
    numerics = make_numerics(formats="fast", block=8)
    precision = Precision(kind="fast", classes=("x", "w", "dy"))
    run = SmallRun(
        np_rng, SETTINGS["momentum"], steps=STEPS, numerics=numerics, precision=precision
    )
    check(run.program, run.numerics, run.limits)


@pytest.mark.parametrize("seed", range(12))
def test_graphs_at_random(seed):
    rng = np.random.default_rng([seed, 11])
    graph = random_graph(rng, 5 + seed % 4)
    while graph.output not in graph.differentiated:
        graph = random_graph(rng, 5 + seed % 4)
    numerics = make_numerics(formats="bf16", block=int(2 ** rng.integers(0, 5)))
    limits = make_limits(numerics, panel_vectors=int(rng.choice([256, 4096])))
    recipe = TrainingRecipe(
        graph=graph,
        optimiser=Sgd(rate=lambda step: 0.01, momentum=0.5),
        batches=rng.integers(0, SAMPLES, (STEPS, graph.batch)),
    )
    data = samples(rng, graph, SAMPLES), samples(rng, graph, 7)
    program = training_program(recipe, *data, numerics=numerics, limits=limits)
    check(program, numerics, limits)


def test_what_is_always_alive(np_rng):
    program = SmallRun(np_rng, SETTINGS["adamw"], clip=1.0, steps=STEPS).program
    always = {name for name, area in program.areas.items() if area.life is None}
    assert always >= {*program.initial, *program.state, *program.parameters, LOSSES}
    assert "squares of columns" in always
    (end,) = (n for n, each in enumerate(program.training) if each.opcode == Opcode.NEXT)
    target = program.training[end].target
    for name, area in program.areas.items():
        if area.life is None:
            continue
        last = len(program.evaluation) if area.life.run == EVALUATION else end
        assert area.life.first >= (0 if area.life.run == EVALUATION else target), name
        assert area.life.last <= last
    assert program.areas[OUTPUT].life.last == len(program.evaluation)


def test_deep_networks_share_memory(np_rng):
    """A gradient takes the place of an earlier gradient or of the evaluation."""
    program = SmallRun(np_rng, SETTINGS["momentum"], widths=(16,) * 13, steps=STEPS).program
    temporary = [area for area in program.areas.values() if area.life]
    first = min(area.address for area in temporary)
    apart = sum(area.length for area in temporary)
    assert program.memory_bytes - first < 0.6 * apart
    assert program.memory_bytes <= 1.15 * peak_of(program).bytes


@pytest.mark.parametrize(
    "first, second, meets",
    [
        ((0, 4), (5, 6), True),
        ((0, 4), (6, 6), False),
        ((6, 9), (0, 4), False),
        ((2, 3), (0, 9), True),
    ],
)
def test_lives_meet(first, second, meets):
    one, other = (Life(run=TRAINING, first=a, last=b) for a, b in (first, second))
    assert one.meets(other, apart=2) is other.meets(one, apart=2) is meets
    apart = Life(run=EVALUATION, first=0, last=99)
    assert not one.meets(apart, apart=2)
