"""Compute the record of a product from a decoded command: pitches, addresses, sizes."""

from amaranth.hdl import Array, Cat, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.data_registers import data_output, data_register
from diastole_hw.plan.modes import OPERATION_OF, PRODUCTS, Mode, product_of
from diastole_hw.plan.plan import Plan
from diastole_hw.schedule.lengths import nest_lengths, nest_slabs
from diastole_hw.schedule.tokens import (
    COMMAND_RESULTS,
    NEST_OPERANDS,
    operands_layout,
    product_layout,
)
from diastole_hw.transfer.address import AddressGenerator, whole_beats
from diastole_hw.transfer.times import times
from diastole_sim.spec import operations
from diastole_sim.spec.command_table import ADDRESS_BITS
from diastole_sim.spec.image import EXTENT_BITS, GROUP_BLOCKS
from diastole_sim.spec.nest import NestLimits
from diastole_sim.spec.operations import DW, DX, Tensor
from diastole_sim.spec.sizes.uses import DY, W, X


def transposed_modes(operand: Tensor) -> list[Mode]:
    """Return the modes that read the second image, of the transposed tensor, of a class with two
    images. (The fused pass reads only one image of dY; the class of dY must have a single
    image.)"""
    return [
        mode
        for mode, operation in OPERATION_OF.items()
        for read in operation.reads
        if read.operand == operand and read.copy == 1 and not read.second
    ]


class Setup(wiring.Component):
    """Compute ``product``, except for its exponents, from ``mode`` and ``operands``.

    Column maxima of an operand are read only if the contraction runs down its columns. The number
    of the operand's block rows is then the length of the contraction.

    Timing: ``done`` is high from b + 2 cycles after ``start`` until the cycle of the next
    ``start``. b is the number of bits of the largest number of block rows among the three images,
    as they are read, and at most EXTENT_BITS. ``product`` is registered, and valid while ``done``
    is high. Mode, sizes and base addresses of the images are valid from the cycle after
    ``start`` on, the lengths of the loop nest 1 cycle later, and fields that depend on these
    lengths another cycle later.

    Parameters
    ----------
    plan : Plan

    Members
    -------
    start : In(1)
        Pulse: forget the current set-up, and begin.
    mode : In(Mode)
    operands : In(operands_layout(plan))
        Mode and operands are read in the cycle of ``start``.
    fits : Out(1)
        dY fits in the fused backward pass, for the ``operands`` of the cycle before; 0 in a machine
        without a fused pass.
    results : Out(COMMAND_RESULTS)
        Results for the ``mode`` and ``operands`` of this cycle; combinational. Undefined for a
        direction that the mode does not use.
    done : Out(1)
    product : Out(product_layout(plan))
        Record of the product. ``exponents`` stay 0: exponents are in the headers of the images.
    """

    product: data.View
    operands: data.View
    results: data.View

    def __init__(self, plan: Plan):
        self.plan = plan
        super().__init__(
            {
                "start": In(1),
                "mode": In(Mode),
                "operands": In(operands_layout(plan)),
                "fits": Out(1),
                "results": Out(COMMAND_RESULTS),
                "done": Out(1),
                "product": Out(product_layout(plan)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        plan, operands = self.plan, self.operands
        product = data_register(
            product_layout(plan), name="stored"
        )  # all fields but the addresses ``row_max``
        m.d.comb += self.product.eq(product)
        blocks = {}
        groups = {}
        for name in "mnk":
            blocks[name] = Signal(EXTENT_BITS, name=f"blocks_{name}")
            groups[name] = Signal(EXTENT_BITS, name=f"groups_{name}")
            size, group = operands[name], GROUP_BLOCKS * plan.block
            m.d.comb += [
                blocks[name].eq((size + (plan.block - 1)) >> plan.log_block),
                groups[name].eq((size + (group - 1)) >> exact_log2(group)),
            ]
        if plan.fused:
            self._fits(m, blocks)
        busy = Signal()
        located = [
            self._locate(m, product, cls, base, blocks, groups)
            for cls, base in ((X, operands.x), (W, operands.w), (DY, operands.dy))
        ]
        ready = Signal()
        m.d.comb += ready.eq(Cat(located).all())
        with m.If(self.start):
            m.d.sync += [busy.eq(1), self.done.eq(0)]
        with m.Elif(busy & ready):
            m.d.sync += [busy.eq(0), self.done.eq(1)]
        with m.If(self.start):
            m.d.sync += product.mode.eq(self.mode)
            self._sizes(m, product, blocks)
            if plan.vector is not None:
                m.d.sync += product.chain.eq(operands.chain)
        self._nest(m, product)
        self._results(m)
        return m

    def _fits(self, m, blocks):
        """Compute whether all planes of dY, and all planes of W, fit in the fused pass."""
        plan, planes = self.plan, getattr(self.operands, "planes", None)
        most_m, most_n = plan.fused_blocks_m, plan.fused_blocks_n
        if planes is not None:
            counts, bits = range(1, 2**plan.plane_bits + 1), plan.plane_bits
            slices = [plan.fused_slices_m // count for count in counts]
            most_m = Array([count * plan.cols for count in slices])[planes[DY][:bits]]
            most_n = Array([most_n // plan.west_parts(count) for count in counts])[planes[W][:bits]]
        fits = data_output(m, self.fits, "stored_fits")
        m.d.sync += fits.eq((blocks["n"] <= most_n) & (blocks["m"] <= most_m))

    def _planes(self, m, product, cls, behind, rows, cols):
        """Compute the number of planes of a tensor and their distance: an image ends with its
        maxima."""
        bits = EXTENT_BITS + 1
        if self.plan.grouped(cls):
            entries = self._beats(rows << self.plan.log_block)
        else:
            entries = self._beats(rows) + self._beats(cols)
            bits += 1 - self.plan.log_block
        maxima = data_register(bits, name=f"maxima_{cls}")
        with m.If(self.start):
            m.d.sync += [maxima.eq(entries), product.planes[cls].eq(self.operands.planes[cls])]
        length = behind + maxima - product.tensors[cls].base
        m.d.comb += self.product.lengths[cls].eq(length)

    def _locate(self, m, product, cls, base, blocks, groups):
        """Compute pitch and addresses of an image; row_max stands behind rows * pitch bytes of
        blocks.

        Return whether the addresses are valid.
        """
        plan, tensor = self.plan, product.tensors[cls]
        rows = Signal(EXTENT_BITS, name=f"rows_{cls}")
        cols = Signal(EXTENT_BITS, name=f"cols_{cls}")
        in_row = Signal(EXTENT_BITS, name=f"groups_of_{cls}")
        pitch = Signal(32, name=f"pitch_{cls}")
        first = Signal(ADDRESS_BITS, name=f"first_{cls}")  # address of the first block
        height, width = operations.OPERANDS[cls].axes
        m.d.comb += [rows.eq(blocks[height]), cols.eq(blocks[width]), in_row.eq(groups[width])]
        if plan.grouped(cls):
            with m.Switch(self.mode):
                with m.Case(*transposed_modes(operations.OPERANDS[cls])):
                    m.d.comb += [rows.eq(blocks[width]), cols.eq(blocks[height])]
                    m.d.comb += in_row.eq(groups[height])
        layout, beat = plan.group_layouts[cls], plan.beat_bytes
        m.d.comb += [
            pitch.eq(times(in_row, layout.group_beats * beat)),
            first.eq(whole_beats(base + layout.header_beats * beat, beat)),
        ]
        m.submodules[f"behind_{cls}"] = behind = AddressGenerator(
            count_bits=EXTENT_BITS + 1 - plan.log_block, beat_bytes=plan.beat_bytes
        )
        m.d.comb += [
            behind.start.eq(self.start),
            behind.base.eq(first),
            behind.pitch.eq(pitch),
            behind.count.eq(rows),
            self.product.tensors[cls].row_max.eq(behind.address),
        ]
        with m.If(self.start):
            m.d.sync += [tensor.base.eq(first), tensor.pitch.eq(pitch)]
        if plan.planar:
            self._planes(m, product, cls, behind.address, rows, cols)
        return behind.ready

    def _beats(self, bytes_):
        mask = self.plan.beat_bytes - 1
        return (bytes_ + mask) & ~mask & ((1 << (len(bytes_) + 1)) - 1)

    def _results(self, m):
        """Select the results by direction. For a mode without a result in a direction, the last
        mode that has such a result is taken."""
        plan, operands = self.plan, self.operands
        for direction in plan.directions:
            north, result = direction == "north", self.results[direction]
            tensors = {
                mode: product_of(mode).result for mode in PRODUCTS if plan.use(mode).north == north
            }
            if plan.fused:
                tensors[Mode.FUSED] = DX if north else DW
            others = list(tensors)[:-1]
            with m.Switch(self.mode):
                for mode, tensor in tensors.items():
                    with m.Case(mode) if mode in others else m.Default():
                        m.d.comb += [
                            result.base.eq(operands[tensor.name.lower()]),
                            result.rows.eq(operands[tensor.rows]),
                            result.cols.eq(operands[tensor.columns]),
                        ]
            m.d.comb += result.pitch.eq(self._beats(result.cols << 2))

    def _nest(self, m, product):
        """Compute lengths of tiles and chunks, and the slabs of a chunk, from registered nest
        fields of the command, so that no product of two lengths depends on the command in the same
        cycle."""
        plan = self.plan
        of_modes: dict[Mode, NestLimits] = {
            mode: getattr(plan.nests, OPERATION_OF[mode].name) for mode in PRODUCTS
        }
        # As wide as the longest lengths of the machine: longer lengths have been refused before.
        longest = {
            f"nest_{name}": max(getattr(limits, field)[-1] for limits in of_modes.values())
            for name, field in (("t", "t_blocks"), ("groups", "groups"), ("chunk", "chunk"))
        }
        fields = {
            name: range(longest[name] + 1) if name in longest else self.operands[name].shape()
            for name in NEST_OPERANDS
        }
        command_nest = data_register(data.StructLayout(fields), name="command_nest")
        with m.If(self.start):
            m.d.sync += [command_nest[name].eq(self.operands[name]) for name in NEST_OPERANDS]
        most_groups = max(limits.groups[-1] for limits in of_modes.values())
        most_slices = max(limits.chunk[-1] // limits.chunk_side for limits in of_modes.values())
        groups = data_register(range(most_groups + 1), name="nest_groups")
        slices = data_register(range(most_slices + 1), name="nest_slices")
        slabs = nest_slabs(m, list(of_modes.values()), product.t_step, groups, slices)
        half = plan.tile_sums // 2 >> plan.log_block
        m.d.sync += [
            product.stream_slab.eq(slabs.stream_slab),
            product.stationary_slab.eq(slabs.stationary_slab),
            product.east_whole.eq(slabs.sums > half),
            product.north_whole.eq(slabs.sums > half),
        ]
        with m.Switch(product.mode):
            for mode, limits in of_modes.items():
                north = plan.use(mode).north
                with m.Case(mode):
                    nest = nest_lengths(m, mode.name.lower(), limits, command_nest)
                    m.d.sync += [
                        product.t_step.eq(nest.t_blocks),
                        product.l_step.eq(nest.groups * limits.lane_side),
                        product.c_step.eq(nest.chunk),
                        product.lanes_outermost.eq(command_nest.nest_outer),
                        product.keep_stream.eq(command_nest.nest_keep[0]),
                        product.keep_stationary.eq(command_nest.nest_keep[1]),
                        groups.eq(nest.groups),
                        slices.eq(nest.slices),
                        product.stationary_stride.eq(
                            (nest.slices if north else nest.groups) * plan.rows
                        ),
                    ]
            if plan.fused:
                with m.Case(Mode.FUSED):
                    of_slice = plan.fused_slices_n * plan.rows
                    m.d.sync += [
                        product.t_step.eq(plan.fused_tile_blocks),
                        product.l_step.eq(plan.fused_blocks_n),
                        product.c_step.eq(plan.cols),
                        product.lanes_outermost.eq(0),
                        product.keep_stream.eq(0),
                        product.keep_stationary.eq(1),
                        product.stream_slab.eq(plan.fused_tile_blocks),
                        product.stationary_slab.eq(of_slice),
                        product.stationary_stride.eq(of_slice),
                        product.east_whole.eq(plan.fused_halves["east"] > 1),
                        product.north_whole.eq(plan.fused_halves["north"] > 1),
                    ]

    def _sizes(self, m, product, blocks):
        """Assign the sizes along the streamed dimension, the lanes and the contraction."""
        plan = self.plan
        with m.Switch(self.mode):
            for mode in PRODUCTS:
                use = plan.use(mode)
                with m.Case(mode):
                    m.d.sync += self._walked(product, blocks, use)
                    m.d.sync += product.north.eq(use.north)
            if plan.fused:
                with m.Case(Mode.FUSED):
                    m.d.sync += self._walked(product, blocks, plan.use(Mode.DW))
                    m.d.sync += product.north.eq(0)

    def _walked(self, product, blocks, use):
        """Return the assignments of the sizes along the dimensions of a use."""
        return [
            product.t_size.eq(self.operands[use.t]),
            product.t_blocks.eq(blocks[use.t]),
            product.l_blocks.eq(blocks[use.lanes]),
            product.c_blocks.eq(blocks[use.contraction]),
            product.to_columns.eq(self._beats(blocks[use.contraction])),
        ]
