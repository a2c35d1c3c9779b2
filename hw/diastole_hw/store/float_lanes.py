"""Lanes from accumulated sums to floats, and the pipeline that carries their valid bits."""

from itertools import pairwise

from amaranth.hdl import Cat, Module, Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.place import place
from diastole_hw.store.to_float import ToFloat
from diastole_sim.spec.check import require_choice, require_int

SCALE_BITS = 12


class FloatLanes(wiring.Component):
    """Make floats of the words that a memory shows, one word per cycle, all stages or none.

    Lane n of ``o`` is the binary32 of ``sums[n]`` * 2^(``stream`` + h - ``offset``), as
    :class:`diastole_hw.store.to_float.ToFloat` has it; h is ``held[n * bounds // lanes]``. A word
    is ``vectors`` vectors side by side, some of which may mean nothing.

    Timing: ``read_valid`` with ``advance`` in cycle t says that the memory is read; what it shows
    from t + 1 on must stay until the next cycle with ``advance``. Its floats are at ``o`` after
    1 + ``ToFloat.latency`` cycles with ``advance``, t included. ``advance`` is low while a word at
    ``o`` is not taken, and then nothing moves; it is combinational from ``o.ready``. One word per
    cycle.

    Parameters
    ----------
    lanes : int
        Of a word, 1 to 32.
    sum_bits : int
        W, 2 to 63.
    vectors : int
        Vectors of a word, a divisor of ``lanes``.
    bounds : int
        Exponents of what is held, for as many lanes each: a divisor of ``lanes``.
    poisonable : bool
        Whether there is a member ``poison``.

    Members
    -------
    read_valid : In(vectors)
        The vectors that are read, 0 if there is no word. What others show means nothing.
    advance : Out(1)
    sums : In(array of ``lanes`` times signed(sum_bits))
    stream : In(8)
        Exponent of the vector: with that of what is held, it bounds the sums.
    held : In(array of ``bounds`` times unsigned(8))
    offset : In(signed(12))
        What to take from the sum of both: the biases, F, the point of the products, and the
        exponents of the two tensors. Stable while ``busy``.
    poison : In(lanes)
        The lanes that are to be NaN, with ``sums``.
    o : Out(stream of ``lanes`` times unsigned(32))
    overflow : Out(1)
        A lane of the word at ``o`` is too large, not poisoned, and of a vector that was read; high
        until it is taken.
    busy : Out(1)
        A word is being read, or on its way.

    ValueError if out of range.
    """

    o: stream.Interface

    def __init__(
        self,
        *,
        lanes: int,
        sum_bits: int,
        vectors: int = 1,
        bounds: int = 1,
        poisonable: bool = False,
    ):
        require_int("lanes", lanes, 1, 32)
        require_int("sum_bits", sum_bits, 2, 63)
        divisors = tuple(count for count in range(1, lanes + 1) if lanes % count == 0)
        require_choice("vectors", vectors, divisors)
        require_choice("bounds", bounds, divisors)
        self.lanes, self.sum_bits, self.vectors = lanes, sum_bits, vectors
        self.bounds, self.poisonable = bounds, poisonable
        members = {
            "read_valid": In(vectors),
            "advance": Out(1),
            "sums": In(data.ArrayLayout(signed(sum_bits), lanes)),
            "stream": In(8),
            "held": In(data.ArrayLayout(unsigned(8), bounds)),
            "offset": In(signed(SCALE_BITS)),
            "o": Out(stream.Signature(data.ArrayLayout(unsigned(32), lanes))),
            "overflow": Out(1),
            "busy": Out(1),
        }
        super().__init__(members | ({"poison": In(lanes)} if poisonable else {}))

    def elaborate(self, platform):
        m = Module()
        depth = 1 + ToFloat.latency
        valid = [self.read_valid]
        valid += [Signal(self.vectors, name=f"valid_{k}") for k in range(1, depth + 1)]
        for before, after in pairwise(valid):
            with m.If(self.advance):
                m.d.sync += after.eq(before)
        overflows = Signal(self.lanes)
        m.d.comb += [
            self.o.valid.eq(valid[-1].any()),
            self.advance.eq(~self.o.valid | self.o.ready),
            self.busy.eq(Cat(*valid).any()),
        ]
        parts = [overflows.word_select(k, self.lanes // self.vectors) for k in range(self.vectors)]
        too_large = [read & part.any() for read, part in zip(valid[-1], parts, strict=True)]
        m.d.comb += self.overflow.eq(too_large[0] if self.vectors == 1 else Cat(too_large).any())
        scales = []
        for number in range(self.bounds):
            name = "scale" if self.bounds == 1 else f"scale_{number}"
            scales.append(Signal(signed(SCALE_BITS), name=name))
            m.d.comb += scales[-1].eq(self.stream + self.held[number] - self.offset)
        for number in range(self.lanes):
            lane = ToFloat(
                sum_bits=self.sum_bits, scale_bits=SCALE_BITS, poisonable=self.poisonable
            )
            m.submodules[f"lane_{number}"] = place(lane, platform)
            m.d.comb += [
                lane.enable.eq(self.advance),
                lane.sum.eq(self.sums[number]),
                lane.scale.eq(scales[number * self.bounds // self.lanes]),
                self.o.payload[number].eq(lane.result),
                overflows[number].eq(lane.overflow),
            ]
            if self.poisonable:
                m.d.comb += lane.poison.eq(self.poison[number])
        return m
