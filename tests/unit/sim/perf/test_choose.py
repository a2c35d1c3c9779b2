"""The host's choice of loops against all that there are."""

from itertools import pairwise, product

import pytest

from diastole.config.file import from_document
from diastole.config.presets import PRODUCTS_ONLY
from diastole_sim.perf import ModelledMachine, estimate
from diastole_sim.perf.choose import candidates, choose_nest, closed_form_cost
from diastole_sim.perf.chunk_walk import loops_of
from diastole_sim.spec.command import DEFAULT_NEST
from diastole_sim.spec.nest import KEEP_VALUES, OUTER, Nest
from diastole_sim.spec.operations import OPERATIONS
from support.sweep import sweep

MACHINES = {"pico": ("pico", 32), "nano": ("nano", 128), "narrow": ("nano", 64)}
OPS = ("forward", "dx", "dw")


def made(name):
    """The model of a preset with a bus of some width, and the nests that its hardware takes."""
    preset, width = MACHINES[name]
    config = from_document(PRODUCTS_ONLY[preset].to_dict() | {"bus": {"data_width": width}})
    sizes = {"rows": config.array.rows, "cols": config.array.cols, "data_width": width}
    return ModelledMachine.of(config.numerics, **sizes), config.plan.nests


@pytest.mark.parametrize("name", ["nano", sweep("pico"), sweep("narrow")])
def test_the_choice_is_near_the_best(name, rng):
    """Layers of all shapes: within 1 % on average of the best of all nests, whatever they keep, a
    tenth at worst, and never behind the machine's own."""
    machine, nests = made(name)
    losses = []
    for _ in range(6):
        op = rng.choice(OPS)
        sizes = [int(2 ** rng.uniform(2, 6.5)) for _ in range(3)]
        chosen = choose_nest(machine, nests.of(op), op, *sizes)
        blocks = loops_of(machine, op, *sizes).blocks
        assert nests.of(op).problem(chosen, blocks) is None
        assert choose_nest(machine, nests.of(op), op, *sizes) == chosen
        cycles = estimate(machine, op, *sizes, chosen).cycles
        assert cycles <= 1.007 * estimate(machine, op, *sizes).cycles
        everything = all_nests(nests.of(op), blocks)
        best = min(estimate(machine, op, *sizes, nest).cycles for nest in everything)
        losses.append(cycles / best - 1)
    assert max(losses) <= 0.1, losses
    assert sum(losses) / len(losses) <= 0.01, losses


def all_nests(limits, blocks):
    """Every nest that the machine takes for a product of so many blocks."""
    for t_blocks, groups, chunk in product(limits.t_blocks, limits.groups, limits.chunk):
        for outer, keep in product(OUTER, KEEP_VALUES):
            nest = Nest(t_blocks=t_blocks, groups=groups, chunk=chunk, outer=outer, keep=keep)
            if limits.problem(nest, blocks) is None:
                yield nest


def test_a_small_product_gets_small_tiles():
    """So that its results leave while it works."""
    machine, nests = made("nano")
    chosen = choose_nest(machine, nests.forward, "forward", 64, 64, 64)
    found, own = (estimate(machine, "forward", 64, 64, 64, nest) for nest in (chosen, DEFAULT_NEST))
    assert chosen.t_blocks * chosen.groups < 8 * 4
    assert found.cycles < 0.65 * own.cycles


def test_a_large_product_is_chosen_in_closed_form():
    """No nest of it is run in the model, which would take seconds."""
    machine, nests = made("nano")
    op, sizes = "forward", (4096, 4096, 4096)
    chosen = choose_nest(machine, nests.of(op), op, *sizes)
    costs = sorted(
        closed_form_cost(machine, loops_of(machine, op, *sizes, nest))
        for nest in candidates(nests.of(op), loops_of(machine, op, *sizes).blocks)
    )
    cost = closed_form_cost(machine, loops_of(machine, op, *sizes, chosen))
    assert cost.cycles <= 1.007 * costs[0].cycles
    assert cost.steps > 1e5


@pytest.mark.parametrize("op", OPS)
def test_of_alike_the_one_that_reads_less(op):
    """Large tiles are read less often, and what stays on chip once."""
    machine, nests = made("nano")
    reads = [
        estimate(machine, op, 256, 256, 256, Nest(t_blocks=t_blocks)).read_bytes
        for t_blocks in (4, 8, 16)
    ]
    assert all(more > less for more, less in pairwise(reads))
    chosen = choose_nest(machine, nests.of(op), op, 512, 512, 512)
    assert chosen.keep == "both"
    once = 2 * 512 * 512 * 6 / 8  # 5 bits of every element, and somewhat for its exponent
    assert estimate(machine, op, 512, 512, 512, chosen).read_bytes < once


def test_the_backward_pass_has_no_limits():
    _, nests = made("nano")
    assert [nests.of(op) is not None for op in OPERATIONS] == [
        op != "backward" for op in OPERATIONS
    ]
