"""Model the writes of a conversion in time: groups, plane by plane, and beats of maxima."""

from collections import deque
from collections.abc import Iterator

from diastole_sim.perf.modelled_converter import ModelledConverter
from diastole_sim.perf.modelled_machine import Memory
from diastole_sim.perf.result_store import RESPONSE_TO_BEAT
from diastole_sim.spec.sizes.queues import BURST_BEATS, OPEN_WRITES

DRAINED = 3  # cycles to the first byte of maxima
HEADER = 4  # cycles of a header and its request


class ImageWrites:
    """Write the images of a tensor of ``rows`` x ``cols`` elements to memory; times are cycles.
    ``byte``: time of the next byte of exponents or of maxima. ``write``: cycle after the last
    beat."""

    def __init__(self, converter: ModelledConverter, memory: Memory, rows: int, cols: int):
        self.converter, self.memory = converter, memory
        self.lengths = converter.plane_beats(rows, cols)
        self.byte = 0
        self.beat = 0  # when the next beat of exponents may begin
        self.write = converter.group.header_beats * HEADER * len(self.lengths)
        self.responses: deque[int] = deque()  # of the last bursts, oldest first
        self.packed = 0  # bytes of maxima that do not yet fill a beat
        self.maxima: int | None = None  # when the waiting beat of maxima was complete

    def begin_at(self, cycle: int) -> None:
        """Begin in ``cycle``; nothing is written before."""
        self.byte = self.beat = cycle
        self.write += cycle

    @property
    def times(self) -> list[int]:
        """Times that later writes depend on."""
        come = [] if self.maxima is None else [self.maxima]
        return [self.byte, self.beat, self.write, *come, *self.responses]

    def later(self, cycles: int) -> None:
        """Shift all times by ``cycles`` cycles."""
        self.byte += cycles
        self.beat += cycles
        self.write += cycles
        self.maxima = self.maxima and self.maxima + cycles
        self.responses = deque(response + cycles for response in self.responses)

    def phases(self, groups: tuple[int, ...]) -> Iterator[int]:
        """Yield the positions at which the groups with these numbers begin, in beats from the
        preceding bound of a burst. With a single plane nothing is yielded, because bursts are then
        too few for the position to matter."""
        if self.converter.planes > 1:
            yield from (group * self.converter.group.group_beats % BURST_BEATS for group in groups)

    def group(self, at: int, copy: int, number: int) -> tuple[int, int]:
        """Write a group's exponents, whose bytes arrive from cycle ``at`` on, followed by the
        elements. Return the cycles after the last byte and after the last beat of exponents. A beat
        is packed while the beat before is written. Further planes follow, with all data kept along
        with the first plane.

        ``number``: place of the group in the image of a ``copy``.
        """
        converter, left = self.converter, self.converter.group.exponent_entries
        first, last, accepted, come = True, 0, 0, max(at, self.byte, self.beat)
        while left:
            count = min(left, converter.beat_bytes)
            left, come = left - count, come + count
            if first and self.maxima is not None and max(self.write, self.maxima) < come:
                self.write_maxima(self.maxima)  # there are no exponents yet
            accepted = self._request_cycle(max(self.write, come) + 1) + 1 if first else come + 1
            first, last, come = False, come, accepted - 1
        self.byte, self.beat = last, come
        address = number * converter.group.group_beats
        self._written(accepted + converter.group.element_beats, address)
        for plane in range(1, converter.planes):
            begin = self._request_cycle(self.write + 1)
            self._written(begin + converter.group.group_beats, address + plane * self.lengths[copy])
        return last, accepted

    def _request_cycle(self, first: int) -> int:
        """Return when the first beat of a burst is written that may be written from cycle ``first``
        on. At most :data:`OPEN_WRITES` bursts may lack a response."""
        if len(self.responses) == OPEN_WRITES:
            return max(first, self.responses.popleft() + RESPONSE_TO_BEAT)
        return first

    def _written(self, end: int, address: int) -> None:
        """Record a group whose last beat could be written before cycle ``end``. Another burst
        begins at every multiple of 64 beats, counted from ``address``, which is in beats."""
        beats = self.converter.group.group_beats
        free_beats = BURST_BEATS - address % BURST_BEATS
        while self.converter.planes > 1 and free_beats < beats:
            begin = end - beats + free_beats
            self._answered(begin)
            end += self._request_cycle(begin) - begin
            beats, free_beats = beats - free_beats, BURST_BEATS
        self.write = end
        self._answered(end)

    def _answered(self, end: int) -> None:
        self.responses.append(end + self.memory.response_cycles)

    def drain(self, count: int, *, last: bool) -> None:
        """Pack ``count`` maxima, a byte per cycle. The beat is filled up after the ``last`` maxima.
        The next beat begins when the beat before has been written."""
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
        """Write a beat of maxima to every plane; return when the next beat may begin."""
        self.maxima = None
        for _ in range(self.converter.planes):
            self.write = self._request_cycle(max(self.write, come) + 1) + 1
            self._answered(self.write)
        return self.write - 1
