"""Reads memory: requests of any length in, their beats out in order."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.bus.services import FETCH, owned_beat_layout, owned_request_layout, whose_layout
from diastole_hw.bus.signature import CACHE, INCR, PROT, AxiReadSignature
from diastole_hw.bus.split import BurstSplitter
from diastole_hw.data_registers import data_output
from diastole_hw.stream.fifo import StreamFifo
from diastole_hw.transfer.address import whole_beats
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.command_table import ADDRESS_BITS
from diastole_sim.spec.require import require_int

OPEN_READS = 32
"""Bursts that a reader may have open at a time, if nothing else is said."""


class AxiReader(wiring.Component):
    """AXI4 read manager: bursts ahead, every burst inside the window, beats in order.

    On the first error, a burst outside the window or an error response, it keeps the error's code,
    asks for nothing more, takes no requests, and drops the beats of open bursts. ``clear`` forgets
    the error, the request at hand and the beats of bursts that are still open; when ``idle`` is
    high again, the reader is as new. An error response to the owner ``FETCH`` is no error here: its
    beat is given, ``failed``. Address and payload stay as they are until they are accepted,
    and open bursts are read to their end, whatever happens.

    Timing: one beat per cycle; a beat leaves in the cycle after it came. A burst is asked for 2
    cycles after its request, then one burst per cycle. ``axi.rready`` is combinational from
    ``data.ready``. Valid signals of ``axi`` are registers, 0 in reset.

    Parameters
    ----------
    data_width : int
        Bits of a beat (32, 64, 128, 256 or 512).
    outstanding : int
        Most bursts open at a time (1 to 256).

    Members
    -------
    request : In(stream of owned_request_layout())
        As of :class:`diastole_hw.bus.split.BurstSplitter`. Every beat that is asked for must be
        taken from ``data``: there is no buffer, and a beat not taken stops the bus.
    data : Out(stream of owned_beat_layout(data_width))
        With a bit for the owner of its request. ``clear`` may take a valid beat away.
    axi : Out(AxiReadSignature)
    base, limit : In(40)
        Window of bytes, the limit exclusive. Must hold unless idle.
    clear : In(1)
        A pulse, or held until ``idle``.
    error : Out(1), error_code : Out(8)
        ``WINDOW`` or ``READ_RESPONSE`` from the first error until ``clear``, else 0.
    error_command : Out(1)
        Of the request that failed; while there is an error.
    idle : Out(1)
        No request, no open burst, no beat waiting.
    moved : Out(1)
        A beat came in this cycle.

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
        # Bursts whose last beat was not seen; the first beat may come as soon as one is asked for.
        m.submodules.open = open_ = StreamFifo(whose_layout(), self.outstanding, quick=True)
        dropping = Signal()  # a clear came while bursts were open
        fails = Signal()
        stopped = Signal()  # there is an error, or ``dropping``: much waits for it
        stop = Signal()
        asked = Signal()
        ended = Signal()
        m.d.comb += [
            self.error.eq(self.error_code != 0),
            stop.eq(stopped | self.clear),
            split.base.eq(self.base),
            split.limit.eq(self.limit),
            split.stop.eq(stop),
            split.clear.eq(self.clear),
            split.o.ready.eq((~axi.arvalid | axi.arready) & open_.i.ready),
            asked.eq(split.o.valid & split.o.ready),
            ended.eq(self.moved & axi.rlast),
            open_.i.valid.eq(asked),
            open_.i.payload.eq(split.o.p.whose),
            open_.o.ready.eq(ended),
            self.idle.eq(~split.held & (open_.level == 0) & ~self.data.valid),
        ]
        fatal = Signal()  # the beat ends all
        m.d.comb += fatal.eq(axi.rresp[1] & (open_.o.p.owner != FETCH))
        self._ask(m, split.o.p, asked)
        self._beats(m, stop, open_.o.p, fatal)

        answered_badly = self.moved & fatal
        m.d.comb += fails.eq((answered_badly | split.outside) & ~stop)
        left = dropping & (open_.level != 0)
        m.d.sync += stopped.eq(self.clear | self.error | fails | left)
        with m.If(fails):
            m.d.sync += [
                self.error_code.eq(Mux(answered_badly, ErrorCode.READ_RESPONSE, ErrorCode.WINDOW)),
                self.error_command.eq(
                    Mux(answered_badly, open_.o.p.command, split.o.p.whose.command)
                ),
            ]
        with m.If(self.clear):
            m.d.sync += [self.error_code.eq(0), dropping.eq(1)]
        with m.Elif(open_.level == 0):
            m.d.sync += dropping.eq(0)
        return m

    def _ask(self, m, burst, asked):
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
        with m.If(asked):
            m.d.sync += [
                addr.eq(whole_beats(burst.addr, self.data_width // 8)),
                length.eq(burst.len),
                axi.arvalid.eq(1),
            ]

    def _beats(self, m, stop, whose, fatal):
        axi = self.axi
        beat = data_output(m, self.data.payload, "beat")
        free = ~self.data.valid | self.data.ready
        m.d.comb += [
            axi.rready.eq(stop | free),
            self.moved.eq(axi.rvalid & axi.rready),
        ]
        with m.If(free):  # whatever is there: whether it is a beat is known late
            m.d.sync += [beat.data.eq(axi.rdata), beat.failed.eq(axi.rresp[1])]
            m.d.sync += beat.units.eq(1 << whose.owner)
            m.d.sync += self.data.valid.eq(axi.rvalid & ~stop & ~fatal)
        with m.If(self.clear):
            m.d.sync += self.data.valid.eq(0)
