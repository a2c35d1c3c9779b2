"""One lane of a float accumulator: sums of chunks, rounded and added."""

from amaranth.hdl import Module, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.data_registers import data_output, data_register
from diastole_hw.memory.add_floats import AddFloats
from diastole_hw.memory.round_sum import RoundSum, float_layout


def lane_latency(*, alone: bool) -> int:
    """Of a :class:`ChunkLane`."""
    return 3 if alone else 4


class ChunkLane(wiring.Component):
    """``added`` = ``before`` + ``psum``; ``result`` = R_p(``total`` + R_p(``added``)).

    A chunk that is one partial sum alone is rounded as it comes: then there is no ``before``.

    Timing: one partial sum per cycle. ``before`` comes with ``psum``, ``added`` is there in the
    next cycle; ``total`` comes ``latency`` - 2 cycles after ``psum``, ``result`` and ``inexact``
    after ``latency`` cycles. There is no valid bit: the user knows which of them mean something.

    Parameters
    ----------
    psum_bits, sum_bits : int
        Of a partial sum, and of that of a chunk, 3 to 63.
    mantissa : int
        m, 2 to 23.
    alone : bool
        Every partial sum is a chunk.

    Members
    -------
    psum : In(signed(psum_bits))
    before, added : In(signed(sum_bits)), Out(signed(sum_bits))
        There unless ``alone``. A sum of more bits wraps, which is not checked.
    total, result : In(float_layout(mantissa)), Out(float_layout(mantissa))
    inexact : Out(1)
        A rounding on the way to ``result`` has lost a bit.
    """

    total: data.View
    result: data.View

    def __init__(self, *, psum_bits: int, sum_bits: int, mantissa: int, alone: bool):
        self.psum_bits, self.sum_bits = psum_bits, sum_bits
        self.mantissa, self.alone = mantissa, alone
        layout = float_layout(mantissa)
        chunk = {"before": In(signed(sum_bits)), "added": Out(signed(sum_bits))}
        super().__init__(
            {
                "psum": In(signed(psum_bits)),
                "total": In(layout),
                "result": Out(layout),
                "inexact": Out(1),
            }
            | ({} if alone else chunk)
        )

    @property
    def latency(self) -> int:
        """Cycles from a partial sum to its result."""
        return lane_latency(alone=self.alone)

    def elaborate(self, platform):
        m = Module()
        one = RoundSum(sum_bits=self.sum_bits, mantissa=self.mantissa)
        both = AddFloats(mantissa=self.mantissa)
        m.submodules.round_sum = one
        m.submodules.add_floats = both
        if self.alone:
            m.d.comb += one.sum.eq(self.psum)
        else:
            added = data_output(m, self.added, "added_register")
            m.d.sync += added.eq(self.before + self.psum)
            m.d.comb += one.sum.eq(added)
        m.d.comb += [
            both.a.eq(self.total),
            both.b.eq(one.result),
            self.result.eq(both.result),
        ]
        lost = one.inexact
        for stage in ("aligned", "rounded"):
            following = data_register(name=f"inexact_{stage}")
            m.d.sync += following.eq(lost)
            lost = following
        m.d.comb += self.inexact.eq(lost | both.inexact)
        return m
