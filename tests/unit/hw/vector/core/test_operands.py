# amaranth: UnusedElaboratable=no
"""Operands of random slots, row by row, against the same said in Python."""

import struct

import pytest

from diastole_hw.vector.core.entry import PANEL
from diastole_hw.vector.core.operands import Operands
from diastole_sim.spec.micro import Source
from oracle import vector_numbers as numbers
from oracle import vector_words as w
from support.bench import design, simulation
from support.random_programs import random_pattern
from support.sweep import sweep
from support.vector_core import shape_of

SOURCES = [*range(16), *Source, PANEL]


def float_bits(number):
    return struct.unpack("<I", struct.pack("<f", number))[0]


class Case:
    """A slot, one of its rows, and all that may be its operands."""

    def __init__(self, rng, shape):
        self.block = block = shape.block
        self.special = rng.random() < 0.2
        codes = w.SPECIALS if self.special else range(1, 10)
        turns = [0, *(1 << bit for bit in range(shape.row_bits))]
        self.entry = {
            "op": rng.choice(codes),
            "special": self.special,
            **{
                n: {"source": int(rng.choice(SOURCES)), "negate": rng.getrandbits(1)} for n in "abc"
            },
            "turn_lanes": rng.choice(turns),
            "fresh": rng.random() < 0.3,
            "infinite": rng.getrandbits(1),
            "negative": rng.getrandbits(1),
            "keep": rng.getrandbits(1),
            "constant": random_pattern(rng, wild=True),
        }
        largest = 2**shape.index_bits // (1 if rng.random() < 0.5 else 2 ** (shape.index_bits - 2))
        self.slot = {
            "entry": self.entry,
            "renamed": rng.choice((0, 0, 1, 2, 4, 7)),
            "i": rng.randrange(largest),
            "j": rng.randrange(largest),
            "rows": rng.randrange(1, block + 1),
            "cols": rng.randrange(1, block + 1),
        }
        self.row = rng.randrange(block)

        def rows(count):
            return [[random_pattern(rng, wild=True) for _ in range(block)] for _ in range(count)]

        self.registers, self.results, self.streams = rows(3), rows(3), rows(4)
        [self.panel] = rows(1)

    def inside(self, lane):
        return self.row < self.slot["rows"] and lane < self.slot["cols"]

    def source(self, number, letter, lane):
        source = self.entry[letter]["source"]
        if self.slot["renamed"] >> number & 1:
            return self.results[number][lane]
        if source < 16:
            return self.registers[number][lane]
        if source < 20:
            return self.streams[source - 16][lane]
        if source == PANEL:
            return self.panel[lane]
        return {
            Source.CONSTANT: self.entry["constant"],
            Source.ZERO: 0,
            Source.ONE: float_bits(1),
            Source.COLUMN: float_bits(self.slot["j"] * self.block + lane),
            Source.ROW: float_bits(self.slot["i"] * self.block + self.row),
            Source.INSIDE: float_bits(self.inside(lane)),
        }[source]

    def operand(self, number, letter, lane):
        if letter == "c" and self.entry["fresh"]:
            infinity = 0x7F800000 * self.entry["infinite"]
            return infinity | self.entry["negative"] << 31
        away = self.entry["turn_lanes"] if letter == "c" else 0
        value = self.source(number, letter, lane ^ away)
        return numbers.negated(value) if self.entry[letter]["negate"] else value


@pytest.mark.parametrize("block", [1, sweep(2), 8, sweep(16)])
async def test_random_slots(block, rng):
    """A renamed operand has a register as its source, or none; here that makes no difference."""
    shape = shape_of(block)
    dut = design(Operands, shape)
    cases = [Case(rng, shape) for _ in range(400 if block < 8 else 150)]
    for case in cases:
        for number, letter in enumerate("abc"):
            if case.slot["renamed"] >> number & 1:
                case.entry[letter]["source"] = rng.choice((rng.randrange(16), int(Source.ZERO)))

    def check(ctx, case):
        assert ctx.get(dut.op) == (w.MOV if case.special else case.entry["op"])
        for lane in range(block):
            outside = case.entry["keep"] and not case.inside(lane)
            assert ctx.get(dut.keep) >> lane & 1 == outside
            for number, letter in enumerate("abc"):
                got = ctx.get(getattr(dut, letter)[lane])
                want = case.operand(number, letter, lane)
                assert got == want, f"{letter}, lane {lane}: {got:#x}, not {want:#x}: {case.slot}"

    ctx = await simulation(dut)
    for now, data, seen in zip([*cases, None, None], [None, *cases, None], [None, None, *cases],
                               strict=True):  # fmt: skip
        if now:
            ctx.set(dut.slot, now.slot)
            ctx.set(dut.row, now.row)
        if data:
            ctx.set(dut.registers, data.registers)
            ctx.set(dut.results, data.results)
            ctx.set(dut.streams, data.streams)
            ctx.set(dut.panel, data.panel)
        if seen:
            check(ctx, seen)
        await ctx.tick()
