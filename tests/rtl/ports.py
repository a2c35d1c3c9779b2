"""A unit's ports in a cocotb bench: structured values in and out, clock, reset, streams."""

import random

from amaranth.lib import data
from amaranth.lib.wiring import In
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge

CLOCK_NS = 10


class Ports:
    """The ports of ``dut``, the Verilog of ``unit``; a port is named as in the Verilog.

    The value of a port of a layout is a dict or list on its way in, and on its way out what the
    layout makes of the bits.
    """

    def __init__(self, dut, unit):
        self.dut = dut
        self.members = {
            "__".join(map(str, path)): member for path, member, _ in unit.signature.flatten(unit)
        }

    def set(self, name: str, value):
        layout = self.members[name].shape
        if isinstance(layout, data.Layout):
            value = layout.const(value).as_bits()
        getattr(self.dut, name).value = int(value)

    def get(self, name: str):
        """Read in ReadOnly only."""
        bits = int(getattr(self.dut, name).value)
        layout = self.members[name].shape
        return layout.from_bits(bits) if isinstance(layout, data.Layout) else bits

    async def start(self):
        """Start the clock, all inputs at 0, and reset; returns just after a rising edge."""
        for name, member in self.members.items():
            if member.flow == In:
                getattr(self.dut, name).value = 0
        self.dut.rst.value = 1
        Clock(self.dut.clk, CLOCK_NS, unit="ns").start()
        for _ in range(3):
            await RisingEdge(self.dut.clk)
        self.dut.rst.value = 0

    async def sample(self, *names):
        """The ports' values at the end of this cycle; returns in the next one.

        A stream's payload without its ``valid`` means nothing, and is None.
        """
        await ReadOnly()
        values = [self.get(name) if self._means_something(name) else None for name in names]
        await RisingEdge(self.dut.clk)
        return values

    def _means_something(self, name: str) -> bool:
        stream, _, part = name.rpartition("__")
        return part != "payload" or self.get(f"{stream}__valid")

    async def put(self, stream: str, payload):
        """Send one value."""
        self.set(f"{stream}__payload", payload)
        self.set(f"{stream}__valid", 1)
        while not (await self.sample(f"{stream}__ready"))[0]:
            pass
        self.set(f"{stream}__valid", 0)


def sometimes(probability: float):
    """A function that is true with this probability, from the bench's seed."""
    return lambda: random.random() < probability
