"""Accumulators behind the array's ports: running sums of W bits, which a drain reads tile by
tile."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.choice import one_hot_select
from diastole_hw.data_registers import delayed_record
from diastole_hw.memory.port_floats import PortFloats
from diastole_hw.memory.port_sums import PortSums, read_data_layout, sums_layout
from diastole_hw.plan.plan import Plan
from diastole_sim.spec.require import require_int
from diastole_sim.spec.sizes.array_sizes import SUM_MEMORIES

CONTROL = ("en", "done")
"""Members of a slot's control that act by themselves, and need a reset."""


class SumsReadSignature(wiring.Signature):
    """Look-up of words of sums in neighbouring ports of the array, as seen by the reader.

    Parameters: ``plan``; ``banks``, the number of ports; ``vectors``, the words of a look-up, at
    most the number of ports.

    Timing: ``data`` is valid one cycle after ``en``, for one cycle.

    Members
    -------
    en : Out(vectors)
        Bit k requests the word of port (``port`` + k) modulo ``banks``. ``data`` is zero for words
        without a request.
    port : Out(range(max(banks, 2)))
        A multiple of ``vectors``, if ``banks`` is a multiple of ``vectors``.
    addr : Out(range(plan.sum_words))
        Address in ``port`` and the following ports.
    wrapped_addr : Out(range(plan.sum_words))
        Address in the ports from port 0 on, for the same tile. Absent if ``vectors`` is 1.
    data : In(array of ``vectors`` times read_data_layout(plan))
    used_by_sums : In(SUM_MEMORIES)
        By memory, the top bit of an address: sums are added in the memory, and no word of the
        memory may be requested.
    """

    def __init__(self, plan: Plan, banks: int, vectors: int):
        require_int("vectors", vectors, 1, banks)
        words = data.ArrayLayout(read_data_layout(plan), vectors)
        wrapped = {"wrapped_addr": Out(range(plan.sum_words))} if vectors > 1 else {}
        super().__init__(
            {
                "en": Out(vectors),
                "port": Out(range(max(banks, 2))),
                "addr": Out(range(plan.sum_words)),
                "data": In(words),
                "used_by_sums": In(SUM_MEMORIES),
            }
            | wrapped
        )


class Accumulators(wiring.Component):
    """Add the array's partial sums into words of B sums, behind each port.

    A slot is one vector's place in the stream through the array. The unit behind a port is
    :class:`diastole_hw.memory.port_sums.PortSums`, or
    :class:`diastole_hw.memory.port_floats.PortFloats` for sums of chunks that are added into
    floats. A sum of more than W bits wraps. Not checked.

    Timing: ``sum_en`` and the inputs beside ``sum_en`` describe a slot. The partial sums of the
    slot are at port p ``latency`` + p cycles later. The unit takes one slot per cycle. Two
    additions to one word must be at least 3 cycles apart, or 4 with floats or with output registers
    behind the memories. ``done`` repeats ``sum_done`` ``latency`` + ``banks`` cycles later, as the
    last sum of the slot is written (with floats 2 cycles later still, or 3 with sums of chunks).
    The sum can be read from the cycle after ``done`` on. A read outputs its words one cycle later,
    for one cycle.

    Parameters
    ----------
    plan : Plan
        B, W, the words of a unit, and the presence of poison.
    banks : int
        Number of ports of the array.
    psum_bits : int
        Bits of a partial sum.
    latency : int
        Cycles from a slot to its partial sums at port 0, at least 2, or 3 with output registers
        behind the memories.
    drained : int
        Words of a look-up, 1 to ``banks``.
    slices : int
        Partial sums of a chunk, if sums are floats.

    Members
    -------
    psums : In(sums_layout(plan, psum_bits)), an array of ``banks``
    sum_en, sum_addr : In(1), In(range(plan.sum_words))
        The top bit of an address names the memory.
    fresh : In(1)
        Overwrite the word instead of adding.
    begins, ends : In(1)
        First and last partial sums of a chunk. Present if sums are floats and ``slices`` is above
        1. With floats ``fresh`` is true for the whole first chunk.
    sum_done : In(1)
    done : Out(1)
    drain : In(SumsReadSignature(plan, banks, drained))
        A requested word must be in a memory that is not ``used_by_sums``, and of a tile that is not
        in work. Not checked.
    inexact : Out(1)
        A sum that is written was rounded, and has lost a bit. Present if sums are floats.
    """

    drain: wiring.PureInterface

    def __init__(
        self,
        plan: Plan,
        *,
        banks: int,
        psum_bits: int,
        latency: int,
        drained: int = 1,
        slices: int = 1,
    ):
        self.plan, self.banks, self.drained, self.slices = plan, banks, drained, slices
        self.psum_bits, self.latency = psum_bits, latency
        super().__init__(
            {
                "psums": In(sums_layout(plan, psum_bits)).array(banks),
                "sum_en": In(1),
                "sum_addr": In(range(plan.sum_words)),
                "fresh": In(1),
                "sum_done": In(1),
                "done": Out(1),
                "drain": In(SumsReadSignature(plan, banks, drained)),
            }
            | ({"inexact": Out(1)} if plan.floats else {})
            | dict.fromkeys(self._of_chunks, In(1))
        )

    @property
    def _of_chunks(self) -> tuple[str, ...]:
        """Names of the inputs for a slot's place in a chunk, if chunks have several slices."""
        return ("begins", "ends") if self.plan.floats and self.slices > 1 else ()

    @property
    def aligned(self) -> bool:
        """True if a port always provides the same word of a look-up."""
        return self.banks % self.drained == 0

    def elaborate(self, platform):
        m = Module()
        drain = self.drain
        addr = range(self.plan.sum_words)
        control = {"en": 1, "addr": addr, "fresh": 1, "done": 1}
        control = data.StructLayout(control | dict.fromkeys(self._of_chunks, 1))
        stage = Signal(control, name="control_0")
        stages = [stage]
        m.d.comb += [
            stage.en.eq(self.sum_en),
            stage.addr.eq(self.sum_addr),
            stage.fresh.eq(self.fresh),
            stage.done.eq(self.sum_done),
            *(stage[name].eq(getattr(self, name)) for name in self._of_chunks),
        ]
        ports = [self._port() for _ in range(self.banks)]
        named = self.latency - ports[0].summed  # stages before the address of the first port's word
        for number in range(1, named + 1):
            stage = delayed_record(m, stage, f"control_{number}", control=CONTROL)
            stages.append(stage)
        requested = self._drained_ports(m)
        # The ports, each a stage behind the port before.
        for port, sums in enumerate(ports):
            m.submodules[f"port_sums_{port}"] = sums
            enables = (
                en & (number == port) for en, number in zip(drain.en, requested, strict=True)
            )
            m.d.comb += [
                sums.en.eq(stage.en),
                sums.addr.eq(stage.addr),
                sums.fresh.eq(stage.fresh),
                sums.psums.eq(self.psums[port]),
                sums.read.eq(Cat(enables).any()),
                sums.read_addr.eq(self._drain_addr(port)),
                *(getattr(sums, name).eq(stage[name]) for name in self._of_chunks),
            ]
            if port + 1 < self.banks:
                name = f"control_{named + 1 + port}"
                stage = delayed_record(m, stage, name, control=CONTROL)
                stages.append(stage)
        self._output(m, requested, [sums.read_data.as_value() for sums in ports])
        # From the address of the last port's word to its write.
        for number in range(ports[-1].written):
            stage = delayed_record(m, stage, f"finish_{number}", control=CONTROL)
            stages.append(stage)
        self._take(m, stages[: named + self.banks - 1 + ports[-1].reads])
        m.d.comb += self.done.eq(stage.done)
        if self.plan.floats:
            m.d.comb += self.inexact.eq(Cat(sums.inexact for sums in ports).any())
        return m

    def _take(self, m, stages):
        """Drive ``used_by_sums`` from the slots at ``stages``: a port reads sums of the memory for
        an addition in the next cycle, or a later port in a later cycle."""
        for memory in range(SUM_MEMORIES):
            adds = (stage.en & ~stage.fresh & (stage.addr[-1] == memory) for stage in stages)
            m.d.sync += self.drain.used_by_sums[memory].eq(reduce(or_, adds))

    def _port(self):
        """Return the unit behind one port."""
        if self.plan.floats:
            return PortFloats(self.plan, psum_bits=self.psum_bits, alone=self.slices == 1)
        return PortSums(self.plan, psum_bits=self.psum_bits)

    def _drained_ports(self, m):
        """Return the port of each word of a look-up."""
        drain = self.drain
        ports = [drain.port]
        for k in range(1, self.drained):
            ports.append(Signal.like(drain.port, name=f"port_{k}"))
            wraps = drain.port >= self.banks - k
            following = Mux(wraps, drain.port - (self.banks - k), drain.port + k)
            m.d.comb += ports[-1].eq(following)
        return ports

    def _output(self, m, requested, words):
        """Drive the words of a look-up. A port without a request outputs zeros."""
        drain = self.drain
        if self.aligned:
            for k, read_data in enumerate(drain.data):
                m.d.comb += read_data.eq(reduce(or_, words[k :: self.drained]))
            return
        for k, number in enumerate(requested):
            of_port = Signal(self.banks, name=f"shown_{k}")
            m.d.sync += of_port.eq(Cat(number == port for port in range(self.banks)))
            m.d.comb += drain.data[k].eq(one_hot_select(words, of_port))

    def _drain_addr(self, port):
        """Return the address at which a look-up reads a port. The last port is never behind the
        wrap."""
        drain = self.drain
        if self.drained == 1 or port == self.banks - 1:
            return drain.addr
        return Mux(port < drain.port, drain.wrapped_addr, drain.addr)
