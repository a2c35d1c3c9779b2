"""Memory on the chip, shared by machine and bridge."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2, exact_log2

from diastole_hw.bus.signature import DECERR, OKAY, AxiSignature
from diastole_hw.memory.ram import Ram
from diastole_sim.spec.image import DATA_WIDTHS
from diastole_sim.spec.require import require_choice, require_int

WORD_BYTES = 4
MAX_BYTES = 1 << 24


class WordPortSignature(wiring.Signature):
    """Port of the bridge to memory, a word at a time, seen from the bridge.

    ``valid``, with ``write``, ``address`` in bytes, a multiple of 4, and ``word``, stays until
    ``done``, a pulse. Valid with ``done`` are ``answer``, the word read, and ``response`` as in
    AXI.
    """

    def __init__(self):
        super().__init__(
            {
                "valid": Out(1),
                "write": Out(1),
                "address": Out(32),
                "word": Out(32),
                "done": In(1),
                "answer": In(32),
                "response": In(2),
            }
        )


class SharedMemory(wiring.Component):
    """AXI4 subordinate in front of memory, with a second port for words that has priority.

    The unit accepts AXI requests as machines send them: bursts of whole beats with ascending
    addresses, without IDs. A burst that begins outside the memory is answered with DECERR, and
    writes nothing. A burst that begins inside stays inside, because bursts end at multiples of 4096
    bytes. Data that are read while they are written are undefined.

    Timing: 1 burst per direction at a time, 1 beat per cycle, the first beat 2 cycles after its
    address. A word of the second port takes 2 cycles, and delays a beat. ``ready`` signals are
    functions of registers and of ``port``; in reads also of ``rready``.

    Parameters
    ----------
    data_width : int
        Bits of a beat (32, 64, 128, 256 or 512).
    base, size : int
        First address, and bytes (4096 to 2**24, a multiple of 4096); ``base`` is a multiple of the
        next power of two.

    Members
    -------
    axi : In(AxiSignature(data_width))
    port : In(WordPortSignature())

    ValueError if a parameter is out of range.
    """

    axi: wiring.PureInterface
    port: wiring.PureInterface

    def __init__(self, *, data_width: int, base: int = 0, size: int):
        require_choice("data_width", data_width, DATA_WIDTHS)
        require_int("size", size, 4096, MAX_BYTES)
        require_int("base", base, 0, 2**32 - size)
        if size % 4096 or base % (1 << ceil_log2(size)):
            raise ValueError(
                f"base and size must be multiples of {1 << ceil_log2(size)} and 4096, not {base} "
                f"and {size}"
            )
        self.data_width, self.base, self.size = data_width, base, size
        members = {"axi": In(AxiSignature(data_width)), "port": In(WordPortSignature())}
        super().__init__(members)

    @property
    def beat_bytes(self) -> int:
        return self.data_width // 8

    def elaborate(self, platform):
        m = Module()
        lanes = [Ram(width=8, depth=self.size // self.beat_bytes) for _ in range(self.beat_bytes)]
        for number, lane in enumerate(lanes):
            m.submodules[f"lane_{number}"] = lane
        here = Signal()
        m.d.comb += here.eq(self._inside(self.port.address))
        self._reads(m, lanes, here)
        self._writes(m, lanes, here)
        return m

    def _inside(self, address):
        """Return whether an address is inside the memory."""
        high = ceil_log2(self.size)
        return (address[high:] == self.base >> high) & (address[:high] < self.size)

    def _beat(self, address):
        """Return the number of the beat at an address."""
        return address[exact_log2(self.beat_bytes) : ceil_log2(self.size)]

    def _word(self, address):
        """Return the number of the word in its beat."""
        return address[exact_log2(WORD_BYTES) : exact_log2(self.beat_bytes)]

    def _reads(self, m, lanes, here):
        axi, port = self.axi, self.port
        reading = Signal()
        beat = Signal(range(self.size // self.beat_bytes))
        left = Signal(8)
        bad = Signal()
        free = Signal()  # the last read beat is accepted
        requested = Signal()
        word_valid = Signal()  # the requested word is valid
        issue = Signal()
        shown = Signal(max(len(self._word(port.address)), 1))
        outside = Signal()
        m.d.comb += [
            free.eq(~axi.rvalid | axi.rready),
            requested.eq(port.valid & ~port.write & ~word_valid & free),
            issue.eq(reading & free & ~requested),
            axi.arready.eq(~reading),
        ]
        m.d.sync += word_valid.eq(requested)
        with m.If(axi.arvalid & axi.arready):
            m.d.sync += [reading.eq(1), beat.eq(self._beat(axi.araddr)), left.eq(axi.arlen)]
            m.d.sync += bad.eq(~self._inside(axi.araddr))
        with m.If(issue):
            m.d.sync += [beat.eq(beat + 1), left.eq(left - 1), reading.eq(left != 0)]
        with m.If(free):
            m.d.sync += [axi.rvalid.eq(issue), axi.rlast.eq(left == 0)]
            m.d.sync += axi.rresp.eq(Mux(bad, DECERR, OKAY))
        for number, lane in enumerate(lanes):
            m.d.comb += [
                lane.read_en.eq(issue | requested),
                lane.read_addr.eq(Mux(requested, self._beat(port.address), beat)),
                axi.rdata[8 * number : 8 * number + 8].eq(lane.read_data),
            ]
        with m.If(requested):
            m.d.sync += [shown.eq(self._word(port.address)), outside.eq(~here)]
        words = [axi.rdata[k : k + 32] for k in range(0, self.data_width, 32)]
        m.d.comb += port.answer.eq(Array(words)[shown] if len(words) > 1 else words[0])
        with m.If(word_valid):
            m.d.comb += [port.done.eq(1), port.response.eq(Mux(outside, DECERR, OKAY))]

    def _writes(self, m, lanes, here):
        axi, port = self.axi, self.port
        writing = Signal()
        beat = Signal(range(self.size // self.beat_bytes))
        bad = Signal()
        put = Signal()  # a word of the second port
        written = Signal()
        accepted = Signal()
        m.d.comb += [
            put.eq(port.valid & port.write & ~written),
            axi.awready.eq(~writing & ~axi.bvalid),
            axi.wready.eq(writing & ~put),
            accepted.eq(axi.wvalid & axi.wready),
        ]
        m.d.sync += written.eq(put)
        with m.If(axi.bready):
            m.d.sync += axi.bvalid.eq(0)
        with m.If(axi.awvalid & axi.awready):
            m.d.sync += [writing.eq(1), beat.eq(self._beat(axi.awaddr))]
            m.d.sync += bad.eq(~self._inside(axi.awaddr))
        with m.If(accepted):
            m.d.sync += beat.eq(beat + 1)
            with m.If(axi.wlast):
                m.d.sync += [writing.eq(0), axi.bvalid.eq(1)]
                m.d.sync += axi.bresp.eq(Mux(bad, DECERR, OKAY))
        number = self._word(port.address)
        for byte, lane in enumerate(lanes):
            mine = (number == byte // WORD_BYTES) if len(number) else 1
            m.d.comb += [
                lane.write_en.eq(Mux(put, here & mine, accepted & axi.wstrb[byte] & ~bad)),
                lane.write_addr.eq(Mux(put, self._beat(port.address), beat)),
                lane.write_data.eq(
                    Mux(
                        put,
                        port.word.word_select(byte % WORD_BYTES, 8),
                        axi.wdata[8 * byte : 8 * byte + 8],
                    )
                ),
            ]
        with m.If(written):
            m.d.comb += [port.done.eq(1), port.response.eq(Mux(here, OKAY, DECERR))]
