"""Read memory: accept requests of any length and return the beats in order."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.bus.services import (
    FETCH,
    owned_beat_layout,
    owned_request_layout,
    owner_tag_layout,
)
from diastole_hw.bus.signature import CACHE, INCR, PROT, AxiReadSignature
from diastole_hw.bus.split import BurstSplitter
from diastole_hw.data_registers import data_output
from diastole_hw.stream.fifo import StreamFifo
from diastole_hw.transfer.address import whole_beats
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.command_table import ADDRESS_BITS
from diastole_sim.spec.require import require_int
from diastole_sim.spec.sizes.queues import OPEN_READS


class AxiReader(wiring.Component):
    """AXI4 read manager: issue bursts ahead, keep every burst inside the window, return beats in
    order.

    A burst outside the window or an error response is an error. On the first error the reader keeps
    the error code, issues no more bursts, accepts no requests, and drops the beats of open bursts.
    ``clear`` forgets the error, the current request and the beats of bursts that are still open.
    When ``idle`` is high again, the reader is in its reset state. An error response to the owner
    ``FETCH`` is no error of the reader: the beat is passed on with ``failed``. Address and payload
    stay stable until the bus accepts them, and open bursts are read to their end in every case.

    Timing: 1 beat per cycle; a beat is output in the cycle after the bus transferred the beat. A
    burst is issued 2 cycles after its request, then 1 burst per cycle. ``axi.rready`` is
    combinational from ``data.ready``. Valid signals of ``axi`` are registers, 0 in reset.

    Parameters
    ----------
    data_width : int
        Bits of a beat (32, 64, 128, 256 or 512).
    outstanding : int
        Largest number of bursts open at a time (1 to 256).

    Members
    -------
    request : In(stream of owned_request_layout())
        Requests as :class:`diastole_hw.bus.split.BurstSplitter` accepts them. The reader of
        ``data`` must accept every requested beat: there is no buffer, and a waiting beat stops the
        bus.
    data : Out(stream of owned_beat_layout(data_width))
        Beats, with a bit for the owner of the request. ``clear`` may withdraw a valid beat.
    axi : Out(AxiReadSignature)
    base, limit : In(40)
        Window of bytes, the limit exclusive. Must stay stable unless idle.
    clear : In(1)
        Pulse, or a level held until ``idle``.
    error : Out(1), error_code : Out(8)
        ``WINDOW`` or ``READ_RESPONSE`` from the first error until ``clear``, else 0.
    error_command : Out(1)
        Command number of the failed request, valid while there is an error.
    idle : Out(1)
        High without a request, an open burst or a waiting beat.
    moved : Out(1)
        High in a cycle in which the bus transfers a beat.

    ValueError if a parameter is out of range.
    """

    request: stream.Interface
    data: stream.Interface

    def __init__(self, *, data_width: int, outstanding: int = OPEN_READS):
        require_int("outstanding", outstanding, 1, 256)
        self.data_width, self.outstanding = data_width, outstanding
        super().__init__(
            {
                "request": In(stream.Signature(owned_request_layout())),
                "data": Out(stream.Signature(owned_beat_layout(data_width))),
                "axi": Out(AxiReadSignature(data_width)),
                "base": In(ADDRESS_BITS),
                "limit": In(ADDRESS_BITS),
                "clear": In(1),
                "error": Out(1),
                "error_code": Out(8),
                "error_command": Out(1),
                "idle": Out(1),
                "moved": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        axi = self.axi
        m.submodules.split = split = BurstSplitter(data_width=self.data_width)
        wiring.connect(m, wiring.flipped(self.request), split.i)
        # Bursts whose last beat has not arrived. The first beat of a burst may arrive as soon as
        # the burst is issued.
        m.submodules.open = open_ = StreamFifo(owner_tag_layout(), self.outstanding, quick=True)
        dropping = Signal()  # a clear arrived while bursts were open
        fails = Signal()
        stopped = Signal()  # high in an error or while ``dropping``; a register for many gates
        stop = Signal()
        requested = Signal()
        ended = Signal()
        m.d.comb += [
            self.error.eq(self.error_code != 0),
            stop.eq(stopped | self.clear),
            split.base.eq(self.base),
            split.limit.eq(self.limit),
            split.stop.eq(stop),
            split.clear.eq(self.clear),
            split.o.ready.eq((~axi.arvalid | axi.arready) & open_.i.ready),
            requested.eq(split.o.valid & split.o.ready),
            ended.eq(self.moved & axi.rlast),
            open_.i.valid.eq(requested),
            open_.i.payload.eq(split.o.p.owner_tag),
            open_.o.ready.eq(ended),
            self.idle.eq(~split.busy & (open_.level == 0) & ~self.data.valid),
        ]
        fatal = Signal()  # this beat is an error that stops the reader
        m.d.comb += fatal.eq(axi.rresp[1] & (open_.o.p.owner != FETCH))
        self._request(m, split.o.p, requested)
        self._beats(m, stop, open_.o.p, fatal)

        answered_badly = self.moved & fatal
        m.d.comb += fails.eq((answered_badly | split.outside) & ~stop)
        left = dropping & (open_.level != 0)
        m.d.sync += stopped.eq(self.clear | self.error | fails | left)
        with m.If(fails):
            m.d.sync += [
                self.error_code.eq(Mux(answered_badly, ErrorCode.READ_RESPONSE, ErrorCode.WINDOW)),
                self.error_command.eq(
                    Mux(answered_badly, open_.o.p.command, split.o.p.owner_tag.command)
                ),
            ]
        with m.If(self.clear):
            m.d.sync += [self.error_code.eq(0), dropping.eq(1)]
        with m.Elif(open_.level == 0):
            m.d.sync += dropping.eq(0)
        return m

    def _request(self, m, burst, requested):
        axi = self.axi
        m.d.comb += [
            axi.arsize.eq(exact_log2(self.data_width // 8)),
            axi.arburst.eq(INCR),
            axi.arcache.eq(CACHE),
            axi.arprot.eq(PROT),
        ]
        addr, length = data_output(m, axi.araddr, "addr"), data_output(m, axi.arlen, "len")
        with m.If(axi.arready):
            m.d.sync += axi.arvalid.eq(0)
        with m.If(requested):
            m.d.sync += [
                addr.eq(whole_beats(burst.addr, self.data_width // 8)),
                length.eq(burst.len),
                axi.arvalid.eq(1),
            ]

    def _beats(self, m, stop, owner_tag, fatal):
        axi = self.axi
        beat = data_output(m, self.data.payload, "beat")
        free = ~self.data.valid | self.data.ready
        m.d.comb += [
            axi.rready.eq(stop | free),
            self.moved.eq(axi.rvalid & axi.rready),
        ]
        with m.If(free):  # loads without waiting for rvalid, which arrives late
            m.d.sync += [beat.data.eq(axi.rdata), beat.failed.eq(axi.rresp[1])]
            m.d.sync += beat.units.eq(1 << owner_tag.owner)
            m.d.sync += self.data.valid.eq(axi.rvalid & ~stop & ~fatal)
        with m.If(self.clear):
            m.d.sync += self.data.valid.eq(0)
