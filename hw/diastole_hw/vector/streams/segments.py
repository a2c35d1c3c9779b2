"""Request the rows of a block: compute the first address, then send requests row by row."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.bus.services import request_layout
from diastole_hw.data_registers import data_register
from diastole_hw.vector.stream_layouts import VectorShape
from diastole_hw.vector.streams.packing import segments_layout
from diastole_sim.spec.command_table import ADDRESS_BITS
from diastole_sim.spec.sizes.queues import DIGIT_BITS


class SegmentRequests(wiring.Component):
    """Send a request for every piece of a block, rows ascending. A request begins at the beat that
    contains the address of the piece. Addresses are modulo 2^40.

    Timing: the first request is offered 2 cycles after acceptance of the block, plus 1 cycle for
    every 8 bits up to the highest 1 of ``count``. Then the unit offers 1 request per cycle. The
    address of the next block is computed meanwhile: no cycle is lost if a block has as many rows as
    the computation takes cycles.

    Parameters
    ----------
    shape : VectorShape

    Members
    -------
    blocks : In(stream of segments_layout(shape))
        At least 1 row and 1 beat.
    requests : Out(stream of request_layout())
        Functions of registers.
    busy : Out(1)
        A block is present whose requests have not all been accepted.
    """

    blocks: stream.Interface
    requests: stream.Interface

    def __init__(self, shape: VectorShape):
        self.shape = shape
        super().__init__(
            {
                "blocks": In(stream.Signature(segments_layout(shape))),
                "requests": Out(stream.Signature(request_layout())),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        moves, free = Signal(), Signal()
        occupied, at = self._locate(m, moves)
        here = Signal()
        piece = data_register(segments_layout(self.shape))  # `base`: next row; `rows`: remaining
        accepted = Signal()
        beat_mask = self.shape.beat_bytes - 1
        m.d.comb += [
            accepted.eq(here & self.requests.ready),
            free.eq(~here | (accepted & (piece.rows == 1))),
            moves.eq(occupied & ~at.count.any() & free),
            self.requests.valid.eq(here),
            self.requests.p.addr.eq(piece.base & ~beat_mask),
            self.requests.p.beats.eq(piece.beats),
            self.busy.eq(occupied | here),
        ]
        with m.If(accepted):
            m.d.sync += [piece.base.eq(piece.base + piece.pitch), piece.rows.eq(piece.rows - 1)]
        with m.If(free):
            m.d.sync += here.eq(moves)
        with m.If(moves):
            m.d.sync += [piece[name].eq(at[name]) for name in ("base", "pitch", "rows", "beats")]
        return m

    def _locate(self, m, moves):
        """Compute the first address of a block. Return whether a block is present, and the block's
        pieces. ``count`` is the part that is not yet multiplied."""
        occupied = Signal()
        at = data_register(segments_layout(self.shape))
        term = data_register(ADDRESS_BITS)
        m.d.comb += self.blocks.ready.eq(~occupied | moves)
        with m.If(at.count.any()):
            m.d.sync += [
                at.base.eq(at.base + term * at.count[:DIGIT_BITS]),
                at.count.eq(at.count >> DIGIT_BITS),
                term.eq(term << DIGIT_BITS),
            ]
        with m.If(self.blocks.ready):
            m.d.sync += occupied.eq(self.blocks.valid)
        with m.If(self.blocks.ready & self.blocks.valid):
            m.d.sync += [at.eq(self.blocks.payload), term.eq(self.blocks.p.pitch)]
        return occupied, at
