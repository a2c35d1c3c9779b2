# amaranth: UnusedElaboratable=no
"""One service, three owners: who has it is heard, and nobody else."""

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from diastole_hw.bus.services import ReadSignature, WriteSignature
from diastole_hw.bus.share import share

OWNERS = 3
WIDTH = 32


class Shared(wiring.Component):
    def __init__(self, signature):
        super().__init__(
            {
                "wants": In(1).array(OWNERS - 1),
                "owners": In(signature).array(OWNERS),
                "service": Out(signature),
            }
        )

    def elaborate(self, platform):
        m = Module()
        conditions = [*self.wants, None]
        owners = [wiring.flipped(owner) for owner in self.owners]
        share(m, wiring.flipped(self.service), list(zip(conditions, owners, strict=True)))
        return m


def owner_of(wants):
    return next((n for n, want in enumerate(wants) if want), OWNERS - 1)


@pytest.mark.parametrize("signature", [ReadSignature(WIDTH), WriteSignature(WIDTH)])
def test_the_first_that_wants_it_has_it(signature, rng):
    dut = Shared(signature)
    reads = isinstance(signature, ReadSignature)
    sim = Simulator(dut)

    async def bench(ctx):
        for _ in range(60):
            wants = [rng.randrange(2) for _ in range(OWNERS - 1)]
            for port, want in zip(dut.wants, wants, strict=True):
                ctx.set(port, want)
            asked = [(rng.randrange(2), rng.randrange(2**40)) for _ in range(OWNERS)]
            for owner, (valid, addr) in zip(dut.owners, asked, strict=True):
                ctx.set(owner.requests.valid, valid)
                ctx.set(owner.requests.p.addr, addr)
            ready = rng.randrange(2)
            ctx.set(dut.service.requests.ready, ready)
            beat, beat_valid = rng.randrange(2**WIDTH), rng.randrange(2)
            beat_ready = [rng.randrange(2) for _ in range(OWNERS)]
            if reads:
                ctx.set(dut.service.beats.valid, beat_valid)
                ctx.set(dut.service.beats.payload, beat)
                for owner, taken in zip(dut.owners, beat_ready, strict=True):
                    ctx.set(owner.beats.ready, taken)
            await ctx.delay(1e-9)
            mine = owner_of(wants)
            service = dut.service
            got = ctx.get(service.requests.valid), ctx.get(service.requests.p.addr)
            assert got == asked[mine]
            assert [ctx.get(owner.requests.ready) for owner in dut.owners] == [
                ready * (n == mine) for n in range(OWNERS)
            ]
            if reads:
                assert ctx.get(service.beats.ready) == beat_ready[mine]
                assert ctx.get(dut.owners[mine].beats.payload) == beat
                assert [ctx.get(owner.beats.valid) for owner in dut.owners] == [
                    beat_valid * (n == mine) for n in range(OWNERS)
                ]

    sim.add_testbench(bench)
    sim.run()


@pytest.mark.parametrize("conditions", [(), (1,), (None, 1), (None, None)])
def test_one_owner_at_the_end(conditions):
    service = ReadSignature(WIDTH).create()
    owners = [(condition, ReadSignature(WIDTH).create()) for condition in conditions]
    with pytest.raises(ValueError, match=r"^the last owner, and no other, must have"):
        share(Module(), wiring.flipped(service), owners)


def test_a_single_owner_needs_no_condition():
    m = Module()
    service, owner = ReadSignature(WIDTH).create(), ReadSignature(WIDTH).create()
    share(m, wiring.flipped(service), [(None, owner)])
