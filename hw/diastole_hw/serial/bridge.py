"""Execute the requests of a host, every write once, and answer them."""

from functools import reduce
from operator import or_

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.bus.signature import DECERR, PROT, AxiLiteSignature
from diastole_hw.memory.ram import Ram
from diastole_hw.serial.frames import WORD_BITS, sent_layout
from diastole_hw.serial.shared_memory import WordPortSignature
from diastole_sim.spec.registers import ADDRESS_SPACE_BITS
from diastole_sim.spec.require import require_int
from diastole_sim.spec.serial import (
    HEAD_WORDS,
    IDENTITY,
    LINK_MAGIC,
    LINK_VERSION,
    MAX_WORDS,
    WRITES,
    LinkOperation,
    Status,
)

FCS_WORDS = 1
MAX_RECEIVED = HEAD_WORDS + MAX_WORDS + FCS_WORDS

HEAD = data.StructLayout({"operation": 4, "status": 3, "answer": 1, "words": 8, "sequence": 16})
"""First word of a frame, as defined in :mod:`diastole_sim.spec.serial`."""

_ANSWER = 1 << 7


class Bridge(wiring.Component):
    """Bridge between words of frames and the machine: the board's end of the serial link.

    The bridge receives a request, executes it word by word, and answers. It ignores frames that
    arrive or begin meanwhile, frames that are no requests, and incomplete frames. It keeps the
    sequence number and the status of the last executed write. A repetition of this write is
    answered, but not executed again; IDENTIFY makes the bridge forget the number. The status of an
    answer is the status of the first failed word; the remaining words are executed.

    Timing: a word of a write takes 2 cycles and its access. A word of a read takes its access, and
    2 cycles before the word is offered. The answer is offered when all words are done.

    Parameters
    ----------
    memory_base, memory_bytes, clock_hz : int
        Values of an identification (32 bits each).

    Members
    -------
    word, put, ends, good : In(32), In(1), In(1), In(1)
        Outputs of :class:`diastole_hw.serial.frames.Unframer`.
    answer : Out(stream of sent_layout())
    axil : Out(AxiLiteSignature())
        Port to the machine's registers.
    memory : Out(WordPortSignature())

    ValueError if a parameter is out of range.
    """

    answer: stream.Interface
    axil: wiring.PureInterface
    memory: wiring.PureInterface

    def __init__(self, *, memory_base: int, memory_bytes: int, clock_hz: int):
        for name, value in (("memory_base", memory_base), ("memory_bytes", memory_bytes)):
            require_int(name, value, 0, 2**WORD_BITS - 1)
        require_int("clock_hz", clock_hz, 1, 2**WORD_BITS - 1)
        self.memory_base, self.memory_bytes, self.clock_hz = memory_base, memory_bytes, clock_hz
        super().__init__(
            {
                "word": In(WORD_BITS),
                "put": In(1),
                "ends": In(1),
                "good": In(1),
                "answer": Out(stream.Signature(sent_layout())),
                "axil": Out(AxiLiteSignature()),
                "memory": Out(WordPortSignature()),
            }
        )

    @property
    def identity(self) -> list[int]:
        """Words of an identification."""
        words = {
            "magic": LINK_MAGIC,
            "version": LINK_VERSION,
            "memory_base": self.memory_base,
            "memory_bytes": self.memory_bytes,
            "clock_hz": self.clock_hz,
        }
        return [words[name] for name in IDENTITY]

    def elaborate(self, platform):
        m = Module()
        head = Signal(HEAD)
        address = Signal(WORD_BITS)
        words = Signal(range(MAX_RECEIVED + 2))  # words of the current request, with head and FCS
        index = Signal(range(MAX_WORDS + 1))
        status = Signal(3)
        writing = Signal()
        last = Signal(data.StructLayout({"valid": 1, "sequence": 16, "status": 3}))
        m.submodules.buffer = buffer = Ram(width=WORD_BITS, depth=MAX_WORDS + 1)
        listening, accessing = Signal(), Signal()
        request = self._receive(m, listening, words, head, address, buffer)
        m.d.comb += [writing.eq(_one_of(head.operation, WRITES)), buffer.read_addr.eq(index)]
        done, response, answer = self._access(
            m, accessing, head.operation, writing, address + (index << 2), buffer.read_data
        )
        with m.If(~listening):
            m.d.comb += [buffer.write_addr.eq(index), buffer.write_data.eq(answer)]
        repeated = writing & last.valid & (last.sequence == head.sequence)
        complete = words == HEAD_WORDS + FCS_WORDS + Mux(writing, head.words, 0)
        at_end = index == head.words - 1
        with m.FSM():
            # Receive frames until a complete request has arrived.
            with m.State("HEAR"):
                m.d.comb += listening.eq(1)
                with m.If(request):
                    m.next = "DECIDE"
            # Decide between execution, a repeated answer and a refusal.
            with m.State("DECIDE"):
                m.d.sync += [index.eq(0), status.eq(Status.DONE)]
                m.next = "ANSWER"
                with m.If(repeated):
                    m.d.sync += status.eq(last.status)
                with m.Elif(~complete | (head.operation > max(LinkOperation))):
                    m.d.sync += status.eq(Status.REFUSED)
                with m.Elif(head.operation == LinkOperation.IDENTIFY):
                    m.d.sync += last.valid.eq(0)
                with m.Else():
                    m.next = "FETCH"
                    with m.If(head.words == 0):
                        m.next = "DONE"
            # Read a data word of the request from the buffer.
            with m.State("FETCH"):
                m.d.comb += buffer.read_en.eq(1)
                m.next = "ACCESS"
            # Access a register or the memory; keep a word that is read.
            with m.State("ACCESS"):
                m.d.comb += accessing.eq(1)
                with m.If(done):
                    m.d.comb += buffer.write_en.eq(~writing)
                    m.d.sync += index.eq(index + 1)
                    with m.If(status == Status.DONE):
                        m.d.sync += status.eq(Mux(response[1], response, Status.DONE))
                    m.next = "FETCH"
                    with m.If(at_end):
                        m.next = "DONE"
            # Note sequence number and status of a write.
            with m.State("DONE"):
                with m.If(writing):
                    m.d.sync += [last.valid.eq(1), last.sequence.eq(head.sequence)]
                    m.d.sync += last.status.eq(status)
                m.next = "ANSWER"
            # Offer the first word of the answer.
            with m.State("ANSWER"):
                m.d.sync += index.eq(0)
                self._offer(m, head.as_value() | (status << 4) | _ANSWER)
                with m.If(self.answer.ready):
                    m.next = "ADDRESS"
            # Offer the second word, the address.
            with m.State("ADDRESS"):
                brings = ~writing & (status == Status.DONE) & (head.words != 0)
                self._offer(m, address, last=~brings)
                m.d.comb += buffer.read_en.eq(1)
                with m.If(self.answer.ready):
                    m.next = "HEAR"
                    with m.If(brings):
                        m.next = "GIVE"
            # Offer a word of data.
            with m.State("GIVE"):
                number = (address >> 2) + index
                identity = Mux(number < len(IDENTITY), Array(self.identity)[number[:3]], 0)
                word = Mux(head.operation == LinkOperation.IDENTIFY, identity, buffer.read_data)
                self._offer(m, word, last=at_end)
                with m.If(self.answer.ready):
                    m.d.sync += index.eq(index + 1)
                    m.next = "NEXT"
                    with m.If(at_end):
                        m.next = "HEAR"
            # Read the next word of data from the buffer.
            with m.State("NEXT"):
                m.d.comb += buffer.read_en.eq(1)
                m.next = "GIVE"
        return m

    def _offer(self, m, word, last=0):
        m.d.comb += [self.answer.valid.eq(1), self.answer.p.word.eq(word)]
        m.d.comb += self.answer.p.last.eq(last)

    def _receive(self, m, listening, words, head, address, buffer):
        """Store the words of a frame while ``listening``. Return whether a complete request has
        arrived."""
        received_words = Signal.like(words)  # the last value means too many words
        missed = Signal()  # part of the frame arrived while not ``listening``
        request = Signal()
        is_request = ~head.answer & (head.status == Status.DONE)
        m.d.comb += request.eq(
            self.ends
            & self.good
            & listening
            & ~missed
            & is_request
            & (received_words >= HEAD_WORDS + FCS_WORDS)
        )
        with m.If(self.ends):
            m.d.sync += [received_words.eq(0), missed.eq(0)]
        with m.If(request):
            m.d.sync += words.eq(received_words)
        with m.If(self.put):
            m.d.sync += missed.eq(missed | ~listening)
            with m.If(listening & (received_words <= MAX_RECEIVED)):
                m.d.sync += received_words.eq(received_words + 1)
        with m.If(listening):
            m.d.comb += [
                buffer.write_en.eq(
                    self.put & (received_words >= HEAD_WORDS) & (received_words < MAX_RECEIVED)
                ),
                buffer.write_addr.eq(received_words - HEAD_WORDS),
                buffer.write_data.eq(self.word),
            ]
            with m.If(self.put & (received_words == 0)):
                m.d.sync += head.eq(self.word)
            with m.If(self.put & (received_words == 1)):
                m.d.sync += address.eq(self.word)
        return request

    def _access(self, m, accessing, operation, writing, where, word):
        """Access a word while ``accessing``. Return whether the access is done, its response, and
        the word read."""
        axil, memory = self.axil, self.memory
        address = Signal(WORD_BITS, name="where")
        done = Signal()
        response = Signal(2)
        answer = Signal(WORD_BITS)
        inside = address[ADDRESS_SPACE_BITS:] == 0
        in_memory = _one_of(operation, (LinkOperation.READ_MEMORY, LinkOperation.WRITE_MEMORY))
        accepted = {name: Signal(name=f"{name}_accepted") for name in ("ar", "aw", "w")}
        register = accessing & ~in_memory & inside
        for name, sent in accepted.items():
            valid, ready = getattr(axil, f"{name}valid"), getattr(axil, f"{name}ready")
            m.d.comb += valid.eq(register & ~sent & (writing if name != "ar" else ~writing))
            m.d.sync += sent.eq((sent | (valid & ready)) & ~done)
        m.d.comb += [
            address.eq(where),
            *(each.eq(address) for each in (axil.araddr, axil.awaddr, memory.address)),
            *(each.eq(PROT) for each in (axil.arprot, axil.awprot)),
            *(each.eq(word) for each in (axil.wdata, memory.word)),
            axil.wstrb.eq(15),
            axil.rready.eq(register & ~writing),
            axil.bready.eq(register & writing),
            memory.valid.eq(accessing & in_memory),
            memory.write.eq(writing),
        ]
        with m.If(in_memory):
            m.d.comb += [done.eq(memory.done), response.eq(memory.response)]
            m.d.comb += answer.eq(memory.answer)
        with m.Elif(~inside):
            m.d.comb += [done.eq(1), response.eq(DECERR)]
        with m.Elif(writing):
            m.d.comb += [done.eq(axil.bvalid), response.eq(axil.bresp)]
        with m.Else():
            m.d.comb += [done.eq(axil.rvalid), response.eq(axil.rresp), answer.eq(axil.rdata)]
        return done, response, answer


def _one_of(value, choices):
    return reduce(or_, (value == choice for choice in choices))
