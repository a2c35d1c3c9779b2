# amaranth: UnusedElaboratable=no
"""A bridge with registers and memory in Amaranth's simulator, and a line to it in octets."""

from collections import deque

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from diastole_hw.bus.axil_registers import AxilRegisters
from diastole_hw.serial.bridge import Bridge
from diastole_hw.serial.frames import Framer, Unframer
from diastole_hw.serial.shared_memory import SharedMemory

CYCLE = 1e-8
HASH = 0x600DCAFE
BASE, SIZE, CLOCK_HZ = 0x2000, 8192, 25_000_000
SILENCE_CYCLES = 400


class BridgeBench(wiring.Component):
    """Octets to and from a bridge, registers as machines have them, and memory. ``starts``: how
    often the machine would have begun."""

    octet: In(8)
    came: In(1)
    sent: Out(8)
    leaves: Out(1)
    taken: In(1)
    starts: Out(16)
    busy: In(1)

    def elaborate(self, platform):
        m = Module()
        m.submodules.unframer = unframer = Unframer()
        m.submodules.framer = framer = Framer()
        m.submodules.bridge = bridge = Bridge(
            memory_base=BASE, memory_bytes=SIZE, clock_hz=CLOCK_HZ
        )
        m.submodules.registers = registers = AxilRegisters(config_hash=HASH)
        m.submodules.memory = memory = SharedMemory(data_width=64, base=BASE, size=SIZE)
        m.d.comb += [
            unframer.octet.eq(self.octet),
            unframer.came.eq(self.came),
            *(getattr(bridge, n).eq(getattr(unframer, n)) for n in ("word", "put", "ends", "good")),
            self.sent.eq(framer.o.payload),
            self.leaves.eq(framer.o.valid & framer.o.ready),
            framer.o.ready.eq(self.taken),
            registers.busy.eq(self.busy),
        ]
        wiring.connect(m, bridge.answer, framer.i)
        wiring.connect(m, bridge.axil, registers.axil)
        wiring.connect(m, bridge.memory, memory.port)
        m.d.sync += self.starts.eq(self.starts + registers.start)
        never = Signal()
        m.d.comb += memory.axi.arvalid.eq(never)
        return m


class SimulatedLine:
    """A line whose other end is simulated while somebody listens. ``damage`` on both ways. ``gap``:
    cycles between two octets."""

    def __init__(self, damage=None, gap=3):
        self.dut = BridgeBench()
        self.damage = damage or (lambda octets: octets)
        self.gap, self.name = gap, "a simulated line"
        self.going, self.coming = deque(), bytearray()
        self.cycles = 0
        self.damaged = 0
        self.starts = 0
        self.work = 0  # cycles that the last request may take without a sign
        self.sim = Simulator(self.dut)
        self.sim.add_clock(CYCLE)
        self.sim.add_testbench(self._go, background=True)
        self.sim.add_testbench(self._come, background=True)

    async def _go(self, ctx):
        while True:
            going = bool(self.going)
            ctx.set(self.dut.came, going)
            if going:
                ctx.set(self.dut.octet, self.going.popleft())
            await ctx.tick()
            if going:
                ctx.set(self.dut.came, 0)
                for _ in range(self.gap):
                    await ctx.tick()

    async def _come(self, ctx):
        ctx.set(self.dut.taken, 1)
        watched = (self.dut.leaves, self.dut.sent, self.dut.starts)
        async for _, _, leaves, octet, starts in ctx.tick().sample(*watched):
            self.starts = starts
            if leaves:
                self.coming.append(octet)

    def _through(self, octets):
        found = self.damage(octets)
        self.damaged += found != octets
        return found

    def send(self, octets):
        self.work = 2 * len(octets)
        self.going.extend(self._through(octets))

    def run(self, cycles):
        self.cycles += cycles
        self.sim.run_until(self.cycles * CYCLE)

    def receive(self, expected):
        """All that comes until the silence, as one piece."""
        before, quiet = len(self.coming), 0
        while quiet < SILENCE_CYCLES + self.work + 2 * expected:
            self.run(100)
            moved = self.going or len(self.coming) != before
            quiet = 0 if moved else quiet + 100
            before = len(self.coming)
        found, self.coming = bytes(self.coming), bytearray()
        return self._through(found)

    def close(self):
        pass
