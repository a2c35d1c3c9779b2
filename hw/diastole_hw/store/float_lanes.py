"""Convert accumulated sums to floats in parallel lanes, and delay the destinations of the words
alongside."""

from itertools import pairwise

from amaranth.hdl import Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.data_registers import data_register
from diastole_hw.memory.round_sum import float_layout
from diastole_hw.store.to_float import TOP_BITS, ToFloat, top_exponent
from diastole_sim.spec.require import require_choice, require_int

SCALE_BITS = 12


class FloatLanes(wiring.Component):
    """Convert the words that a memory outputs to floats, one word per cycle.

    Lane n of ``o.floats`` is the binary32 of ``sums[n]`` * 2^(``stream`` + h - ``offset``), as
    :class:`diastole_hw.store.to_float.ToFloat` computes it; h is ``stationary[n * bounds //
    lanes]``.

    Timing: ``sink`` in cycle t states that the memory is read. The output of the memory in t + 1 is
    used, and its floats are at ``o`` in t + 1 + ``ToFloat.latency``. There is no back-pressure.

    Parameters
    ----------
    lanes : int
        Lanes of a word, 1 to 32.
    sum_bits : int
        W, 2 to 63.
    bounds : int
        Number of exponents of the stationary operand, a divisor of ``lanes``; an exponent serves
        ``lanes`` / ``bounds`` lanes.
    sinks : int
        Number of destinations of words, 1 to 4.
    mantissa : int
        m, where sums are not integers but float_layout(m); else None.
    poisonable : bool
        Whether there is a member ``poison``.
    parts : int
        Number of parts of a word, which are processed one at a time; 1 to 32.
    exponent_delay : bool
        True if ``stream``, ``stationary`` and ``offset`` arrive 1 cycle after their sums, not with
        the sums.

    Members
    -------
    sink : In(sinks)
        Destinations of the word that is read, a bit per destination; 0 without a word.
    part : In(range(parts))
        Number of the part, valid with ``sums``; 0 bits wide for a single part.
    sums : In(array of ``lanes`` times signed(sum_bits))
        Sums, or floats (see ``mantissa``). Zeros in lanes that the word lacks, and without a word.
    stream : In(8)
        Exponent of the vector. With the exponent of the stationary operand it bounds the sums.
    stationary : In(array of ``bounds`` times unsigned(8))
    offset : In(signed(SCALE_BITS))
        Number to subtract from the sum of both exponents: the biases, F, the point of the products,
        and the exponents of the two tensors.
    poison : In(lanes)
        Lanes that become NaN, valid with ``sums``.
    o : Out({"to": sinks, "part": range(parts), "floats": array of ``lanes`` times unsigned(32)})
        Floats. ``to``: ``sink`` of the word.
    overflow : Out(1)
        A lane of the word at ``o`` is too large, and not poisoned.

    ValueError if out of range.
    """

    o: data.View

    def __init__(
        self,
        *,
        lanes: int,
        sum_bits: int,
        bounds: int = 1,
        sinks: int = 1,
        poisonable: bool = False,
        mantissa: int | None = None,
        parts: int = 1,
        exponent_delay: bool = False,
    ):
        require_int("lanes", lanes, 1, 32)
        require_int("sum_bits", sum_bits, 2, 63)
        divisors = tuple(count for count in range(1, lanes + 1) if lanes % count == 0)
        require_choice("bounds", bounds, divisors)
        require_int("sinks", sinks, 1, 4)
        require_int("parts", parts, 1, 32)
        self.lanes, self.sum_bits, self.bounds = lanes, sum_bits, bounds
        self.sinks, self.poisonable, self.mantissa = sinks, poisonable, mantissa
        self.parts, self.exponent_delay = parts, exponent_delay
        own = signed(sum_bits) if mantissa is None else float_layout(mantissa).size
        floats = data.ArrayLayout(unsigned(32), lanes)
        members = {
            "sink": In(sinks),
            "sums": In(data.ArrayLayout(own, lanes)),
            "stream": In(8),
            "stationary": In(data.ArrayLayout(unsigned(8), bounds)),
            "offset": In(signed(SCALE_BITS)),
            "o": Out(data.StructLayout({"to": sinks, "part": range(parts), "floats": floats})),
            "overflow": Out(1),
        }
        poison = {"poison": In(lanes)} if poisonable else {}
        super().__init__(members | poison | {"part": In(range(parts))})

    def elaborate(self, platform):
        m = Module()
        depths = range(1, 2 + ToFloat.latency)
        sinks = [self.sink, *(Signal(self.sinks, name=f"sink_{k}") for k in depths)]
        for before, after in pairwise(sinks):
            m.d.sync += after.eq(before)
        if self.parts > 1:
            numbers = [self.part]
            for k in depths[1:]:
                numbers.append(data_register(range(self.parts), name=f"part_{k}"))
            for before, after in pairwise(numbers):
                m.d.sync += after.eq(before)
            m.d.comb += self.o.part.eq(numbers[-1])
        overflows = Signal(self.lanes)
        m.d.comb += [self.o.to.eq(sinks[-1]), self.overflow.eq(overflows.any())]
        scales = []
        for number in range(self.bounds):
            name = "scale" if self.bounds == 1 else f"scale_{number}"
            scales.append(Signal(signed(SCALE_BITS), name=name))
            m.d.comb += scales[-1].eq(self.stream + self.stationary[number] - self.offset)
        tops = []
        if self.mantissa is None:
            tops = [self._top(m, scale, n, self.sum_bits) for n, scale in enumerate(scales)]
        for number in range(self.lanes):
            total, bound = self.sums[number], number * self.bounds // self.lanes
            if self.mantissa is None:
                top = tops[bound]
            else:
                total, scale = self._integer(m, number, total, scales[bound])
                top = self._top(m, scale, number, len(total))
            lane = ToFloat(sum_bits=len(total), poisonable=self.poisonable)
            m.submodules[f"lane_{number}"] = lane
            m.d.comb += [
                lane.sum.eq(total),
                lane.top.eq(top),
                self.o.floats[number].eq(lane.result),
                overflows[number].eq(lane.overflow),
            ]
            if self.poisonable:
                m.d.comb += lane.poison.eq(self.poison[number])
        return m

    def _top(self, m, scale, number, sum_bits):
        """Return the exponent that a lane needs for a scale, with the delay of the lane's input
        ``top``."""
        top = data_register(signed(TOP_BITS), name=f"top_{number}")
        if not self.exponent_delay:
            first = data_register(signed(SCALE_BITS), name=f"late_scale_{number}")
            m.d.sync += first.eq(scale)
            scale = first
        m.d.sync += top.eq(top_exponent(sum_bits, scale))
        return top

    def _integer(self, m, number, bits, scale):
        """Convert a float to an integer of its significant bits. Return integer and scale."""
        mantissa = self.mantissa
        assert mantissa is not None
        fraction, exponent = bits[:mantissa], bits[mantissa:-1]
        magnitude = Signal(signed(mantissa + 2), name=f"magnitude_{number}")
        total = Signal(signed(mantissa + 2), name=f"total_{number}")
        own = Signal(signed(SCALE_BITS), name=f"own_scale_{number}")
        shift = exponent
        if self.exponent_delay:
            shift = data_register(len(exponent), name=f"late_exponent_{number}")
            m.d.sync += shift.eq(exponent)
        m.d.comb += [
            magnitude.eq(Cat(fraction, exponent.any())),
            total.eq(Mux(bits[-1], -magnitude, magnitude)),
            own.eq(scale + shift - (1 + mantissa)),
        ]
        return total, own
