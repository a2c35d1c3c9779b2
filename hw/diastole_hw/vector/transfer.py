"""Move entries of tables between memory and the vector unit: the commands load and store."""

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.bus.services import ReadSignature, WriteSignature
from diastole_hw.data_registers import data_register
from diastole_hw.transfer.address import AddressGenerator
from diastole_hw.vector.stream_layouts import STEP_BITS, WORD, VectorShape, row_layout
from diastole_hw.vector.vector_tables import (
    at_bits,
    bank_bits,
    chunk_bits,
    chunks,
    entry_bits,
    put_layout,
    take_layout,
)
from diastole_sim.spec.command_table import ADDRESS_BITS
from diastole_sim.spec.limits import WIDTH_BITS, VectorTable, vector_tables

MAX_BEATS = 256
"""Maximum number of beats of a request."""


def transfer_layout(shape: VectorShape) -> data.StructLayout:
    """Return the layout of a transfer of ``count`` entries of ``table``, from entry ``first`` on.
    The table must have the entries. In memory the entries lie side by side from
    ``address`` + step * ``advance`` on. ``address`` and ``advance`` are multiples of the beat.
    ``store``: transfer to memory; otherwise from memory."""
    return data.StructLayout(
        {
            "store": 1,
            "table": VectorTable,
            "first": unsigned(at_bits(shape)),
            "count": unsigned(at_bits(shape) + 1),
            "address": unsigned(ADDRESS_BITS),
            "advance": unsigned(STEP_BITS),
        }
    )


class TableTransfer(wiring.Component):
    """Move entries between memory and a table, 1 chunk (an entry, or a beat of an entry) per cycle.
    ``store`` sets write strobes in the last beat: nothing behind the last entry is written.

    Timing: the first request is sent when ``step`` * ``advance`` is computed. The multiplication
    takes as many cycles after ``start`` as ``step`` has bits (from the highest 1 on), plus 1.
    ``load`` writes a chunk in the cycle in which the chunk arrives. ``store`` reads the first chunk
    in the cycle after ``start``, and offers a beat 2 cycles after the read of the beat's last
    chunk. ``done`` is high in the cycle after all requests are accepted and the last chunk is
    written, or the last beat accepted. ``store`` reads a chunk of scale slots only every second
    cycle, because the slots may be read from outside in between.

    Parameters
    ----------
    shape : VectorShape

    Members
    -------
    start : In(1)
        Pulse, not before ``done`` of the previous transfer.
    transfer : In(transfer_layout(shape)), step : In(32)
        ``transfer`` is stable from ``start`` to ``done``. ``step`` is read in the cycle of
        ``start``.
    done : Out(1)
        Pulse.
    put, take, blocked : Out(put_layout(shape)), Out(take_layout(shape)), In(1)
        Ports of the tables. No chunk moves in a cycle with ``blocked``.
    constant, amax, panel : In(32), In(32), In(row_layout(shape))
        Word read by ``take``, valid 1 cycle later, until the next read.
    widths : In(2)
        Word of the table of widths, with the timing of ``amax``. Only with ``shape.has_choices``.
    read : Out(ReadSignature(data_width)), write : Out(WriteSignature(data_width))
        An arriving beat waits for nothing but earlier chunks.
    """

    transfer: data.View
    put: data.View
    take: data.View
    panel: data.View
    read: wiring.PureInterface
    write: wiring.PureInterface

    def __init__(self, shape: VectorShape):
        self.shape = shape
        super().__init__(
            {
                "start": In(1),
                "transfer": In(transfer_layout(shape)),
                "step": In(STEP_BITS),
                "done": Out(1),
                "put": Out(put_layout(shape)),
                "take": Out(take_layout(shape)),
                "blocked": In(1),
                "constant": In(WORD),
                "amax": In(WORD),
                "panel": In(row_layout(shape)),
                **({"widths": In(WIDTH_BITS)} if shape.has_choices else {}),
                "read": Out(ReadSignature(shape.data_width)),
                "write": Out(WriteSignature(shape.data_width)),
            }
        )

    @property
    def words(self) -> int:
        """Number of 32-bit words of a beat."""
        return self.shape.data_width // WORD

    def _is_shared(self):
        """Return whether the table is also read from outside."""
        shared = self.transfer.table == VectorTable.AMAX
        if self.shape.has_choices:
            shared |= self.transfer.table == VectorTable.WIDTHS
        return shared

    def elaborate(self, platform):
        m = Module()
        transfer, shape = self.transfer, self.shape
        left, at = Signal(len(transfer.count)), data_register(len(transfer.first))
        bank, unit = Signal(bank_bits(shape)), Signal(exact_log2(self.words))
        moves, ends_entry, ends_beat = Signal(), Signal(), Signal()
        for table, case in self._cases(m):
            width = chunk_bits(shape, table) // WORD
            with case:
                m.d.comb += ends_entry.eq(bank == chunks(shape, table) - 1)
                m.d.comb += ends_beat.eq((unit == self.words - width) | (left == 1))
                with m.If(moves):
                    m.d.sync += unit.eq(Mux(ends_beat, 0, unit + width))
        with m.If(moves):
            m.d.sync += bank.eq(bank + 1)
            with m.If(ends_entry):
                m.d.sync += [bank.eq(0), at.eq(at + 1), left.eq(left - 1)]
        with m.If(self.start):
            m.d.sync += [left.eq(transfer.count), at.eq(transfer.first)]
        m.d.comb += [self.put.table.eq(transfer.table), self.take.table.eq(transfer.table)]
        m.d.comb += [self.put.at.eq(at), self.take.at.eq(at), self.put.bank.eq(bank)]
        requested = self._request(m)
        self._load(m, left, unit, ends_beat)
        all_stored = self._store(m, left, bank, unit, ends_beat)
        m.d.comb += moves.eq(self.put.valid | self.take.valid)
        busy = Signal()
        m.d.comb += self.done.eq(busy & requested & all_stored & (left == 0))
        m.d.sync += busy.eq(self.start | (busy & ~self.done))
        m.d.sync += Assert(~self.start | ~busy, "a transfer begins within another")
        return m

    def _cases(self, m):
        """Yield every table, with the case in which the transfer uses the table."""
        with m.Switch(self.transfer.table):
            for table in vector_tables(choices=self.shape.has_choices):
                yield table, m.Case(table)

    def _request(self, m):
        """Send the requests. Return whether all requests have been accepted."""
        transfer, write = self.transfer, self.write.requests
        read, low = self.read.requests, exact_log2(self.words)
        longest = max(entry_bits(self.shape, table) for table in VectorTable) // WORD
        total = Signal(len(transfer.count) + exact_log2(longest) + 1)
        for table, case in self._cases(m):
            with case:
                words = transfer.count << exact_log2(entry_bits(self.shape, table) // WORD)
                m.d.comb += total.eq((words + self.words - 1) >> low)
        left = Signal.like(total, name="beats_left")
        beats = Signal(range(MAX_BEATS + 1))
        m.submodules.locate = locate = AddressGenerator(
            count_bits=STEP_BITS, step_bits=(MAX_BEATS * self.shape.beat_bytes).bit_length()
        )
        may_request = left.any() & locate.ready
        m.d.comb += [
            beats.eq(Mux(left > MAX_BEATS, MAX_BEATS, left)),
            locate.start.eq(self.start),
            locate.base.eq(transfer.address),
            locate.pitch.eq(transfer.advance),
            locate.count.eq(self.step),
            locate.step.eq(MAX_BEATS * self.shape.beat_bytes),
            locate.next.eq((read.valid & read.ready) | (write.valid & write.ready)),
            read.valid.eq(may_request & ~transfer.store),
            write.valid.eq(may_request & transfer.store),
        ]
        for request in (read.p, write.p):
            m.d.comb += [request.addr.eq(locate.address), request.beats.eq(beats)]
        with m.If(locate.next):
            m.d.sync += left.eq(left - beats)
        with m.If(self.start):
            m.d.sync += left.eq(total)
        return left == 0

    def _load(self, m, left, unit, ends_beat):
        """Write the chunks of an arriving beat to the table, aligned to the lowest bits. Word n
        exists only in chunks of more than n words, which begin at multiples of the shortest chunk
        length above n."""
        beats, takes = self.read.beats, Signal()
        m.d.comb += [
            takes.eq(~self.transfer.store & left.any() & ~self.blocked),
            beats.ready.eq(takes & ends_beat),
            self.put.valid.eq(takes & beats.valid),
        ]
        widths = sorted({chunk_bits(self.shape, table) // WORD for table in VectorTable})
        for number in range(widths[-1]):
            width = next(each for each in widths if each > number)
            start = Cat(Const(0, exact_log2(width)), unit[exact_log2(width) :])
            word = (beats.payload >> (WORD * number)).word_select(start, WORD)
            m.d.comb += Value.cast(self.put.chunk).word_select(number, WORD).eq(word)

    def _store(self, m, left, bank, unit, ends_beat):
        """Assemble beats from chunks, word by word. Return whether all beats have been accepted."""
        beats, words = self.write.beats, self.words
        available, free = (
            Signal(),
            Signal(),
        )  # a chunk has been read; the beat has space for the chunk
        fills, ready = Signal(), Signal()  # the chunk enters the beat; the next chunk may be read
        m.d.comb += [
            free.eq(~beats.valid | beats.ready),
            fills.eq(available & free),
            ready.eq(~available | fills),
            self.take.valid.eq(self.transfer.store & left.any() & ~self.blocked & ready),
        ]
        with m.If(self._is_shared()):  # an outside read may replace the word
            m.d.comb += ready.eq(~available & free)
        last, its_bank = data_register(name="last"), data_register(len(bank), name="its_bank")
        its_unit = data_register(len(unit), name="its_unit")
        with m.If(self.take.valid):
            m.d.sync += [available.eq(1), last.eq(ends_beat), its_bank.eq(bank), its_unit.eq(unit)]
        with m.Elif(fills):
            m.d.sync += available.eq(0)
        with m.If(fills):
            m.d.sync += beats.valid.eq(last)
        with m.Elif(beats.ready):
            m.d.sync += beats.valid.eq(0)
        here, chunk = self._chunk(m, its_bank, its_unit)
        stored_words = data_register(data.ArrayLayout(WORD, words), name="stored_words")
        valid = Signal(words)
        m.d.comb += beats.p.data.eq(Value.cast(stored_words))
        m.d.comb += beats.p.strb.eq(Cat(bit.replicate(WORD // 8) for bit in valid))
        with m.If(fills):
            m.d.sync += valid.eq(here | Mux(its_unit == 0, 0, valid))
            for number, word in enumerate(chunk):
                with m.If(here[number]):
                    m.d.sync += stored_words[number].eq(word)
        return ~available & ~beats.valid

    def _chunk(self, m, bank, unit):
        """Return which words of a beat the last read chunk fills, and, for every word of a beat,
        the new value of the word."""
        shape, table = self.shape, self.transfer.table
        here = Signal(self.words)
        panel = Signal(chunk_bits(shape, VectorTable.PANEL))
        m.d.comb += panel.eq(Value.cast(self.panel).word_select(bank, len(panel)))
        width = len(panel) // WORD
        of_panel = table == VectorTable.PANEL
        chunk = []
        for number in range(self.words):
            whole = unit[exact_log2(width) :] == number // width
            m.d.comb += here[number].eq(Mux(of_panel, whole, unit == number))
            word = Mux(table == VectorTable.AMAX, self.amax, self.constant)
            if shape.has_choices:
                word = Mux(table == VectorTable.WIDTHS, self.widths, word)
            chunk.append(Mux(of_panel, panel.word_select(number % width, WORD), word))
        return here, chunk
