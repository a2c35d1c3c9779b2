"""Lane of a float accumulator: round the sums of chunks to floats, and add the floats."""

from amaranth.hdl import Module, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.data_registers import data_output, data_register
from diastole_hw.memory.add_floats import AddFloats
from diastole_hw.memory.round_sum import RoundSum, float_layout


def lane_latency(*, alone: bool) -> int:
    """Return the latency of a :class:`ChunkLane` in cycles."""
    return 3 if alone else 4


class ChunkLane(wiring.Component):
    """Compute ``added`` = ``before`` + ``psum`` and ``result`` = R_p(``total`` + R_p(``added``)).

    A chunk of a single partial sum is rounded as received, without ``before``.

    Timing: one partial sum per cycle. ``before`` comes with ``psum``, and ``added`` is output in
    the next cycle. ``total`` comes ``latency`` - 2 cycles after ``psum``. ``result`` and
    ``inexact`` are output ``latency`` cycles after ``psum``. There is no valid bit: the user knows
    which outputs have a meaning.

    Parameters
    ----------
    psum_bits, sum_bits : int
        Bits of a partial sum, and bits of the sum of a chunk, 3 to 63.
    mantissa : int
        m, 2 to 23.
    alone : bool
        Every partial sum is a chunk.

    Members
    -------
    psum : In(signed(psum_bits))
    before, added : In(signed(sum_bits)), Out(signed(sum_bits))
        Absent with ``alone``. A sum of more bits wraps. Not checked.
    total, result : In(float_layout(mantissa)), Out(float_layout(mantissa))
    inexact : Out(1)
        A rounding on the path to ``result`` has lost a bit.
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
