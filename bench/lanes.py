"""Small units beside each other, of which no machine is made: measured for their area."""

from amaranth.hdl import Cat, Const, Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.convert.lanes.quantise import rounds_up
from diastole_hw.random.lane_states import LaneStates
from diastole_sim.spec.lfsr import MAX_LFSR_BITS, PAIR_LFSR_BITS


class IntegerLane(wiring.Component):
    """``added`` = ``before`` + ``psum``: a lane of
    :class:`diastole_hw.memory.port_sums.PortSums`, by itself.

    Members: ``psum``, ``before``: In(signed(...)); ``added``: Out(signed(sum_bits)), a register.
    Timing: one cycle.
    """

    def __init__(self, *, psum_bits, sum_bits):
        members = {"psum": In(signed(psum_bits)), "before": In(signed(sum_bits))}
        super().__init__(members | {"added": Out(signed(sum_bits))})

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.added.eq(self.before + self.psum)
        return m


class RoundingLanes(wiring.Component):
    """Whether the elements of a word are rounded up, with what draws for them: a register for all
    lanes that steps once per pair of columns (``pairs``, 3 bits), or one of 24 bits for each.

    Timing: combinational; registers step, or load, in the cycle after.

    Members
    -------
    take : In(1)
        A word is taken.
    load : In(1)
    start : In(bits of all registers)
        Where they go on; only with ``loads``, else they go through their period.
    residues : In(lanes * (random bits + 1))
        What is dropped of each element, its first bits.
    up : Out(lanes)
    """

    def __init__(self, *, lanes, rule, pairs, loads):
        self.lanes, self.rule, self.pairs, self.loads = lanes, rule, pairs, loads
        self.bits = PAIR_LFSR_BITS if pairs else MAX_LFSR_BITS
        self.state_bits = PAIR_LFSR_BITS + 1 if pairs else lanes * MAX_LFSR_BITS
        members = {"take": In(1), "residues": In(lanes * (self.bits + 1)), "up": Out(lanes)}
        loading = {"load": In(1), "start": In(self.state_bits)} if loads else {}
        super().__init__(members | loading)

    def elaborate(self, platform):
        m = Module()
        apart = sum((lane + 1) << lane * MAX_LFSR_BITS for lane in range(self.lanes))
        state = Signal(self.state_bits, init=1 if self.pairs else apart)
        if self.loads:
            state = Signal(self.state_bits, reset_less=True)
        lanes, sizes = self.lanes, {"random_bits": self.bits, "state_bits": self.bits}
        units = [
            LaneStates(lanes=lanes if self.pairs else 1, pairs=self.pairs, **sizes)
            for _ in range(1 if self.pairs else lanes)
        ]
        width = self.state_bits // len(units)
        for number, unit in enumerate(units):
            m.submodules[f"states{number}"] = unit
            m.d.comb += unit.state.eq(state.word_select(number, width))
        after, draws = (Cat(getattr(u, name) for u in units) for name in ("after", "draws"))
        with m.If(self.take):
            m.d.sync += state.eq(after)
        if self.loads:
            with m.If(self.load):
                m.d.sync += state.eq(self.start)
        for lane in range(lanes):
            residue = self.residues.word_select(lane, self.bits + 1)
            drawn = draws.word_select(lane, self.bits)
            up = rounds_up(self.rule, Const(0), residue, Const(0), drawn, self.bits)
            m.d.comb += self.up[lane].eq(up)
        return m
