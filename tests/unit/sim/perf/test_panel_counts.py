"""What counting costs a command, as the unit's own tests count it."""

import pytest

from diastole_sim.perf import ModelledMachine
from diastole_sim.perf.chunk_walk import loops_of
from diastole_sim.perf.panel_counts import counting_cycles
from diastole_sim.spec.limits import Limits
from diastole_sim.spec.nest import Nest
from support.nests import blocks_of, cycles_of, drawn_nest, widest_planes
from support.plans import make_numerics, make_plan


@pytest.mark.parametrize("operation", ["forward", "dx", "dw"])
@pytest.mark.parametrize("formats", ["bfp4", "fast"])
@pytest.mark.parametrize("rows, cols", [(2, 2), (3, 1), (1, 2)])
def test_as_the_unit_is_tested_with(operation, formats, rows, cols, rng):
    numerics = make_numerics(block=2, formats=3 * (formats,), headroom=8)
    plan = make_plan(numerics, rows=rows, cols=cols, data_width=32)
    limits = Limits.of(numerics, data_width=32, nests=plan.nests)
    machine = ModelledMachine.of(numerics, rows=rows, cols=cols, data_width=32)
    planes = widest_planes(operation, numerics)
    kept = 0
    for _ in range(100):
        sizes = [rng.randrange(1, 60) for _ in range(3)]
        taken = plan.nests.of(operation)
        nest = drawn_nest(taken, blocks_of(operation, sizes, 2), rng, planes)
        want = 0
        if nest.keep != "none":  # one more, until the command is offered
            of_planes = planes if formats == "fast" else None
            want = cycles_of(limits, operation, nest, sizes, of_planes) + 1
        loops = loops_of(machine, operation, *sizes, nest)
        assert counting_cycles(machine, loops) == want, f"{nest} {sizes}"
        kept += nest.keep != "none"
    assert kept > 20


def test_nothing_is_counted_where_nothing_is_kept():
    machine = ModelledMachine.of(make_numerics(block=2), rows=1, cols=1, data_width=32)
    assert counting_cycles(machine, loops_of(machine, "forward", 9, 9, 9)) == 0
    kept = loops_of(machine, "forward", 9, 9, 9, Nest(keep="stationary"))
    assert counting_cycles(machine, kept) > 0
