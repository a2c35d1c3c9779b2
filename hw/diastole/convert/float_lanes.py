"""B lanes from accumulated sums to floats, and the pipeline that carries their valid bit."""

from itertools import pairwise

from amaranth.hdl import Cat, Module, Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole.convert.to_float import ToFloat
from diastole.emit.place import place
from diastole_sim.check import require_int

SCALE_BITS = 12


class FloatLanes(wiring.Component):
    """Make floats of the words that a memory shows, one word per cycle, all stages or none.

    ``read_valid`` with ``advance``: the memory is read in this cycle; in the next, ``sums`` are its
    word, and ``stream`` and ``held`` the two exponents whose sum bounds it, held until ``advance``:
    that of the vector, and that of every lane. ``offset`` is what to take from their sum: both
    biases, F, the point of the products, and the exponents of the two tensors.
    ``poison``: the lanes that are to be NaN.

    Timing: 1 + ToFloat.latency cycles; ``advance`` is low while ``o`` is not taken.

    Parameters: ``lanes`` B (1 to 32); ``sum_bits`` W (2 to 63); ``bounds``: whether the lanes have
    one exponent (1) or one each (B); ``poisonable``: whether there is a member ``poison``.
    """

    o: stream.Interface

    def __init__(self, *, lanes: int, sum_bits: int, bounds: int = 1, poisonable: bool = False):
        require_int("lanes", lanes, 1, 32)
        require_int("sum_bits", sum_bits, 2, 63)
        self.lanes, self.sum_bits = lanes, sum_bits
        self.bounds, self.poisonable = bounds, poisonable
        members = {
            "read_valid": In(1),
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
        valid = [self.read_valid] + [Signal(name=f"valid_{k}") for k in range(1, depth + 1)]
        for before, after in pairwise(valid):
            with m.If(self.advance):
                m.d.sync += after.eq(before)
        overflows = Signal(self.lanes)
        m.d.comb += [
            self.o.valid.eq(valid[-1]),
            self.advance.eq(~valid[-1] | self.o.ready),
            self.busy.eq(Cat(*valid).any()),
            self.overflow.eq(valid[-1] & overflows.any()),
        ]
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
                lane.scale.eq(scales[number % self.bounds]),
                self.o.payload[number].eq(lane.result),
                overflows[number].eq(lane.overflow),
            ]
            if self.poisonable:
                m.d.comb += lane.poison.eq(self.poison[number])
        return m
