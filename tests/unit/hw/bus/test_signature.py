# amaranth: UnusedElaboratable=no
"""AXI's names, widths and directions, against the tables of the standard (ARM IHI 0022)."""

import pytest
from amaranth.hdl import Module
from amaranth.hdl._ir import PortDirection
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.bus.signature import (
    CACHE,
    DECERR,
    INCR,
    OKAY,
    PROT,
    SLVERR,
    AxiLiteSignature,
    AxiReadSignature,
    AxiSignature,
    AxiWriteSignature,
    join_halves,
    top_ports,
)
from support.bench import simulation

D = 64


def channel(prefix, sender, ready, **payload):
    """Members of one channel, as (direction, width)."""
    members = {f"{prefix}{name}": (sender, width) for name, width in payload.items()}
    return members | {f"{prefix}valid": (sender, 1), f"{prefix}ready": (ready, 1)}


ADDRESS = {"addr": 40, "len": 8, "size": 3, "burst": 2, "cache": 4, "prot": 3}
READ = channel("ar", Out, In, **ADDRESS) | channel("r", In, Out, data=D, resp=2, last=1)
WRITE = (
    channel("aw", Out, In, **ADDRESS)
    | channel("w", Out, In, data=D, strb=D // 8, last=1)
    | channel("b", In, Out, resp=2)
)
LITE = (
    channel("aw", Out, In, addr=12, prot=3)
    | channel("w", Out, In, data=32, strb=4)
    | channel("b", In, Out, resp=2)
    | channel("ar", Out, In, addr=12, prot=3)
    | channel("r", In, Out, data=32, resp=2)
)
TABLES = {
    "read": (AxiReadSignature(D), READ),
    "write": (AxiWriteSignature(D), WRITE),
    "whole": (AxiSignature(D), READ | WRITE),
    "lite": (AxiLiteSignature(), LITE),
}


@pytest.mark.parametrize("name", TABLES)
def test_members_are_those_of_the_standard(name):
    signature, table = TABLES[name]
    assert {key: (each.flow, each.shape) for key, each in signature.members.items()} == table


def test_codes_are_those_of_the_standard():
    """Ascending addresses; memory that may be buffered and is not cached; secure data."""
    assert (INCR, CACHE, PROT) == (0b01, 0b0011, 0b000)
    assert (OKAY, SLVERR, DECERR) == (0b00, 0b10, 0b11)


@pytest.mark.parametrize("turned", [False, True], ids=["manager", "subordinate"])
def test_ports_of_a_top(turned):
    signature = AxiLiteSignature().flip() if turned else AxiLiteSignature()
    interface = signature.create(path=("inside",))
    ports = top_ports("s_axil", interface)
    outputs = {name for name, (flow, _) in LITE.items() if flow == (In if turned else Out)}
    for name in LITE:
        signal, direction = ports.pop(f"s_axil_{name}")
        assert signal is getattr(interface, name)
        wanted = PortDirection.Output if name in outputs else PortDirection.Input
        assert direction == wanted, name
    assert not ports


class Joined(wiring.Component):
    """A port, and the halves that it is to be joined of."""

    axi: Out(AxiSignature(D))
    read: In(AxiReadSignature(D))
    write: In(AxiWriteSignature(D))

    def elaborate(self, platform):
        m = Module()
        join_halves(m, self.axi, wiring.flipped(self.read), wiring.flipped(self.write))
        return m


async def test_a_port_is_joined_of_its_halves(rng):
    dut = Joined()
    ctx = await simulation(dut)
    for _ in range(50):
        wanted = []
        for half, table in ((dut.read, READ), (dut.write, WRITE)):
            for name, (flow, width) in table.items():
                given, seen = getattr(half, name), getattr(dut.axi, name)
                if flow == In:
                    given, seen = seen, given
                value = rng.getrandbits(width)
                ctx.set(given, value)
                wanted.append((name, seen, value))
        await ctx.delay(1e-8)
        for name, seen, value in wanted:
            assert ctx.get(seen) == value, name
