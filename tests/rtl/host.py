"""A host for the machine in a cocotb bench: registers, memory and interrupt, by its ports."""

import logging
import random

from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiRam

from diastole_sim.spec.command_table import ADDRESS_BITS
from diastole_sim.spec.registers import BY_NAME

BASE = 0x92_3456_7000  # most of the 40 address bits are used
SIZE = 1 << 15
"""The memory that the machine may read and write, from ``BASE`` on, bytes."""


def pauses(probability: float):
    while True:
        yield random.random() < probability


class Host:
    """``dut``: the wrapped machine. ``p_pause``: how often each channel of a bus is held back."""

    def __init__(self, dut, p_pause: float):
        self.dut, self.p_pause = dut, p_pause

    async def start(self):
        """Clock, reset, and the settings: windows, interrupt."""
        dut = self.dut
        logging.getLogger(f"cocotb.{dut._name}").setLevel(logging.WARNING)
        dut.aresetn.value = 0
        Clock(dut.aclk, 10, unit="ns").start()
        reset = {"reset": dut.aresetn, "reset_active_level": False}
        self.registers = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.aclk, **reset)
        bus = AxiBus.from_prefix(dut, "m_axi")
        self.memory = AxiRam(bus, dut.aclk, size=1 << ADDRESS_BITS, **reset)
        await ClockCycles(dut.aclk, 5)
        dut.aresetn.value = 1
        await ClockCycles(dut.aclk, 2)
        if self.p_pause:
            self._hold_back()
        for window in ("read", "write"):
            await self.write(f"{window}_base", BASE)
            await self.write(f"{window}_limit", BASE + SIZE)

    def _hold_back(self):
        for bus in (self.registers, self.memory):
            writing, reading = bus.write_if, bus.read_if
            for channel in (
                writing.aw_channel,
                writing.w_channel,
                writing.b_channel,
                reading.ar_channel,
                reading.r_channel,
            ):
                channel.set_pause_generator(pauses(self.p_pause))

    async def write(self, name: str, value: int):
        register = BY_NAME[name]
        for word in range(register.words):
            part = value >> (32 * word) & 0xFFFFFFFF
            await self.registers.write_dword(register.offset + 4 * word, part)

    async def read(self, name: str) -> int:
        register = BY_NAME[name]
        value = 0
        for word in range(register.words):
            value |= await self.registers.read_dword(register.offset + 4 * word) << (32 * word)
        return value

    async def control(self, *bits: str):
        """Write 1 to bits of the register ``control``; the interrupt stays enabled."""
        register = BY_NAME["control"]
        await self.write("control", sum(1 << register.bit(name) for name in (*bits, "irq_enable")))

    async def status(self) -> set[str]:
        value = await self.read("status")
        return {bit.name for bit in BY_NAME["status"].layout if value >> bit.low & 1}

    async def begin(self, address: int, count: int):
        """Start ``count`` commands that lie at ``address``, counters and flags at 0."""
        await self.write("command_address", address)
        await self.write("command_count", count)
        await self.control("clear")
        await self.control("start")

    async def wait(self) -> set[str]:
        """Until the interrupt; the status, of which ``done`` is then cleared."""
        if not int(self.dut.irq.value):
            await RisingEdge(self.dut.irq)
        status = await self.status()
        await self.write("status", 1 << BY_NAME["status"].bit("done"))
        return status

    async def reset(self):
        """The reset bit, until the machine is no longer busy with it."""
        await self.control("reset")
        while "busy" in await self.status():
            pass

    def image(self) -> bytes:
        """All bytes that the machine may touch."""
        return bytes(self.memory.read(BASE, SIZE))
