"""Whether what a nest keeps on chip fits: counted, before a command starts."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from diastole_hw.command.decode import layout_for
from diastole_hw.place import place
from diastole_hw.registers import data_register
from diastole_hw.schedule.lengths import nest_lengths
from diastole_sim.spec.command_table import (
    MULTIPLYING,
    SLOT_FIELDS,
    WIDTH_FIELDS,
    opcodes_of,
)
from diastole_sim.spec.image import MAX_SIZE
from diastole_sim.spec.limits import CHOSEN_PLANES, Limits
from diastole_sim.spec.nest import NestLimits
from diastole_sim.spec.operations import OPERATIONS

SIZE_BITS = MAX_SIZE.bit_length()


class PanelRoom(wiring.Component):
    """Whether the slabs of an operand that stays fit into a memory.

    Timing: ``done`` comes after a cycle for each slab, and one more; earlier if they do not fit. It
    and ``fits`` hold until the next ``start``.

    Parameters
    ----------
    room : int
        Of the memory, in blocks of a bank.
    planes : int
        Of an operand, at most.

    Members
    -------
    start : In(1)
        A pulse: count. The other inputs must hold until ``done``.
    slab : In(range(planes * room + 1))
        Blocks that a chunk takes, those of all planes.
    chunk, chunk_blocks : In(SIZE_BITS)
        Blocks of a chunk, and of the contraction.
    whole : In(1)
        All tiles stay, else one.
    tile, tile_blocks : In(SIZE_BITS)
        Blocks of a tile, and of all tiles.
    done, fits : Out(1)
    """

    def __init__(self, room: int, planes: int = 1):
        self.room, self.planes = room, planes
        lengths = dict.fromkeys(("chunk", "chunk_blocks", "tile", "tile_blocks"), In(SIZE_BITS))
        flags = dict.fromkeys(("start", "whole"), In(1)) | dict.fromkeys(("done", "fits"), Out(1))
        super().__init__({"slab": In(range(planes * room + 1))} | lengths | flags)

    def elaborate(self, platform):
        m = Module()
        used = Signal(range((1 + self.planes) * self.room + 1))
        chunk_at = Signal(SIZE_BITS)  # end of the chunk at hand
        tile_at = Signal(SIZE_BITS)
        last_chunk = Signal()
        last_tile = Signal()
        m.d.comb += [
            last_chunk.eq(chunk_at >= self.chunk_blocks),
            last_tile.eq(~self.whole | (tile_at >= self.tile_blocks)),
        ]
        with m.If(~self.done):
            m.d.sync += [used.eq(used + self.slab), chunk_at.eq(chunk_at + self.chunk)]
            with m.If(last_chunk):
                m.d.sync += [chunk_at.eq(self.chunk), tile_at.eq(tile_at + self.tile)]
            with m.If(used > self.room):
                m.d.sync += [self.done.eq(1), self.fits.eq(0)]
            with m.Elif(last_chunk & last_tile):
                m.d.sync += [self.done.eq(1), self.fits.eq(1)]
        with m.If(self.start):
            m.d.sync += [self.done.eq(0), used.eq(self.slab)]
            m.d.sync += [chunk_at.eq(self.chunk), tile_at.eq(self.tile)]
        return m


class Panels(wiring.Component):
    """Check what the nest of a command keeps, as
    :meth:`diastole_sim.spec.nest.NestLimits.problem` does.

    Timing: ``done`` comes at the latest when both operands have been counted
    (:class:`PanelRoom`, which begins 1 cycle after ``start``), 2 cycles after ``start`` where
    nothing is kept.

    Parameters
    ----------
    limits : Limits
        They must say their ``nests``.

    Members
    -------
    start : In(1)
        A pulse.
    command : In(layout_for(limits))
        A command that is in order but for what it keeps; must hold from ``start`` to ``done``.
    done : Out(1)
        Until the next ``start``.
    fits : Out(1)
        With ``done``.
    """

    def __init__(self, limits: Limits):
        self.limits = limits
        super().__init__(
            {
                "start": In(1),
                "command": In(layout_for(limits)),
                "done": Out(1),
                "fits": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        nests, command = self.limits.nests, self.command
        assert nests is not None
        any_of = nests.of("forward")
        assert any_of is not None
        most = max(max(counts) for counts in self.limits.planes or ((1,),))
        blocks = {"stream": any_of.stream_blocks, "held": any_of.held_blocks}
        rooms = {name: PanelRoom(room, most) for name, room in blocks.items()}
        slabs = {}
        for name, room in rooms.items():
            m.submodules[name] = place(room, platform)
            slabs[name] = data_register(room.slab.shape(), name=f"{name}_slab")
            m.d.comb += room.slab.eq(slabs[name])
        present = opcodes_of(vector=self.limits.has_vector)
        with m.Switch(command.opcode):
            for name, operation in OPERATIONS.items():
                taken = nests.of(name)
                if taken is not None:
                    opcodes = [op for op in present if MULTIPLYING.get(op) == operation]
                    with m.Case(*opcodes):
                        self._operation(m, operation, taken, rooms, slabs)
        fits = done = 1
        counts = Signal()  # slabs are known
        m.d.sync += counts.eq(self.start)
        for bit, room in enumerate(rooms.values()):
            keeps = command.nest_keep[bit]
            m.d.comb += room.start.eq(counts)
            done &= room.done | ~keeps
            fits &= room.fits | ~keeps
        m.d.comb += [self.done.eq(~self.start & ~counts & done), self.fits.eq(fits)]
        return m

    def _operation(self, m, operation, taken: NestLimits, rooms, slabs):
        """Lengths and sizes of one product."""
        command, block = self.command, self.limits.block
        (product,) = operation.products
        nest = nest_lengths(m, operation.name, taken, command)
        low = (block - 1).bit_length()
        blocks = [Signal(SIZE_BITS, name=f"{operation.name}_{axis}") for axis in product.loops]
        for size, axis in zip(blocks, product.loops, strict=True):
            m.d.comb += size.eq((command[axis] + (block - 1)) >> low)
        t, lanes, contraction = blocks
        outer_l = command.nest_outer
        for operand, name, slab, whole, tile, tiles in (
            (product.streamed, "stream", nest.stream_slab, outer_l, nest.t_blocks, t),
            (
                product.held,
                "held",
                nest.held_slab,
                ~outer_l,
                nest.groups * taken.lane_side,
                lanes,
            ),
        ):
            room = rooms[name]
            if self.limits.has_planes:
                bits = bits_for(room.planes - 1)
                further = command[WIDTH_FIELDS[operand.tensor_class]][:bits]
                if self.limits.has_choices:
                    by_slot = command[SLOT_FIELDS[operand.tensor_class]].any()
                    further = Mux(by_slot, max(CHOSEN_PLANES) - 1, further)
                slab = slab * (further + 1)
            m.d.sync += slabs[name].eq(slab)
            m.d.comb += [
                room.chunk.eq(nest.chunk),
                room.chunk_blocks.eq(contraction),
                room.whole.eq(whole),
                room.tile.eq(tile),
                room.tile_blocks.eq(tiles),
            ]
