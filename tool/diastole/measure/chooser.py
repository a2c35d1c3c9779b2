"""How good the loops are that a host chooses, and how long the choice takes."""

import random
import time
from collections.abc import Iterator
from itertools import product

from diastole.config.keys import Config
from diastole.measure.figure import Figure, at_most, shown
from diastole_sim.perf import ModelledMachine, estimate
from diastole_sim.perf.choose import choose_nest
from diastole_sim.perf.walk import loops_of
from diastole_sim.spec.nest import KEPT, OUTER, Nest, NestLimits

LAYERS = 200
SIDES = (2.0, 6.5)
"""Binary logarithms of the least and the largest side of a layer."""
MOST_LOSS = 0.01
"""On average, over the best of all nests; both by the model."""
MOST_MILLISECONDS = 50
OPS = ("forward", "dx", "dw")


def figures(name: str, config: Config, *, layers: int = LAYERS) -> Iterator[Figure]:
    """Of layers of any shape, the same in every run, on the machine of a preset."""
    machine = ModelledMachine.of(config.numerics, **config.modelled_sizes)
    rng = random.Random(0)
    losses: list[float] = []
    seconds: list[float] = []
    for _ in range(layers):
        op = rng.choice(OPS)
        m, n, k = (int(2 ** rng.uniform(*SIDES)) for _ in range(3))
        limits = config.plan.nests.of(op)
        assert limits is not None
        started = time.perf_counter()
        chosen = choose_nest(machine, limits, op, m, n, k)
        seconds.append(time.perf_counter() - started)
        cycles = estimate(machine, op, m, n, k, chosen).cycles
        nests = all_nests(limits, loops_of(machine, op, m, n, k).blocks)
        best = min(estimate(machine, op, m, n, k, nest).cycles for nest in nests)
        losses.append(cycles / best - 1)
    what = f"chosen loops, {name}, {layers} layers"
    yield at_most(f"{what}: over the best, mean", sum(losses) / layers, MOST_LOSS, "{:.2%}")
    yield shown(f"{what}: over the best, worst", max(losses), "{:.2%}")
    mean = 1000 * sum(seconds) / layers
    yield at_most(f"{what}: ms for one, mean", mean, MOST_MILLISECONDS, "{:.0f}")
    yield shown(f"{what}: ms for one, worst", 1000 * max(seconds), "{:.0f}")


def all_nests(limits: NestLimits, blocks: tuple[int, int, int]) -> Iterator[Nest]:
    """Every nest that the machine takes for a product of so many blocks."""
    lengths = product(limits.t_blocks, limits.groups, limits.chunk, OUTER, KEPT)
    for t_blocks, groups, chunk, outer, keep in lengths:
        nest = Nest(t_blocks=t_blocks, groups=groups, chunk=chunk, outer=outer, keep=keep)
        if limits.problem(nest, blocks) is None:
            yield nest
