"""The load unit's second half: puts what the requests bring into the scratchpads."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole.control.descriptors import Region, chunk_layout
from diastole.control.region import granules, region_layout
from diastole.emit.place import place
from diastole.memory.maxima import NAMES, lookup_layout
from diastole.plan import GROUP, Plan
from diastole.stream.fifo import StreamFifo
from diastole.stream.turn import Turn
from diastole.stream.unpack import Unpack

BLOCKS_AHEAD = 4  # descriptions of blocks that wait for their vectors


def scratch_write_layout(plan: Plan) -> data.StructLayout:
    """One vector on its way into a scratchpad; ``addr`` counts vectors within the bank."""
    width = max(plan.mantissas) + 1
    return data.StructLayout(
        {
            "kind": Region,
            "bank": range(max(plan.rows, plan.cols)),
            "addr": range(max(plan.held_words, 2 * plan.half_words)),
            "elements": data.ArrayLayout(unsigned(width), plan.block),
            "deficit": unsigned(plan.deficit_bits),  # of a vector; of a held block to the east
            "deficit_north": unsigned(plan.deficit_bits),
            "nonzero": 1,
        }
    )


def block_layout(plan: Plan) -> data.StructLayout:
    """A block whose vectors are about to come: where it goes, and its deficits."""
    write = dict(scratch_write_layout(plan).members)
    del write["elements"]
    return data.StructLayout(write | {"turned": 1, "drop": 1, "last": 1})


class SliceCounter:
    """``mod`` and ``div`` of a block number by the array's side, kept by counting."""

    def __init__(self, name: str, most: int, side, width: int):
        self.mod = Signal(range(max(most, 2)), name=f"{name}_mod")
        self.div = Signal(width, name=f"{name}_div")
        self._side = side

    def step(self, m: Module):
        with m.If(self.mod == self._side - 1):
            m.d.sync += [self.mod.eq(0), self.div.eq(self.div + 1)]
        with m.Else():
            m.d.sync += self.mod.eq(self.mod + 1)

    def clear(self, m: Module):
        m.d.sync += [self.mod.eq(0), self.div.eq(0)]


class Fill(wiring.Component):
    """Parse the beats of regions: exponents, mantissas, maxima; compute deficits; write the banks.

    A deficit is the maximum of the block's row or column less its exponent, at most SW + F; a block
    of zeros has deficit 0 and ``nonzero`` 0. When the last block of a chunk is written, the chunk's
    descriptor is released to ``chunks_out``.

    Timing: one vector per cycle, or one block per two cycles where that is slower (B = 1).
    """

    def __init__(self, plan: Plan):
        self.plan = plan
        chunk = stream.Signature(chunk_layout(plan))
        members = {
            "regions": In(stream.Signature(region_layout(plan))),
            "data": In(stream.Signature(unsigned(plan.data_width))),
            "chunks_in": In(chunk),
            "chunks_out": Out(chunk),
            "write_en": Out(1),
            "write": Out(scratch_write_layout(plan)),
            "maxima_write_en": Out(1),
            "maxima_write_select": Out(2),
            "maxima_write_addr": Out(range(plan.maxima_depth)),
            "maxima_write_data": Out(plan.data_width),
            "lookup_en": Out(1),
            "turn_stall": Out(1),
        }
        for name in NAMES[: 4 if plan.in_place else 2]:
            members[f"{name}_index"] = Out(lookup_layout(plan.maxima_depth, plan.beat_bytes))
            members[f"{name}_value"] = In(8)
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        plan = self.plan
        widths = tuple(plan.vector_bits(cls) for cls in range(3))
        max_beats = max(plan.mantissa_beats(cls, GROUP) for cls in range(3))
        unpack = Unpack(
            beat=plan.data_width,
            vectors=widths,
            max_beats=max_beats,
            max_vectors=GROUP * plan.block,
        )
        turn = Turn(side=plan.block, width=max(plan.mantissas) + 1)
        blocks = StreamFifo(block_layout(plan), BLOCKS_AHEAD)
        m.submodules.unpack = place(unpack, platform)
        m.submodules.turn = place(turn, platform)
        m.submodules.blocks = place(blocks, platform)

        region = Signal(region_layout(plan))
        run_blocks = Signal(range(GROUP + 1))  # blocks whose descriptions are still to be made
        exponents = Signal(8 * max(GROUP, plan.exponent_beats * plan.beat_bytes))
        row = Signal.like(region.rows, name="row")
        col = Signal.like(region.cols, name="col")
        self._front(m, region, row, col, run_blocks, exponents, unpack, max_beats)
        self._describe_blocks(m, region, row, col, run_blocks, exponents, blocks.i)
        self._write(m, unpack, turn, blocks)
        return m

    def _front(self, m, region, row, col, run_blocks, exponents, unpack, max_beats):
        """Which beat is what: maxima, exponents, or mantissas, which Unpack takes from here."""
        plan = self.plan
        beat = Signal(range(max(plan.exponent_beats, max_beats, plan.maxima_depth) + 1))
        left = Signal.like(col, name="left")
        whole = Signal(range(GROUP + 1))
        offset = Signal(range(GROUP))
        run_beats = Signal.like(beat)
        room = Signal(range(GROUP + 1))
        blocks = Signal(range(GROUP + 1))
        m.d.comb += [room.eq(GROUP - offset), blocks.eq(Mux(left < room, left, room))]
        for cls in range(3):
            with m.If(region.cls == cls):
                table = [plan.mantissa_beats(cls, n) for n in range(GROUP + 1)]
                m.d.comb += whole.eq(granules(blocks, plan.granule(cls)))
                m.d.comb += run_beats.eq(Array(table)[whole])
        m.d.comb += [
            self.maxima_write_select.eq(region.kind.as_value()[:2]),
            self.maxima_write_data.eq(self.data.payload),
            self.maxima_write_addr.eq(self._slot(region) + beat),
            unpack.run.p.beats.eq(run_beats),
            unpack.run.p.vectors.eq(whole << plan.log_block),
            unpack.run.p.kind.eq(region.cls),
            unpack.run.p.mark.eq(region.turned),
            unpack.i.payload.eq(self.data.payload),
        ]
        with m.FSM():
            with m.State("REGION"):
                m.d.comb += self.regions.ready.eq(run_blocks == 0)
                with m.If(self.regions.valid & self.regions.ready):
                    m.d.sync += [region.eq(self.regions.payload), beat.eq(0), row.eq(0)]
                    m.next = "ROW"
                    with m.If(self.regions.p.kind.as_value()[2]):
                        m.next = "MAXIMA"
            with m.State("MAXIMA"):
                m.d.comb += [self.data.ready.eq(1), self.maxima_write_en.eq(self.data.valid)]
                with m.If(self.data.valid):
                    m.d.sync += beat.eq(beat + 1)
                    with m.If(beat == region.beats - 1):
                        m.next = "REGION"
            with m.State("ROW"):
                m.d.sync += [left.eq(region.cols), offset.eq(region.offset), beat.eq(0)]
                m.next = "EXPONENTS"
            with m.State("EXPONENTS"):
                with m.If(run_blocks == 0):
                    m.d.comb += self.data.ready.eq(1)
                    with m.If(self.data.valid):
                        m.d.sync += beat.eq(beat + 1)
                        for k in range(plan.exponent_beats):
                            with m.If(beat == k):
                                part = exponents.word_select(k, plan.data_width)
                                m.d.sync += part.eq(self.data.payload)
                        with m.If(beat == plan.exponent_beats - 1):
                            m.next = "ALIGN"
            with m.State("ALIGN"):  # the first block's exponent moves to the lowest byte
                m.d.comb += unpack.run.valid.eq(1)
                with m.If(unpack.run.ready):
                    m.d.sync += [exponents.eq(exponents >> (offset << 3)), run_blocks.eq(whole)]
                    m.d.sync += [beat.eq(0)]
                    m.next = "MANTISSAS"
            with m.State("MANTISSAS"):
                m.d.comb += [
                    unpack.i.valid.eq(self.data.valid),
                    self.data.ready.eq(unpack.i.ready),
                ]
                with m.If(self.data.valid & unpack.i.ready):
                    m.d.sync += beat.eq(beat + 1)
                    with m.If(beat == run_beats - 1):
                        m.d.sync += [beat.eq(0), left.eq(left - blocks), offset.eq(0)]
                        m.next = "EXPONENTS"
                        with m.If(left == blocks):
                            m.next = "LAST"
            with m.State("LAST"):  # of the row
                with m.If(run_blocks == 0):
                    m.d.sync += row.eq(row + 1)
                    m.next = "ROW"
                    with m.If(row == region.rows - 1):
                        m.next = "REGION"

    def _slot(self, region):
        """First beat of the region's tile among its maxima; the fused pass keeps all of dY."""
        plan = self.plan
        held = Mux(region.fused, 0, region.tile * self._pow2(plan.held_maxima_words))
        stream_slot = region.tile * self._pow2(plan.stream_maxima_words)
        is_held = region.kind.as_value()[0]  # EAST and NORTH
        return Mux(is_held, held, stream_slot)

    @staticmethod
    def _pow2(words: int) -> int:
        return 1 << (words - 1).bit_length()

    def _describe_blocks(self, m, region, row, col, run_blocks, exponents, out):
        """For each block of a run: look its maxima up, then say where it goes and its deficits."""
        plan = self.plan
        row_at, col_at = self._positions(m, "row", region), self._positions(m, "col", region)
        looked_up = Signal()
        push = Signal()
        q = Signal.like(row, name="q")
        p = Signal.like(row, name="p")
        m.d.comb += [
            q.eq(Mux(region.by_column, row, col)),
            p.eq(Mux(region.by_column, col, row)),
            self.lookup_en.eq((run_blocks != 0) & ~looked_up),
            push.eq(looked_up & out.ready),
            out.valid.eq(looked_up),
        ]
        self._lookups(m, region, p, q)
        with m.If(self.lookup_en):
            m.d.sync += looked_up.eq(1)
        with m.If(push):
            m.d.sync += [
                looked_up.eq(0),
                run_blocks.eq(run_blocks - 1),
                exponents.eq(exponents >> 8),
            ]
            # A granule may hold blocks that the region does not have; only its own are counted.
            with m.If(col < region.cols):
                m.d.sync += col.eq(col + 1)
                col_at.step(m)
            with m.If((run_blocks == 1) & (col >= region.cols - 1)):
                m.d.sync += col.eq(0)
                col_at.clear(m)
                row_at.step(m)
                with m.If(row == region.rows - 1):
                    row_at.clear(m)

        p_mod, p_div = (
            Mux(region.by_column, getattr(col_at, name), getattr(row_at, name))
            for name in ("mod", "div")
        )
        block = out.p
        drop = col >= region.cols
        exponent = exponents[:8]
        m.d.comb += [
            block.kind.eq(region.kind),
            block.bank.eq(p_mod),
            block.addr.eq(
                self._half(region) + p_div * self._stride(region) + (q << plan.log_block)
            ),
            block.nonzero.eq(exponent != 0),
            block.turned.eq(region.turned),
            block.drop.eq(drop),
            block.last.eq(
                region.last
                & (row == region.rows - 1)
                & (run_blocks == 1)
                & (col >= region.cols - 1)
            ),
        ]
        held = region.kind == Region.HELD
        stream_max = self.south_value
        if plan.in_place:
            stream_max = Mux(region.kind == Region.WEST, self.west_value, self.south_value)
            m.d.comb += block.deficit_north.eq(
                self._deficit(m, "north", self.north_value, exponent)
            )
        maximum = Mux(held, self.east_value, stream_max)
        m.d.comb += block.deficit.eq(self._deficit(m, "own", maximum, exponent))

    def _lookups(self, m, region, p, q):
        """Entries of the maxima memories that belong to this block."""
        plan = self.plan
        stream_slot = region.tile * self._pow2(plan.stream_maxima_words)
        held_slot = Mux(region.fused, 0, region.tile * self._pow2(plan.held_maxima_words))
        held_offset = Mux(region.fused, 0, region.held_offset)
        entries = {
            "south": (stream_slot, region.stream_offset + q),
            "west": (stream_slot, region.stream_offset + q),
            "east": (held_slot, held_offset + q),
            "north": (held_slot, Mux(region.fused, region.c0, region.held_offset) + p),
        }
        shift = plan.beat_bytes.bit_length() - 1
        for name in NAMES[: 4 if plan.in_place else 2]:
            slot, entry = entries[name]
            index = getattr(self, f"{name}_index")
            m.d.comb += [index.word.eq(slot + (entry >> shift)), index.byte.eq(entry)]

    def _deficit(self, m, name, maximum, exponent):
        plan = self.plan
        most = plan.sum_bits + plan.fraction
        difference = Signal(signed(9), name=f"{name}_difference")
        deficit = Signal(plan.deficit_bits, name=f"{name}_deficit")
        m.d.comb += difference.eq(maximum - exponent)
        m.d.comb += deficit.eq(Mux(difference > most, most, difference))
        return Mux(exponent != 0, deficit, 0)

    def _positions(self, m, name, region):
        """Counters along one dimension of a region: the bank and the slice of the next block."""
        side = self.plan.cols
        if self.plan.in_place:
            side = Mux(region.kind == Region.WEST, self.plan.rows, self.plan.cols)
        return SliceCounter(name, max(self.plan.rows, self.plan.cols), side, len(region.rows))

    def _aligned(self, bits, mantissa_bits: int):
        """A vector of one class in the widest class's elements: magnitude low, sign on top."""
        pad = max(self.plan.mantissas) - mantissa_bits
        width = mantissa_bits + 1
        elements = []
        for k in range(self.plan.block):
            element = bits[k * width : (k + 1) * width]
            elements.append(Cat(element[:-1], Const(0, pad), element[-1]))
        return Cat(*elements)

    def _stride(self, region):
        """Words of a bank from one slice to the next."""
        plan = self.plan
        held, streamed = plan.held_stride, plan.tile_words
        if plan.in_place:
            held = Mux(region.fused, plan.fused_held_stride, held)
            streamed = Mux(region.fused, plan.fused_tile_words, streamed)
        return Mux(region.kind == Region.HELD, held, streamed)

    def _half(self, region):
        plan = self.plan
        held = region.half * plan.held_half_words
        south = region.half * plan.half_words
        west = region.west_half * plan.half_words
        if plan.in_place:
            held = Mux(region.fused, region.index * plan.fused_held_stride, held)
        streamed = Mux(region.kind == Region.WEST, west, south)
        return Mux(region.kind == Region.HELD, held, streamed)

    def _write(self, m, unpack, turn, blocks):
        """Vectors, turned or not, meet the description of their block."""
        plan = self.plan
        vector = Signal(data.ArrayLayout(unsigned(max(plan.mantissas) + 1), plan.block))
        for cls, bits in enumerate(plan.mantissas):
            with m.If(unpack.o.p.kind == cls):
                m.d.comb += vector.eq(self._aligned(unpack.o.p.bits, bits))
        turns = unpack.o.p.mark  # the vector at hand goes through the turning array
        head = blocks.o.p
        count = Signal(range(plan.block))
        arrived = Signal()
        m.d.comb += [
            turn.i.payload.eq(vector),
            turn.i.valid.eq(unpack.o.valid & turns),
            self.turn_stall.eq(turn.i.valid & ~turn.i.ready),
            arrived.eq(Mux(head.turned, turn.o.valid, unpack.o.valid & ~turns)),
            self.write.elements.eq(Mux(head.turned, turn.o.payload, vector)),
            self.write.kind.eq(head.kind),
            self.write.bank.eq(head.bank),
            self.write.addr.eq(head.addr + count),
            self.write.deficit.eq(head.deficit),
            self.write.deficit_north.eq(head.deficit_north),
            self.write.nonzero.eq(head.nonzero),
        ]
        taken = Signal()
        last = Signal()
        m.d.comb += [
            last.eq((count == plan.block - 1) & head.last),
            taken.eq(blocks.o.valid & arrived & (~last | self.chunks_out.ready)),
            turn.o.ready.eq(taken & head.turned),
            unpack.o.ready.eq(Mux(turns, turn.i.ready, taken & ~head.turned)),
            self.write_en.eq(taken & ~head.drop),
            blocks.o.ready.eq(taken & (count == plan.block - 1)),
            self.chunks_out.valid.eq(blocks.o.valid & arrived & last),
            self.chunks_out.payload.eq(self.chunks_in.payload),
            self.chunks_in.ready.eq(taken & last),
        ]
        with m.If(taken):
            m.d.sync += count.eq(Mux(count == plan.block - 1, 0, count + 1))
