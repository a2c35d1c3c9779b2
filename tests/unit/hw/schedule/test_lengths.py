"""The lengths of a nest in hardware against those of the host."""

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In

from diastole_hw.plan.uses import PRODUCTS
from diastole_hw.schedule.lengths import NestLengths, NestSlabs, nest_lengths, nest_slabs
from diastole_sim.spec.nest import Nest
from support.bench import run
from support.plans import make_numerics, make_plan

GIVEN = data.StructLayout({"nest_t": 16, "nest_groups": 8, "nest_chunk": 16})
MACHINES = {
    "square": {"rows": 2, "cols": 2},
    "tall": {"rows": 3, "cols": 2},
    "wide": {"rows": 1, "cols": 4},
    "edge": {"rows": 2, "cols": 3, "in_place": False},
    "narrow elements": {"rows": 2, "cols": 2, "numerics": make_numerics(block=2)},
}


class Lengths(wiring.Component):
    given: In(GIVEN)

    def __init__(self, limits, others):
        self.limits, self.others = limits, others
        names = (*NestLengths._fields, *NestSlabs._fields)
        self.found = {name: Signal(32, name=f"found_{name}") for name in names}
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        lengths = nest_lengths(m, "unit", self.limits, self.given)
        own = lengths.t_blocks, lengths.groups, lengths.slices
        slabs = nest_slabs(m, [self.limits, *self.others], *own)
        for name, signal in self.found.items():
            found = lengths if name in NestLengths._fields else slabs
            m.d.comb += signal.eq(getattr(found, name))
        return m


@pytest.mark.parametrize("mode", PRODUCTS, ids=lambda mode: mode.name)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.sampled(3)
def test_every_nest(machine, mode):
    plan = make_plan(**{"numerics": make_numerics()} | MACHINES[machine])
    limits = plan.nests.of(mode.name.lower())
    side = plan.rows if plan.use(mode).north else plan.cols  # of a slice of the contraction
    dut = Lengths(limits, [plan.nests.of(other.name.lower()) for other in PRODUCTS])

    async def bench(ctx):
        for t_blocks in (0, *limits.t_blocks):
            for groups in (0, *limits.groups):
                for chunk in (0, *limits.chunk):
                    given = {"nest_t": t_blocks, "nest_groups": groups, "nest_chunk": chunk}
                    ctx.set(dut.given, given)
                    nest = Nest(t_blocks=t_blocks, groups=groups, chunk=chunk)
                    own = limits.filled(nest)
                    slices = own.chunk // side
                    want = {
                        "t_blocks": t_blocks or plan.tile_blocks,
                        "groups": groups or max(limits.groups),
                        "chunk": chunk or max(limits.chunk),
                        "slices": slices,
                        "stream_slab": slices * own.t_blocks,
                        "held_slab": slices * own.groups * plan.rows,
                        "sums": own.groups * own.t_blocks,
                    }
                    assert limits.slabs(nest) == (want["stream_slab"], want["held_slab"])
                    got = {name: ctx.get(signal) for name, signal in dut.found.items()}
                    assert got == want, given

    run(dut, bench)
