"""The register file: the table of :mod:`diastole_sim.spec.registers` behind AXI4-Lite."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.bus.signature import DECERR, OKAY, SLVERR, AxiLiteSignature
from diastole_hw.invariant import invariant
from diastole_sim.spec.check import require_int
from diastole_sim.spec.registers import (
    ADDRESS_SPACE_BITS,
    BY_NAME,
    CONSTANT,
    END,
    MAGIC,
    SETTING,
    STATE,
    STATUS,
    registers_of,
    version_of,
)

WORD_BITS = 32


class AxilRegisters(wiring.Component):
    """AXI4-Lite subordinate with every register of the table, and their wires to the machine.

    Accesses are of whole words; the two lowest address bits are ignored. Write strobes are
    honoured. Answers: DECERR and data 0 where there is no register; SLVERR, and nothing changed,
    for a write to a register that is read only, or to a setting while ``busy``. Bits without a
    register are ignored on write and read as 0.

    Timing: a write is accepted when address and data are both there, its effect and its response
    come in the next cycle; a read's data in the cycle after its address. One access of each kind
    per cycle. ``start``, ``reset`` and ``clear`` are registers, high for one cycle.

    Parameters
    ----------
    config_hash : int
        What CONFIG_HASH reads (32 bits).
    planes, vector : bool
        Of a machine with the format ``fast``, or with a vector unit, which have registers of
        their own.

    Members
    -------
    axil : In(AxiLiteSignature)
    start, reset, clear : Out(1)
        The host wrote the bits of CONTROL. ``start`` stays low while ``busy``, after an error, and
        with ``reset`` in the same write.
    irq : Out(1)
        (done or error) and the interrupt is enabled; a level.
    command_count, seed : Out(32)
    command_address, read_base, read_limit, write_base, write_limit : Out(40)
        The settings.
    busy : In(1)
    finished : In(1)
        A pulse: all commands are done.
    error_code : In(8)
    error_index : In(32)
        The error, 0 for none; must hold until ``reset``.
    flags : In(8)
        Sets the bits of FLAGS; in the order of the table.
    saturated, underflowed : In(32)
    cycles_total, cycles, convert_cycles, read_beats, write_beats : In(64)
    stall_load, stall_store, stall_accumulator, stall_turn : In(32)
        The counters; the machine clears them on ``clear``.
    amax : In(32)
        Magnitude bits of the last conversion, 0 above them.
    improvement_num, improvement_den : In(32)
        What the monitor counted of it; with ``planes``.
    step_end, command_first, loss_window : Out(32)
        Settings; these and what follows with ``vector``.
    step, loss_scale, loss_clean : Out(32)
        What host and machine have set last.
    step_set, loss_scale_set, loss_clean_set : In(1)
    step_next, loss_scale_next, loss_clean_next : In(32)
        With the former the register is the latter from the next cycle on; only while ``busy``.
    wait_vector, wait_store, wait_load, wait_update, wait_chain, wait_convert, wait_command : In(64)
    busy_slots : In(64)
        Counters likewise.

    ValueError if config_hash is out of range.
    """

    def __init__(self, *, config_hash: int, planes: bool = False, vector: bool = False):
        require_int("config_hash", config_hash, 0, 2**WORD_BITS - 1)
        self.config_hash, self.planes, self.vector = config_hash, planes, vector
        self.registers = registers_of(planes=planes, vector=vector)
        members = {
            "axil": In(AxiLiteSignature()),
            "start": Out(1),
            "reset": Out(1),
            "clear": Out(1),
            "irq": Out(1),
            "busy": In(1),
            "finished": In(1),
            "flags": In(BY_NAME["flags"].bits),
        }
        flow = {SETTING: Out, STATE: Out, STATUS: In}
        members |= {r.name: flow[r.kind](r.bits) for r in self.registers if r.kind in flow}
        for register in self.registers:
            if register.kind == STATE:
                members[f"{register.name}_set"] = In(1)
                members[f"{register.name}_next"] = In(register.bits)
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        irq_enable = Signal()
        done = Signal()
        flags = Signal.like(self.flags)
        error = self.error_code != 0
        values = {
            "magic": Const(MAGIC, WORD_BITS),
            "version": Const(version_of(planes=self.planes, vector=self.vector), WORD_BITS),
            "config_hash": Const(self.config_hash, WORD_BITS),
            "control": Cat(Const(0, BY_NAME["control"].bit("irq_enable")), irq_enable),
            "status": Cat(self.busy, done, error),
            "flags": flags,
        }
        values |= {
            register.name: getattr(self, register.name)
            for register in self.registers
            if register.kind in (SETTING, STATE, STATUS)
        }
        self._read(m, values)
        write = self._write_channel(m)
        self._settings(m, platform, write)
        self._control(m, write, irq_enable, done, error)
        self._flags(m, write, flags)
        m.d.comb += self.irq.eq((done | error) & irq_enable)
        return m

    def _read(self, m, values):
        axil = self.axil
        m.d.comb += axil.arready.eq(~axil.rvalid | axil.rready)
        with m.If(axil.rready):
            m.d.sync += axil.rvalid.eq(0)
        with m.If(axil.arvalid & axil.arready):
            m.d.sync += [axil.rvalid.eq(1), axil.rdata.eq(0), axil.rresp.eq(OKAY)]
            with m.Switch(axil.araddr[2:]):
                for register in self.registers:
                    value = values[register.name]
                    for n in range(register.words):
                        with m.Case(register.offset // 4 + n):
                            m.d.sync += axil.rdata.eq(value[n * WORD_BITS : (n + 1) * WORD_BITS])
                with m.Default():
                    m.d.sync += axil.rresp.eq(DECERR)

    def _write_channel(self, m):
        """Accept and answer writes. Gives ``select``: that the word at an offset is written now."""
        axil = self.axil
        taken = Signal()
        response = Signal(2)
        m.d.comb += [
            taken.eq(axil.awvalid & axil.wvalid & (~axil.bvalid | axil.bready)),
            axil.awready.eq(taken),
            axil.wready.eq(taken),
        ]
        with m.If(axil.bready):
            m.d.sync += axil.bvalid.eq(0)
        with m.If(taken):
            m.d.sync += [axil.bvalid.eq(1), axil.bresp.eq(response)]
        with m.Switch(axil.awaddr[2:]):
            for register in self.registers:
                refuse = Const(OKAY, 2)
                if register.kind in (CONSTANT, STATUS):
                    refuse = Const(SLVERR, 2)
                elif register.kind in (SETTING, STATE):
                    refuse = Mux(self.busy, SLVERR, OKAY)
                first = register.offset // 4
                with m.Case(*range(first, first + register.words)):
                    m.d.comb += response.eq(refuse)
            with m.Default():
                m.d.comb += response.eq(DECERR)

        def select(offset: int):
            return taken & (response == OKAY) & (axil.awaddr[2:] == offset // 4)

        return select

    def _settings(self, m, platform, select):
        axil = self.axil
        for register in self.registers:
            if register.kind in (SETTING, STATE):
                value = getattr(self, register.name)
                for low in range(0, register.bits, 8):
                    word, byte = divmod(low // 8, 4)
                    with m.If(select(register.offset + 4 * word) & axil.wstrb[byte]):
                        m.d.sync += value[low : low + 8].eq(axil.wdata[8 * byte : 8 * byte + 8])
            if register.kind == STATE:
                value = getattr(self, register.name)
                changed = getattr(self, f"{register.name}_set")
                idle = f"{register.name} changes while the machine is idle"
                invariant(m, platform, ~changed | self.busy, idle)
                with m.If(changed):
                    m.d.sync += value.eq(getattr(self, f"{register.name}_next"))

    def _control(self, m, select, irq_enable, done, error):
        axil = self.axil
        control, status = BY_NAME["control"], BY_NAME["status"]
        asked, acknowledged = select(control.offset), select(status.offset)

        def written(register, name, selected):
            """The host writes 1 to this bit."""
            low = register.bit(name)
            return selected & axil.wdata[low] & axil.wstrb[low // 8]

        reset = written(control, "reset", asked)
        start = written(control, "start", asked) & ~reset & ~self.busy & ~error
        m.d.sync += [
            self.start.eq(start),
            self.reset.eq(reset),
            self.clear.eq(written(control, "clear", asked)),
        ]
        low = control.bit("irq_enable")
        with m.If(asked & axil.wstrb[low // 8]):
            m.d.sync += irq_enable.eq(axil.wdata[low])
        with m.If(start | reset | written(status, "done", acknowledged)):
            m.d.sync += done.eq(0)
        with m.If(self.finished):
            m.d.sync += done.eq(1)

    def _flags(self, m, select, flags):
        """Sticky: set wins over clear."""
        register = BY_NAME["flags"]
        axil = self.axil
        written = select(register.offset) & axil.wstrb[0]
        drop = Mux(written, axil.wdata[: register.bits], 0)
        m.d.sync += flags.eq(self.flags | (flags & ~drop & ~self.clear.replicate(register.bits)))


assert 1 << ADDRESS_SPACE_BITS >= END
