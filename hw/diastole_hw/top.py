"""The product's top: registers, command fetch, bus engines, and the machine between them."""

from typing import Any

from amaranth.hdl import (
    ClockDomain,
    ClockSignal,
    DomainRenamer,
    Elaboratable,
    Module,
    ResetSignal,
    Signal,
)
from amaranth.hdl._ir import PortDirection
from amaranth.lib import wiring

from diastole_hw.bus.axi_reader import AxiReader
from diastole_hw.bus.axi_writer import AxiWriter
from diastole_hw.bus.axil_registers import AxilRegisters
from diastole_hw.bus.services import owned_beat_layout, owned_request_layout, write_beat_layout
from diastole_hw.bus.signature import AxiLiteSignature, AxiSignature, join_halves, top_ports
from diastole_hw.command.counters import COUNTERS, Counters
from diastole_hw.command.fetch import CommandFetch
from diastole_hw.core import Core
from diastole_hw.place import place
from diastole_hw.plan.plan import Plan
from diastole_hw.stream.fifo import StreamFifo
from diastole_sim.spec.command import ADDRESS_BITS, COMMAND_VERSION, Limits
from diastole_sim.spec.image import MAX_SIZE
from diastole_sim.spec.registers import VERSION


class Top(Elaboratable):
    """The whole machine behind AXI4-Lite (``s_axil_*``), AXI4 (``m_axi_*``) and ``irq``.

    ``config_hash``: what the machine's identification register tells of its configuration, 32 bits.
    ``ports``: name to (signal, direction), as they are in the Verilog; ``parameters`` and
    ``latencies`` are for the manifest.
    """

    def __init__(self, plan: Plan, *, config_hash: int):
        self.plan, self.config_hash = plan, config_hash
        self.aclk, self.aresetn, self.irq = (Signal(name=n) for n in ("aclk", "aresetn", "irq"))
        self.axil = AxiLiteSignature().flip().create(path=("s_axil",))
        self.axi = AxiSignature(plan.data_width).create(path=("m_axi",))
        lite = top_ports("s_axil", wiring.flipped(self.axil))
        turned = {PortDirection.Input: PortDirection.Output}
        turned |= {after: before for before, after in turned.items()}
        self.ports = {
            "aclk": (self.aclk, PortDirection.Input),
            "aresetn": (self.aresetn, PortDirection.Input),
            "irq": (self.irq, PortDirection.Output),
            **{name: (signal, turned[flow]) for name, (signal, flow) in lite.items()},
            **top_ports("m_axi", self.axi),
        }

    @property
    def parameters(self) -> dict[str, Any]:
        """Everything that a host must know of this machine; sizes in the units of the names."""
        plan = self.plan
        return {
            "numerics": plan.numerics.to_dict(),
            "rows": plan.rows,
            "cols": plan.cols,
            "macs": plan.macs,
            "in_place": plan.in_place,
            "data_width": plan.data_width,
            "address_width": ADDRESS_BITS,
            "register_version": VERSION,
            "command_version": COMMAND_VERSION,
            "max_size": MAX_SIZE,
            "max_convert_cols": self._max_convert_cols,
            "nests": plan.nests.to_dict(),
            "fused_max_m": plan.fused_blocks_m * plan.block if plan.fused else 0,
            "fused_max_n": plan.fused_blocks_n * plan.block if plan.fused else 0,
        }

    @property
    def latencies(self) -> dict[str, int]:
        """In cycles."""
        plan = self.plan
        return {"pass_min_cycles": max(plan.rows * plan.block, plan.shortest_pass), "hop_cycles": 1}

    @property
    def _max_convert_cols(self) -> int:
        return min(MAX_SIZE, self.plan.converter_blocks * self.plan.block)

    def elaborate(self, platform):
        m = Module()
        plan = self.plan
        m.domains.sync = ClockDomain()
        m.domains.core = ClockDomain()
        m.d.comb += [
            ClockSignal().eq(self.aclk),
            ResetSignal().eq(~self.aresetn),
            ClockSignal("core").eq(self.aclk),
        ]
        units = {
            "registers": AxilRegisters(config_hash=self.config_hash),
            "fetch": CommandFetch(
                Limits(
                    block=plan.block,
                    headroom=plan.headroom,
                    data_width=plan.data_width,
                    max_convert_cols=self._max_convert_cols,
                    nests=plan.nests,
                )
            ),
            "reader": AxiReader(data_width=plan.data_width),
            "writer": AxiWriter(data_width=plan.data_width),
            "counters": Counters(),
        }
        for name, unit in units.items():
            m.submodules[name] = place(unit, platform)
        core = Core(plan)
        m.submodules.core = DomainRenamer("core")(place(core, platform))
        self._host(m, units, core)
        self._buses(m, units, core, self._queues(m, platform))
        self._reset(m, units)
        return m

    def _host(self, m, units, core):
        """Registers to and from the command fetch, the counters and the machine's flags."""
        registers, fetch, counters = units["registers"], units["fetch"], units["counters"]
        for path, member, outer in self.axil.signature.flatten(self.axil):
            inner = getattr(registers.axil, path[-1])
            towards = member.flow == wiring.In  # of the machine
            m.d.comb += inner.eq(outer) if towards else outer.eq(inner)
        m.d.comb += [
            self.irq.eq(registers.irq),
            fetch.start.eq(registers.start),
            fetch.address.eq(registers.command_address),
            fetch.count.eq(registers.command_count),
            registers.finished.eq(fetch.finished),
            registers.error_code.eq(fetch.error_code),
            registers.error_index.eq(fetch.error_index),
            registers.flags.eq(core.flags),
            core.seed.eq(registers.seed),
            fetch.done.eq(core.done),
            counters.events.eq(core.events),
            counters.clear.eq(registers.clear),
        ]
        wiring.connect(m, fetch.command, core.command)
        wiring.connect(m, fetch.read, core.fetch)
        m.d.comb += [
            core.number.eq(fetch.number),
            fetch.failed.eq(core.fetch_failed),
            fetch.base.eq(registers.read_base),
            fetch.limit.eq(registers.read_limit),
        ]
        for name in (*COUNTERS, "amax"):
            m.d.comb += getattr(registers, name).eq(getattr(counters, name))

    def _queues(self, m, platform) -> dict[str, StreamFifo]:
        """Short queues before the bus engines: no path crosses from the bus into the machine."""
        beat = write_beat_layout(self.plan.data_width)
        queues = {
            "read_requests": StreamFifo(owned_request_layout(), 2),
            "read_data": StreamFifo(owned_beat_layout(self.plan.data_width), 2),
            "write_requests": StreamFifo(owned_request_layout(), 2),
            "write_beats": StreamFifo(beat, 4),
        }
        for name, queue in queues.items():
            m.submodules[f"{name}_queue"] = DomainRenamer("core")(place(queue, platform))
        return queues

    def _buses(self, m, units, core, queues):
        """The bus engines, and what they tell of errors and of what is in memory."""
        registers, fetch = units["registers"], units["fetch"]
        reader, writer = units["reader"], units["writer"]
        join_halves(m, self.axi, reader.axi, writer.axi)
        wiring.connect(m, core.requests, queues["read_requests"].i)
        wiring.connect(m, queues["read_data"].o, core.read)
        wiring.connect(m, queues["read_requests"].o, reader.request)
        wiring.connect(m, reader.data, queues["read_data"].i)
        wiring.connect(m, core.write_requests, queues["write_requests"].i)
        wiring.connect(m, core.write, queues["write_beats"].i)
        wiring.connect(m, queues["write_requests"].o, writer.request)
        wiring.connect(m, queues["write_beats"].o, writer.data)
        m.d.comb += [
            core.answered.eq(writer.answered),
            core.answered_command.eq(writer.answered_command),
            reader.base.eq(registers.read_base),
            reader.limit.eq(registers.read_limit),
            writer.base.eq(registers.write_base),
            writer.limit.eq(registers.write_limit),
            fetch.fault.eq(writer.error_code),
            fetch.fault_number.eq(writer.error_command),
        ]
        with m.If(reader.error):  # the first of two in one cycle: codes must not mix
            m.d.comb += fetch.fault.eq(reader.error_code)
            m.d.comb += fetch.fault_number.eq(reader.error_command)

    def _reset(self, m, units):
        """The reset bit: forget everything but the settings, once the open bursts have ended."""
        registers, reader, writer = units["registers"], units["reader"], units["writer"]
        resetting = Signal()
        with m.If(registers.reset):
            m.d.sync += resetting.eq(1)
        with m.Elif(reader.idle & writer.idle):
            m.d.sync += resetting.eq(0)
        m.d.comb += [
            ResetSignal("core").eq(~self.aresetn | resetting),
            reader.clear.eq(resetting),
            writer.clear.eq(resetting),
            units["fetch"].clear.eq(registers.reset | resetting),
            registers.busy.eq(units["fetch"].busy | resetting),
        ]
