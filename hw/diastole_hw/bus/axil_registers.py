"""Register file: the table of :mod:`diastole_sim.spec.registers` behind AXI4-Lite."""

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.bus.signature import DECERR, OKAY, SLVERR, AxiLiteSignature
from diastole_hw.data_registers import data_register
from diastole_sim.spec.registers import (
    ADDRESS_SPACE_BITS,
    BY_NAME,
    CONSTANT,
    COUNTED,
    END,
    MAGIC,
    SETTING,
    STATE,
    STATUS,
    VERSION,
    registers_of,
)
from diastole_sim.spec.require import require_int

WORD_BITS = 32


def special_word(name: str, **bits: Value):
    """Return what a read of the special register ``name`` gives, from each bit that can be read.

    AssertionError unless ``bits`` are the readable bits of the register's description.
    """
    layout = BY_NAME[name].layout
    readable = [bit.name for bit in layout if bit.access != "w"]
    assert list(bits) == readable, f"{name} has the bits {readable}, not {list(bits)}"
    parts: list[Value] = []
    for bit in layout:
        parts += [Const(0, 1)] * (bit.low - len(parts))
        parts.append(bits.get(bit.name, Const(0, 1)))
    return Cat(parts)


class AxilRegisters(wiring.Component):
    """AXI4-Lite subordinate with every register of the table, and wires from the registers to the
    machine.

    Accesses are of whole words; the two lowest address bits are ignored. Write strobes are
    honoured. The response is DECERR, with data 0, at an address without a register. The response is
    SLVERR, and nothing changes, when a write addresses a read-only register, or a setting while
    ``busy``. Bits without a register are ignored on write and read as 0.

    Timing: an access begins when its address, and the data of a write, are valid and no access is
    in progress; writes go first. The unit accepts the access 2 cycles later; a read of a counter
    also waits for ``word_valid``. Effect and response follow in the cycle after the acceptance. No
    ready depends on the bus. ``start``, ``reset`` and ``clear`` are registers, high for 1 cycle.

    Parameters
    ----------
    config_hash : int
        Value that CONFIG_HASH reads (32 bits).
    planes, vector : bool
        True for a machine with the format ``fast``, or with a vector unit. Either feature adds
        registers.

    Members
    -------
    axil : In(AxiLiteSignature)
    start, reset, clear : Out(1)
        Pulse when the host wrote the bit of CONTROL. ``start`` stays low while ``busy``, after an
        error, and with ``reset`` in the same write.
    irq : Out(1)
        (done or error) and the interrupt is enabled; a level.
    command_count, seed : Out(32)
    command_address, read_base, read_limit, write_base, write_limit : Out(40)
        Settings.
    busy : In(1)
    finished : In(1)
        Pulse: all commands are done.
    error_code : In(8)
    error_index : In(32)
        Error, 0 for none; must stay stable until ``reset``.
    flags : In(8)
        Bits of FLAGS to set, in the order of the table.
    requested : Out(1)
    at : Out(7)
    word_valid : In(1)
    word : In(32)
        Request for a word of a counter, and the answer, as in
        :class:`diastole_hw.command.counters.Counters`. The machine clears the counters on
        ``clear``.
    amax : In(32)
        Magnitude bits of the last conversion, 0 in the bits above.
    improvement_num, improvement_den : In(32)
        Counts of the precision monitor for the last conversion; with ``planes``.
    step_end, command_first, loss_window : Out(32)
        Settings. They and the following members exist with ``vector``.
    step, loss_scale, loss_clean : Out(32)
        Values that host or machine wrote last.
    step_set, loss_scale_set, loss_clean_set : In(1)
    step_next, loss_scale_next, loss_clean_next : In(32)
        While ``..._set`` is high, the register takes the value ``..._next`` from the next cycle on;
        only while ``busy``.

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
            "requested": Out(1),
            "at": Out(range(END // 4)),
            "word_valid": In(1),
            "word": In(WORD_BITS),
        }
        flow = {SETTING: Out, STATE: Out, STATUS: In}
        members |= {
            r.name: flow[r.kind](r.bits)
            for r in self.registers
            if r.kind in flow and r.name not in COUNTED
        }
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
            "version": Const(VERSION, WORD_BITS),
            "config_hash": Const(self.config_hash, WORD_BITS),
            "control": special_word("control", irq_enable=irq_enable),
            "status": special_word("status", busy=self.busy, done=done, error=error),
            "flags": flags,
        }
        values |= {
            register.name: getattr(self, register.name)
            for register in self._but_counters
            if register.kind in (SETTING, STATE, STATUS)
        }
        reads, writes, select = self._access(m)
        self._read(m, reads, select, values)
        changes = self._write(m, writes, select)
        self._settings(m, changes)
        self._control(m, changes, irq_enable, done, error)
        self._flags(m, changes, flags)
        m.d.comb += self.irq.eq((done | error) & irq_enable)
        return m

    def _access(self, m):
        """Begin accesses one by one. Return whether a read and whether a write is decoded, and the
        function ``select``. ``select`` returns a bit for every word of its arguments, set if the
        access is to the word. The counters have one common bit."""
        axil = self.axil
        reads = Signal()
        writes = Signal()
        decoded = Signal()
        ends = Signal()
        number = data_register(self.at.shape())
        beyond = data_register()  # the address is above all registers
        write = axil.awvalid & axil.wvalid & ~axil.bvalid
        address = Signal.like(axil.araddr)
        m.d.comb += [
            self.at.eq(number),
            address.eq(Mux(write, axil.awaddr, axil.araddr)),
            ends.eq(decoded & (~self.requested | self.word_valid)),
            axil.arready.eq(reads & ends),
            axil.awready.eq(writes & decoded),
            axil.wready.eq(writes & decoded),
        ]
        with m.If(reads | writes):
            m.d.sync += decoded.eq(1)
        with m.Else():
            m.d.sync += [number.eq(address[2:]), beyond.eq(address[2 + len(number) :].any())]
            m.d.sync += [writes.eq(write), reads.eq(~write & axil.arvalid & ~axil.rvalid)]
        with m.If(ends):
            m.d.sync += [reads.eq(0), writes.eq(0), decoded.eq(0)]
        counted = data_register(name="at_counter")
        at = {register.name: Cat(counted) for register in self.registers}
        for register in self._but_counters:
            words = [data_register(name=f"at_{register.name}_{n}") for n in range(register.words)]
            at[register.name] = Cat(words)
            for word, here in zip(words, self._words(register), strict=True):
                m.d.sync += word.eq((number == here) & ~beyond)
        here = [n for each in self.registers if each.name in COUNTED for n in self._words(each)]
        m.d.sync += counted.eq(Cat(number == n for n in here).any() & ~beyond)
        m.d.comb += self.requested.eq(reads & decoded & counted)

        def select(*registers):
            return Cat(*{each.name: at[each.name] for each in registers}.values())

        return reads & decoded, writes & decoded, select

    @property
    def _but_counters(self):
        return [register for register in self.registers if register.name not in COUNTED]

    @staticmethod
    def _words(register):
        """Return the word numbers of a register."""
        return range(register.offset // 4, register.offset // 4 + register.words)

    def _of(self, *kinds):
        return [register for register in self.registers if register.kind in kinds]

    def _read(self, m, reads, select, values):
        axil = self.axil
        read_word = Mux(self.requested, self.word, 0)
        for register in self._but_counters:
            for n, here in enumerate(select(register)):
                part = values[register.name][n * WORD_BITS : (n + 1) * WORD_BITS]
                read_word |= Mux(here, part, 0)
        with m.If(axil.rready):
            m.d.sync += axil.rvalid.eq(0)
        with m.If(reads):
            m.d.sync += [axil.rvalid.eq(axil.arready), axil.rdata.eq(read_word)]
            m.d.sync += axil.rresp.eq(Mux(select(*self.registers).any(), OKAY, DECERR))

    def _write(self, m, writes, select):
        """Answer writes. Return the function ``changes``, which tells whether a word of a register
        (by default the first word) is written in this cycle."""
        axil = self.axil
        response = Signal(2)
        locked = self.busy & select(*self._of(SETTING, STATE)).any()
        m.d.comb += response.eq(DECERR)
        with m.If(select(*self.registers).any()):
            refused = locked | select(*self._of(CONSTANT, STATUS)).any()
            m.d.comb += response.eq(Mux(refused, SLVERR, OKAY))
        with m.If(axil.bready):
            m.d.sync += axil.bvalid.eq(0)
        with m.If(writes):
            m.d.sync += [axil.bvalid.eq(1), axil.bresp.eq(response)]

        def changes(register, word=0):
            lock = self.busy if register.kind in (SETTING, STATE) else Const(0, 1)
            return writes & select(register)[word] & ~lock

        return changes

    def _settings(self, m, changes):
        axil = self.axil
        for register in self.registers:
            if register.kind in (SETTING, STATE):
                value = getattr(self, register.name)
                for low in range(0, register.bits, 8):
                    word, byte = divmod(low // 8, 4)
                    with m.If(changes(register, word) & axil.wstrb[byte]):
                        m.d.sync += value[low : low + 8].eq(axil.wdata[8 * byte : 8 * byte + 8])
            if register.kind == STATE:
                value = getattr(self, register.name)
                changed = getattr(self, f"{register.name}_set")
                idle = f"{register.name} changes while the machine is idle"
                m.d.sync += Assert(~changed | self.busy, idle)
                with m.If(changed):
                    m.d.sync += value.eq(getattr(self, f"{register.name}_next"))

    def _control(self, m, changes, irq_enable, done, error):
        axil = self.axil
        control, status = BY_NAME["control"], BY_NAME["status"]
        requested, acknowledged = changes(control), changes(status)

        def written(register, name, selected):
            """Return whether the host writes 1 to this bit."""
            low = register.bit(name)
            return selected & axil.wdata[low] & axil.wstrb[low // 8]

        reset = written(control, "reset", requested)
        start = written(control, "start", requested) & ~reset & ~self.busy & ~error
        m.d.sync += [
            self.start.eq(start),
            self.reset.eq(reset),
            self.clear.eq(written(control, "clear", requested)),
        ]
        low = control.bit("irq_enable")
        with m.If(requested & axil.wstrb[low // 8]):
            m.d.sync += irq_enable.eq(axil.wdata[low])
        with m.If(start | reset | written(status, "done", acknowledged)):
            m.d.sync += done.eq(0)
        with m.If(self.finished):
            m.d.sync += done.eq(1)

    def _flags(self, m, changes, flags):
        """Set and clear the sticky bits of FLAGS: setting a bit wins over clearing the bit."""
        register = BY_NAME["flags"]
        axil = self.axil
        written = changes(register) & axil.wstrb[0]
        drop = Mux(written, axil.wdata[: register.bits], 0)
        m.d.sync += flags.eq(self.flags | (flags & ~drop & ~self.clear.replicate(register.bits)))


assert 1 << ADDRESS_SPACE_BITS >= END
