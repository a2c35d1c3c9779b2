"""Cut loaded chunks into passes of the array, back to back."""

from dataclasses import dataclass
from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.data_registers import data_register
from diastole_hw.plan.plan import Plan
from diastole_hw.schedule.halves import west_word
from diastole_hw.schedule.sum_places import place_of_sums
from diastole_hw.schedule.tokens import PLANE, length_shapes, loaded_chunk_layout, pass_layout
from diastole_sim.spec.sizes.array_sizes import TILES_OF_SUMS

SUM_SPACE = wiring.Signature({"free": In(1), "take": Out(1)})
"""Handshake for the space of a tile's sums in one direction. ``free``: space is free. ``take``: the
tile takes the space, in the cycle of the tile's first pass. The store unit counts the space."""
LOADED = wiring.Signature({"available": In(1), "take": Out(1)})
"""Handshake for loaded data. ``available``: loaded data wait for a chunk. ``take``: a chunk takes
the data, with the first pass of the chunk."""
LOADS = ("blocks", "maxima")


@dataclass(frozen=True, kw_only=True)
class Slice:
    """Registers of the position in the chunk that is being cut.

    First and last positions have flags of their own. The first pass of a chunk waits for the data
    that the chunk loads, and the last pass releases the chunk. The update of all further state
    depends on the decision to send a pass.
    """

    first: Signal  # first pass of the chunk
    first_slice: Signal  # first slice of the chunk along the contraction
    first_group: Signal  # first group of lanes of the slice
    last_slice: Signal  # last slice of the chunk; no meaning in the first slice
    last_group: Signal  # last group of the slice; no meaning in the first group
    streamed: Signal  # block of the slab at which the slice begins
    stationary: Signal  # block of the slab at which the group of the slice begins
    row: Signal  # block of the slab at which the first group of the slice begins
    sums: Signal  # word of the tile at which the sums of the group begin


class PlaneMarks(NamedTuple):
    """Flags of a chunk for a pair of planes, with the names in ``chunk_layout``. All flags but
    ``done_east`` are None if tensors have no planes."""

    done_east: Value
    east: Value | None = None
    north: Value | None = None
    opens: Value | None = None
    done_north: Value | None = None

    @staticmethod
    def restrict(condition: Value, mark: Value | None) -> Value:
        """Return ``condition``, restricted by the flag ``mark`` if the flag exists."""
        return condition if mark is None else condition & mark


class PassWalk(wiring.Component):
    """Cut chunks into passes: slices of the contraction in the outer loop, groups of lanes in the
    inner loop.

    A chunk is a piece of the contraction for one output tile. A slice and a group are the blocks of
    a chunk, along the contraction and along the lanes, that the array holds in one pass.

    The first pass of a chunk waits for the data that the chunk loads: the blocks, and the maxima,
    which come with the first chunk of a tile. The sums of a tile cannot be drained without maxima.

    In a product an output tile takes space for its sums with the first pass of the tile, and is
    done with the last pass. In the fused pass the tile of dW does the same to the east. To the
    north every slice of the contraction is a tile of its own. The slice is a chunk, or a chunk for
    each pair of planes. A pass that opens a tile waits for free space.

    Tiles of sums take the places of :func:`diastole_hw.schedule.sum_places.place_of_sums` in turn,
    and the tiles of a product follow the tiles of the previous product. A machine with a single
    direction ignores ``north``. A machine without a fused pass ignores ``fused``.

    Timing: one pass per cycle. ``passes`` is combinational from ``chunks``, and ``passes.valid``
    also from ``available`` and ``free``. ``take`` and ``chunks.ready`` are combinational from
    ``passes.ready`` too. A chunk is released with the last pass of the chunk.

    Members
    -------
    north, fused : In(1), In(1)
        A product from west to north; the fused pass, with ``north`` 0. ``north``, ``fused`` and the
        following inputs, up to ``planes``, are stable from the first chunk of a product to the
        last.
    t_step, stationary_stride : In(length_shapes(plan)[name])
        Lengths of the product, in blocks.
    east_whole, north_whole : In(1), In(1)
        The tiles of the direction take whole memories of sums.
    planes : In(array of 3 times PLANE)
        Planes of the product, as in :func:`diastole_hw.schedule.tokens.product_layout`. Only in a
        machine with planes.
    chunks : In(stream of loaded_chunk_layout(plan))
        At least one block along the contraction and along the lanes, and one vector. In the fused
        pass, at most one slice of the contraction. Not checked.
    loaded : Out({"blocks": Out(LOADED), "maxima": Out(LOADED)})
        Loaded data, in the order of chunks.
    passes : Out(stream of pass_layout(plan))
        ``rows_valid`` and ``cols_valid``: blocks of the slice that the chunk has. The addresses and
        ``fresh`` of an unused direction have no meaning. If sums are floats, ``fresh`` is true for
        all slices of the first chunk of sums, and ``begins`` and ``ends`` mark the first and the
        last slice of every chunk of sums.
    tile : Out(loaded_chunk_layout(plan))
        Chunk of the pass at ``passes``.
    banks : Out({"east": Out(BANKS), "north": Out(BANKS)})
        Space for sums, by direction.
    wait_load : Out(1)
        A chunk waits for data to be loaded.
    wait_accumulator : Out(1)
        A pass waits for space for its sums.
    """

    chunks: stream.Interface
    passes: stream.Interface

    def __init__(self, plan: Plan):
        self.plan, lengths = plan, length_shapes(plan)
        super().__init__(
            {
                "north": In(1),  # sums leave to the north only
                "fused": In(1),
                **{name: In(lengths[name]) for name in ("t_step", "stationary_stride")},
                "east_whole": In(1),
                "north_whole": In(1),
                "chunks": In(stream.Signature(loaded_chunk_layout(plan))),
                "loaded": Out(wiring.Signature(dict.fromkeys(LOADS, Out(LOADED)))),
                "passes": Out(stream.Signature(pass_layout(plan))),
                "tile": Out(loaded_chunk_layout(plan)),  # the chunk of the pass at the output
                "banks": Out(wiring.Signature({"east": Out(SUM_SPACE), "north": Out(SUM_SPACE)})),
                "wait_load": Out(1),
                "wait_accumulator": Out(1),
            }
            | ({"planes": In(data.ArrayLayout(PLANE, 3))} if plan.planar else {})
        )

    def elaborate(self, platform):
        m = Module()
        plan, chunk, out = self.plan, self.chunks.p, self.passes.p
        fused = self.fused if plan.fused else Const(0, 1)
        north = self.north if plan.east and plan.north else Const(int(plan.north), 1)

        # Blocks of a slice along the contraction (side_c) and of a group along the lanes (side_l).
        side_c = Mux(north, plan.rows, plan.cols)
        side_l = Mux(north, plan.cols, plan.rows)
        at = Slice(
            first=Signal(init=1, name="first"),
            first_slice=Signal(init=1, name="first_slice"),
            first_group=Signal(init=1, name="first_group"),
            last_slice=data_register(name="last_slice"),
            last_group=data_register(name="last_group"),
            streamed=Signal.like(chunk.stream_base, name="streamed"),
            stationary=Signal.like(chunk.stationary_base, name="stationary"),
            row=Signal.like(chunk.stationary_base, name="stationary_row"),
            sums=Signal(range(plan.tile_sums), name="sums"),
        )
        c_left = Signal.like(chunk.c_blocks, name="c_left")
        l_left = Signal.like(chunk.l_blocks, name="l_left")
        c_done = Signal.like(chunk.c_blocks, name="c_done")
        l_done = Signal.like(chunk.l_blocks, name="l_done")
        east_tile = Signal(range(TILES_OF_SUMS))
        north_tile = Signal(range(TILES_OF_SUMS))
        width = max(len(out.rows_valid), len(out.cols_valid))
        c_valid = Signal(width, name="c_valid")
        l_valid = Signal(width, name="l_valid")
        last_c = Signal()
        last_l = Signal()
        first_c = Signal()
        ends = Signal()  # last pass of the chunk
        m.d.comb += [
            c_left.eq(chunk.c_blocks - c_done),
            l_left.eq(chunk.l_blocks - l_done),
            last_c.eq(Mux(at.first_slice, chunk.c_blocks <= side_c, at.last_slice)),
            last_l.eq(Mux(at.first_group, chunk.l_blocks <= side_l, at.last_group)),
            c_valid.eq(Mux(last_c, c_left, side_c)),
            l_valid.eq(Mux(last_l, l_left, side_l)),
            first_c.eq(chunk.first & at.first_slice),
            ends.eq(last_c & last_l),
        ]
        self._addresses(m, fused, at, east_tile, north_tile)
        has = self._plane_marks()
        # The pass at the output.
        m.d.comb += [
            out.t_count.eq(chunk.t_count),
            out.rows_valid.eq(Mux(north, c_valid, l_valid)),
            out.cols_valid.eq(Mux(north, l_valid, c_valid)),
            out.use_east.eq(has.restrict(~north, has.east)),
            out.use_north.eq(north | has.restrict(fused, has.north)),
            out.fresh_east.eq(first_c),
            out.fresh_north.eq(Mux(fused, has.restrict(at.first, has.opens), first_c)),
            out.frees.stream.eq(ends & chunk.free_stream),
            out.frees.stationary.eq(ends & chunk.free_stationary),
            out.frees.west.eq(ends & chunk.last & fused),
            out.done_east.eq(~north & has.done_east & ends),
            out.done_north.eq(
                Mux(fused, has.restrict(last_l, has.done_north), north & chunk.last & ends)
            ),
            self.tile.eq(self.chunks.payload),
        ]
        if plan.planar:
            m.d.comb += self.tile.last.eq(chunk.last_slice)
        accepted = self._send_pass(m, fused, north, at, has)
        if plan.floats:
            last = last_c & chunk.last
            self._chunks(m, north, fused, accepted, last_l, last)
        m.d.comb += self.chunks.ready.eq(accepted & ends)
        # The next pass: the next group of lanes, after the last group the next slice, or the next
        # chunk.
        by_lanes = Mux(north, self.stationary_stride, plan.rows)
        by_slices = Mux(north, plan.rows, self.stationary_stride)
        with m.If(accepted):
            m.d.sync += [l_done.eq(l_done + side_l), at.first_group.eq(last_l), at.first.eq(ends)]
            m.d.sync += at.last_group.eq(l_left <= side_l << 1)
            m.d.sync += at.stationary.eq(at.stationary + by_lanes)
            with m.If(out.done_north):
                m.d.sync += north_tile.eq(north_tile + 1)
            m.d.sync += at.sums.eq(at.sums + (self.t_step << plan.log_block))
            with m.If(last_l):
                m.d.sync += at.sums.eq(0)
                m.d.sync += l_done.eq(0)
                m.d.sync += [c_done.eq(c_done + side_c), at.first_slice.eq(ends)]
                m.d.sync += at.last_slice.eq(c_left <= side_c << 1)
                m.d.sync += at.streamed.eq(at.streamed + self.t_step)
                m.d.sync += [at.row.eq(at.row + by_slices), at.stationary.eq(at.row + by_slices)]
            with m.If(ends):
                m.d.sync += [c_done.eq(0), at.streamed.eq(0)]
                m.d.sync += [at.row.eq(0), at.stationary.eq(0)]
            with m.If(out.done_east):
                m.d.sync += east_tile.eq(east_tile + 1)
        return m

    def _plane_marks(self) -> PlaneMarks:
        chunk = self.chunks.p
        if self.plan.planar:
            return PlaneMarks(**{name: chunk[name] for name in PlaneMarks._fields})
        return PlaneMarks(done_east=chunk.last)

    def _chunks(self, m, north, fused, accepted, last_l, last):
        """Drive the flags of the chunks of the contraction that are added as floats. These chunks
        consist of whole slices. ``last``: the slice is the last slice of its tile."""
        plan, out = self.plan, self.passes.p
        slices = {name: plan.overwriting_slices(north=name == "north") for name in plan.directions}
        of_east, of_north = (slices.get(name, 1) for name in ("east", "north"))
        first, begins, ends = self._position(
            m, "chunk", Mux(north, of_north, of_east) - 1, max(of_east, of_north),
            moves=accepted & last_l, last=last,
        )  # fmt: skip
        m.d.comb += [
            out.fresh_east.eq(first), out.begins_east.eq(begins), out.ends_east.eq(ends),
            out.fresh_north.eq(first), out.begins_north.eq(begins), out.ends_north.eq(ends),
        ]  # fmt: skip
        if plan.fused:
            # To the north the contraction runs over the lanes, and begins anew after the last lane
            # group.
            first, begins, ends = self._position(
                m, "fused", of_north - 1, of_north, moves=accepted, last=last_l
            )
            with m.If(fused):
                m.d.comb += out.fresh_north.eq(first)
                m.d.comb += [out.begins_north.eq(begins), out.ends_north.eq(ends)]

    def _position(self, m, name, highest, slices, *, moves, last):
        """Return three flags of a slice: the chunk is the first chunk, the slice is the first slice
        of the chunk, the slice is the last slice of the chunk.

        A chunk has at most ``slices`` slices. A slice is the last slice if the slice's number in
        the chunk is ``highest``, or if ``last`` is true.
        """
        number = Signal(range(slices), name=f"{name}_slice")
        first = Signal(init=1, name=f"{name}_first")
        ends = Signal(name=f"{name}_ends")
        m.d.comb += ends.eq(last | (number == highest))
        with m.If(moves):
            m.d.sync += number.eq(Mux(ends, 0, number + 1))
            with m.If(ends):
                m.d.sync += first.eq(last)
        return first, number == 0, ends

    def _send_pass(self, m, fused, north, at, has):
        """Return whether the current pass is sent. Drive the handshakes for loaded data and for
        space of sums."""
        chunk, banks, loaded = self.chunks.p, self.banks, self.loaded
        opens_east = Signal()
        opens_north = Signal()
        available = Signal()
        free = Signal()
        accepted = Signal()
        loads = chunk.load_stream | chunk.load_stationary
        blocks = at.first & (loads | chunk.load_west if self.plan.planar else loads)
        waits = dict(zip(LOADS, (blocks, at.first & chunk.first), strict=True))
        m.d.comb += [
            available.eq(
                Cat(~due | getattr(loaded, what).available for what, due in waits.items()).all()
            ),
            opens_east.eq(~north & chunk.first & at.first),
            opens_north.eq(
                Mux(fused, has.restrict(at.first, has.opens), north & chunk.first & at.first)
            ),
            free.eq((~opens_east | banks.east.free) & (~opens_north | banks.north.free)),
            self.passes.valid.eq(self.chunks.valid & available & free),
            self.wait_load.eq(self.chunks.valid & ~available),
            self.wait_accumulator.eq(self.chunks.valid & available & ~free),
            accepted.eq(self.passes.valid & self.passes.ready),
            *(getattr(loaded, what).take.eq(accepted & due) for what, due in waits.items()),
            banks.east.take.eq(accepted & opens_east),
            banks.north.take.eq(accepted & opens_north),
        ]
        return accepted

    def _addresses(self, m, fused, at, east_tile, north_tile):
        """Drive the addresses of the current pass, in words of the banks."""
        plan, out, chunk = self.plan, self.passes.p, self.chunks.p
        log_block = plan.log_block
        streamed = Signal.like(chunk.stream_base, name="stream_block")
        stationary = Signal.like(chunk.stationary_base, name="stationary_block")
        of_north = Signal.like(at.sums, name="sums_of_north")
        m.d.comb += [
            of_north.eq(at.sums),
            streamed.eq(chunk.stream_base + at.streamed),
            stationary.eq(chunk.stationary_base + at.stationary),
            out.stationary_addr.eq(stationary << log_block),
            out.south_addr.eq(streamed << log_block),
            out.west_addr.eq(streamed << log_block),
            out.east_addr.eq(place_of_sums(plan, east_tile, self.east_whole, at.sums)),
            out.north_addr.eq(place_of_sums(plan, north_tile, self.north_whole, of_north)),
        ]
        if plan.fused:
            with m.If(fused):
                m.d.comb += [
                    out.west_addr.eq(west_word(plan, self, chunk) + at.sums),
                    of_north.eq(0),
                ]
