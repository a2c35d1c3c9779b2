"""Addresses of a program, against the planner: a program that is planned from another address on is
what a relocated program must be."""

import numpy as np
import pytest

from diastole_sim.lowering import program as lowering
from diastole_sim.lowering.program import training_program
from diastole_sim.lowering.recipe import TrainingRecipe
from diastole_sim.program.addresses import relocate
from diastole_sim.program.recipe import Sgd
from diastole_sim.program.relocation import (
    address_places,
    memory_image,
)
from diastole_sim.train.loss_scaling import LossScaling
from support.graphs import random_graph
from support.numerics import make_numerics
from support.optimisers import SETTINGS
from support.small_programs import SmallRun, make_limits
from unit.sim.lowering.test_graphs import SAMPLES, samples

BASE = 0x123_4000
CASES = {
    "one copy": ({}, {}),
    "two copies": ({"formats": "mxfp8_e4m3"}, {"clip": 1.0}),
    "two scales": ({"formats": "nvfp4", "block": 16}, {}),
    "loss scale": ({}, {"loss_scaling": LossScaling(floors=((2, 3),))}),
}


@pytest.fixture
def planned_at(monkeypatch):
    """A function that plans all programs from an address on."""
    plan_of = lowering.memory_plan

    def plan_from(base):
        def planned(*arguments):
            plan = plan_of(*arguments)
            plan.end = base
            return plan

        monkeypatch.setattr(lowering, "memory_plan", planned)

    return plan_from


def check(planned_at, build):
    """The program of ``build``, relocated, is the program that is planned from :data:`BASE` on."""
    program = build()
    planned_at(BASE)
    moved = build()
    expected = {name: np.frombuffer(data, np.uint8) for name, data in moved.initial.items()}
    image = memory_image(program)
    relocate(image, address_places(program), BASE)
    for name, area in program.areas.items():
        assert moved.areas[name].address == area.address + BASE
        if name in expected:
            found = image[area.address : area.address + area.length]
            np.testing.assert_array_equal(found, expected[name], err_msg=name)
    return program


@pytest.mark.parametrize("case", CASES)
def test_a_perceptron(case, planned_at):
    numerics, others = CASES[case]

    def build():
        run = SmallRun(
            np.random.default_rng(4),
            SETTINGS["adamw"],
            steps=3,
            numerics=make_numerics(**numerics) if numerics else None,
            **others,
        )
        return run.program

    check(planned_at, build)


@pytest.mark.parametrize("seed", range(8))
def test_a_graph_at_random(seed, planned_at):
    def build():
        rng = np.random.default_rng([seed, 5])
        graph = random_graph(rng, 6)
        while graph.output not in graph.differentiated:
            graph = random_graph(rng, 6)
        recipe = TrainingRecipe(
            graph=graph,
            optimiser=Sgd(rate=lambda step: 0.1, momentum=0.5),
            batches=rng.integers(0, SAMPLES, (3, graph.batch)),
        )
        numerics = make_numerics(formats="bf16", block=8)
        data = samples(rng, graph, SAMPLES), samples(rng, graph, 7)
        return training_program(recipe, *data, numerics=numerics, limits=make_limits(numerics))

    program = check(planned_at, build)
    places = address_places(program)
    assert len(places) == len(set(places)) > 3 * len(program.parameters)
