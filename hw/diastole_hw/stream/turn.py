"""A B x B register array that turns blocks: vectors go in as rows and come out as columns."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_sim.spec.check import require_int


class Turn(wiring.Component):
    """Transpose a stream of B x B blocks: input vector r of a block is its row r, output vector c
    its column c.

    The array shifts downwards while one block enters, to the right while the next one does, so that
    a block leaves at the far side as columns while its successor enters as rows.

    Timing: one vector per cycle in and out, as long as blocks follow each other; the first column
    of a block can leave in the cycle after that of its last row, so latency is B cycles. In the
    cycles in which a block's successor enters, a column leaves when a row comes and the other way
    round: ``o.valid`` is combinational from ``i.valid``, ``i.ready`` from ``o.ready``. If no vector
    waits in the cycle in which the first column is taken, the block leaves alone, and the input
    waits until its last column has left. ``level`` is a function of registers only.

    Parameters
    ----------
    side, width : int
        B (1 to 32); of an element in bits (1 to 64).

    Members
    -------
    i, o : In, Out(stream of array of ``side`` unsigned(width))
    level : Out(1)
        High while the array holds anything.

    ValueError if out of range.
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(self, *, side: int, width: int):
        require_int("side", side, 1, 32)
        require_int("width", width, 1, 64)
        self.side, self.width = side, width
        vector = data.ArrayLayout(unsigned(width), side)
        super().__init__(
            {
                "i": In(stream.Signature(vector)),
                "o": Out(stream.Signature(vector)),
                "level": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        side = self.side
        cells = [
            [Signal(self.width, name=f"cell_{r}_{c}") for c in range(side)] for r in range(side)
        ]
        step = Signal(range(side))
        rightwards = Signal()  # direction in which this phase shifts
        full = Signal()  # the array holds a whole block at the start of this phase
        entering = Signal()  # this phase takes a block in; chosen at its first step
        inserts = Signal()
        shift = Signal()

        m.d.comb += [
            inserts.eq(Mux((step == 0) & full, self.i.valid, entering | ~full)),
            self.o.valid.eq(full & (~inserts | self.i.valid)),
            self.i.ready.eq(inserts & (~full | self.o.ready)),
            shift.eq(Mux(inserts, self.i.valid, 1) & (~full | self.o.ready) & (inserts | full)),
            self.level.eq(full | (step != 0)),
        ]
        # A vector enters reversed, so that what leaves first is element 0 of every vector.
        for k in range(side):
            bottom, right = cells[side - 1][side - 1 - k], cells[side - 1 - k][side - 1]
            m.d.comb += self.o.payload[k].eq(Mux(rightwards, right, bottom))
        with m.If(shift):
            with m.If(step == 0):
                m.d.sync += entering.eq(inserts)
            for r in range(side):
                for c in range(side):
                    above = cells[r - 1][c] if r else self.i.payload[side - 1 - c]
                    left = cells[r][c - 1] if c else self.i.payload[side - 1 - r]
                    m.d.sync += cells[r][c].eq(Mux(rightwards, left, above))
            m.d.sync += step.eq(step + 1)
            with m.If(step == side - 1):
                m.d.sync += [step.eq(0), full.eq(inserts), rightwards.eq(~rightwards)]
        return m
