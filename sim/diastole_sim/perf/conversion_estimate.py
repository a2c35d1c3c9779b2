"""Estimate a convert command: cycles, and exact beats."""

from collections import deque
from dataclasses import dataclass
from itertools import chain

from diastole_sim.perf.draw_delays import (
    LONG_AGO,
    Line,
    hashed_together,
    line_delay,
    max_slack,
    row_delay,
)
from diastole_sim.perf.image_writes import ImageWrites
from diastole_sim.perf.modelled_converter import ModelledConverter
from diastole_sim.perf.modelled_machine import Memory
from diastole_sim.perf.starts import RowStarts
from diastole_sim.spec.image import MAX_SIZE
from diastole_sim.spec.integers import ceil_div
from diastole_sim.spec.limits import slot_words
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics
from diastole_sim.spec.require import require_choice, require_int
from diastole_sim.spec.sizes.queues import OPEN_READS

# Measured cycles between units.
FOLLOWING = 3  # rows of blocks of a tile after which all rows take equally long
LANE_START = 4  # from a piece's last word to its first word through the lanes
BEGUN = 3  # to the first request
SCANNED = 3  # from a tensor's last word to the first request of the second reading, and 1
# more for every level of the comparison of lanes in pairs
TRIAL_CYCLES = 13  # from a tile's last word to the first word stored by the scales found
BETWEEN = 1  # from a tile's last word to the next tile's first, if tiles pass twice
STORED = 2  # from the lanes to a group's first byte
COPY_CHOICE = 2  # from the choice between two copies to the first byte
REPORTED = 3  # from the last response to the command's end
WAITING_GROUPS = 2  # whole groups of the second copy whose beats wait
REQUEST_LEAD = 4  # a request is sent this early before the end of an older one


def slot_cycles(numerics: Numerics, slot_plus_1: int) -> int:
    """Return the cycles in which a conversion of a program reads the words of its scale slot.
    ``slot_plus_1``: 0 without a slot."""
    return 1 + slot_words(numerics) if slot_plus_1 and numerics.has_tensor_scales else 0


@dataclass(frozen=True, kw_only=True)
class ConversionEstimate:
    """Costs of a convert command.

    ``cycles`` is an estimate. On `nano` and `edge` the mean error is 0.6 % at most (``pytest bench
    -k cycles_off``), mostly for vectors, whose tiles have few rows. Most tensors in squares are
    right to the cycle. Tests allow 2 %, or 4 % if a far memory has no more reads open, and 12 % in
    blocks of less than 4. ``read_beats`` and ``write_beats`` are exact. ``words``: cycles in which
    the lanes have work. A machine has one converter, at its first port.
    """

    tensor_class: str
    rows: int
    cols: int
    beat_bytes: int
    cycles: int
    words: int
    read_beats: int
    write_beats: int

    @property
    def read_bytes(self) -> int:
        return self.read_beats * self.beat_bytes

    @property
    def write_bytes(self) -> int:
        return self.write_beats * self.beat_bytes


def estimate_conversion(
    numerics: Numerics,
    tensor_class: str,
    rows: int,
    cols: int,
    *,
    data_width: int,
    memory: Memory,
    has_scale: bool | None = None,
    width: int | None = None,
) -> ConversionEstimate:
    """Estimate the conversion of a tensor of ``rows`` x ``cols`` elements. ``has_scale``: True if
    the scale is given, and need not be read from the tensor. The default is True for machines whose
    scales are not ``current``, although the first of ``delayed`` scales is read. ``width``: bits of
    magnitude if widths are chosen at every conversion, None for the widest. ValueError if an
    argument is out of range."""
    require_choice("tensor_class", tensor_class, CLASS_NAMES)
    for name, size in (("rows", rows), ("cols", cols)):
        require_int(name, size, 1, MAX_SIZE)
    converter = ModelledConverter(
        numerics=numerics, tensor_class=tensor_class, data_width=data_width, width=width
    )
    if has_scale is None:
        has_scale = numerics.source != "current"
    twice = converter.scans and not has_scale
    return ConversionEstimate(
        tensor_class=tensor_class,
        rows=rows,
        cols=cols,
        beat_bytes=converter.beat_bytes,
        cycles=ConversionRun(converter, memory, rows, cols).run(twice),
        words=converter.words(rows, cols),
        read_beats=rows * ceil_div(cols, converter.floats) * (1 + twice),
        write_beats=converter.image_beats(rows, cols),
    )


class TileReading:
    """Request rows of tiles, and take rows when their tile has space."""

    def __init__(self, converter: ModelledConverter, memory: Memory, start: int):
        self.converter, self.latency = converter, memory.read_cycles
        self.requested = self.accepted = start  # last request; the cycle after the last word
        self.open = deque([LONG_AGO] * OPEN_READS)  # when requests have arrived
        self.ends = deque([LONG_AGO] * converter.tiles_ahead)  # when tiles have ended

    def tile(self, rows: int, cols: int, free: int) -> list[int]:
        """Return when every piece of a tile is known. ``free``: cycle from which the tile's place
        is free."""
        converter, piece_cycles = self.converter, list[int]()
        allowed = self.ends.popleft() + 1
        for width in converter.pieces(cols):
            cycles = max(ceil_div(width, converter.lanes), ceil_div(width, converter.floats))
            for _ in range(rows):
                self.requested = max(
                    self.requested + 1, allowed, self.open.popleft() - REQUEST_LEAD
                )
                self.accepted = max(self.accepted, self.requested + self.latency, free) + cycles
                self.open.append(self.accepted)
            piece_cycles.append(self.accepted + LANE_START + converter.measure_cycles)
        self.ends.append(self.accepted)
        return piece_cycles

    @property
    def times(self) -> list[int]:
        """Times that later tiles depend on."""
        return [self.requested, self.accepted, *self.open, *self.ends]

    @property
    def since(self) -> tuple[int, ...]:
        """Times that later tiles depend on, in cycles after the last word."""
        return tuple(max(time - self.accepted, LONG_AGO // 2) for time in self.times)

    def later(self, cycles: int) -> None:
        """Shift all times by ``cycles`` cycles."""
        self.requested += cycles
        self.accepted += cycles
        self.open = deque(time + cycles for time in self.open)
        self.ends = deque(time + cycles for time in self.ends)


@dataclass
class _TransposedStrip:
    """Group of the second copy that waits to be read and written."""

    number: int  # number in its image
    filled: int  # when its strip is complete
    words: int
    beats: int
    last: bool  # True for the last group of a strip
    ready: int | None = None


class ConversionRun:
    """Run one convert command."""

    def __init__(self, converter: ModelledConverter, memory: Memory, rows: int, cols: int):
        self.converter, self.memory = converter, memory
        self.rows, self.cols = rows, cols
        self.reading = TileReading(converter, memory, BEGUN)
        self.starts, self.early = (RowStarts(BEGUN, converter.row_start) for _ in range(2))
        self.lane = 0  # the cycle after the last word in the lanes
        self.slack = 0  # wait of the first words of a row of blocks, in cycles
        self.before: tuple[Line, ...] = ()  # rows of blocks without a pause between them
        self.line: Line = 0, 0  # row of blocks that is being stored
        self.places = deque([LONG_AGO] * converter.buffered_tiles)  # when tiles have left
        self.groups = deque([LONG_AGO] * 2)  # when elements of first-copy groups have left
        self.fields = deque([LONG_AGO] * 2)  # when exponents of first-copy groups have left
        self.writes = ImageWrites(converter, memory, rows, cols)
        self.copy_choice = 0  # next choice between two copies
        self.transposed: deque[_TransposedStrip] = deque()
        self.strips = deque([LONG_AGO] * 2)
        self.read = LONG_AGO  # cycle after the last word read of the second copy
        self.field = LONG_AGO  # last byte of exponents of the second copy
        self.waiting_groups = deque[
            tuple[int, int]
        ]()  # second-copy groups: beats, and begin of leaving

    def run(self, twice: bool) -> int:
        """Return the cycles of the command, with two readings if ``twice``."""
        if twice:
            compared = (self.converter.lanes - 1).bit_length()
            self.begin_at(self._scan() + SCANNED + compared)
        row, seen = 0, dict[tuple[int, ...], tuple[int, int]]()
        while row < self.rows:
            self.tiles(row)
            row += self.converter.tile_rows
            row = self._repeat(row, seen)
        return self.finish() + self.memory.response_cycles + REPORTED

    def finish(self) -> int:
        """Finish after all tiles have arrived; return the cycle after the last beat."""
        while self.transposed:
            self._write_transposed()
        per_block = self.converter.block if self.converter.vectors else 1
        writes = self.writes
        writes.drain(ceil_div(self.cols, self.converter.block) * per_block, last=True)
        if writes.maxima is not None:
            writes.write_maxima(writes.maxima)
        return writes.write

    def _scan(self) -> int:
        """Read the tensor for the first time; return the cycle after the last word. Rows of tiles
        repeat once a row of tiles leaves the state of an earlier one."""
        converter, seen = self.converter, dict[tuple[int, ...], tuple[int, int]]()
        reading = TileReading(converter, self.memory, BEGUN)
        row = 0
        while row < self.rows:
            for width in converter.tiles(self.cols):
                reading.tile(min(converter.tile_rows, self.rows - row), width, LONG_AGO)
            row += converter.tile_rows
            first, accepted = seen.setdefault(reading.since, (row, reading.accepted))
            count = max(0, self.rows - 1 - row) // (row - first) if row > first else 0
            if count:
                reading.later(count * (reading.accepted - accepted))
                row += count * (row - first)
                seen.clear()
        return reading.accepted

    def begin_at(self, cycle: int) -> None:
        """Begin in ``cycle``; nothing happens before."""
        self.reading = TileReading(self.converter, self.memory, cycle)
        self.lane = self.copy_choice = cycle
        self.starts, self.early = (RowStarts(cycle, self.converter.row_start) for _ in range(2))
        self.writes.begin_at(cycle)

    # Repeated rows of tiles.

    def _state(self, row: int) -> tuple[int, ...]:
        """Return the state after a row of tiles, with times relative to the time of the lanes."""
        times = [
            *self.reading.times, *self.places, *self.groups, *self.fields, *self.writes.times,
        ]  # fmt: skip
        if self.converter.row_start:
            times += self.starts.times + self.early.times
        if self.converter.two_copies:
            times.append(self.copy_choice)
        if self.converter.vectors:
            times += [*self.strips, self.read, self.field]
            times += [gone for _, gone in self.waiting_groups]
            times += [each.filled for each in self.transposed]
            times += [each.ready or LONG_AGO for each in self.transposed]
        numbers = self._number(row, 0), self._transposed_number(row, 0)
        return (
            self.writes.packed,
            self.writes.maxima is None,
            *self.writes.phases(numbers[: 1 + self.converter.vectors]),
            *self._place(row, 0),
            len(self.before),
            *chain.from_iterable(self.before),
            *self.line,
            *(max(time - self.lane, LONG_AGO // 2) for time in times),
        )

    def _repeat(self, row: int, earlier: dict[tuple[int, ...], tuple[int, int]]) -> int:
        """Return the row of elements to continue with. If a row of tiles leaves the state of an
        earlier one, only later, all rows of tiles between the two repeat."""
        state = self._state(row)
        if state not in earlier:
            earlier[state] = row, self.lane
            return row
        first, lane = earlier[state]
        count = (self.rows - 1 - row) // (row - first)
        if count > 0:
            self._later(count * (self.lane - lane))
            earlier.clear()
        return row + max(0, count) * (row - first)

    def _later(self, cycles: int) -> None:
        self.reading.later(cycles)
        for times in (self.places, self.groups, self.fields, self.strips):
            for number, time in enumerate(times):
                times[number] = time + cycles
        self.starts.later(cycles)
        self.early.later(cycles)
        self.waiting_groups = deque((beats, gone + cycles) for beats, gone in self.waiting_groups)
        self.lane += cycles
        self.writes.later(cycles)
        self.copy_choice += cycles
        self.read += cycles
        self.field += cycles
        for each in self.transposed:
            each.filled += cycles
            each.ready = each.ready and each.ready + cycles

    # Lanes.

    def tiles(self, row: int, col: int = 0, end: int | None = None) -> None:
        """Convert a row of tiles, from a column of elements on, until ``end`` or the last
        column."""
        converter = self.converter
        rows = min(converter.tile_rows, self.rows - row)
        for width in converter.tiles((end or self.cols) - col):
            piece_cycles = self.reading.tile(rows, width, self.places.popleft() + 1)
            if converter.draws_early:
                piece_cycles = self._with_draws(piece_cycles, row, col, rows, width)
            if converter.tries_scales:
                self._try_scales(piece_cycles[-1], rows, width)
                piece_cycles = [LONG_AGO] * len(piece_cycles)
            self._store(piece_cycles, row, col, rows, width)
            col += width

    def _with_draws(
        self, exponent_cycle: list[int], row: int, col: int, rows: int, cols: int
    ) -> list[int]:
        """Return when the pieces of a tile are known if words are measured with their random bits.
        Reading waits for the random bits."""
        words = ceil_div(cols, self.converter.lanes)
        begin = exponent_cycle[-1] - LANE_START - rows * words
        delay = self._rows_delay(self.early, begin, (row, col), rows, cols)
        self.reading.accepted += delay
        return [
            cycle + self.converter.drawn_early_cycles + delay * number // len(exponent_cycle)
            for number, cycle in enumerate(exponent_cycle, start=1)
        ]

    def _try_scales(self, exponent_cycle: int, rows: int, cols: int) -> None:
        """Pass a tile through the lanes to choose the scales of its units. No random bits are
        drawn."""
        words = rows * ceil_div(cols, self.converter.lanes)
        self.lane = max(self.lane, exponent_cycle) + words + TRIAL_CYCLES

    @property
    def _lane_delay(self) -> int:
        """Cycles from a word to its elements."""
        return self.converter.lane_cycles + self.converter.drawn_cycles

    def _place(self, row: int, col: int) -> tuple[int, int]:
        """Return the position of an element's index among the indices that are hashed together, and
        the distance to the element below, modulo the number of these indices."""
        together = hashed_together(self.converter.lanes)
        return (row * self.cols + col) % together, self.cols % together

    def _number(self, row: int, col: int) -> int:
        """Return the number of an element's group in the image of the first copy."""
        converter = self.converter
        per_row = ceil_div(self.cols, converter.sizes.group_cols)
        return row // converter.block * per_row + col // converter.sizes.group_cols

    @property
    def _strips(self) -> int:
        """Groups of a row of blocks of the second copy."""
        return ceil_div(self.rows, self.converter.sizes.group_cols)

    def _transposed_number(self, row: int, col: int) -> int:
        """Return the number of an element's group in the image of the second copy."""
        converter = self.converter
        return col // converter.block * self._strips + row // converter.sizes.group_cols

    def _store(self, exponent_cycle: list[int], row: int, col: int, rows: int, cols: int) -> None:
        converter, block = self.converter, self.converter.block
        lines = ceil_div(rows, block)
        blocks = ceil_div(cols, block)
        for line in range(lines):
            top, inside = row + line * block, min(block, rows - line * block)
            if converter.vectors and line % 8 == 0:
                self.lane = max(self.lane, self.strips.popleft() + 1)
            self._follow(exponent_cycle[0], top, col, cols, first=line == 0)
            width = converter.sizes.group_cols
            for left in range(0, cols, width):
                self._group(exponent_cycle, left, min(width, cols - left), (top, col, inside))
            last = line == lines - 1
            if last and col + cols == self.cols:
                per_block = block if converter.vectors else 1
                self.writes.drain(lines * per_block, last=row + rows == self.rows)
            if converter.vectors and (line % 8 == 7 or last):
                first = self._transposed_number(top, col)
                self._strip(first, blocks, line % 8 + 1)
        self.places.append(self.lane + converter.drawn_cycles)
        self.lane += (BETWEEN + converter.drawn_cycles) * converter.tries_scales

    def _rows_delay(
        self, starts: RowStarts, begin: int, place: tuple[int, int], rows: int, cols: int
    ) -> int:
        """Return the delay of a tile by its random bits, row by row from cycle ``begin`` on."""
        converter = self.converter
        if not converter.row_start:
            return row_delay(converter.lanes, *self._place(*place), rows, cols)
        return 0 if place[1] else starts.delay(begin, rows, ceil_div(cols, converter.lanes))

    def _follow(self, exponent_cycle: int, row: int, col: int, cols: int, *, first: bool) -> None:
        """Let a row of blocks with ``cols`` columns, ``exponent_cycle`` from a cycle on, follow the
        row before. The ``first`` row of a tile that passes twice begins when everything before has
        left."""
        converter = self.converter
        space_cycle = max(self.groups[0], self.fields[0]) + 1
        waited = max(self.lane, space_cycle) - exponent_cycle - 1
        if first and converter.tries_scales:
            waited = 0
        self.slack = min(max(waited, 0), max_slack(converter.lanes))
        self.before = (*self.before, self.line)[-FOLLOWING:] if self.slack else ()
        index, _ = self._place(row, col)
        self.line = index, cols

    def _line_delay(self, row: int, col: int, cols: int) -> int:
        """Return the delay of the first ``cols`` columns of a row of blocks by random bits, if the
        first words waited for ``slack`` cycles."""
        converter = self.converter
        if not converter.draws or not cols:
            return 0
        if converter.row_start:
            return 0
        index, pitch = self._place(row, col)
        lanes, block = converter.lanes, converter.block
        return line_delay(lanes, block, pitch, (index, cols), self.slack, self.before)

    def _group(
        self, exponent_cycle: list[int], columns_left: int, cols: int, line: tuple[int, int, int]
    ) -> None:
        """Pass a group's words through the lanes as soon as their pieces have arrived and the group
        has space. ``line``: first row and column of the row of blocks in the tensor, and number of
        rows inside the tensor."""
        converter = self.converter
        row, begin, rows = line
        space_cycle = max(self.groups.popleft(), self.fields.popleft()) + 1
        step = min(converter.piece_cols, converter.sizes.group_cols)
        drawn = self._line_delay(row, begin, columns_left)
        for col in range(columns_left, columns_left + cols, step):
            width = min(step, columns_left + cols - col)
            before, drawn = drawn, self._line_delay(row, begin, col + width)
            begun = max(self.lane, space_cycle, exponent_cycle[col // converter.piece_cols])
            if converter.row_start and converter.draws and not (begin or col):
                words = ceil_div(converter.block, converter.lanes)
                begun += self.starts.delay(begun, rows, words)
            self.lane = begun + converter.padded_words(width) + drawn - before
        filled = self.lane + STORED + self._lane_delay
        beats = converter.group.block_beats(ceil_div(cols, converter.block))
        number = self._number(row, begin + columns_left)
        if not converter.two_copies:
            last, end = self.writes.group(filled, 0, number)
            self.fields.append(last - 1)
        else:
            while (
                self.transposed and max(self._ready(self.transposed[0]), self.copy_choice) < filled
            ):
                self._write_transposed()
            start, end = self._write_group(filled + converter.repeat_cycles, 0, number)
            self.fields.append(start)
        self.groups.append(end + beats)

    # The second copy.

    def _strip(self, first: int, groups: int, lines: int) -> None:
        """Add a complete strip: a group for every column of blocks, with the number ``first`` for
        the first group."""
        converter = self.converter
        filled = self.lane + STORED + self._lane_delay
        words, beats = converter.transposed_words(lines), converter.group.block_beats(lines)
        for col in range(groups):
            number = first + col * self._strips
            self.transposed.append(
                _TransposedStrip(number, filled, words, beats, last=col == groups - 1)
            )
        while not self.strips:
            self._write_transposed()

    def _ready(self, group: _TransposedStrip) -> int:
        """Return when all elements of the next group have been read."""
        if group.ready is None:
            converter = self.converter
            begin = max(group.filled + 2, self.read)
            max_beats = WAITING_GROUPS * converter.group.element_beats - group.beats
            while sum(beats for beats, _ in self.waiting_groups) > max_beats:
                begin = max(begin, self.waiting_groups.popleft()[1] + 1)
            self.read = begin + group.words
            group.ready = self.read
            if group.last:
                self.strips.append(max(self.read, self.field + 1))
        return group.ready

    def _write_transposed(self) -> None:
        group = self.transposed[0]
        _, end = self._write_group(self._ready(group), 1, group.number)
        self.transposed.popleft()
        self.field = self.copy_choice
        self.waiting_groups.append((group.beats, end))

    def _write_group(self, offered: int, copy: int, number: int) -> tuple[int, int]:
        """Pass on a group of either copy; return the start of the group, and the end of its
        exponents."""
        start = max(self.copy_choice, offered) + COPY_CHOICE
        self.copy_choice, end = self.writes.group(start, copy, number)
        return start, end
