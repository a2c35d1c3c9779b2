"""From a decoded command to the product that the controller runs: pitches, addresses, sizes."""

from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole.control.descriptors import PRODUCT
from diastole.plan import ADDRESS_BITS, GROUP, MAX_ELEMENT_BITS, Plan
from diastole.uses import DY, PRODUCTS, Mode, W, X

SIZE = unsigned(MAX_ELEMENT_BITS)
ADDRESS = unsigned(ADDRESS_BITS)

# What a product command says: sizes in elements, byte addresses of images and results. A tensor in
# vector groups has two images; each address is that of the one which the product reads.
OPERANDS = data.StructLayout(
    {
        "m": SIZE,
        "n": SIZE,
        "k": SIZE,
        "x": ADDRESS,
        "w": ADDRESS,
        "dy": ADDRESS,
        "dw": ADDRESS,  # results, by name
        "dx": ADDRESS,
        "y": ADDRESS,
    }
)
_SIDES = {X: ("m", "k"), W: ("k", "n"), DY: ("m", "n")}
"""Rows and columns of the tensors."""
_TRANSPOSED = {X: (Mode.DW, Mode.FUSED), W: (Mode.FORWARD,), DY: (Mode.DW,)}
"""The modes that read the image of the transposed tensor, of a class that has two."""
_RESULTS = {Mode.FORWARD: ("y", "m", "n"), Mode.DX: ("dx", "m", "k"), Mode.DW: ("dw", "k", "n")}
"""What a product makes, its rows and columns."""


class Setup(wiring.Component):
    """Compute ``product``, its exponents apart, for ``mode`` and ``operands``, both stable from
    ``start`` on.

    Timing: ``done`` is high from MAX_ELEMENT_BITS + 2 cycles after ``start`` at the latest, until
    the next ``start``: as many cycles as the largest of M, N and K has bits in blocks, and two
    more.
    ``fits`` (combinational): the fused backward pass has room for dY.
    """

    product: data.View
    operands: data.View

    def __init__(self, plan: Plan):
        self.plan = plan
        super().__init__(
            {
                "start": In(1),
                "mode": In(Mode),
                "operands": In(OPERANDS),
                "fits": Out(1),
                "done": Out(1),
                "product": Out(PRODUCT),
            }
        )

    def elaborate(self, platform):
        m = Module()
        plan, given, product = self.plan, self.operands, self.product
        blocks = {}
        for name in "mnk":
            blocks[name] = Signal(MAX_ELEMENT_BITS, name=f"blocks_{name}")
            size = given[name]
            m.d.comb += blocks[name].eq((size + (plan.block - 1)) >> plan.log_block)
        if plan.fused:
            m.d.comb += self.fits.eq(
                (blocks["n"] <= plan.fused_blocks_n) & (blocks["m"] <= plan.fused_blocks_m)
            )
        m.d.sync += product.mode.eq(self.mode)
        busy = Signal()
        factors = [
            self._locate(m, cls, base, blocks, busy)
            for cls, base in ((X, given.x), (W, given.w), (DY, given.dy))
        ]
        ready = Signal()
        m.d.comb += ready.eq((factors[0] | factors[1] | factors[2]) == 0)
        with m.If(self.start):
            m.d.sync += [busy.eq(1), self.done.eq(0)]
        with m.Elif(busy & ready):
            m.d.sync += [busy.eq(0), self.done.eq(1)]
        self._sizes(m, blocks)
        return m

    def _locate(self, m, cls, base, blocks, busy):
        """Pitch and addresses of an image; row_max stands behind rows * pitch bytes of blocks.

        Returns what is left of the multiplication's first factor.
        """
        plan, tensor = self.plan, self.product.tensors[cls]
        rows = Signal(MAX_ELEMENT_BITS, name=f"rows_{cls}")
        cols = Signal(MAX_ELEMENT_BITS, name=f"cols_{cls}")
        pitch = Signal(32, name=f"pitch_{cls}")
        factor = Signal(MAX_ELEMENT_BITS, name=f"factor_{cls}")
        addend = Signal(ADDRESS_BITS, name=f"addend_{cls}")
        first = Signal(ADDRESS_BITS, name=f"first_{cls}")  # the first block
        groups = (cols + (GROUP - 1)) >> (GROUP.bit_length() - 1)
        height, width = _SIDES[cls]
        m.d.comb += [rows.eq(blocks[height]), cols.eq(blocks[width])]
        if plan.grouped(cls):
            with m.Switch(self.mode):
                with m.Case(*_TRANSPOSED[cls]):
                    m.d.comb += [rows.eq(blocks[width]), cols.eq(blocks[height])]
        m.d.comb += [
            pitch.eq(groups * (plan.group_beats(cls) * plan.beat_bytes)),
            first.eq(base + plan.header_beats(cls) * plan.beat_bytes),
        ]
        with m.If(self.start):
            m.d.sync += [factor.eq(rows), addend.eq(pitch)]
            m.d.sync += [tensor.base.eq(first), tensor.pitch.eq(pitch), tensor.row_max.eq(first)]
        with m.Elif(busy):
            m.d.sync += [factor.eq(factor >> 1), addend.eq(addend << 1)]
            with m.If(factor[0]):
                m.d.sync += tensor.row_max.eq(tensor.row_max + addend)
        if not plan.grouped(cls):  # else there are no maxima of columns
            m.d.sync += tensor.col_max.eq(tensor.row_max + self._beats(rows))
        return factor

    def _beats(self, bytes_):
        mask = self.plan.beat_bytes - 1
        return (bytes_ + mask) & ~mask & ((1 << (len(bytes_) + 1)) - 1)

    def _result(self, m, result, name, rows, cols):
        given = self.operands
        m.d.sync += [
            result.base.eq(given[name]),
            result.rows.eq(given[rows]),
            result.cols.eq(given[cols]),
            result.pitch.eq(self._beats(given[cols] << 2)),
        ]

    def _sizes(self, m, blocks):
        """Which dimension is streamed, which lies along the lanes, which is contracted."""
        plan, product = self.plan, self.product
        with m.Switch(self.mode):
            for mode in PRODUCTS:
                use = plan.use(mode)
                with m.Case(mode):
                    m.d.sync += self._walked(blocks, use)
                    m.d.sync += product.north.eq(use.north)
                    side = product.to_north if use.north else product.to_east
                    self._result(m, side, *_RESULTS[mode])
            if plan.fused:
                with m.Case(Mode.FUSED):
                    m.d.sync += self._walked(blocks, plan.use(Mode.DW))
                    m.d.sync += product.north.eq(0)
                    self._result(m, product.to_east, *_RESULTS[Mode.DW])
                    self._result(m, product.to_north, *_RESULTS[Mode.DX])

    def _walked(self, blocks, use):
        """Sizes along the dimensions of a use."""
        product = self.product
        return [
            product.t_size.eq(self.operands[use.t]),
            product.t_blocks.eq(blocks[use.t]),
            product.l_blocks.eq(blocks[use.lanes]),
            product.c_blocks.eq(blocks[use.contraction]),
        ]
