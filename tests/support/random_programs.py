"""Random chains of the vector unit that are valid: programs, tensors, streams, constants, panels.

They use every operation, source, flag and kind of stream; see :func:`random_scene`.
"""

import copy
import struct
from dataclasses import dataclass

from oracle import vector_program as judge
from oracle import vector_words as w
from oracle.threefry import draw
from oracle.vector_numbers import to_bf16
from oracle.vector_program import Input, Output
from oracle.vector_words import Instruction

SPECIAL_PATTERNS = (
    0x00000000, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x7F800001,
    0x00000001, 0x807FFFFF, 0x00800000, 0x80800001, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F800000, 0xBF800000,
)  # fmt: skip
"""Zeros, infinities, NaNs, subnormals, the smallest and largest numbers, ones."""
MEMORY_INPUTS = (
    w.KIND_F32, w.KIND_BF16, w.KIND_U8, w.KIND_MASK, w.KIND_COLUMN, w.KIND_ROW,
    w.KIND_GATHERED_F32, w.KIND_GATHERED_U8, w.KIND_LABELS, w.KIND_PANEL,
)  # fmt: skip
OUTPUTS = (*w.WHOLE, w.KIND_PANEL, w.KIND_CONSTANT)
WRITTEN_BY_CHAINS = range(192, 252)


@dataclass
class Drawn:
    """Random numbers of a tensor as patterns, a function of (row, column)."""

    columns: int
    tag: int
    seed: int = 0
    step: int = 0

    def __call__(self, row, column):
        keys = {"seed": self.seed, "tag": self.tag, "step": self.step}
        number = draw(index=row * self.columns + column, bits=16, **keys) / 2**16
        return int.from_bytes(struct.pack("<f", number), "little")


@dataclass
class Scene:
    """A chain and everything that it reads; ``walk``: rows, columns or tiles (of a product, whose
    tile has ``tile`` blocks, rows and columns, and which come column by column if ``down``)."""

    words: list
    block: int
    size: tuple
    walk: str
    tile: tuple
    down: bool
    lines: list
    inputs: list
    outputs: list
    constants: list
    panel: list

    @property
    def kinds(self):
        return [0 if each is None else each.kind for each in (*self.inputs, *self.outputs)]

    def judged(self):
        """The oracle's result; the scene stays as it is."""
        return judge.run(
            self.words,
            block=self.block,
            size=self.size,
            lines=self.lines,
            inputs=self.inputs,
            outputs=self.outputs,
            constants=self.constants,
            panel=copy.deepcopy(self.panel),
        )


def random_pattern(rng, wild=False):
    """A binary32: of moderate size, or, often if ``wild``, of any size or special."""
    kind = rng.random()
    if kind < (0.15 if wild else 0.01):
        return rng.choice(SPECIAL_PATTERNS)
    if kind < (0.3 if wild else 0.02):
        return rng.getrandbits(32)
    if kind < 0.5:  # few bits: ties, equal numbers
        return rng.getrandbits(1) << 31 | rng.randrange(125, 131) << 23 | rng.getrandbits(2) << 21
    return rng.getrandbits(1) << 31 | rng.randrange(118, 134) << 23 | rng.getrandbits(23)


def tile_lines(size, block, tile, down):
    """Lines of a product's tiles: tiles row by row, or column by column if ``down``."""
    high, wide = (-(-length // block) for length in size)
    tops, lefts = range(0, high, tile[0]), range(0, wide, tile[1])
    corners = [(i, j) for i in tops for j in lefts]
    if down:
        corners.sort(key=lambda corner: (corner[1], corner[0]))
    return [
        [(i, j) for j in range(left, min(left + tile[1], wide))]
        for top, left in corners
        for i in range(top, min(top + tile[0], high))
    ]


def random_scene(
    rng,
    block,
    *,
    walk=None,
    size=None,
    length=None,
    tile=None,
    down=None,
    undefined=False,
    split=True,
    draws=False,
):
    """A valid chain.

    ``undefined``: registers may be read before they are written (NaN in the model, anything in
    hardware). ``split``: a whole output may be written by two instructions, one in the last block
    of a line and one in all others. ``draws``: an input has random numbers. Panel streams often lie
    a multiple of B apart, and an instruction reads one panel once.
    """
    walk = walk or rng.choice(("rows", "columns", "tiles"))
    size = size or tuple(rng.randrange(1, 3 * block + 2) for _ in range(2))
    high, wide = (-(-each // block) for each in size)
    drawn = rng.randrange(1, high + 1), wide if rng.random() < 0.5 else rng.randrange(1, wide + 1)
    tile, down = tile or drawn, rng.random() < 0.5 if down is None else down
    lines = {
        "rows": lambda: judge.by_rows(*size, block),
        "columns": lambda: judge.by_columns(*size, block),
        "tiles": lambda: tile_lines(size, block, tile, down),
    }[walk]()
    wild = rng.random() < 0.3
    whole_lines = walk != "tiles" or tile[1] == wide
    streams = _Streams(rng, block, size, wild)
    inputs, outputs = streams.inputs(walk, draws), streams.outputs(walk, whole_lines)
    program = _Program(rng, block, inputs, outputs, undefined, split, whole_lines)
    return Scene(
        words=program.words(length or rng.randrange(1, 33)),
        block=block,
        size=size,
        walk=walk,
        tile=tile,
        down=down,
        lines=lines,
        inputs=inputs,
        outputs=outputs,
        constants=[random_pattern(rng, wild) for _ in range(256)],
        panel=streams.panel(),
    )


def random_input(rng, block, size, kind, wild=True):
    """An input of a kind."""
    return _Streams(rng, block, size, wild).input(kind)


class _Streams:
    """Streams of a tensor, and the panel that holds theirs."""

    def __init__(self, rng, block, size, wild):
        self.rng, self.block, self.size, self.wild = rng, block, size, wild
        self.high, self.wide = (-(-each // block) for each in size)
        self.base = rng.randrange(block)
        self.vectors = self.base

    def inputs(self, walk, draws):
        kinds = [self.rng.choice((*MEMORY_INPUTS, 0, w.KIND_PANEL)) for _ in range(4)]
        if walk == "tiles":
            kinds[self.rng.randrange(4)] = w.KIND_PRODUCT
        if draws:
            places = [n for n, kind in enumerate(kinds) if kind != w.KIND_PRODUCT]
            kinds[self.rng.choice(places or [3])] = w.KIND_DRAWS
        return [self.input(kind) if kind else None for kind in kinds]

    def outputs(self, walk, whole_lines):
        possible = [*OUTPUTS, 0, w.KIND_PANEL]
        if walk == "columns":
            possible += [w.KIND_COLUMN] * 3
        elif whole_lines:
            possible += [w.KIND_ROW] * 3
        kinds = [self.rng.choice(possible) for _ in range(4)]
        if not any(kinds):
            kinds[self.rng.randrange(4)] = self.rng.choice(OUTPUTS)
        indices = self.rng.sample(WRITTEN_BY_CHAINS, 4)
        return [
            Output(kind, index=index, **self.place(kind, 3)) if kind else None
            for kind, index in zip(kinds, indices, strict=True)
        ]

    def place(self, kind, kinds_of_aux):
        """Where a panel stream lies: often where others do."""
        if kind != w.KIND_PANEL:
            return {}
        aux, pitch = self.rng.randrange(kinds_of_aux), self.wide + self.rng.randrange(2)
        near = self.rng.choice((0, 0, self.block, self.rng.randrange(2 * self.block)))
        first = self.base + near
        number = [(self.high - 1) * pitch + self.wide - 1, self.high - 1, self.wide - 1]
        end = first + (number[min(aux, 2)] + 1) * self.block
        self.vectors = max(self.vectors, end)
        return {"aux": aux, "first": first, "pitch": pitch}

    def input(self, kind):
        rng, (rows, columns) = self.rng, self.size
        data, gathered = None, None
        if kind in (w.KIND_PRODUCT, w.KIND_F32):
            data = self.tensor(rows, self.pattern)
        elif kind == w.KIND_BF16:
            data = self.tensor(rows, lambda: to_bf16(self.pattern()))
        elif kind == w.KIND_U8:
            data = self.tensor(rows, lambda: rng.getrandbits(8))
        elif kind == w.KIND_MASK:
            data = self.tensor(rows, lambda: rng.getrandbits(1))
        elif kind == w.KIND_COLUMN:
            data = [self.pattern() for _ in range(columns)]
        elif kind == w.KIND_ROW:
            data = [self.pattern() for _ in range(rows)]
        elif kind == w.KIND_LABELS:
            data = [self.label() for _ in range(rows)]
        elif kind == w.KIND_DRAWS:
            data = Drawn(columns, rng.getrandbits(32))
        elif kind != w.KIND_PANEL:
            height = rng.randrange(1, 2 * rows + 1)
            is_float = kind == w.KIND_GATHERED_F32
            data = self.tensor(height, self.pattern if is_float else lambda: rng.getrandbits(8))
            gathered = [rng.randrange(height) for _ in range(rows)]
        return Input(kind, data, gathered, **self.place(kind, 4))

    def tensor(self, rows, element):
        return [[element() for _ in range(self.size[1])] for _ in range(rows)]

    def pattern(self):
        return random_pattern(self.rng, self.wild)

    def label(self):
        if self.rng.random() < 0.8:
            return self.rng.randrange(self.size[1])
        return self.rng.choice((-1, -(2**31), 2**24 - 1, 2**24, 2**24 + 1, 2**31 - 1))

    def panel(self):
        return [[self.pattern() for _ in range(self.block)] for _ in range(self.vectors)]


class _Program:
    """Instructions for given streams, one after another."""

    def __init__(self, rng, block, inputs, outputs, undefined, split, whole_lines):
        self.rng, self.block, self.undefined, self.split = rng, block, undefined, split
        self.inputs, self.outputs, self.whole_lines = inputs, outputs, whole_lines
        self.turns = block.bit_length() - 1
        self.panels = [n for n in range(4) if inputs[n] and inputs[n].kind == w.KIND_PANEL]
        self.streams = [n for n in range(4) if inputs[n]]
        self.forbidden = {each.index for each in outputs if each}
        self.written = {when: set() for when in range(4)}

    def words(self, length):
        writes = self.writes()
        length = min(max(length, len(writes)), 32)
        plan = writes + [None] * (length - len(writes))
        self.rng.shuffle(plan)
        return [self.instruction(write).word for write in plan]

    def writes(self):
        """(output, when), each to be the work of one instruction."""
        found = []
        for number, output in enumerate(self.outputs):
            if output is None:
                continue
            if output.kind == w.KIND_PANEL:
                times = self.rng.randrange(1, 4)
                found += [(number, self.rng.randrange(4)) for _ in range(times)]
            elif output.kind not in w.WHOLE:
                found.append((number, self.rng.choice((w.EVERY, w.LAST))))
            elif self.split and self.rng.random() < 0.2:
                found += [(number, w.LAST), (number, w.NOT_LAST)]
            else:
                found.append((number, w.EVERY))
        return found

    def readable(self, when):
        """Registers that something has written wherever ``when`` holds."""
        if self.undefined:
            return range(16)
        known = self.written[w.EVERY] | self.written[w.FIRST] | self.written[when]
        return sorted(known)

    def instruction(self, write):
        rng = self.rng
        when = write[1] if write else rng.choice((w.EVERY, w.EVERY, *range(4)))
        op = self.operation(write, when)
        if op == w.NOP:
            return Instruction(when=when)
        d = rng.randrange(16)
        if op not in w.SPECIALS and rng.random() < (0.5 if write else 0.05):
            d = w.NO_REGISTER
        fields = self.operands(op, d, when)
        if write and self.turns_far_into_itself(fields, d) and self.reads_panel(op, fields):
            fields["turn_rows"] = 3
        if d != w.NO_REGISTER:
            self.written[when].add(d)
        return Instruction(op=op, d=d, o=write[0] if write else w.NO_OUTPUT, when=when, **fields)

    def turns_far_into_itself(self, fields, d):
        return fields.get("turn_rows", 0) > 3 and fields["c"] == d

    def reads_panel(self, op, fields):
        return any(fields[name] - w.STREAM in self.panels for name in w.OPERANDS[op])

    def operation(self, write, when):
        operations = [w.MAD, w.MUL, w.ADD, w.ADD, w.MAX, w.MIN, w.GT, w.EQ, w.SEL, w.MOV]
        if write is None and self.readable(when):
            operations += w.SPECIALS
        if write is None:
            operations.append(w.NOP)
        return self.rng.choice(operations)

    def operands(self, op, d, when):
        rng, names = self.rng, w.OPERANDS[op]
        fields = {"k": self.constant(), "negate": 0}
        panel_taken = False
        for bit, name in enumerate("abc"):
            if name not in names:
                continue
            sources = self.sources(op, when, panel_taken)
            fields[name] = rng.choice(sources)
            panel_taken |= fields[name] - w.STREAM in self.panels
            if rng.random() < 0.25:
                fields["negate"] |= 1 << bit
        if "c" in names:
            fields |= self.flags(fields, d, when)
        return fields

    def sources(self, op, when, panel_taken):
        """Those that an operand may name, the more useful ones more than once."""
        registers = [*self.readable(when)]
        if op in w.SPECIALS:
            return registers
        streams = [w.STREAM + n for n in self.streams if not (panel_taken and n in self.panels)]
        others = [w.CONSTANT, w.CONSTANT, w.NOUGHT, w.UNIT, w.COLUMN_NUMBER, w.ROW_NUMBER]
        return registers * 2 + streams * 3 + [*others, w.INSIDE, w.TAP]

    def flags(self, fields, d, when):
        rng = self.rng
        flags = {"keep": int(rng.random() < 0.3), "fresh": 0}
        if self.whole_lines and rng.random() < 0.3:
            flags["fresh"] = 1
            if d != w.NO_REGISTER and when in (w.EVERY, w.NOT_LAST):
                flags["c"] = d  # what the block before left there
        if self.turns and rng.random() < 0.4:
            flags["turn_lanes"] = rng.randrange(1, self.turns + 1)
        if self.turns and flags.get("c", fields["c"]) < w.STREAM and rng.random() < 0.4:
            flags["turn_rows"] = rng.randrange(1, self.turns + 1)
        return flags

    def constant(self):
        """Any but those that the chain writes itself."""
        return self.rng.choice([k for k in range(256) if k not in self.forbidden])
