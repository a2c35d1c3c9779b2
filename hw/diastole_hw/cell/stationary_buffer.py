"""Double buffer of a cell: the active block, and the shadow block that is being loaded."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.cell.cell_shape import EAST, NORTH, CellShape
from diastole_hw.cell.layouts import stationary_layout
from diastole_hw.cell.packed import pack, packed_bits
from diastole_sim.spec.formats import SCALE_SIGNIFICAND_BITS


def block_marks_layout(shape: CellShape) -> data.StructLayout:
    """Return the layout of the marks of a stationary block. Members of absent features are left
    out.

    ``nonzero``, ``significand`` and ``deficit_north`` are arrays with an entry for the block, or an
    entry per lane for the north direction. The east direction uses the entry of lane 0. ``extent``
    is the largest extent of the words that are not zero. ``poison_east`` and ``poison_north`` have
    a bit per lane.
    """
    members = {"nonzero": data.ArrayLayout(unsigned(1), shape.lanes)}
    if EAST in shape.directions:
        members["deficit_east"] = unsigned(shape.deficit_bits)
    if NORTH in shape.directions:
        members["deficit_north"] = data.ArrayLayout(unsigned(shape.deficit_bits), shape.lanes)
    if shape.significands:
        members["significand"] = data.ArrayLayout(unsigned(SCALE_SIGNIFICAND_BITS), shape.lanes)
    if shape.extents:
        members["extent"] = unsigned(shape.extent_bits)
    if shape.poison:
        members |= {f"poison_{name}": unsigned(shape.block) for name in shape.directions}
    return data.StructLayout(members)


class StationaryBuffer(wiring.Component):
    """Hold a block while the next block is loaded, and pass on the words for other cells.

    Timing: a word with ``row`` 0 in cycle j is in the shadow block from cycle j + 1 on. A word with
    another ``row`` is sent to ``load_north`` in cycle j + 1, with ``row`` less 1. ``swap`` in cycle
    j makes the shadow block, as stored in cycle j, the active block from j + 1 on. A word that
    arrives together with ``swap`` belongs to the block after the swapped block. Blocks start
    undefined. ``extent`` and ``poison_east`` of a block restart with the word of index 0. If the
    shape has ``input_cycles``, words are stored a cycle later, and a word of cycle j is ready
    for a swap from j + 2 on.

    Parameters
    ----------
    shape : CellShape

    Members
    -------
    load, load_north : In, Out(stationary_layout(shape))
        At ``load_north``, the deficit of an absent direction is 0.
    swap : In(1)
    elements : Out(B rows (a) of B packed elements (b))
        Elements of the active block.
    marks : Out(block_marks_layout(shape))
        Marks of the active block.
    """

    def __init__(self, *, shape: CellShape):
        self.shape = shape
        word = stationary_layout(shape)
        row = data.ArrayLayout(unsigned(packed_bits(shape.stationary)), shape.block)
        super().__init__(
            {
                "load": In(word),
                "load_north": Out(word),
                "swap": In(1),
                "elements": Out(data.ArrayLayout(row, shape.block)),
                "marks": Out(block_marks_layout(shape)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        shape, word, addressed = self.shape, self.load, Signal()
        m.d.comb += addressed.eq(word.valid & (word.row == 0))
        self._forward(m)
        if shape.input_cycles:
            word, addressed_input = self.load_north, addressed
            addressed = Signal(name="addressed_registered")
            m.d.sync += addressed.eq(addressed_input)
        at = [addressed & (word.index == index) for index in range(shape.block)]
        packed = Cat(*(pack(shape.stationary, element) for element in word.elements))
        for index, write in enumerate(at):
            self._store(m, f"row_{index}", packed, write, self.elements[index])
        for name in ("nonzero", "deficit_north", "significand"):
            lanes = self.marks[name] if name in self.marks.shape().members else ()
            for lane, active in enumerate(lanes):
                write = at[lane] if shape.lanes > 1 else addressed
                self._store(m, f"{name}_{lane}", word[name], write, active)
        if EAST in shape.directions:
            self._store(m, "deficit_east", word.deficit_east, addressed, self.marks.deficit_east)
        if shape.extents:
            self._store_extent(m, word, addressed)
        if shape.poison:
            self._store_poison(m, word, addressed, at)
        return m

    def _register_pair(self, m, name, active):
        """Make the active and the shadow register of the output ``active``. Return the shadow
        register, which the caller writes."""
        shadow = Signal(len(active), name=f"shadow_{name}", reset_less=True)
        register = Signal(len(active), name=f"active_{name}", reset_less=True)
        with m.If(self.swap):
            m.d.sync += register.eq(shadow)
        m.d.comb += active.eq(register)
        return shadow

    def _store(self, m, name, value, write, active):
        shadow = self._register_pair(m, name, Value.cast(active))
        with m.If(write):
            m.d.sync += shadow.eq(value)

    def _store_extent(self, m, word, addressed):
        shadow = self._register_pair(m, "extent", self.marks.extent)
        extent = Signal(len(shadow), name="word_extent")
        m.d.comb += extent.eq(word.extent & word.nonzero.replicate(len(extent)))
        with m.If(addressed & ((word.index == 0) | (extent > shadow))):
            m.d.sync += shadow.eq(extent)

    def _store_poison(self, m, word, addressed, at):
        if EAST in self.shape.directions:
            shadow = self._register_pair(m, "poison_east", self.marks.poison_east)
            with m.If(addressed):
                m.d.sync += shadow.eq(word.poison | Mux(word.index == 0, 0, shadow))
        if NORTH in self.shape.directions:
            for lane, write in enumerate(at):
                active = self.marks.poison_north[lane]
                self._store(m, f"poison_north_{lane}", word.poison.any(), write, active)

    def _forward(self, m):
        word, north = self.load, self.load_north
        absent = {f"deficit_{name}" for name in (EAST, NORTH) if name not in self.shape.directions}
        for name in word.shape().members:
            if name in {"row", "valid"} | absent:
                continue
            hop = Signal(word[name].shape(), name=f"hop_{name}", reset_less=True)
            m.d.sync += hop.eq(word[name])
            m.d.comb += north[name].eq(hop)
        hop_row = Signal(len(word.row), reset_less=True)
        hop_valid = Signal()
        m.d.sync += [hop_row.eq(word.row - 1), hop_valid.eq(word.valid & (word.row != 0))]
        m.d.comb += [north.row.eq(hop_row), north.valid.eq(hop_valid)]
