"""Lanes from accumulated sums to floats, and beside them where these go."""

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
    """Make floats of the words that a memory shows, one word per cycle.

    Lane n of ``o.floats`` is the binary32 of ``sums[n]`` * 2^(``stream`` + h - ``offset``), as
    :class:`diastole_hw.store.to_float.ToFloat` has it; h is ``held[n * bounds // lanes]``.

    Timing: ``sink`` in cycle t says that the memory is read; what it shows in t + 1 is taken, and
    its floats are at ``o`` in t + 1 + ``ToFloat.latency``. Nothing waits.

    Parameters
    ----------
    lanes : int
        Of a word, 1 to 32.
    sum_bits : int
        W, 2 to 63.
    bounds : int
        Exponents of what is held, for as many lanes each: a divisor of ``lanes``.
    sinks : int
        Places to which words go, 1 to 4.
    mantissa : int
        m, where sums are no integers but float_layout(m); None else.
    poisonable : bool
        Whether there is a member ``poison``.
    parts : int
        Of a word, of which a part is here at a time; 1 to 32.
    late : bool
        ``stream``, ``held`` and ``offset`` come a cycle after their sums; else with them.

    Members
    -------
    sink : In(sinks)
        Where the word goes that is read, a bit for each place; 0 if there is none.
    part : In(range(parts))
        With ``sums``: of the word, which part these are; there if it has several.
    sums : In(array of ``lanes`` times signed(sum_bits))
        Or of floats.
        Zeros in lanes that the word has not, and where there is no word.
    stream : In(8)
        Exponent of the vector: with that of what is held, it bounds the sums.
    held : In(array of ``bounds`` times unsigned(8))
    offset : In(signed(SCALE_BITS))
        What to take from the sum of both: the biases, F, the point of the products, and the
        exponents of the two tensors.
    poison : In(lanes)
        The lanes that are to be NaN, with ``sums``.
    o : Out({"to": sinks, "part": range(parts), "floats": array of ``lanes`` times unsigned(32)})
        ``to``: ``sink`` of the word.
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
        late: bool = False,
    ):
        require_int("lanes", lanes, 1, 32)
        require_int("sum_bits", sum_bits, 2, 63)
        divisors = tuple(count for count in range(1, lanes + 1) if lanes % count == 0)
        require_choice("bounds", bounds, divisors)
        require_int("sinks", sinks, 1, 4)
        require_int("parts", parts, 1, 32)
        self.lanes, self.sum_bits, self.bounds = lanes, sum_bits, bounds
        self.sinks, self.poisonable, self.mantissa = sinks, poisonable, mantissa
        self.parts, self.late = parts, late
        own = signed(sum_bits) if mantissa is None else float_layout(mantissa).size
        floats = data.ArrayLayout(unsigned(32), lanes)
        members = {
            "sink": In(sinks),
            "sums": In(data.ArrayLayout(own, lanes)),
            "stream": In(8),
            "held": In(data.ArrayLayout(unsigned(8), bounds)),
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
            m.d.comb += scales[-1].eq(self.stream + self.held[number] - self.offset)
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
        """What a lane takes for a scale, as many cycles later as it takes it after the sum."""
        top = data_register(signed(TOP_BITS), name=f"top_{number}")
        if not self.late:
            first = data_register(signed(SCALE_BITS), name=f"late_scale_{number}")
            m.d.sync += first.eq(scale)
            scale = first
        m.d.sync += top.eq(top_exponent(sum_bits, scale))
        return top

    def _integer(self, m, number, bits, scale):
        """A float as an integer of its significant bits, and what that is to be scaled by."""
        mantissa = self.mantissa
        assert mantissa is not None
        fraction, exponent = bits[:mantissa], bits[mantissa:-1]
        magnitude = Signal(signed(mantissa + 2), name=f"magnitude_{number}")
        total = Signal(signed(mantissa + 2), name=f"total_{number}")
        own = Signal(signed(SCALE_BITS), name=f"own_scale_{number}")
        shift = exponent
        if self.late:
            shift = data_register(len(exponent), name=f"late_exponent_{number}")
            m.d.sync += shift.eq(exponent)
        m.d.comb += [
            magnitude.eq(Cat(fraction, exponent.any())),
            total.eq(Mux(bits[-1], -magnitude, magnitude)),
            own.eq(scale + shift - (1 + mantissa)),
        ]
        return total, own
