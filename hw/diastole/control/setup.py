"""From a decoded command to the product that the controller runs: pitches, addresses, sizes."""

from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole.control.descriptors import PRODUCT, Mode
from diastole.plan import ADDRESS_BITS, GROUP, MAX_ELEMENT_BITS, Plan

SIZE = unsigned(MAX_ELEMENT_BITS)
ADDRESS = unsigned(ADDRESS_BITS)

# What a product command says: sizes in elements, byte addresses of images and results.
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


class Setup(wiring.Component):
    """Compute ``product`` for ``mode`` and ``operands``, both stable from ``start`` on.

    Timing: ``done`` is high from MAX_ELEMENT_BITS + 2 cycles after ``start`` at the latest, until
    the next ``start``: as many cycles as the larger of M and K has bits in blocks, and two more.
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
        if plan.in_place:
            m.d.comb += self.fits.eq(
                (blocks["n"] <= plan.fused_blocks_n) & (blocks["m"] <= plan.fused_blocks_m)
            )
        m.d.sync += product.mode.eq(self.mode)

        # Rows and columns of X, W and dY; row_max stands behind rows * pitch bytes of blocks.
        busy = Signal()
        sides = (("m", "k", given.x), ("k", "n", given.w), ("m", "n", given.dy))
        factors = []
        for cls, (rows, cols, base) in enumerate(sides):
            tensor = product.tensors[cls]
            pitch = Signal(32, name=f"pitch_{cls}")
            factor = Signal(MAX_ELEMENT_BITS, name=f"factor_{cls}")
            addend = Signal(ADDRESS_BITS, name=f"addend_{cls}")
            groups = (blocks[cols] + (GROUP - 1)) >> (GROUP.bit_length() - 1)
            m.d.comb += pitch.eq(groups * (plan.group_beats(cls) * plan.beat_bytes))
            with m.If(self.start):
                m.d.sync += [factor.eq(blocks[rows]), addend.eq(pitch)]
                m.d.sync += [tensor.base.eq(base), tensor.pitch.eq(pitch), tensor.row_max.eq(base)]
            with m.Elif(busy):
                m.d.sync += [factor.eq(factor >> 1), addend.eq(addend << 1)]
                with m.If(factor[0]):
                    m.d.sync += tensor.row_max.eq(tensor.row_max + addend)
            padded = self._beats(blocks[rows])
            m.d.sync += tensor.col_max.eq(tensor.row_max + padded)
            factors.append(factor)
        ready = Signal()
        m.d.comb += ready.eq((factors[0] | factors[1] | factors[2]) == 0)
        with m.If(self.start):
            m.d.sync += [busy.eq(1), self.done.eq(0)]
        with m.Elif(busy & ready):
            m.d.sync += [busy.eq(0), self.done.eq(1)]
        self._sizes(m, blocks)
        return m

    def _beats(self, bytes_):
        mask = self.plan.beat_bytes - 1
        return (bytes_ + mask) & ~mask & ((1 << (len(bytes_) + 1)) - 1)

    def _result(self, m, result, base, rows, cols):
        given = self.operands
        m.d.sync += [
            result.base.eq(base),
            result.rows.eq(given[rows]),
            result.cols.eq(given[cols]),
            result.pitch.eq(self._beats(given[cols] << 2)),
        ]

    def _sizes(self, m, blocks):
        """Which dimension is streamed, which lies along the lanes, which is contracted."""
        plan, given, product = self.plan, self.operands, self.product
        axes = {Mode.FORWARD: "mnk", Mode.DX: "mkn", Mode.DW: "knm", Mode.FUSED: "knm"}
        with m.Switch(self.mode):
            for mode, (t, lanes, contraction) in axes.items():
                with m.Case(mode):
                    m.d.sync += [
                        product.t_size.eq(given[t]),
                        product.t_blocks.eq(blocks[t]),
                        product.l_blocks.eq(blocks[lanes]),
                        product.c_blocks.eq(blocks[contraction]),
                    ]
                    if mode == Mode.FORWARD:
                        self._result(m, product.east, given.y, "m", "n")
                    elif mode == Mode.DX and not plan.in_place:
                        self._result(m, product.east, given.dx, "m", "k")
                    elif mode != Mode.DX:
                        self._result(m, product.east, given.dw, "k", "n")
                    if mode in (Mode.DX, Mode.FUSED):
                        self._result(m, product.north, given.dx, "m", "k")
