"""The fMAC: a cell holds a B x B block and multiplies it by one vector per slot."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole.array.signature import (
    control_layout,
    deficit_bits,
    held_layout,
    resized,
    sum_layout,
    vector_layout,
)
from diastole.cell.align import AlignAdd
from diastole.cell.block_sum import BlockSum
from diastole.cell.hold import Hold
from diastole.emit.place import place
from diastole_sim.check import require_choice, require_int
from diastole_sim.numerics import BLOCK_SIDES


def require_cell_parameters(
    *,
    rows: int,
    block: int,
    south_bits: int,
    west_bits: int,
    held_bits: int,
    sum_bits: int,
    fraction: int,
) -> None:
    """ValueError unless a :class:`Cell` can be made of these."""
    require_int("rows", rows, 1, 64)
    require_choice("block", block, BLOCK_SIDES)
    require_int("south_bits", south_bits, 2, 8)
    require_int("west_bits", west_bits, 2, 8)
    require_int("held_bits", held_bits, 2, 8)
    require_int("sum_bits", sum_bits, 5, 22)
    require_int("fraction", fraction, 0, 32)


def pipeline_stages(product_registers: bool) -> int:
    """Cycles from a vector's arrival at a cell to the addition of its products (P)."""
    return 2 if product_registers else 1


class Cell(wiring.Component):
    """Multiply the held block S by one vector per cycle, in the direction of the slot::

        south to east:  psum[b] = psum_west[b]  + aligned(sum over a of south[a] * S[a, b])
        west to north:  psum[a] = psum_south[a] + aligned(sum over b of west[b] * S[a, b])

    ``aligned`` shifts by d, the vector's deficit plus the held block's in that direction, and
    rounds (:class:`diastole.cell.align.AlignAdd`). A block sum of which one operand has ``nonzero``
    0 adds nothing, whatever its elements. ``psum.inexact`` is the incoming flag, or set if both
    are non-zero and d > F.

    Timing: vector and control of a slot arrive in cycle j, and are at ``north``, ``east`` and
    ``control_east`` in j + 1; the incoming partial sum is read in j + ``stages``, ``psum`` has the
    result one cycle later. One slot per cycle, directions mixed in any way: one register serves
    both outputs of a vector, and one both outputs of a sum, since a slot has one direction.
    ``control.swap`` and ``load`` as in :class:`diastole.cell.hold.Hold`: ``swap`` in cycle j
    is for the slots from j + 1 on.

    Parameters
    ----------
    rows : int
        Cells above each other (1 to 64): the range of ``load.row``.
    block : int
        B, a power of two, 1 to 32.
    south_bits, west_bits, held_bits : int
        Magnitude bits of the elements, 2 to 8.
    sum_bits, psum_bits, fraction : int
        SW, bits of a partial sum, F. No block sum may need more than SW bits, no partial sum more
        than ``psum_bits``; neither is checked.
    in_place : bool
        False: from south to east only; no ``west``, ``east``, ``psum_south``, and the control's
        direction and the held word's ``deficit_north`` are ignored.
    product_registers : bool
        A register after each product, for speed.

    Members
    -------
    control, control_east : In, Out(control_layout())
    south, north, west, east : In, Out, In, Out(vector_layout(...))
    load, load_north : In, Out(held_layout(...))
    psum_west, psum_south, psum : In, In, Out(sum_layout(...))

    ValueError if out of range. Source: the design's cell, array and aligned accumulation.
    """

    def __init__(
        self,
        *,
        rows: int,
        block: int,
        south_bits: int,
        west_bits: int,
        held_bits: int,
        sum_bits: int,
        psum_bits: int,
        fraction: int,
        in_place: bool = True,
        product_registers: bool = False,
    ):
        require_cell_parameters(
            rows=rows,
            block=block,
            south_bits=south_bits,
            west_bits=west_bits,
            held_bits=held_bits,
            sum_bits=sum_bits,
            fraction=fraction,
        )
        require_int("psum_bits", psum_bits, sum_bits + fraction, 63)
        self.rows, self.block = rows, block
        self.south_bits, self.west_bits, self.held_bits = south_bits, west_bits, held_bits
        self.sum_bits, self.psum_bits, self.fraction = sum_bits, psum_bits, fraction
        self.in_place, self.product_registers = in_place, product_registers
        self.deficit_bits = deficit_bits(sum_bits, fraction)
        self.vector_bits = max(south_bits, west_bits) if in_place else south_bits
        self.stages = pipeline_stages(product_registers)
        south = vector_layout(block, south_bits, self.deficit_bits)
        held = held_layout(rows, block, held_bits, self.deficit_bits)
        sums = sum_layout(block, psum_bits)
        members = {
            "control": In(control_layout()),
            "control_east": Out(control_layout()),
            "south": In(south),
            "north": Out(south),
            "load": In(held),
            "load_north": Out(held),
            "psum_west": In(sums),
            "psum": Out(sums),
        }
        if in_place:
            west = vector_layout(block, west_bits, self.deficit_bits)
            members |= {"west": In(west), "east": Out(west), "psum_south": In(sums)}
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        hold = Hold(
            rows=self.rows,
            block=self.block,
            bits=self.held_bits,
            deficit_bits=self.deficit_bits,
            in_place=self.in_place,
        )
        m.submodules.hold = place(hold, platform)
        m.d.comb += [
            hold.load.eq(self.load),
            hold.swap.eq(self.control.swap),
            self.load_north.eq(hold.load_north),
        ]
        direction, vector = self._arrive(m)
        stage = self._align_control(m, direction, vector, hold)
        before = Signal(self.psum.shape())
        m.d.comb += before.eq(self.psum_west)
        if self.in_place:
            with m.If(stage.direction):
                m.d.comb += before.eq(self.psum_south)
        psum = Signal(self.psum.shape(), reset_less=True)
        m.d.comb += self.psum.eq(psum)
        m.d.sync += psum.inexact.eq(before.inexact | stage.inexact)
        for lane in range(self.block):
            block_sum = self._block_sum(m, platform, lane, direction, vector, hold)
            align = AlignAdd(
                sum_bits=self.sum_bits, fraction=self.fraction, psum_bits=self.psum_bits
            )
            m.submodules[f"align_{lane}"] = place(align, platform)
            m.d.comb += [
                align.block_sum.eq(block_sum),
                align.shift.eq(stage.shift),
                align.psum.eq(before.sums[lane]),
            ]
            m.d.sync += psum.sums[lane].eq(align.total)
        return m

    def _arrive(self, m):
        """The slot's direction and its vector, in the wider format; both hop on."""
        control = Signal(self.control.shape())
        vector = Signal(vector_layout(self.block, self.vector_bits, self.deficit_bits))
        hop = Signal(vector.shape(), reset_less=True)
        m.d.sync += [hop.eq(vector), control.swap.eq(self.control.swap)]
        m.d.comb += self.control_east.eq(control)
        self._copy(m, vector, self.south)
        self._copy(m, self.north, hop)
        if not self.in_place:
            return 0, vector
        m.d.sync += control.direction.eq(self.control.direction)
        with m.If(self.control.direction):
            self._copy(m, vector, self.west)
        self._copy(m, self.east, hop)
        return self.control.direction, vector

    @staticmethod
    def _copy(m, target, source):
        m.d.comb += [target.deficit.eq(source.deficit), target.nonzero.eq(source.nonzero)]
        for there, here in zip(target.elements, source.elements, strict=True):
            m.d.comb += there.eq(resized(here, len(there) - 1))

    def _align_control(self, m, direction, vector, hold):
        """Shift, ``inexact`` and direction, for the cycle of the addition."""
        layout = data.StructLayout(
            {"shift": unsigned(self.deficit_bits), "inexact": 1, "direction": 1}
        )
        stage = Signal(layout, name="arriving")
        deficit = Signal(self.deficit_bits + 1)
        meet = Signal()
        held = Mux(direction, hold.deficit_north, hold.deficit_east)
        # All ones shift a block sum out of the window: every sum of deficits beyond it, and
        # every block that is not there.
        gone = deficit[-1] | ~meet
        m.d.comb += [
            deficit.eq(vector.deficit + held),
            meet.eq(vector.nonzero & hold.nonzero),
            stage.shift.eq(deficit[:-1] | gone.replicate(self.deficit_bits)),
            stage.inexact.eq(meet & (deficit > self.fraction)),
            stage.direction.eq(direction),
        ]
        for number in range(self.stages):
            following = Signal(layout, name=f"stage_{number}", reset_less=True)
            m.d.sync += following.eq(stage)
            stage = following
        return stage

    def _block_sum(self, m, platform, lane, direction, vector, hold):
        """One lane's register of block sums."""
        tree = BlockSum(
            block=self.block,
            vector_bits=self.vector_bits,
            held_bits=self.held_bits,
            sum_bits=self.sum_bits,
            product_registers=self.product_registers,
        )
        m.submodules[f"tree_{lane}"] = place(tree, platform)
        m.d.comb += tree.vector.eq(vector.elements)
        for k in range(self.block):
            turned = Mux(direction, hold.elements[lane][k], hold.elements[k][lane])
            m.d.comb += tree.held[k].eq(turned)
        block_sum = Signal(tree.block_sum.shape(), name=f"block_sum_{lane}", reset_less=True)
        m.d.sync += block_sum.eq(tree.block_sum)
        return block_sum
