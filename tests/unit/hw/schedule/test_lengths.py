"""The lengths of a nest in hardware against those of the host."""

from itertools import product

import pytest
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from diastole_hw.plan.modes import PRODUCTS
from diastole_hw.schedule.lengths import NestLengths, NestSlabs, nest_lengths, nest_slabs
from diastole_sim.spec.nest import Nest
from support.pipelines import Built, check_pipeline
from support.plans import make_numerics, make_plan

GIVEN = data.StructLayout({"nest_t": 16, "nest_groups": 8, "nest_chunk": 16})
MACHINES = {
    "square": {"rows": 2, "cols": 2},
    "tall": {"rows": 3, "cols": 2},
    "wide": {"rows": 1, "cols": 4},
    "edge": {"rows": 2, "cols": 3, "in_place": False},
    "narrow elements": {"rows": 2, "cols": 2, "numerics": make_numerics(block=2)},
}


def lengths_of(limits, others):
    names = (*NestLengths._fields, *NestSlabs._fields)

    def build(m, unit):
        lengths = nest_lengths(m, "unit", limits, unit.given)
        slabs = nest_slabs(m, [limits, *others], lengths.t_blocks, lengths.groups, lengths.slices)
        for name in names:
            found = lengths if name in NestLengths._fields else slabs
            m.d.comb += getattr(unit, name).eq(getattr(found, name))

    return Built({"given": In(GIVEN)} | dict.fromkeys(names, Out(32)), build)


@pytest.mark.parametrize("mode", PRODUCTS, ids=lambda mode: mode.name)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.sampled(3)
def test_every_nest(machine, mode):
    plan = make_plan(**{"numerics": make_numerics()} | MACHINES[machine])
    limits = plan.nests.of(mode.name.lower())
    side = plan.rows if plan.use(mode).north else plan.cols  # of a slice of the contraction
    cases = []
    lengths = (0, *limits.t_blocks), (0, *limits.groups), (0, *limits.chunk)
    for t_blocks, groups, chunk in product(*lengths):
        given = {"nest_t": t_blocks, "nest_groups": groups, "nest_chunk": chunk}
        nest = Nest(t_blocks=t_blocks, groups=groups, chunk=chunk)
        own = limits.with_defaults(nest)
        slices = own.chunk // side
        want = {
            "t_blocks": t_blocks or plan.tile_blocks,
            "groups": groups or max(limits.groups),
            "chunk": chunk or max(limits.chunk),
            "slices": slices,
            "stream_slab": slices * own.t_blocks,
            "stationary_slab": slices * own.groups * plan.rows,
            "sums": own.groups * own.t_blocks,
        }
        assert {*want} == {*NestLengths._fields, *NestSlabs._fields}
        assert limits.slabs(nest) == (want["stream_slab"], want["stationary_slab"])
        cases.append(({"given": given}, want))
    others = [plan.nests.of(other.name.lower()) for other in PRODUCTS]
    check_pipeline(lengths_of(limits, others), cases, 0)
