"""Assemble the product's top: registers, command fetch, bus engines, and the core between them."""

from functools import reduce
from operator import and_
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
from diastole_hw.bus.services import BETWEEN, owned_request_layout, write_beat_layout
from diastole_hw.bus.signature import AxiLiteSignature, AxiSignature, join_halves, top_ports
from diastole_hw.command.counters import Counters
from diastole_hw.command.dispatch import elements_of
from diastole_hw.command.fetch import CommandFetch
from diastole_hw.command.loss_scale_rule import LossScaleRule
from diastole_hw.core import Core
from diastole_hw.plan.plan import Plan
from diastole_hw.plan_limits import max_convert_cols, vector_limits
from diastole_hw.ports import port_name
from diastole_hw.stream.fifo import StreamFifo
from diastole_sim.spec.command_errors import COMMAND_VERSION
from diastole_sim.spec.command_table import ADDRESS_BITS
from diastole_sim.spec.image import MAX_SIZE
from diastole_sim.spec.limits import Limits, planes_by_class, slot_words
from diastole_sim.spec.registers import VERSION


class Top(Elaboratable):
    """The whole machine behind AXI4-Lite (``s_axil_*``), AXI4 (``m_axi_*``) and ``irq``. With two
    ports to memory there is a second AXI4 port ``m_axi1_*``.

    ``config_hash``: value of the identification register of the configuration, 32 bits. ``ports``:
    maps names to (signal, direction), as in the Verilog. ``parameters`` and ``latencies`` are for
    the manifest.
    """

    def __init__(self, plan: Plan, *, config_hash: int):
        self.plan, self.config_hash = plan, config_hash
        self.aclk, self.aresetn, self.irq = (Signal(name=n) for n in ("aclk", "aresetn", "irq"))
        self.axil = AxiLiteSignature().flip().create(path=("s_axil",))
        self.axi = AxiSignature(plan.data_width).create(path=("m_axi",))
        self.others = [  # all ports to memory but the first
            AxiSignature(plan.data_width).create(path=(f"m_axi{port}",))
            for port in range(1, plan.ports)
        ]
        lite = top_ports("s_axil", wiring.flipped(self.axil))
        opposite = {PortDirection.Input: PortDirection.Output}
        opposite |= {after: before for before, after in opposite.items()}
        self.ports = {
            "aclk": (self.aclk, PortDirection.Input),
            "aresetn": (self.aresetn, PortDirection.Input),
            "irq": (self.irq, PortDirection.Output),
            **{name: (signal, opposite[flow]) for name, (signal, flow) in lite.items()},
            **top_ports("m_axi", self.axi),
        }
        for port, axi in enumerate(self.others, start=1):
            self.ports |= top_ports(f"m_axi{port}", axi)

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of this machine for a host; sizes in the units of the names."""
        plan = self.plan
        return {
            "numerics": plan.numerics.to_dict(),
            "rows": plan.rows,
            "cols": plan.cols,
            "macs": plan.macs,
            "in_place": plan.in_place,
            "data_width": plan.data_width,
            "ports": plan.ports,
            "address_width": ADDRESS_BITS,
            "register_version": VERSION,
            "command_version": COMMAND_VERSION,
            "max_size": MAX_SIZE,
            "max_convert_cols": max_convert_cols(self.plan),
            "nests": plan.nests.to_dict(),
            "fused_max_m": plan.fused_blocks_m * plan.block if plan.fused else 0,
            "fused_max_n": plan.fused_blocks_n * plan.block if plan.fused else 0,
            **self._vector_parameters,
        }

    @property
    def _vector_parameters(self) -> dict[str, Any]:
        vector = self.plan.vector
        if vector is None:
            return {}
        limits = vector_limits(self.plan)
        assert limits is not None
        return {"vector": {"special": vector.specials, **limits.to_dict()}}

    @property
    def latencies(self) -> dict[str, int]:
        """Latencies in cycles."""
        plan = self.plan
        return {
            "pass_min_cycles": max(plan.rows * plan.block, plan.shortest_pass),
            "hop_cycles": 1,
            "cell_cycles": plan.cell_cycles,
        }

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
        has = {"planes": plan.planar, "vector": plan.vector is not None}
        units = {
            "registers": AxilRegisters(config_hash=self.config_hash, **has),
            "fetch": CommandFetch(
                Limits(
                    block=plan.block,
                    headroom=plan.numerics.headroom,
                    data_width=plan.data_width,
                    max_convert_cols=max_convert_cols(self.plan),
                    nests=plan.nests,
                    planes=planes_by_class(plan.numerics),
                    vector=vector_limits(self.plan),
                    slot_words=slot_words(plan.numerics),
                )
            ),
            "reader": AxiReader(data_width=plan.data_width),
            "writer": AxiWriter(data_width=plan.data_width),
            "counters": Counters(planes=plan.planar, elements=elements_of(plan)),
        }
        for port in range(1, plan.ports):
            units[port_name("reader", port)] = AxiReader(data_width=plan.data_width)
            units[port_name("writer", port)] = AxiWriter(data_width=plan.data_width)
        for name, unit in units.items():
            m.submodules[name] = unit
        core = Core(plan)
        m.submodules.core = DomainRenamer("core")(core)
        self._host(m, units, core)
        if plan.vector is not None:
            self._steps(m, units, core)
        for port in range(plan.ports):
            self._buses(m, units, core, self._queues(m, port), port)
        self._faults(m, units, core)
        self._reset(m, units)
        return m

    def _host(self, m, units, core):
        """Connect the registers to the command fetch, the counters and the machine's flags."""
        registers, fetch, counters = units["registers"], units["fetch"], units["counters"]
        for path, member, outer in self.axil.signature.flatten(self.axil):
            inner = getattr(registers.axil, path[-1])
            towards = member.flow == wiring.In  # into the machine
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
            counters.requested.eq(registers.requested),
            counters.at.eq(registers.at),
            registers.word_valid.eq(counters.word_valid),
            registers.word.eq(counters.word),
        ]
        wiring.connect(m, fetch.command, core.command)
        wiring.connect(m, fetch.read, core.fetch)
        m.d.comb += [
            core.number.eq(fetch.number),
            fetch.failed.eq(core.fetch_failed),
            fetch.base.eq(registers.read_base),
            fetch.limit.eq(registers.read_limit),
        ]
        for name in counters.latest:
            m.d.comb += getattr(registers, name).eq(getattr(counters, name))

    def _steps(self, m, units, core):
        """Connect training steps and the scale of the loss, which changes at the end of a step."""
        registers, fetch = units["registers"], units["fetch"]
        m.submodules.loss_scale = loss = LossScaleRule()
        m.d.comb += [
            fetch.first.eq(registers.command_first),
            fetch.step.eq(registers.step),
            fetch.step_end.eq(registers.step_end),
            registers.step_set.eq(fetch.step_set),
            registers.step_next.eq(fetch.step_next),
            core.step.eq(registers.step),
            core.following.eq(fetch.step_set),
            core.constant_put.eq(loss.put),
            loss.start.eq(registers.start),
            loss.following.eq(fetch.step_set),
            loss.overflowed.eq(core.overflowed),
            loss.floor.eq(core.floor),
        ]
        # Every cycle of a run counts, including cycles in which a command is fetched.
        m.d.comb += units["counters"].events.running.eq(fetch.busy)
        for name in ("loss_scale", "loss_window", "loss_clean"):
            m.d.comb += getattr(loss, name).eq(getattr(registers, name))
        for name in ("loss_scale", "loss_clean"):
            for part in (f"{name}_set", f"{name}_next"):
                m.d.comb += getattr(registers, part).eq(getattr(loss, part))

    def _engines(self, units, name):
        """Return the readers, or the writers, of all ports."""
        return [units[port_name(name, port)] for port in range(self.plan.ports)]

    def _queues(self, m, port: int = 0) -> dict[str, StreamFifo]:
        """Add short queues before the bus engines: no combinational path leads from the bus into
        the machine. Queues of beats that are read are in the core, one per reader."""
        queues = {
            "write_requests": StreamFifo(owned_request_layout(), BETWEEN),
            "write_beats": StreamFifo(write_beat_layout(self.plan.data_width), BETWEEN),
        }
        for name, queue in queues.items():
            named = port_name(f"{name}_queue", port)
            m.submodules[named] = DomainRenamer("core")(queue)
        return queues

    def _buses(self, m, units, core, queues, port):
        """Connect the bus engines of a port, and their reports of completed writes."""
        reader, writer = (self._engines(units, name)[port] for name in ("reader", "writer"))
        join_halves(m, [self.axi, *self.others][port], reader.axi, writer.axi)

        def of_core(name):
            return getattr(core, port_name(name, port))

        wiring.connect(m, of_core("requests"), reader.request)
        wiring.connect(m, reader.data, of_core("read"))
        for source, queue, target in (
            (of_core("write_requests"), "write_requests", writer.request),
            (of_core("write"), "write_beats", writer.data),
        ):
            wiring.connect(m, source, queues[queue].i)
            wiring.connect(m, queues[queue].o, target)
        m.d.comb += [
            of_core("answered").eq(writer.answered),
            of_core("answered_command").eq(writer.answered_command),
        ]
        self._windows(m, units["registers"], reader, writer)

    @staticmethod
    def _windows(m, registers, reader, writer):
        m.d.comb += [
            reader.base.eq(registers.read_base),
            reader.limit.eq(registers.read_limit),
            writer.base.eq(registers.write_base),
            writer.limit.eq(registers.write_limit),
        ]

    def _faults(self, m, units, core):
        """Report the first error. In a cycle with several errors, the first port has priority; on a
        port, the reader; and all bus errors have priority over the vector unit. Error codes must
        not mix."""
        ports = zip(self._engines(units, "reader"), self._engines(units, "writer"), strict=True)
        engines = [engine for pair in ports for engine in pair]
        fetch = units["fetch"]
        if self.plan.vector is not None:
            m.d.comb += [fetch.fault.eq(core.fault), fetch.fault_number.eq(core.fault_number)]
        for engine in reversed(engines):  # the last assignment wins
            with m.If(engine.error):
                m.d.comb += fetch.fault.eq(engine.error_code)
                m.d.comb += fetch.fault_number.eq(engine.error_command)

    def _reset(self, m, units):
        """Reset everything but the settings by the reset bit, after the open bursts have ended.

        Thousands of registers depend on the core's reset, so the reset is itself a register. It
        rises and falls 1 cycle after ``aresetn``, which must be low for at least two cycles.
        """
        registers = units["registers"]
        engines = [*self._engines(units, "reader"), *self._engines(units, "writer")]
        resetting = Signal()
        with m.If(registers.reset):
            m.d.sync += resetting.eq(1)
        with m.Elif(reduce(and_, (engine.idle for engine in engines))):
            m.d.sync += resetting.eq(0)
        core_reset = Signal(init=1, reset_less=True)
        clear = Signal(init=1, reset_less=True)  # high in any reset, 1 cycle late
        m.d.sync += [
            core_reset.eq(~self.aresetn | resetting),
            clear.eq(~self.aresetn | registers.reset | resetting),
        ]
        m.d.comb += [
            ResetSignal("core").eq(core_reset),
            *(engine.clear.eq(clear) for engine in engines),
            units["fetch"].clear.eq(registers.reset | clear),
            registers.busy.eq(units["fetch"].busy | resetting),
        ]
