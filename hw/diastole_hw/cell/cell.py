"""The fMAC: a cell that holds a B x B block and multiplies the block by one vector per slot."""

from contextlib import nullcontext
from itertools import product

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.cell.align import AlignAdd, low_bits
from diastole_hw.cell.block_sum import BlockSum
from diastole_hw.cell.cell_shape import EAST, NORTH, CellShape
from diastole_hw.cell.combine_marks import CombineMarks
from diastole_hw.cell.dsp_products import DspProducts
from diastole_hw.cell.layouts import (
    control_layout,
    stationary_layout,
    sum_layout,
    vector_layout,
    vector_marks_layout,
)
from diastole_hw.cell.stationary_buffer import StationaryBuffer
from diastole_hw.data_registers import KEEP
from diastole_sim.spec.numerics import MAX_ACCUMULATOR_BITS
from diastole_sim.spec.require import require_int


class Cell(wiring.Component):
    """Multiply the stationary block S by one vector per cycle, in the direction of the slot::

        south to east:  psum[b] = psum_west[b]  + aligned(sum over a of south[a] * S[a, b])
        west to north:  psum[a] = psum_south[a] + aligned(sum over b of west[b] * S[a, b])

    A slot is the place of one vector, with its direction, in the stream through the array. A lane
    is one of the B sums.

    A product of two elements is rounded to the window, if the shape has a window
    (:class:`diastole_hw.cell.multiplier.Multiplier`). With ``significands``, the sum is multiplied
    by the significand of the vector and by the significand of the stationary block or lane.
    ``aligned`` shifts by d and rounds (:class:`diastole_hw.cell.align.AlignAdd`). The shift d is
    the deficit of the vector plus the deficit of the stationary block or lane in the slot's
    direction. A block sum with an operand of ``nonzero`` 0 adds nothing, whatever the elements are.

    ``psum.inexact`` is set by the incoming flag. The flag is also set if vector and block (in a
    lane: vector and lane) are non-zero and d > F. With ``extents``, the flag is also set if the
    vector is non-zero, neither extent is 0, and the extents add up to more than w. ``psum.poison``
    of a lane is set by the incoming bit, the bit of the vector, or the bit of the stationary lane.
    In an empty slot, sums and ``poison`` have no meaning.

    Timing: vector and control of a slot arrive in cycle j, and are at ``north``, ``east`` and
    ``control_east`` in j + 1. The incoming partial sum is read in j + ``shape.stages``, and
    ``psum`` has the result one cycle later. If the shape adds in ``halves``, these cycles hold for
    the :func:`diastole_hw.cell.align.low_bits` low bits of sums and for the members beside the
    sums. The upper bits are read and output a cycle later. The cell takes one slot per cycle, with
    directions mixed in any way. A slot has one direction, and a single vector register and a single
    sum register serve the outputs of the two directions. ``control.swap`` and ``load`` act as in
    :class:`diastole_hw.cell.stationary_buffer.StationaryBuffer`: ``swap`` in cycle j is for the
    slots from j + 1 on. If the shape has ``input_cycles``, the cell uses vectors, control and
    words a cycle after they arrive. All three inputs have an equal delay, and the relation of
    ``swap`` to the slots stays.

    Parameters
    ----------
    shape : CellShape
        With a single direction, the direction of the control is ignored, and members of the absent
        direction are left out.
    psum_bits : int
        Bits of a partial sum, SW + F to 63. No block sum may need more than SW bits, and no partial
        sum more than ``psum_bits``. Neither is checked.

    Members
    -------
    control, control_east : In, Out(control_layout(shape))
    load, load_north : In, Out(stationary_layout(shape))
    south, north : In, Out(vector_layout(shape, shape.south))
    west, east : In, Out(vector_layout(shape, shape.west))
    psum_west, psum_south, psum : In, In, Out(sum_layout(block, psum_bits, shape.poison))

    ValueError if out of range. Source: the design's cell, array and aligned accumulation.
    """

    def __init__(self, *, shape: CellShape, psum_bits: int):
        least = shape.sum_bits + shape.fraction
        require_int("psum_bits", psum_bits, least, MAX_ACCUMULATOR_BITS)
        self.shape, self.psum_bits = shape, psum_bits
        stationary = stationary_layout(shape)
        sums = sum_layout(shape.block, psum_bits, shape.poison)
        members = {
            "control": In(control_layout(shape)),
            "control_east": Out(control_layout(shape)),
            "load": In(stationary),
            "load_north": Out(stationary),
            "psum": Out(sums),
        }
        if EAST in shape.directions:
            south = vector_layout(shape, shape.south)
            members |= {"south": In(south), "north": Out(south), "psum_west": In(sums)}
        if NORTH in shape.directions:
            west = vector_layout(shape, shape.west)
            members |= {"west": In(west), "east": Out(west), "psum_south": In(sums)}
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        m.submodules.stationary_buffer = stationary_buffer = StationaryBuffer(shape=self.shape)
        vector, control = self._arrive(m)
        m.d.comb += [
            stationary_buffer.load.eq(self.load),
            stationary_buffer.swap.eq(control.swap),
            self.load_north.eq(stationary_buffer.load_north),
        ]
        marks = self._combine_marks(m, vector, control.direction, stationary_buffer)
        trees, sums = [], []
        for lane in range(self.shape.block):
            trees.append(self._tree(m, lane, vector, control.direction, stationary_buffer))
            sums.append(self._block_sum(m, lane, trees[-1], marks))
        if self.shape.products_per_dsp:
            self._multiply(m, trees)
        self._add(m, sums, marks)
        return m

    def _arrive(self, m):
        """Return the slot's vector, in the wider format, and the slot's control, in the cycle of
        the multiplication. Pass vector and control on to the neighbours."""
        shape = self.shape
        # Keep the copies apart: a tool that merges the copies makes one register drive a thousand
        # gates.
        control = Signal(self.control.shape(), attrs=KEEP if shape.direction_copies > 1 else None)
        m.d.sync += control.swap.eq(self.control.swap)
        m.d.comb += self.control_east.eq(control)
        vector = Signal(vector_layout(shape, shape.vector_element))
        hop = Signal(vector.shape(), reset_less=True)
        m.d.sync += hop.eq(vector)
        if shape.has_both_directions:
            m.d.sync += control.direction.eq(self.control.direction)
        if EAST in shape.directions:
            self._copy(m, vector, shape.vector_element, self.south, shape.south)
            self._copy(m, self.north, shape.south, hop, shape.vector_element)
        if NORTH in shape.directions:
            self._from_west(m, vector)
            self._copy(m, self.east, shape.west, hop, shape.vector_element)
        return (hop, control) if shape.input_cycles else (vector, self.control)

    def _from_west(self, m, vector):
        """Select the vector from the west in slots to the north."""
        shape, kinds = self.shape, (self.shape.vector_element, self.shape.west)
        direction = self.control.direction
        with (
            m.If(self._direction_copy(direction, 0)) if shape.has_both_directions else nullcontext()
        ):
            self._copy(m, vector, kinds[0], self.west, kinds[1])
        for k in range(shape.block if shape.direction_copies > 1 else 0):
            with m.If(self._direction_copy(direction, k)):
                self._copy_element(m, vector, kinds[0], self.west, kinds[1], k)
            with m.Else():
                self._copy_element(m, vector, kinds[0], self.south, shape.south, k)

    def _direction_copy(self, direction, load: int):
        """Return the copy of the slot's direction that drives the load with number ``load``."""
        return direction[load % self.shape.direction_copies]

    def _copy(self, m, target, target_element, source, source_element):
        for name in vector_marks_layout(self.shape).members:
            m.d.comb += target[name].eq(source[name])
        for k in range(self.shape.block):
            self._copy_element(m, target, target_element, source, source_element, k)

    def _copy_element(self, m, target, target_element, source, source_element, k):
        resized = self.shape.resized(source.elements[k], source_element, target_element)
        m.d.comb += target.elements[k].eq(resized)

    def _combine_marks(self, m, vector, direction, stationary_buffer):
        """Return the flags, shifts and scales of a slot for the lanes, by cycle of the work. Index
        0 is the cycle of the multiplication."""
        m.submodules.combine_marks = marks = CombineMarks(shape=self.shape)
        m.d.comb += [
            marks.direction.eq(self._direction_copy(direction, -1)),
            marks.block.eq(stationary_buffer.marks),
        ]
        for name in marks.vector.shape().members:
            m.d.comb += marks.vector[name].eq(vector[name])
        layout = data.StructLayout({"lanes": marks.lane_marks.shape(), "direction": 1})
        stages = [Signal(layout, name="slot_marks")]
        m.d.comb += [
            stages[0].lanes.eq(marks.lane_marks),
            stages[0].direction.eq(direction[0]),
        ]
        for number in range(self.shape.multiply_add_cycles + self.shape.halves):
            stage = Signal(layout, name=f"slot_marks_{number}", reset_less=True)
            m.d.sync += stage.eq(stages[-1])
            stages.append(stage)
        return stages

    def _tree(self, m, lane, vector, direction, stationary_buffer):
        """Make the multipliers and the adder tree of a lane."""
        shape = self.shape
        m.submodules[f"tree_{lane}"] = tree = BlockSum(
            block=shape.block,
            vector_element=shape.vector_element,
            stationary_element=shape.stationary,
            window=shape.window,
            exact=shape.exact,
            sum_bits=shape.tree_bits,
            cut=shape.tree_cut,
            dsp=shape.products_per_dsp > 0,
        )
        m.d.comb += tree.vector.eq(vector.elements)
        for k in range(shape.block):
            down, along = stationary_buffer.elements[k][lane], stationary_buffer.elements[lane][k]
            if shape.has_both_directions:
                north = self._direction_copy(direction, 2 * lane + k % 2)
                m.d.comb += tree.stationary[k].eq(Mux(north, along, down))
            else:
                m.d.comb += tree.stationary[k].eq(along if NORTH in shape.directions else down)
        return tree

    def _multiply(self, m, trees):
        """Multiply significands in DSP blocks, an element of the vector by elements of several
        lanes each."""
        shape, count = self.shape, self.shape.products_per_dsp
        for first, k in product(range(0, shape.block, count), range(shape.block)):
            lanes = trees[first : first + count]
            m.submodules[f"dsp_{first}_{k}"] = dsp = DspProducts(
                vector_element=shape.vector_element,
                stationary_element=shape.stationary,
                count=len(lanes),
            )
            m.d.comb += dsp.vector.eq(lanes[0].vector[k])
            for n, tree in enumerate(lanes):
                m.d.comb += [
                    dsp.stationary[n].eq(tree.stationary[k]),
                    tree.products[k].eq(dsp.products[n]),
                ]

    def _block_sum(self, m, lane, tree, stages):
        """Return a lane's register of the block sum, multiplied by the scales if scales have
        significands."""
        shape = self.shape
        register = Signal(signed(shape.sum_bits), name=f"block_sum_{lane}", reset_less=True)
        scaled = tree.block_sum
        if shape.scale_registers:
            scaled = Signal(signed(shape.tree_bits), name=f"unscaled_{lane}", reset_less=True)
            m.d.sync += scaled.eq(tree.block_sum)
        if shape.significands:
            scales = stages[shape.multiply_add_cycles - 1 - shape.halves].lanes.scales
            scaled = scaled * scales[lane % len(scales)]
        m.d.sync += register.eq(scaled)
        return register

    def _add(self, m, sums, stages):
        """Add the aligned block sums to the incoming partial sums."""
        shape, stage = self.shape, stages[self.shape.multiply_add_cycles]
        shifts = stages[shape.multiply_add_cycles - shape.halves].lanes.shifts
        incoming = self._incoming_sums(m, stages)
        psum = Signal(self.psum.shape(), reset_less=True)
        m.d.comb += self.psum.eq(psum)
        m.d.sync += psum.inexact.eq(incoming.inexact | stage.lanes.inexact)
        if shape.poison:
            m.d.sync += psum.poison.eq(incoming.poison | stage.lanes.poison)
        for lane, block_sum in enumerate(sums):
            m.submodules[f"align_{lane}"] = align = AlignAdd(
                sum_bits=shape.sum_bits,
                fraction=shape.fraction,
                psum_bits=self.psum_bits,
                halves=shape.halves,
            )
            m.d.comb += [
                align.block_sum.eq(block_sum),
                align.shift.eq(shifts[lane % shape.lanes]),
                align.psum.eq(incoming.sums[lane]),
            ]
            m.d.sync += psum.sums[lane].eq(align.total)

    def _incoming_sums(self, m, stages):
        """Return the incoming partial sums, from the side of the slot's direction."""
        shape, stage = self.shape, stages[self.shape.multiply_add_cycles]
        incoming = Signal(self.psum.shape())
        if EAST in shape.directions:
            m.d.comb += incoming.eq(self.psum_west)
        if NORTH in shape.directions:
            with m.If(stage.direction) if shape.has_both_directions else nullcontext():
                m.d.comb += incoming.eq(self.psum_south)
        if shape.has_both_directions and shape.halves:
            low = low_bits(self.psum_bits)
            for part, slot in ((slice(low), stage), (slice(low, None), stages[-1])):
                for lane in range(shape.block):
                    south, west = (
                        each.sums[lane][part] for each in (self.psum_south, self.psum_west)
                    )
                    selected = Mux(slot.direction, south, west)
                    m.d.comb += incoming.sums[lane][part].eq(selected)
        return incoming
