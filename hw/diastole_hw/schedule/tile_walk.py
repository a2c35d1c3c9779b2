"""The tile walk: the loops over output tiles and contraction chunks, in hardware."""

from typing import NamedTuple

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.data_registers import data_register
from diastole_hw.plan.modes import PRODUCTS, Mode
from diastole_hw.plan.plan import Plan
from diastole_hw.schedule.ring import following
from diastole_hw.schedule.tokens import PLANE, POSITION, chunk_layout, product_layout
from diastole_sim.spec.sizes.uses import DY, W, X


def clip(m, name: str, total, start, step, limit: int):
    """Whether ``step`` from ``start`` on reaches the end of ``total``, and the lesser of it and of
    what is left, which is ``limit`` at most; start < total. Right in the cycle after these."""
    left = Signal.like(total, name=f"{name}_left")
    last = data_register(name=f"last_{name}")
    clipped = Signal(range(limit + 1), name=f"{name}_clipped")
    m.d.sync += last.eq(left <= step)
    m.d.comb += [
        left.eq(total - start),
        clipped.eq(Mux(last, left[: len(clipped)], step[: len(clipped)])),
    ]
    return last, clipped


class Loop(NamedTuple):
    """Where the loops over tiles stand."""

    first_t: Signal
    last_t: Signal
    first_l: Signal
    last_l: Signal


class Planes(NamedTuple):
    """Which pair of planes the walk is at; constants where tensors have one plane each.
    ``ends_stream``: the last of what streams into the ring is, which in the fused pass may come
    before the last that anything has. ``several``: it has more than one."""

    first_stream: Value
    last_stream: Value
    ends_stream: Value
    first_held: Value
    last_held: Value
    several: Value

    @property
    def first(self):
        return self.first_stream & self.first_held

    @property
    def last(self):
        return self.last_stream & self.last_held


ONE_PLANE = Planes(*(Const(1),) * 5, several=Const(0))


class _Ring(NamedTuple):
    """One operand's scratchpad, a ring of slabs.

    ``at`` is the slab of the chunk at hand, ``slab`` the length of a slab and ``blocks`` the length
    of the ring, both in blocks. ``keeps``: the operand is kept while the other loop goes on. After
    the last chunk of a tile the ring ``returns`` to the first slab of its panel, or ``begins``
    another panel. ``pair`` is the pair of planes at hand, where a chunk has several.
    """

    name: str
    at: Signal
    slab: Value
    blocks: int
    keeps: Value
    returns: Value
    begins: Value
    pair: Planes = ONE_PLANE


class TileWalk(wiring.Component):
    """Every chunk of a product once, in order: T tiles outermost, then lane tiles, then chunks; or
    lane tiles outermost, if its nest says so.

    In the fused pass a T tile is a short k tile, all of N is one lane tile, and a chunk is one
    slice of M (docs/design.md, "Load, execute, store"). Positions stay inside the tensors; lengths
    are clipped at their ends. Not checked: that no size and no step is 0, that the steps are those
    of a nest that the machine takes, and that what is kept fits.

    The scratchpads are rings of slabs, one for each chunk, from 0 on, or from where the product
    before has ended. An operand that is kept goes back to the first slab of its panel when the loop
    over tiles goes on that it does not depend on: such a chunk loads nothing, and its slabs are
    free when that loop is in its last round. What is kept is known to fit from 0 on; so it begins
    there, unless all slabs since have been of its length. So do the planes of what streams, which
    are there together.

    Where tensors have planes, a chunk of each pair of them stands where else one chunk does: those
    of what is held outside, those of what streams inside; each plane has a slab of its own. In the
    fused pass, where those of what comes from the south and from the west may differ in number, all
    of the longer row are gone through, and a chunk says for which directions it has something.

    Tiles are numbered by direction, so that those in flight of one have different numbers.

    Timing: ``start`` while not ``busy`` takes a product; ``busy`` is high from the next cycle to
    the one in which the last chunk is taken. A chunk is valid from the first of these on, if the
    cycle before ``start`` was not ``busy`` either, or from the second cycle after the one before it
    was taken: in between it is found out whether its tile and its slice are the last. ``start``
    while ``busy`` is ignored.

    Members
    -------
    start : In(1)
    anew : In(1)
        With ``start``: nothing is in flight, so rings begin at 0, and numbers of tiles.
    product : In(product_layout(plan))
        Stable from ``start`` on while ``busy``; its sizes and its nest are read.
    number : In(1)
        Which of the two products in flight it is; stable likewise.
    busy : Out(1)
    chunks : Out(stream of chunk_layout(plan))
    """

    product: data.View
    chunks: stream.Interface

    def __init__(self, plan: Plan):
        self.plan = plan
        super().__init__(
            {
                "start": In(1),
                "anew": In(1),
                "product": In(product_layout(plan)),
                "number": In(1),
                "busy": Out(1),
                "chunks": Out(stream.Signature(chunk_layout(plan))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        plan, product, chunk = self.plan, self.product, self.chunks.p
        t0, l0, c0 = (data_register(chunk[name].shape(), name=name) for name in ("t0", "l0", "c0"))
        t_step, l_step, c_step = product.t_step, product.l_step, product.c_step
        starts = Signal()
        m.d.comb += starts.eq(self.start & ~self.busy)
        moves = self.chunks.valid & self.chunks.ready
        settled = Signal()  # where the loops stand, which they do from the cycle before on
        rested = Signal()  # not busy in the cycle before: they stand at 0
        m.d.sync += [settled.eq(Mux(self.busy, ~moves, self.start & rested)), rested.eq(~self.busy)]

        last_t, t_blocks = clip(m, "t", product.t_blocks, t0, t_step, plan.tile_blocks)
        last_l, l_blocks = clip(m, "l", product.l_blocks, l0, l_step, 2 ** len(chunk.l_blocks) - 1)
        last_c, c_blocks = clip(m, "c", product.c_blocks, c0, c_step, 2 ** len(chunk.c_blocks) - 1)
        t_start = Signal(POSITION)
        t_rest = Signal(POSITION)
        first_c = Signal()
        at = Loop(Signal(name="first_t"), last_t, Signal(name="first_l"), last_l)
        pair, ends = ONE_PLANE, last_c  # ``ends``: the last chunk of its tile
        if plan.planar:
            pair, ends = self._planes(m, moves, last_c), Signal(name="tile_ends")
            m.d.comb += ends.eq(last_c & pair.last)
        m.d.comb += [
            t_start.eq(t0 << plan.log_block),
            t_rest.eq(product.t_size - t_start),
            self.chunks.valid.eq(self.busy & settled),
            chunk.t0.eq(t0),
            chunk.t_blocks.eq(t_blocks),
            chunk.t_count.eq(Mux(at.last_t, t_rest, t_step << plan.log_block)),
            chunk.l0.eq(l0),
            chunk.l_blocks.eq(l_blocks),
            chunk.c0.eq(c0),
            chunk.c_blocks.eq(c_blocks),
            *self._places(at, pair),
            chunk.first.eq(first_c & pair.first if plan.planar else first_c),
            chunk.last.eq(ends),
            chunk.first_t.eq(at.first_t),
            chunk.first_l.eq(at.first_l),
            chunk.last_t.eq(at.last_t),
            chunk.last_l.eq(at.last_l),
            chunk.product.eq(self.number),
        ]
        self._tiles(m, starts, moves & ends)
        # What streams has a panel for each T tile, over which the loop over lanes goes, or one for
        # all of them, if that loop is outermost; what is held the other way round.
        inner = ~product.lanes_outermost
        stream = Signal.like(chunk.stream_base, name="stream_at")
        held = Signal.like(chunk.held_base, name="held_at")
        stream_ring = _Ring(
            name="stream",
            at=stream,
            slab=product.stream_slab,
            blocks=plan.stream_blocks,
            keeps=product.keep_stream,
            returns=~at.last_l & (inner | at.last_t),
            begins=inner & at.last_l,
            pair=pair,
        )
        held_ring = _Ring(
            name="held",
            at=held,
            slab=product.held_slab,
            blocks=plan.held_blocks,
            keeps=product.keep_held,
            returns=~at.last_t & (~inner | at.last_l),
            begins=~inner & at.last_t,
        )
        self._slabs(m, stream_ring, starts, moves & chunk.east if plan.planar else moves, ends)
        self._slabs(m, held_ring, starts, moves & pair.last_stream if plan.planar else moves, ends)
        m.d.comb += [chunk.stream_base.eq(stream), chunk.held_base.eq(held)]

        with m.If(self.busy):
            with m.If(moves & pair.last if plan.planar else moves):
                m.d.sync += [c0.eq(c0 + c_step), first_c.eq(last_c)]
                with m.If(last_c):
                    m.d.sync += c0.eq(0)
                    self._next_tile(m, t0, l0, at)
                    m.d.sync += self.busy.eq(~at.last_t | ~at.last_l)
        with m.Else():
            m.d.sync += [self.busy.eq(self.start), t0.eq(0), l0.eq(0), c0.eq(0)]
            m.d.sync += [first.eq(1) for first in (at.first_t, at.first_l, first_c)]
        return m

    def _places(self, at, pair):
        """What the chunk loads, and what no later one has."""
        product, chunk = self.product, self.chunks.p
        loads = [~product.keep_stream | at.first_l, ~product.keep_held | at.first_t]
        frees = [~product.keep_stream | at.last_l, ~product.keep_held | at.last_t]
        if self.plan.planar:
            loads = [loads[0] & pair.first_held & chunk.east, loads[1] & pair.first_stream]
            frees = [frees[0] & pair.last_held & chunk.east, frees[1] & pair.last_stream]
        return [
            chunk.load_stream.eq(loads[0]),
            chunk.load_held.eq(loads[1]),
            chunk.free_stream.eq(frees[0]),
            chunk.free_held.eq(frees[1]),
        ]

    def _planes(self, m, moves, last_c) -> Planes:
        """The pair of planes at hand, and what it makes of the chunk."""
        product, chunk = self.product, self.chunks.p
        streamed = Signal(PLANE)  # planes less 1, of what streams: in the fused pass from the south
        west = Signal(PLANE)  # in the fused pass from the west
        held_planes = Signal(PLANE)
        fused = Signal()
        with m.Switch(product.mode):
            for mode in PRODUCTS:
                use = self.plan.use(mode)
                with m.Case(mode):
                    m.d.comb += streamed.eq(product.planes[use.stream])
                    m.d.comb += held_planes.eq(product.planes[use.held])
            if self.plan.fused:
                with m.Case(Mode.FUSED):
                    m.d.comb += [
                        fused.eq(1),
                        streamed.eq(product.planes[X]),
                        west.eq(product.planes[W]),
                        held_planes.eq(product.planes[DY]),
                    ]
        stream = Signal(PLANE, name="stream_plane")
        held = Signal(PLANE, name="held_plane")
        pair = Planes(*(Signal(name=name) for name in Planes._fields))
        longer = Mux(streamed > west, streamed, west)
        m.d.comb += [
            pair.first_stream.eq(stream == 0),
            pair.last_stream.eq(stream == longer),
            pair.ends_stream.eq(stream == streamed),
            pair.first_held.eq(held == 0),
            pair.last_held.eq(held == held_planes),
            pair.several.eq(streamed != 0),
            chunk.stream_plane.eq(stream),
            chunk.held_plane.eq(held),
            chunk.east.eq(stream <= streamed),
            chunk.north.eq(~fused | (stream <= west)),
            chunk.opens.eq(pair.first),
            chunk.last_slice.eq(last_c),
            chunk.done_east.eq(last_c & pair.last_held & pair.ends_stream),
            chunk.done_north.eq(pair.last_held & (stream == west)),
            chunk.load_west.eq(fused & chunk.north & pair.first_held & (chunk.c0 == 0)),
        ]
        with m.If(moves):
            m.d.sync += stream.eq(stream + 1)
            with m.If(pair.last_stream):
                m.d.sync += [stream.eq(0), held.eq(held + 1)]
            with m.If(pair.last):
                m.d.sync += held.eq(0)
        return pair

    def _tiles(self, m, starts, moves):
        """Numbers of tiles, of the direction of a product's sums; the fused pass, which is alone,
        counts in one for both."""
        count = Signal(range(self.plan.tiling.tiles_in_flight), name="tile")
        other = Signal.like(count, name="other_tile")
        direction = Signal()  # of ``count``
        turns = Signal()
        m.d.comb += [
            turns.eq(starts & (self.product.north != direction)),
            self.chunks.p.tile.eq(count),
        ]
        with m.If(moves):
            m.d.sync += count.eq(count + 1)
        with m.If(turns):
            m.d.sync += [count.eq(other), other.eq(count), direction.eq(self.product.north)]
        with m.If(starts & self.anew):
            m.d.sync += [count.eq(0), other.eq(0)]

    def _slabs(self, m, ring, starts, moves, last_c):
        """Move a ring to the slab of the chunk at hand.

        The ring begins with a product (``starts``) and goes on with each chunk (``moves``). After a
        tile's last chunk (``last_c``) an operand that is kept returns to the first slab of its
        panel, or begins another panel. After the last plane of what streams, the ring returns to
        the first plane's slab while planes of what is held follow.
        """
        name, at, slab, blocks, pair = ring.name, ring.at, ring.slab, ring.blocks, ring.pair
        panel = Signal.like(at, name=f"{name}_panel")
        # The length of all slabs since one at 0; 0 if they differ.
        grid = Signal(range(blocks + 1), name=f"{name}_grid")
        start = Signal.like(at, name=f"{name}_start")
        after = Signal.like(at, name=f"{name}_after")
        m.d.comb += after.eq(following(m, name, at, slab, blocks))
        stays = ring.keeps if pair is ONE_PLANE else ring.keeps | pair.several
        with m.If(moves):
            m.d.sync += at.eq(after)
            self._first_plane(m, name, at, pair)
            with m.If(last_c & ring.keeps & ring.returns):
                m.d.sync += at.eq(panel)
            with m.If(last_c & ring.begins):
                m.d.sync += panel.eq(after)
        fits = Signal(name=f"{name}_fits")
        on_grid = Signal(name=f"{name}_on_grid")
        m.d.comb += [
            fits.eq(at + slab <= blocks),
            on_grid.eq(slab == grid),
            start.eq(Mux(fits & (on_grid | ~stays) & ~self.anew, at, 0)),
        ]
        with m.If(starts):
            m.d.sync += [at.eq(start), panel.eq(start)]
            m.d.sync += grid.eq(Mux(on_grid | (start == 0), slab, 0))

    def _first_plane(self, m, name, at, pair):
        """Where the planes of a chunk begin again."""
        if pair is ONE_PLANE:
            return
        first = Signal.like(at, name=f"{name}_first_plane")
        with m.If(pair.first):
            m.d.sync += first.eq(at)
        with m.If(pair.ends_stream & ~pair.last_held):
            m.d.sync += at.eq(Mux(pair.first, at, first))

    def _next_tile(self, m, t0, l0, at):
        """The inner of both loops over tiles goes on, or begins again as the outer one goes on."""
        product = self.product
        next_t = [t0.eq(t0 + product.t_step), at.first_t.eq(0)]
        next_l = [l0.eq(l0 + product.l_step), at.first_l.eq(0)]
        with m.If(product.lanes_outermost):
            m.d.sync += next_t
            with m.If(at.last_t):
                m.d.sync += [t0.eq(0), at.first_t.eq(1), *next_l]
        with m.Else():
            m.d.sync += next_l
            with m.If(at.last_l):
                m.d.sync += [l0.eq(0), at.first_l.eq(1), *next_t]
