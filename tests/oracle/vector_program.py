"""A chain of the vector unit, instruction by instruction, element by element.

Floats are patterns of 32 bits. A tensor is a list of rows. Panels are lists of vectors of B floats,
read and written in place.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from oracle import vector_functions as functions
from oracle import vector_numbers as numbers
from oracle import vector_words as w
from oracle.vector_words import problems

__all__ = ["Input", "Output", "Result", "by_columns", "by_rows", "packed_mask", "problems", "run"]

ARITHMETIC: dict[int, Callable] = {
    w.MAD: numbers.mad,
    w.MUL: numbers.mul,
    w.ADD: numbers.add,
    w.MAX: numbers.maximum,
    w.MIN: numbers.minimum,
    w.GT: numbers.greater,
    w.EQ: numbers.equal,
    w.SEL: lambda a, b, c: numbers.select(b, a, c),
    w.MOV: lambda a: a,
    w.EXP: functions.exp,
    w.RCP: functions.rcp,
    w.RSQ: functions.rsq,
    w.LGE: functions.lge,
    w.LGM: functions.lgm,
    w.LGG: functions.lgg,
}
"""Of one element, with the operands that the operation uses, in alphabetical order."""
NEUTRAL = {w.MAX: numbers.MINUS_INFINITY, w.GT: numbers.MINUS_INFINITY, w.MIN: numbers.INFINITY}
"""What ``fresh`` puts in c's place; +0 for the others."""


@dataclass
class Input:
    """An input stream.

    ``data``, by kind: a tensor of patterns (product, f32, draws: of 32 bits, bf16: of 16), of 0 to
    255 (u8) or of bits (mask), or a function (row, column) -> one of these; a list by column
    (column vector), or by row (row vector; labels: int32); the tensor that rows are gathered from,
    whose numbers are in ``rows``. Panel: none; ``first`` vector, ``pitch`` in blocks.
    """

    kind: int
    data: list | Callable | None = None
    rows: list | None = None
    aux: int = 0
    first: int = 0
    pitch: int = 0


@dataclass
class Output:
    """An output stream; panels as :class:`Input`, ``index`` of a constant."""

    kind: int
    aux: int = 0
    first: int = 0
    pitch: int = 0
    index: int = 0


@dataclass
class Result:
    """What a chain leaves.

    ``outputs``, by number: a tensor (f32, bf16, u8, mask), a list (column and row vector), with
    None where nothing was written; of an image the blocks in their order, ((i, j), B rows of B),
    +0 outside the tensor; None of panels and constants, which are in ``panel`` and ``constants``.
    ``not_finite``: outputs that wrote a NaN or Inf (u8 and mask hold none).
    """

    outputs: list
    panel: list
    constants: list
    not_finite: set = field(default_factory=set)


def by_rows(rows, columns, block):
    """Lines of blocks (i, j) of a chain over memory: block rows."""
    high, wide = -(-rows // block), -(-columns // block)
    return [[(i, j) for j in range(wide)] for i in range(high)]


def by_columns(rows, columns, block):
    high, wide = -(-rows // block), -(-columns // block)
    return [[(i, j) for i in range(high)] for j in range(wide)]


def packed_mask(bits, block):
    """A mask's rows of blocks as integers: bit j B^2 + r B + l; bits outside are 0."""
    packed = [0] * -(-len(bits) // block)
    for row, line in enumerate(bits):
        for column, bit in enumerate(line):
            place = column // block * block**2 + row % block * block + column % block
            packed[row // block] |= (bit or 0) << place
    return packed


class Chain:
    """The state of one run; see :func:`run`."""

    def __init__(self, words, block, size, constants, inputs, outputs, panel):
        self.instructions = [w.decoded(word) for word in words]
        self.block, (self.rows, self.columns) = block, size
        self.constants, self.panel = list(constants), panel
        self.inputs, self.outputs = inputs, outputs
        self.slots = [(r, lane) for r in range(block) for lane in range(block)]
        self.registers = [dict.fromkeys(self.slots, numbers.NAN) for _ in range(16)]
        self.result = Result([self.empty(each) for each in outputs], panel, self.constants)
        self.new_constants = {}

    def empty(self, output):
        """What an output is before anything is written."""
        if output is None or output.kind in (w.KIND_PANEL, w.KIND_CONSTANT):
            return None
        if output.kind == w.KIND_IMAGE:
            return []
        if output.kind == w.KIND_COLUMN:
            return [None] * self.columns
        if output.kind == w.KIND_ROW:
            return [None] * self.rows
        return [[None] * self.columns for _ in range(self.rows)]

    def walk(self, lines):
        for number, line in enumerate(lines):
            for place, at in enumerate(line):
                last = place == len(line) - 1
                self.work(at, place == 0, last, last and number == len(lines) - 1)
        for number, value in self.new_constants.items():
            self.constants[self.outputs[number].index] = value
            self.watch(number, [value])

    def work(self, at, first, last, final):
        """One block; ``first`` and ``last`` of its line, ``final``: last of the walk."""
        for each in self.instructions:
            if each.op == w.NOP or not w.holds(each.when, first, last):
                continue
            values = self.result_of(each, at, first)
            if each.d != w.NO_REGISTER:
                self.registers[each.d] = values
            if each.o != w.NO_OUTPUT:
                self.write(each.o, at, values, last, final)

    def result_of(self, each, at, first):
        """By (row slot, lane), from what all were before."""
        values = {}
        for r, lane in self.slots:
            operands = {}
            for bit, name in enumerate("abc"):
                if name not in each.sources:
                    continue
                slot = r, lane
                if name == "c":
                    slot = turned(r, each.turn_rows), turned(lane, each.turn_lanes)
                operand = self.read(each, each.sources[name], at, *slot)
                operands[name] = numbers.negated(operand) if each.negate >> bit & 1 else operand
            if each.fresh and first:
                operands["c"] = NEUTRAL.get(each.op, numbers.ZERO)
            if each.keep and not self.inside(at, r, lane):
                values[r, lane] = operands["c"]
            else:
                values[r, lane] = ARITHMETIC[each.op](*operands.values())
        return values

    def place(self, at, r, lane):
        return at[0] * self.block + r, at[1] * self.block + lane

    def inside(self, at, r, lane):
        row, column = self.place(at, r, lane)
        return row < self.rows and column < self.columns

    def read(self, each, source, at, r, lane):
        """One element of a source."""
        row, column = self.place(at, r, lane)
        if source < w.STREAM:
            return self.registers[source][r, lane]
        if source < w.CONSTANT:
            return self.from_stream(self.inputs[source - w.STREAM], at, r, lane)
        return {
            w.CONSTANT: self.constants[each.k],
            w.NOUGHT: numbers.ZERO,
            w.UNIT: numbers.ONE,
            w.COLUMN_NUMBER: numbers.integer(column),
            w.ROW_NUMBER: numbers.integer(row),
            w.INSIDE: numbers.ONE if self.inside(at, r, lane) else numbers.ZERO,
            w.TAP: numbers.ZERO,  # without windows there is tap 0 alone
        }[source]

    def from_stream(self, stream, at, r, lane):
        if stream.kind == w.KIND_PANEL:
            if stream.aux == 3 and at[0] == 0:
                return numbers.ZERO
            return self.panel[self.vector(stream, at, r)][lane]
        if not self.inside(at, r, lane):
            return numbers.ZERO
        row, column = self.place(at, r, lane)
        if stream.kind == w.KIND_COLUMN:
            return stream.data[column]
        if stream.kind == w.KIND_ROW:
            return stream.data[row]
        if stream.kind == w.KIND_LABELS:
            return numbers.from_label(stream.data[row])
        if stream.kind in (w.KIND_GATHERED_F32, w.KIND_GATHERED_U8):
            row = stream.rows[row]
        data = stream.data
        value = data(row, column) if callable(data) else data[row][column]
        if stream.kind in (w.KIND_PRODUCT, w.KIND_F32, w.KIND_GATHERED_F32, w.KIND_DRAWS):
            return value
        if stream.kind == w.KIND_BF16:
            return numbers.from_bf16(value)
        if stream.kind in (w.KIND_U8, w.KIND_GATHERED_U8):
            return numbers.integer(value)
        assert stream.kind == w.KIND_MASK, f"no input is of kind {stream.kind}"
        return numbers.ONE if value else numbers.ZERO

    def vector(self, stream, at, r):
        """Where row slot r of a block is in the panel."""
        i, j = at
        number = {0: i * stream.pitch + j, 1: i, 2: j, 3: j}[stream.aux]
        return stream.first + number * self.block + r

    def write(self, number, at, values, last, final):
        output, held = self.outputs[number], self.result.outputs[number]
        block, kind = self.block, output.kind
        if kind == w.KIND_PANEL:
            for r in range(block):
                place = self.vector(output, at, r)
                self.panel[place] = [values[r, lane] for lane in range(block)]
            self.watch(number, values.values())
            return
        inside = [slot for slot in self.slots if self.inside(at, *slot)]
        if kind == w.KIND_IMAGE:
            kept = {slot: values[slot] for slot in inside}
            rows = [[kept.get((r, lane), 0) for lane in range(block)] for r in range(block)]
            held.append((at, rows))
            self.watch(number, kept.values())
        elif kind == w.KIND_CONSTANT:
            if final:
                self.new_constants[number] = values[0, 0]
        elif kind in (w.KIND_COLUMN, w.KIND_ROW):
            if last:
                self.write_vector(number, at, values, inside)
        else:
            for slot in inside:
                row, column = self.place(at, *slot)
                held[row][column] = self.converted(number, kind, values[slot])

    def write_vector(self, number, at, values, inside):
        """Row slot 0 or lane 0 of a line's last block."""
        held = self.result.outputs[number]
        across = self.outputs[number].kind == w.KIND_COLUMN
        for r, lane in inside:
            if (r if across else lane) == 0:
                row, column = self.place(at, r, lane)
                held[column if across else row] = values[r, lane]
                self.watch(number, [values[r, lane]])

    def converted(self, number, kind, value):
        """As memory has it."""
        if kind == w.KIND_F32:
            self.watch(number, [value])
            return value
        if kind == w.KIND_BF16:
            half = numbers.to_bf16(value)
            self.watch(number, [numbers.from_bf16(half)])
            return half
        if kind == w.KIND_U8:
            return numbers.to_u8(value)
        assert kind == w.KIND_MASK, f"no output is of kind {kind}"
        return int(not numbers.is_zero(value))

    def watch(self, number, values):
        if any(numbers.is_nan(value) or numbers.is_infinite(value) for value in values):
            self.result.not_finite.add(number)


def turned(place, turn):
    return place ^ (1 << (turn - 1)) if turn else place


def run(words, *, block, size, lines, inputs, outputs, constants=None, panel=None):
    """A program over every block of a tensor of ``size`` (rows, columns): a :class:`Result`.

    ``lines``: lists of blocks (i, j) in the order of the walk. ``inputs``, ``outputs``: up to four
    :class:`Input` and :class:`Output`, or None. ``constants``: 256 patterns, else zeros; not
    changed. ``panel``: vectors of ``block`` floats, changed in place.
    """
    constants = [numbers.ZERO] * 256 if constants is None else constants
    inputs, outputs = ([*each, *[None] * (4 - len(each))] for each in (inputs, outputs))
    chain = Chain(words, block, size, constants, inputs, outputs, panel)
    chain.walk(lines)
    return chain.result
