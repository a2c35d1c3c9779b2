# amaranth: UnusedElaboratable=no
"""What passes between a dispatcher and a product engine, both ways."""

import pytest
from amaranth.hdl import Module, Shape
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.command.dispatch import Dispatch
from diastole_hw.engine.product_control import STALLS, ProductControl
from diastole_hw.engine.product_engine import ProductEngine
from diastole_hw.plan.modes import Mode
from support.bench import simulation
from support.plans import make_numerics, make_plan

SIZES = dict.fromkeys(("m", "n", "k"), 24)
ADDRESSES = dict.fromkeys(("x", "w", "dy", "dw", "dx", "y"), 40)
NEST = {"nest_t": 16, "nest_groups": 8, "nest_chunk": 16, "nest_outer": 1, "nest_keep": 2}
TOLD = {"start": 1, "mode": 2, "operands": sum((SIZES | ADDRESSES | NEST).values()), "command": 1}
TELLS = {"ready": 1, "fits": 1, "done": 1, "done_command": 1}
TELLS |= {"overflow": 1, "inexact": 1, "stalls": 3, "slot": 1}


def test_members():
    found = {
        name: (each.flow, Shape.cast(each.shape).width)
        for name, each in ProductControl().members.items()
    }
    told = {name: (Out, width) for name, width in TOLD.items()}
    assert found == told | {name: (In, width) for name, width in TELLS.items()}


class Ends(wiring.Component):
    """Who starts, and who is started, with nothing between."""

    starter: In(ProductControl())
    engine: Out(ProductControl())

    def elaborate(self, platform):
        m = Module()
        wiring.connect(m, wiring.flipped(self.starter), wiring.flipped(self.engine))
        return m


async def test_each_side_sees_what_the_other_says(rng):
    dut = Ends()
    ctx = await simulation(dut)
    for _ in range(20):
        operands = {name: rng.getrandbits(n) for name, n in (SIZES | ADDRESSES | NEST).items()}
        stalls = {cause: rng.randrange(2) for cause, _ in STALLS}
        mode, start, done = rng.choice(list(Mode)), rng.randrange(2), rng.randrange(2)
        ctx.set(dut.starter.operands, operands)
        ctx.set(dut.starter.mode, mode)
        ctx.set(dut.starter.start, start)
        ctx.set(dut.engine.stalls, stalls)
        ctx.set(dut.engine.done, done)
        await ctx.delay(1e-8)
        got = ctx.get(dut.engine.operands)
        assert {name: got[name] for name in operands} == operands
        assert (ctx.get(dut.engine.mode), ctx.get(dut.engine.start)) == (mode, start)
        got = ctx.get(dut.starter.stalls)
        assert {cause: got[cause] for cause in stalls} == stalls
        assert ctx.get(dut.starter.done) == done


@pytest.mark.parametrize(
    "unit, name, flow", [(Dispatch, "product", Out), (ProductEngine, "control", In)]
)
def test_both_ends_have_it(unit, name, flow):
    member = unit(make_plan(make_numerics(block=2))).signature.members[name]
    assert member.flow == flow
    flows = {key: (each.flow, each.shape) for key, each in member.signature.members.items()}
    whole = ProductControl() if flow == Out else ProductControl().flip()
    assert flows == {key: (each.flow, each.shape) for key, each in whole.members.items()}
