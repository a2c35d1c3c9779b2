"""Walk over the tiles of a product: the loops over output tiles and contraction chunks, in
hardware."""

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
    """Return whether ``step`` from ``start`` on reaches the end of ``total``, and the smaller of
    ``step`` and the remaining length, which is at most ``limit``. ``start`` < ``total``. Both
    results are valid in the cycle after the arguments."""
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
    """Position of the loops over tiles."""

    first_t: Signal
    last_t: Signal
    first_l: Signal
    last_l: Signal


class Planes(NamedTuple):
    """Position of the walk among pairs of planes; constants where tensors have one plane.
    ``ends_stream``: last plane of the operand in the stream ring; in the fused pass, planes of the
    west may follow. ``several``: the operand in the stream ring has several planes."""

    first_stream: Value
    last_stream: Value
    ends_stream: Value
    first_stationary: Value
    last_stationary: Value
    several: Value

    @property
    def first(self):
        return self.first_stream & self.first_stationary

    @property
    def last(self):
        return self.last_stream & self.last_stationary


ONE_PLANE = Planes(*(Const(1),) * 5, several=Const(0))


class _Ring(NamedTuple):
    """Scratchpad of an operand, a ring of slabs.

    ``at`` is the slab of the current chunk, ``slab`` the length of a slab and ``blocks`` the length
    of the ring, both in blocks. ``keeps``: the operand is kept while the loop advances that it does
    not depend on. After the last chunk of a tile the ring ``returns`` to the first slab of its
    panel, or ``begins`` another panel. ``pair`` is the current pair of planes, where a chunk has
    several.
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
    """Output every chunk of a product once, in order. The loop over T tiles is outermost, then lane
    tiles, then chunks; or lane tiles are outermost, if the loop nest of the product says so.

    In the fused pass a T tile is a short k tile, all of N is one lane tile, and a chunk is one
    slice of M (docs/how/product.md, "The fused pass"). Positions stay inside the tensors; lengths
    are clipped at their ends. Not checked: that no size and no step is 0, that the machine accepts
    a loop nest with these steps, and that kept operands fit.

    The scratchpads are rings of slabs, with one slab per chunk. Slabs follow each other from 0 on,
    or from the end of the preceding product. A kept operand returns to the first slab of its panel
    when the loop advances that the operand does not depend on. A chunk then loads nothing, and its
    slabs become free in the last round of that loop. Kept slabs are known to fit from 0 on. A kept
    operand therefore begins at 0, unless all slabs since the slab at 0 have had an equal length.
    Planes of the streaming operand, which are present together, begin by this rule too.

    Where tensors have planes, a chunk per pair of planes replaces a single chunk. Planes of the
    stationary operand are the outer loop, planes of the streaming operand the inner loop. Every
    plane has a slab of its own. In the fused pass the operands from south and west may differ in
    their numbers of planes. The walk then goes through the larger number, and a chunk marks the
    directions that have a plane.

    Tiles are numbered by direction, so that tiles in flight of one direction have different
    numbers.

    Timing: ``start`` while not ``busy`` accepts a product; ``busy`` is high from the next cycle
    until the cycle in which the last chunk is accepted. The first chunk is valid from the first
    busy cycle on, or from the second if the cycle before ``start`` was ``busy``. A later chunk is
    valid from the second cycle after the preceding chunk was accepted: the cycle between finds out
    whether tile and slice are the last. ``start`` while ``busy`` is ignored.

    Members
    -------
    start : In(1)
    from_idle : In(1)
        With ``start``: nothing is in flight, and rings and tile numbers begin at 0.
    product : In(product_layout(plan))
        Product, stable from ``start`` on while ``busy``; sizes and loop nest are read.
    number : In(1)
        Number of the product among the two products in flight, stable from ``start`` on while
        ``busy``.
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
                "from_idle": In(1),
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
        settled = Signal()  # the loops have not moved since the previous cycle
        rested = Signal()  # not busy in the cycle before: all loops stand at 0
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
        # The streaming operand has a panel per T tile, and the loop over lanes repeats over the
        # panel. If the loop over lanes is outermost, the operand has one panel of all T tiles. The
        # stationary operand has the opposite panels.
        inner = ~product.lanes_outermost
        stream = Signal.like(chunk.stream_base, name="stream_at")
        stationary = Signal.like(chunk.stationary_base, name="stationary_at")
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
        stationary_ring = _Ring(
            name="stationary",
            at=stationary,
            slab=product.stationary_slab,
            blocks=plan.stationary_blocks,
            keeps=product.keep_stationary,
            returns=~at.last_t & (~inner | at.last_l),
            begins=~inner & at.last_t,
        )
        self._slabs(m, stream_ring, starts, moves & chunk.east if plan.planar else moves, ends)
        self._slabs(
            m, stationary_ring, starts, moves & pair.last_stream if plan.planar else moves, ends
        )
        m.d.comb += [chunk.stream_base.eq(stream), chunk.stationary_base.eq(stationary)]

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
        """Return the chunk's marks: operands to load, and operands without a later use."""
        product, chunk = self.product, self.chunks.p
        loads = [~product.keep_stream | at.first_l, ~product.keep_stationary | at.first_t]
        frees = [~product.keep_stream | at.last_l, ~product.keep_stationary | at.last_t]
        if self.plan.planar:
            loads = [loads[0] & pair.first_stationary & chunk.east, loads[1] & pair.first_stream]
            frees = [frees[0] & pair.last_stationary & chunk.east, frees[1] & pair.last_stream]
        return [
            chunk.load_stream.eq(loads[0]),
            chunk.load_stationary.eq(loads[1]),
            chunk.free_stream.eq(frees[0]),
            chunk.free_stationary.eq(frees[1]),
        ]

    def _planes(self, m, moves, last_c) -> Planes:
        """Compute the current pair of planes and the chunk's fields that depend on the pair."""
        product, chunk = self.product, self.chunks.p
        streamed = Signal(PLANE)  # planes of the streaming operand, less 1; fused: from the south
        west = Signal(PLANE)  # planes from the west, less 1, in the fused pass
        stationary_planes = Signal(PLANE)
        fused = Signal()
        with m.Switch(product.mode):
            for mode in PRODUCTS:
                use = self.plan.use(mode)
                with m.Case(mode):
                    m.d.comb += streamed.eq(product.planes[use.stream])
                    m.d.comb += stationary_planes.eq(product.planes[use.stationary])
            if self.plan.fused:
                with m.Case(Mode.FUSED):
                    m.d.comb += [
                        fused.eq(1),
                        streamed.eq(product.planes[X]),
                        west.eq(product.planes[W]),
                        stationary_planes.eq(product.planes[DY]),
                    ]
        stream = Signal(PLANE, name="stream_plane")
        stationary = Signal(PLANE, name="stationary_plane")
        pair = Planes(*(Signal(name=name) for name in Planes._fields))
        longer = Mux(streamed > west, streamed, west)
        m.d.comb += [
            pair.first_stream.eq(stream == 0),
            pair.last_stream.eq(stream == longer),
            pair.ends_stream.eq(stream == streamed),
            pair.first_stationary.eq(stationary == 0),
            pair.last_stationary.eq(stationary == stationary_planes),
            pair.several.eq(streamed != 0),
            chunk.stream_plane.eq(stream),
            chunk.stationary_plane.eq(stationary),
            chunk.east.eq(stream <= streamed),
            chunk.north.eq(~fused | (stream <= west)),
            chunk.opens.eq(pair.first),
            chunk.last_slice.eq(last_c),
            chunk.done_east.eq(last_c & pair.last_stationary & pair.ends_stream),
            chunk.done_north.eq(pair.last_stationary & (stream == west)),
            chunk.load_west.eq(fused & chunk.north & pair.first_stationary & (chunk.c0 == 0)),
        ]
        with m.If(moves):
            m.d.sync += stream.eq(stream + 1)
            with m.If(pair.last_stream):
                m.d.sync += [stream.eq(0), stationary.eq(stationary + 1)]
            with m.If(pair.last):
                m.d.sync += stationary.eq(0)
        return pair

    def _tiles(self, m, starts, moves):
        """Number the tiles of the direction of a product's sums. The fused pass runs alone, and
        counts the tiles of both directions with 1 counter."""
        count = Signal(range(self.plan.tiling.tiles_in_flight), name="tile")
        other = Signal.like(count, name="other_tile")
        direction = Signal()  # direction of ``count``
        changes_direction = Signal()
        m.d.comb += [
            changes_direction.eq(starts & (self.product.north != direction)),
            self.chunks.p.tile.eq(count),
        ]
        with m.If(moves):
            m.d.sync += count.eq(count + 1)
        with m.If(changes_direction):
            m.d.sync += [count.eq(other), other.eq(count), direction.eq(self.product.north)]
        with m.If(starts & self.from_idle):
            m.d.sync += [count.eq(0), other.eq(0)]

    def _slabs(self, m, ring, starts, moves, last_c):
        """Move a ring to the slab of the current chunk.

        The ring begins with a product (``starts``) and advances with every chunk (``moves``). After
        a tile's last chunk (``last_c``) a kept operand returns to the first slab of its panel, or
        begins another panel. After the last plane of the streaming operand, the ring returns to the
        slab of the first plane while planes of the stationary operand follow.
        """
        name, at, slab, blocks, pair = ring.name, ring.at, ring.slab, ring.blocks, ring.pair
        panel = Signal.like(at, name=f"{name}_panel")
        # The length of all slabs since the slab at 0; 0 if lengths differ.
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
            start.eq(Mux(fits & (on_grid | ~stays) & ~self.from_idle, at, 0)),
        ]
        with m.If(starts):
            m.d.sync += [at.eq(start), panel.eq(start)]
            m.d.sync += grid.eq(Mux(on_grid | (start == 0), slab, 0))

    def _first_plane(self, m, name, at, pair):
        """Return the ring to the slab of a chunk's first plane."""
        if pair is ONE_PLANE:
            return
        first = Signal.like(at, name=f"{name}_first_plane")
        with m.If(pair.first):
            m.d.sync += first.eq(at)
        with m.If(pair.ends_stream & ~pair.last_stationary):
            m.d.sync += at.eq(Mux(pair.first, at, first))

    def _next_tile(self, m, t0, l0, at):
        """Advance the inner loop over tiles. At its end, restart the inner loop and advance the
        outer loop."""
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
