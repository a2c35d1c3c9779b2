"""The double buffer of a cell: the block that works, and the one that is being loaded."""

from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole.array.signature import held_layout


class Hold(wiring.Component):
    """Hold a block while the next one is loaded; pass on the words that are for other cells.

    Timing: a word with ``row`` 0 in cycle j is in the shadow block from cycle j + 1 on; one with
    another row leaves at ``load_north`` in cycle j + 1, its row less 1. ``swap`` in cycle j makes
    the shadow block, as it was in cycle j, the active one from j + 1 on: a word that arrives
    together with ``swap`` belongs to the block after that. Blocks start undefined.

    Parameters
    ----------
    rows, block, bits, deficit_bits : int
        As :func:`diastole.array.signature.held_layout`.
    in_place : bool
        Whether there is a deficit to the north; ``deficit_north`` is 0 everywhere if not.

    Members
    -------
    load, load_north : In, Out(held_layout(...))
    swap : In(1)
    elements : Out(B rows (a) of B elements (b))
    deficit_east, deficit_north, nonzero : Out
        Of the active block.
    """

    def __init__(self, *, rows: int, block: int, bits: int, deficit_bits: int, in_place: bool):
        self.rows, self.block, self.bits = rows, block, bits
        self.deficit_bits, self.in_place = deficit_bits, in_place
        word = held_layout(rows, block, bits, deficit_bits)
        elements = data.ArrayLayout(data.ArrayLayout(unsigned(bits + 1), block), block)
        super().__init__(
            {
                "load": In(word),
                "load_north": Out(word),
                "swap": In(1),
                "elements": Out(elements),
                "deficit_east": Out(deficit_bits),
                "deficit_north": Out(deficit_bits),
                "nonzero": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        word, mine = self.load, Signal()
        m.d.comb += mine.eq(word.valid & (word.row == 0))
        names = ["deficit_east", "nonzero"] + ["deficit_north"] * self.in_place
        self._pass_on(m, ["index", "elements", *names])
        for name in names:
            active = getattr(self, name)
            m.d.comb += active.eq(self._buffer(m, name, word[name], mine))
        for index in range(self.block):
            row = self._buffer(m, index, word.elements, mine & (word.index == index))
            m.d.comb += self.elements[index].eq(row)
        return m

    def _buffer(self, m, name, value, write):
        """Shadow and active register of one field; returns the active one."""
        shadow = Signal(value.shape(), name=f"shadow_{name}", reset_less=True)
        active = Signal(value.shape(), name=f"active_{name}", reset_less=True)
        with m.If(self.swap):
            m.d.sync += active.eq(shadow)
        with m.If(write):
            m.d.sync += shadow.eq(value)
        return active

    def _pass_on(self, m, names):
        word, north = self.load, self.load_north
        for name in names:
            hop = Signal(word[name].shape(), name=f"hop_{name}", reset_less=True)
            m.d.sync += hop.eq(word[name])
            m.d.comb += north[name].eq(hop)
        hop_row = Signal(len(word.row), reset_less=True)
        hop_valid = Signal()
        m.d.sync += [hop_row.eq(word.row - 1), hop_valid.eq(word.valid & (word.row != 0))]
        m.d.comb += [north.row.eq(hop_row), north.valid.eq(hop_valid)]
