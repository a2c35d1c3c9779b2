"""What a conversion writes, in time: groups, plane by plane, and beats of maxima."""

from collections import deque
from collections.abc import Iterator

from diastole_sim.perf.modelled_converter import ModelledConverter
from diastole_sim.perf.modelled_machine import Memory
from diastole_sim.perf.result_store import ANSWERED, WRITES_AHEAD
from diastole_sim.spec.sizes.queues import BURST_BEATS

DRAINED = 3  # cycles to the first byte of maxima
HEADER = 4  # a header and its request


class ImageWrites:
    """The images of a tensor of ``rows`` x ``cols`` elements on their way to memory; times are
    cycles. ``byte``: the next one of exponents, or of maxima. ``write``: the cycle after the last
    beat."""

    def __init__(self, converter: ModelledConverter, memory: Memory, rows: int, cols: int):
        self.converter, self.memory = converter, memory
        self.lengths = converter.plane_beats(rows, cols)
        self.byte = 0
        self.beat = 0  # the next beat of exponents may begin
        self.write = converter.group.header_beats * HEADER * len(self.lengths)
        self.responses: deque[int] = deque()  # of the last bursts, oldest first
        self.packed = 0  # bytes of maxima that fill no beat yet
        self.maxima: int | None = None  # when a beat of them has come that has not gone

    def begin_at(self, cycle: int) -> None:
        """Nothing comes before."""
        self.byte = self.beat = cycle
        self.write += cycle

    @property
    def times(self) -> list[int]:
        """What it leaves behind."""
        come = [] if self.maxima is None else [self.maxima]
        return [self.byte, self.beat, self.write, *come, *self.responses]

    def later(self, cycles: int) -> None:
        """All that is left behind, by so many."""
        self.byte += cycles
        self.beat += cycles
        self.write += cycles
        self.maxima = self.maxima and self.maxima + cycles
        self.responses = deque(response + cycles for response in self.responses)

    def phases(self, groups: tuple[int, ...]) -> Iterator[int]:
        """Where the groups of these numbers in each copy begin, from where a burst may; where there
        is one plane bursts are too few for that to count."""
        if self.converter.planes > 1:
            yield from (group * self.converter.group.group_beats % BURST_BEATS for group in groups)

    def group(self, at: int, copy: int, number: int) -> tuple[int, int]:
        """A group's exponents, whose bytes come from a cycle on, and its elements behind them; the
        cycles after the last byte and after the exponents' last beat. A beat is packed while the
        one before it is written. Further planes follow, of which all is kept with the first.

        ``number``: its place in the image of a ``copy``."""
        converter, left = self.converter, self.converter.group.exponent_entries
        first, last, taken, come = True, 0, 0, max(at, self.byte, self.beat)
        while left:
            count = min(left, converter.beat_bytes)
            left, come = left - count, come + count
            if first and self.maxima is not None and max(self.write, self.maxima) < come:
                self.write_maxima(self.maxima)  # there are no exponents yet
            taken = self._asked(max(self.write, come) + 1) + 1 if first else come + 1
            first, last, come = False, come, taken - 1
        self.byte, self.beat = last, come
        address = number * converter.group.group_beats
        self._written(taken + converter.group.element_beats, address)
        for plane in range(1, converter.planes):
            begin = self._asked(self.write + 1)
            self._written(begin + converter.group.group_beats, address + plane * self.lengths[copy])
        return last, taken

    def _asked(self, first: int) -> int:
        """When a burst's first beat goes that might in a cycle: so many may lack a response."""
        if len(self.responses) == WRITES_AHEAD:
            return max(first, self.responses.popleft() + ANSWERED)
        return first

    def _written(self, end: int, address: int) -> None:
        """A group's last beat might go before a cycle: at a multiple of 64 beats, from an
        ``address`` in beats on, another burst begins."""
        beats = self.converter.group.group_beats
        room = BURST_BEATS - address % BURST_BEATS
        while self.converter.planes > 1 and room < beats:
            begin = end - beats + room
            self._answered(begin)
            end += self._asked(begin) - begin
            beats, room = beats - room, BURST_BEATS
        self.write = end
        self._answered(end)

    def _answered(self, end: int) -> None:
        self.responses.append(end + self.memory.response_cycles)

    def drain(self, count: int, *, last: bool) -> None:
        """So many maxima come, a byte a cycle; behind the ``last`` ones the beat is filled up. The
        next beat begins when the one before it has gone."""
        byte = self.byte + DRAINED
        while count:
            if self.maxima is not None:
                byte = max(byte, self.write_maxima(self.maxima))
            more = min(count, self.converter.beat_bytes - self.packed)
            count, self.packed, byte = count - more, self.packed + more, byte + more
            if self.packed == self.converter.beat_bytes or (last and not count):
                self.packed, self.maxima = 0, byte
        self.byte = byte

    def write_maxima(self, come: int) -> int:
        """A beat of them goes, to every plane: when the next may begin."""
        self.maxima = None
        for _ in range(self.converter.planes):
            self.write = self._asked(max(self.write, come) + 1) + 1
            self._answered(self.write)
        return self.write - 1
