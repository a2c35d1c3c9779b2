# amaranth: UnusedElaboratable=no
"""What is handed to the tables, of numbers worked out by hand."""

import pytest

from diastole_hw.vector.float.function_rows import TableOf
from diastole_hw.vector.float.special_argument import SpecialArgument
from diastole_sim.spec.functions import LOG2E
from diastole_sim.spec.micro import MicroOp
from support.bench import design, simulation

ONE, THREE = 0x3F800000, 0x40400000
TOP_BIT = 1 << 22
"""Of a magnitude of 23 bits."""


@pytest.mark.parametrize(
    "op, a, want",
    [
        # 1 * log2 e in units of 2^-21, 6 places further to the right.
        ("EXP", ONE, {"table": TableOf.EXP, "value": LOG2E, "shift": 6, "base": 127}),
        # -64, the only number whose product drops nothing, and its neighbour.
        ("EXP", 0xC2800000, {"value": LOG2E, "shift": 0, "complement": 1}),
        ("EXP", 0xC2800001, {"shift": 0, "complement": 1}),
        ("EXP", 0xC2000000, {"shift": 1, "complement": 1}),
        ("EXP", 0x80800000, {"shift": 63, "complement": 1}),
        ("EXP", 0, {"table": TableOf.NONE, "value": TOP_BIT, "shift": 0, "base": 128}),
        ("EXP", 0x43000000, {"table": TableOf.NONE, "value": TOP_BIT, "base": 256, "nan": 0}),
        ("EXP", 0xC3000000, {"table": TableOf.NONE, "base": 1, "complement": 0, "negative": 0}),
        # 1 / 3 = 2^-2 * 1.33: the place is 3's fraction, its 7 highest bits the row's number.
        ("RCP", THREE, {"table": TableOf.RCP, "value": 1 << 27, "base": 125, "negative": 0}),
        ("RCP", 0xFF800000, {"base": 1, "negative": 1, "signed_zero": 1, "nan": 0}),
        ("RSQ", ONE, {"table": TableOf.RSQ, "value": 0, "base": 126}),
        ("RSQ", THREE, {"value": 1 << 28 | 1 << 27, "base": 126}),
        ("RSQ", 0xBF800000, {"table": TableOf.NONE, "base": 256, "nan": 1, "negative": 0}),
        # 3 = (1 - 1/4) 2^2.
        ("LGE", THREE, {"table": TableOf.NONE, "value": 2 << 15, "base": 135, "negative": 0}),
        ("LGM", THREE, {"table": TableOf.NONE, "value": 1 << 22, "base": 126, "negative": 1}),
        ("LGG", THREE, {"table": TableOf.LGG, "value": 0, "base": 127, "halved": 0}),
        ("LGG", ONE, {"value": 32 << 21, "base": 126, "halved": 1}),
        ("LGE", 0x3E800000, {"value": 2 << 15, "base": 135, "negative": 1}),
        ("LGE", 0x80000001, {"value": TOP_BIT, "base": 256, "negative": 1, "nan": 0}),
        ("LGE", 0, {"table": TableOf.NONE, "base": 256, "negative": 1, "nan": 0}),
        # Numbers below 0: 1 / -3 has a sign and a table, and is no zero; none has a logarithm.
        ("RCP", 0xC0400000, {"value": 1 << 27, "base": 125, "negative": 1, "complement": 0}),
        ("RCP", 0xFEC00000, {"base": 0, "negative": 1, "signed_zero": 0}),
        ("LGE", 0xBF800000, {"table": TableOf.NONE, "base": 256, "nan": 1, "negative": 0}),
        ("LGM", 0xBF800000, {"table": TableOf.NONE, "base": 256, "nan": 1, "negative": 0}),
        ("LGG", 0xBF800000, {"table": TableOf.NONE, "base": 256, "nan": 1, "negative": 0}),
        # 5/4 = (1 + 1/4) 2^0.
        ("LGM", 0x3FA00000, {"value": 1 << 22, "base": 126, "negative": 0}),
    ],
)
async def test_by_hand(op, a, want):
    dut = design(SpecialArgument)
    ctx = await simulation(dut)
    ctx.set(dut.op, MicroOp[op])
    ctx.set(dut.a, a)
    await ctx.tick()
    argument = ctx.get(dut.argument)
    found = {name: argument[name] for name in want}
    if "value" in want:
        found["value"] = argument["value"] + argument["carries"] + argument["carry"]
    assert {name: value % 2**35 for name, value in found.items()} == want
