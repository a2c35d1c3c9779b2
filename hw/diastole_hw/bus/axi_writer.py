"""Write memory: accept requests of any length, and their beats in the order of the requests."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.bus.services import owned_request_layout, write_beat_layout
from diastole_hw.bus.signature import CACHE, INCR, PROT, AxiWriteSignature
from diastole_hw.bus.split import BurstSplitter
from diastole_hw.data_registers import data_output, data_register
from diastole_hw.stream.fifo import StreamFifo
from diastole_hw.transfer.address import whole_beats
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.command_table import ADDRESS_BITS
from diastole_sim.spec.require import require_int
from diastole_sim.spec.sizes.queues import BURST_BEATS, OPEN_WRITES

_OPEN = data.StructLayout({"last": 1, "command": 1})
"""Record of an open burst: whether the burst is the last of its request, and the command number."""
REQUESTS_AHEAD = 4
"""Largest number of bursts whose addresses are issued before the data of the preceding burst have
ended. It exceeds the number of cycles from a request to its first burst."""


class AxiWriter(wiring.Component):
    """AXI4 write manager: issue bursts ahead, keep every burst inside the window, write beats in
    order.

    A burst outside the window or an error response is an error. On the first error the writer keeps
    the error code, opens no more bursts, accepts no requests and no data, and ends the open bursts
    with beats that write nothing (strobes 0). ``clear`` forgets the error and the current request,
    and also ends open bursts with strobes 0. When ``idle`` is high again, the writer is in its
    reset state. Address and payload stay stable until the bus accepts them, in every case. The data
    of a burst may be offered before its address is accepted, as AXI4 allows.

    Timing: 1 beat per cycle; a beat is offered to the bus in the cycle after the writer accepted
    the beat. The address of a burst is offered 2 cycles after its request, the data 3 cycles after
    the request, then 1 burst per cycle. Addresses are offered up to :data:`REQUESTS_AHEAD` bursts
    before their data. ``data.ready`` is combinational from ``axi.wready``. Valid signals of ``axi``
    are registers, 0 in reset; responses are always accepted.

    Parameters
    ----------
    data_width : int
        Bits of a beat (32, 64, 128, 256 or 512).
    outstanding : int
        Largest number of bursts open at a time (1 to 256).

    Members
    -------
    request : In(stream of owned_request_layout())
        Requests as :class:`diastole_hw.bus.split.BurstSplitter` accepts them.
    data : In(stream of {"data": unsigned(data_width), "strb": unsigned(data_width / 8)})
    axi : Out(AxiWriteSignature)
    base, limit : In(40)
        Window of bytes, the limit exclusive. Must stay stable unless idle.
    clear : In(1)
        Pulse, or a level held until ``idle``.
    error : Out(1), error_code : Out(8)
        ``WINDOW`` or ``WRITE_RESPONSE`` from the first error until ``clear``, else 0.
    error_command : Out(1)
        Command number of the failed request, valid while there is an error.
    answered, answered_command : Out(1), Out(1)
        Pulse: all bursts of the oldest request have a response, with the command number of the
        request. The written data are in memory.
    idle : Out(1)
        High without a request and when every burst has a response: all written data are in memory.
    moved : Out(1)
        High in a cycle in which the bus accepts a beat.

    ValueError if a parameter is out of range.
    """

    request: stream.Interface
    data: stream.Interface

    def __init__(self, *, data_width: int, outstanding: int = OPEN_WRITES):
        require_int("outstanding", outstanding, 1, 256)
        self.data_width, self.outstanding = data_width, outstanding
        super().__init__(
            {
                "request": In(stream.Signature(owned_request_layout())),
                "data": In(stream.Signature(write_beat_layout(data_width))),
                "axi": Out(AxiWriteSignature(data_width)),
                "base": In(ADDRESS_BITS),
                "limit": In(ADDRESS_BITS),
                "clear": In(1),
                "error": Out(1),
                "error_code": Out(8),
                "error_command": Out(1),
                "answered": Out(1),
                "answered_command": Out(1),
                "idle": Out(1),
                "moved": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        axi = self.axi
        split = BurstSplitter(data_width=self.data_width)
        lengths = StreamFifo(range(BURST_BEATS), REQUESTS_AHEAD)  # of bursts that lack data
        open_ = StreamFifo(_OPEN, self.outstanding, quick=True)  # bursts that lack a response
        m.submodules.split = split
        m.submodules.open = open_
        m.submodules.lengths = lengths
        wiring.connect(m, wiring.flipped(self.request), split.i)
        ending = Signal()  # a clear arrived while bursts were open
        fails = Signal()
        stopped = Signal()  # high in an error or while ``ending``; a register for many gates
        stop = Signal()
        requested = Signal()
        ended = Signal()  # a burst has its response
        queues_ready = open_.i.ready & lengths.i.ready
        m.d.comb += [
            self.error.eq(self.error_code != 0),
            stop.eq(stopped | self.clear),
            split.base.eq(self.base),
            split.limit.eq(self.limit),
            split.stop.eq(stop),
            split.clear.eq(self.clear),
            split.o.ready.eq((~axi.awvalid | axi.awready) & queues_ready),
            requested.eq(split.o.valid & split.o.ready),
            lengths.i.payload.eq(split.o.p.len),
            axi.bready.eq(1),
            ended.eq(axi.bvalid & axi.bready),
            open_.i.valid.eq(requested),
            open_.i.p.last.eq(split.o.p.last),
            open_.i.p.command.eq(split.o.p.owner_tag.command),
            open_.o.ready.eq(ended),
            self.answered.eq(ended & open_.o.p.last),
            self.answered_command.eq(open_.o.p.command),
            self.idle.eq(~split.busy & (open_.level == 0)),
        ]
        self._request(m, split.o.p, requested)
        self._beats(m, lengths, requested, stop)

        answered_badly = ended & axi.bresp[1]
        m.d.comb += fails.eq((answered_badly | split.outside) & ~stop)
        left = ending & (open_.level != 0)
        m.d.sync += stopped.eq(self.clear | self.error | fails | left)
        with m.If(fails):
            m.d.sync += [
                self.error_code.eq(Mux(answered_badly, ErrorCode.WRITE_RESPONSE, ErrorCode.WINDOW)),
                self.error_command.eq(
                    Mux(answered_badly, open_.o.p.command, split.o.p.owner_tag.command)
                ),
            ]
        with m.If(self.clear):
            m.d.sync += [self.error_code.eq(0), ending.eq(1)]
        with m.Elif(open_.level == 0):
            m.d.sync += ending.eq(0)
        return m

    def _request(self, m, burst, requested):
        axi = self.axi
        m.d.comb += [
            axi.awsize.eq(exact_log2(self.data_width // 8)),
            axi.awburst.eq(INCR),
            axi.awcache.eq(CACHE),
            axi.awprot.eq(PROT),
        ]
        addr, length = data_output(m, axi.awaddr, "addr"), data_output(m, axi.awlen, "len")
        with m.If(axi.awready):
            m.d.sync += axi.awvalid.eq(0)
        with m.If(requested):
            m.d.sync += [
                addr.eq(whole_beats(burst.addr, self.data_width // 8)),
                length.eq(burst.len),
                axi.awvalid.eq(1),
            ]

    def _beats(self, m, lengths, requested, stop):
        """Fill the output register with the beats of open bursts, with strobes 0 after a stop. A
        burst that is ``requested`` for while no length waits is filled from the next cycle on."""
        axi, length = self.axi, lengths.o
        filling = Signal()  # a burst is being filled
        left = data_register(range(BURST_BEATS))  # beats of the burst after this beat
        last = data_register()  # no beat is left after this beat
        word = data_output(m, axi.wdata, "word")
        strobes, ends = data_output(m, axi.wstrb, "strobes"), data_output(m, axi.wlast, "ends")
        free = Signal()
        accepted = Signal()
        beats = Signal(range(BURST_BEATS))  # beats of the next burst, less 1
        m.d.comb += [
            free.eq(filling & (~axi.wvalid | axi.wready)),
            self.data.ready.eq(free & ~stop),
            accepted.eq(free & (stop | self.data.valid)),
            length.ready.eq(~filling | (accepted & last)),
            lengths.i.valid.eq(requested & ~(length.ready & ~length.valid)),
            beats.eq(Mux(length.valid, length.payload, lengths.i.payload)),
            self.moved.eq(axi.wvalid & axi.wready),
        ]
        with m.If(axi.wready):
            m.d.sync += axi.wvalid.eq(0)
        with m.If(accepted):
            m.d.sync += [axi.wvalid.eq(1), ends.eq(last)]
            m.d.sync += [left.eq(left - 1), last.eq(left == 1)]
            m.d.sync += [word.eq(self.data.p.data), strobes.eq(self.data.p.strb)]
            with m.If(stop):
                m.d.sync += strobes.eq(0)
        with m.If(length.ready):
            m.d.sync += [filling.eq(length.valid | requested), left.eq(beats), last.eq(beats == 0)]
