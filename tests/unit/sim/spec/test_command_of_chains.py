"""Commands for the vector unit against their text: words and bits by hand, and what is refused."""

import struct
from dataclasses import fields, replace

import pytest

from diastole_sim.spec.command import Command, ProgramPlace
from diastole_sim.spec.command_check import decode, first_refused
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.command_table import (
    CHOICES,
    FIELDS,
    VECTOR_OPCODES,
    Opcode,
    fields_of,
    machine_fields,
    opcodes_of,
    reserved_mask,
)
from diastole_sim.spec.limits import VectorTable
from diastole_sim.spec.nest import Nest
from support.commands import good, limits_of

HIGH = 0x12_3456_7890
PLACE = ProgramPlace(first=0xA5, length=21, streams=0x55)
PROGRAM = 0xA5 | 21 << 8 | 0x55 << 16
"""Word 10."""
PLAIN = {Opcode.FORWARD_CHAIN: 2, Opcode.DX_CHAIN: 3, Opcode.DW_CHAIN: 4}
READS = {
    Opcode.FORWARD_CHAIN: {"address_x": HIGH, "address_w": 0x40},
    Opcode.DX_CHAIN: {"address_w": 0x40, "address_dy": HIGH},
    Opcode.DW_CHAIN: {"address_x": 0x40, "address_dy": HIGH},
}
LIMITS = limits_of(64, vector=True)


def words(command):
    return list(struct.unpack("<16I", command.encode()))


def name(value):
    return value.name.lower()


def found_in(bits, limits=LIMITS):
    found = first_refused([bits.to_bytes(64, "little")], limits)
    return found[1] if found else ErrorCode.NONE


def bits_of(command):
    return int.from_bytes(command.encode(), "little")


def test_numbers_of_operations_and_errors():
    assert [int(opcode) for opcode in VECTOR_OPCODES] == [6, 7, 8, 9, 10, 11, 12]
    assert [name(opcode) for opcode in VECTOR_OPCODES] == [
        "forward_chain", "dx_chain", "dw_chain", "chain", "store", "load", "next",
    ]  # fmt: skip
    assert opcodes_of(vector=True) == tuple(Opcode)
    assert [int(opcode) for opcode in opcodes_of(vector=False)] == [1, 2, 3, 4, 5]
    codes = ErrorCode.BAD_PROGRAM, ErrorCode.NOT_FINITE, ErrorCode.BAD_STREAM
    assert codes == (13, 14, 17)
    assert 15 not in tuple(ErrorCode)


def test_what_machines_without_a_vector_unit_do_not_have():
    absent = {field.name for field in FIELDS} - {f.name for f in machine_fields(vector=False)}
    assert absent == {
        "slot", "skip", "columns", "update", "program", "program_length", "streams", "which",
        "first", "count", "advance", "target", *CHOICES,
    }  # fmt: skip
    assert machine_fields(vector=True) == FIELDS
    without = {f.name for f in machine_fields(vector=True, choices=False)}
    assert without == {field.name for field in FIELDS} - set(CHOICES)


def test_fields_of_one_operation_do_not_overlap():
    for opcode in Opcode:
        taken = 0
        for field in fields_of(opcode):
            bits = (1 << field.bits) - 1 << field.low
            assert not taken & bits, f"{opcode.name}: {field.name}"
            taken |= bits


@pytest.mark.parametrize("opcode", PLAIN, ids=name)
@pytest.mark.parametrize("skip", [False, True])
def test_a_product_with_a_chain_is_the_product_without_its_result(opcode, skip):
    nest = Nest(t_blocks=16, groups=3, chunk=24, outer="l", keep="stationary")
    shape = {"m": 3, "n": 5, "k": 7, "nest": nest}
    made = Command.chained(opcode, PLACE, **shape, **READS[opcode], skip=skip)
    plain = words(Command.product(Opcode(PLAIN[opcode]), **shape, **READS[opcode], out_a=0))
    plain[0] += 4 + (skip << 23)
    plain[10] = PROGRAM
    assert words(made) == plain
    assert "out_a" not in {field.name for field in fields_of(opcode)}


@pytest.mark.parametrize("columns, update, skip", [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)])
def test_a_chain_is_what_the_text_says(columns, update, skip):
    made = Command.chain(PLACE, m=3, n=5, columns=columns, update=update, skip=skip)
    expected = [0] * 16
    expected[0] = 9 | 1 << 8 | skip << 23 | columns << 25 | update << 26
    expected[1:3] = 3, 5
    expected[10] = PROGRAM
    assert words(made) == expected
    assert decode(made.encode(), LIMITS) == made


@pytest.mark.parametrize("opcode", [Opcode.STORE, Opcode.LOAD], ids=name)
def test_a_transfer_is_what_the_text_says(opcode):
    make = Command.store if opcode == Opcode.STORE else Command.load
    made = make(VectorTable.PANEL, address=HIGH, first=7, count=9, advance=0x9ABCDEF0)
    expected = [0] * 16
    expected[0] = opcode | 1 << 8
    expected[1:4] = 3, 7, 9
    expected[4:7] = HIGH & 0xFFFFFFFF, HIGH >> 32, 0x9ABCDEF0
    assert words(made) == expected
    assert make(VectorTable.AMAX, address=0, first=0, count=1).advance == 0


def test_next_is_what_the_text_says():
    assert words(Command.next(0xDEADBEEF)) == [12 | 1 << 8, 0xDEADBEEF, *[0] * 14]


@pytest.mark.parametrize("slot, field", [(None, 0), (0, 1), (254, 255)])
def test_the_slot_of_a_conversion(slot, field):
    place = {"rows": 1, "cols": 1, "source": 0, "destination": 0, "tag": 0, "step": 0}
    made = Command.convert("x", **place, slot=slot)
    assert words(made)[3] == field
    assert decode(made.encode(), LIMITS) == made
    if field:
        assert found_in(bits_of(made), replace(LIMITS, vector=None)) == ErrorCode.RESERVED
        assert found_in(bits_of(made) ^ 1 << 8) == ErrorCode.BAD_VERSION


@pytest.mark.parametrize("opcode", VECTOR_OPCODES, ids=name)
def test_every_bit_that_no_field_has_is_refused(opcode):
    bits = bits_of(good(opcode))
    assert decode(good(opcode).encode(), LIMITS) == good(opcode)
    mask = reserved_mask(opcode, vector=True)
    assert not bits & mask
    for bit in range(512):
        if mask >> bit & 1:
            assert found_in(bits | 1 << bit) == ErrorCode.RESERVED, f"bit {bit}"
    free = {
        Opcode.FORWARD_CHAIN: 0xFF300000, Opcode.DX_CHAIN: 0xFF030000, Opcode.DW_CHAIN: 0xFF0C0000,
        Opcode.CHAIN: 0xF93F0000,
    }.get(opcode, 0xFFBF0000)  # fmt: skip
    assert mask & 0xFFFFFFFF == free


@pytest.mark.parametrize("opcode", VECTOR_OPCODES, ids=name)
def test_machines_without_the_operation(opcode):
    bits = bits_of(good(opcode))
    assert found_in(bits, limits_of(64)) == ErrorCode.BAD_OPCODE
    assert found_in(bits | 1 << 31 | 1 << 127, limits_of(64)) == ErrorCode.BAD_OPCODE
    assert found_in(bits ^ 1 << 8) == ErrorCode.BAD_VERSION


CHANGES = [
    (Opcode.CHAIN, {"program_length": 0}, ErrorCode.ZERO_SIZE),
    (Opcode.CHAIN, {"program_length": 33}, ErrorCode.TOO_LARGE),
    (Opcode.CHAIN, {"program": 235, "program_length": 21}, ErrorCode.NONE),
    (Opcode.CHAIN, {"program": 236, "program_length": 21}, ErrorCode.TOO_LARGE),
    (Opcode.DX_CHAIN, {"streams": 120}, ErrorCode.NONE),
    (Opcode.DX_CHAIN, {"streams": 121}, ErrorCode.TOO_LARGE),
    (Opcode.DX_CHAIN, {"n": 33}, ErrorCode.TOO_LONG),
    (Opcode.DX_CHAIN, {"address_w": 4}, ErrorCode.MISALIGNED),
    (Opcode.DX_CHAIN, {"nest_t": 1}, ErrorCode.NEST),
    (Opcode.DX_CHAIN, {"class_w": 2}, ErrorCode.BAD_CLASS),
    (Opcode.LOAD, {"count": 0}, ErrorCode.ZERO_SIZE),
    (Opcode.LOAD, {"advance": 4}, ErrorCode.MISALIGNED),
    (Opcode.LOAD, {"address_x": 4}, ErrorCode.MISALIGNED),
]


@pytest.mark.parametrize("opcode, change, code", CHANGES)
def test_malformed(opcode, change, code):
    assert found_in(bits_of(replace(good(opcode), **change))) == code


@pytest.mark.parametrize("table", VectorTable, ids=name)
@pytest.mark.parametrize("opcode", [Opcode.STORE, Opcode.LOAD], ids=name)
def test_a_transfer_ends_with_its_table(opcode, table):
    entries = {"constants": 256, "amax": 255, "panel": 64}
    if opcode == Opcode.LOAD:
        entries |= {"instructions": 256, "descriptors": 128}
    held = entries.get(table.name.lower(), 0)
    for first, count in ((0, held), (held - 1, 1), (0, held + 1), (held, 1), (2**32 - 1, 1)):
        command = replace(good(opcode), which=int(table), first=max(first, 0), count=count or 1)
        fits = max(first, 0) + (count or 1) <= held
        assert found_in(bits_of(command)) == (ErrorCode.NONE if fits else ErrorCode.TOO_LARGE)
    for which in (5, 2**31):
        bits = bits_of(replace(good(opcode), which=which, first=0, count=1))
        assert found_in(bits) == ErrorCode.TOO_LARGE


def test_a_command_has_every_field_once():
    assert {field.name for field in fields(Command)} == {field.name for field in FIELDS}
