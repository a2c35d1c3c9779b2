# amaranth: UnusedElaboratable=no
"""Commands through the decoder, against the encoder of the host."""

import dataclasses

import pytest

from diastole_hw.command.decoder import Decoder, bit_groups
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_check import decode
from diastole_sim.spec.command_errors import ErrorCode, MalformedCommandError
from diastole_sim.spec.command_table import (
    CHOICES,
    FIELDS,
    VECTOR_OPCODES,
    Opcode,
    machine_fields,
)
from diastole_sim.spec.nest import ProductNests
from support.bench import design, run
from support.commands import NESTS, ON_MACHINES, good, limits_of


def roomy(data_width, *, vector=False):
    """The same with memories that hold whatever a nest may keep, which the decoder does not see."""
    room = dict.fromkeys(("stream_blocks", "stationary_blocks"), 1 << 40)
    kept = {
        field.name: dataclasses.replace(getattr(NESTS, field.name), **room)
        for field in dataclasses.fields(NESTS)
    }
    limits = limits_of(data_width, vector=vector)
    return dataclasses.replace(limits, nests=ProductNests(**kept))


def verdict(bits, data_width, *, vector=False):
    """The code and the command that the host's decoder gives."""
    return verdict_of(bits, roomy(data_width, vector=vector))


def verdict_of(bits, limits):
    """Likewise on a machine."""
    try:
        return 0, decode(bits.to_bytes(64, "little"), limits)
    except MalformedCommandError as error:
        return error.code, None


def decide(cases, data_width, *, vector=False):
    """(code, {field: value}) of the decoder for each case; the code comes a cycle later."""
    return run_decoder(cases, limits_of(data_width, vector=vector))


def as_kept(bits, groups):
    """Of bits that only count together, whether any is set."""
    return sum(any(bits >> at & 1 for at in group) << group[0] for group in groups)


def run_decoder(cases, limits):
    dut, groups = design(Decoder, limits), bit_groups(limits)
    assert sorted(at for group in groups for at in group) == list(range(512))
    results = []

    async def bench(ctx):
        before = 0  # the verdict of the cycle before, with which ``wrong`` comes
        for bits in cases:
            ctx.set(dut.bits, as_kept(bits, groups))
            decoded = ctx.get(dut.o)
            fields = {name: decoded[name] for name in dut.o.shape().members}
            await ctx.tick()
            results.append((ctx.get(dut.error_code), fields))
            assert ctx.get(dut.wrong) == (before != 0)
            before = ctx.get(dut.error_code)

    run(dut, bench, limit=len(cases) + 10)
    return results


def assert_like_host(cases, data_width, *, vector=False):
    found = decide(cases, data_width, vector=vector)
    for bits, (code, fields) in zip(cases, found, strict=True):
        expected, command = verdict(bits, data_width, vector=vector)
        assert code == expected, f"{bits:#0130x}"
        if command is not None:
            assert fields == {name: getattr(command, name) for name in fields}, f"{bits:#0130x}"


def bits_of(command):
    return int.from_bytes(command.encode(), "little")


def machine_name(value):
    if isinstance(value, Opcode):
        return value.name.lower()
    return "vector unit" if value else "no vector unit"


@pytest.mark.parametrize("data_width", [32, 64, 512])
@pytest.mark.parametrize("opcode, vector", ON_MACHINES, ids=machine_name)
@pytest.mark.sampled(9)
def test_one_bit_changed(opcode, vector, data_width):
    bits = bits_of(good(opcode, data_width))
    assert verdict(bits, data_width, vector=vector)[0] == 0
    cases = [bits] + [bits ^ 1 << n for n in range(512)]
    assert_like_host(cases, data_width, vector=vector)


EDGES = [0, 1, 2, 3, 32, 33, 100, 101, 1000, 1001, 2**24]
EDGES_OF_TABLES = [64, 120, 121, 255, 256]


@pytest.mark.parametrize("opcode, vector", ON_MACHINES, ids=machine_name)
@pytest.mark.sampled(6)
def test_many_faults_at_once(opcode, vector, rng):
    """So that the order of precedence is seen too; every code is met."""
    start = bits_of(good(opcode))
    cases = []
    for _ in range(800):
        bits = start
        for field in rng.sample(machine_fields(vector=vector), rng.randrange(1, 5)):
            mask = (1 << field.bits) - 1 << field.low
            edges = [*EDGES, *EDGES_OF_TABLES] if vector else EDGES
            new = rng.choice([*edges, 2**field.bits - 1])
            bits = bits & ~mask | (new << field.low & mask)
        cases.append(bits)
    assert_like_host(cases, 64, vector=vector)
    seen = {verdict(bits, 64, vector=vector)[0] for bits in cases}
    assert {ErrorCode.BAD_OPCODE, ErrorCode.BAD_VERSION, ErrorCode.RESERVED} <= seen
    sized = opcode not in (Opcode.STORE, Opcode.LOAD, Opcode.NEXT)
    if sized and opcode != Opcode.CHAIN:
        assert ErrorCode.BAD_CLASS in seen
    if opcode != Opcode.NEXT:
        assert {ErrorCode.ZERO_SIZE, ErrorCode.TOO_LARGE} <= seen


@pytest.mark.parametrize("opcode", VECTOR_OPCODES, ids=machine_name)
def test_what_a_machine_without_a_vector_unit_does_not_have(opcode, rng):
    """Whatever else is wrong; and no scale slot."""
    cases = [bits_of(good(opcode))]
    cases += [cases[0] ^ rng.getrandbits(504) << 8 for _ in range(20)]
    assert {code for code, _ in decide(cases, 64)} == {ErrorCode.BAD_OPCODE}
    slot = bits_of(dataclasses.replace(good(Opcode.CONVERT), slot=1))
    assert decide([slot], 64)[0][0] == ErrorCode.RESERVED
    code, fields = decide([slot], 64, vector=True)[0]
    assert (code, fields["slot"]) == (0, 1)


@pytest.mark.parametrize(
    "opcode, change, code",
    [
        (Opcode.CONVERT, {"m": 1000, "n": 100}, 0),
        (Opcode.CONVERT, {"n": 101}, ErrorCode.TOO_LARGE),
        (Opcode.CONVERT, {"m": 1001}, ErrorCode.TOO_LARGE),
        (Opcode.CONVERT, {"class_x": 3}, ErrorCode.BAD_CLASS),
        (Opcode.CONVERT, {"k": 1}, ErrorCode.RESERVED),
        (Opcode.FORWARD, {"m": 1000, "n": 1000, "k": 32}, 0),
        (Opcode.FORWARD, {"k": 33}, ErrorCode.TOO_LONG),
        (Opcode.DX, {"m": 1000, "n": 32, "k": 1000}, 0),
        (Opcode.DX, {"n": 33}, ErrorCode.TOO_LONG),
        (Opcode.DW, {"m": 32, "n": 1000, "k": 1000}, 0),
        (Opcode.DW, {"m": 33}, ErrorCode.TOO_LONG),
        (Opcode.BACKWARD, {"m": 32, "n": 32, "k": 1000}, 0),
        (Opcode.BACKWARD, {"m": 33}, ErrorCode.TOO_LONG),
        (Opcode.BACKWARD, {"n": 33}, ErrorCode.TOO_LONG),
        (Opcode.BACKWARD, {"k": 1001}, ErrorCode.TOO_LARGE),
        (Opcode.BACKWARD, {"k": 0}, ErrorCode.ZERO_SIZE),
        (Opcode.BACKWARD, {"out_b": 4}, ErrorCode.MISALIGNED),
        (Opcode.DX, {"tag": 1}, ErrorCode.RESERVED),
        (Opcode.DX, {"class_w": 0}, ErrorCode.BAD_CLASS),
        (Opcode.DX, {"version": 2}, ErrorCode.BAD_VERSION),
        (Opcode.DX, {"version": 129}, ErrorCode.BAD_VERSION),
        (Opcode.DX, {"version": 0}, ErrorCode.BAD_VERSION),
        (Opcode.BACKWARD, {"ahead": 1}, 0),
        (Opcode.CONVERT, {"ahead": 1}, 0),
        (Opcode.DX, {"nest_t": 0, "nest_groups": 0, "nest_chunk": 0}, 0),
        (Opcode.DX, {"nest_t": 1}, ErrorCode.NEST),
        (Opcode.DX, {"nest_groups": 3}, ErrorCode.NEST),
        (Opcode.DX, {"nest_chunk": 4}, ErrorCode.NEST),
        (Opcode.DX, {"nest_chunk": 1 << 15, "out_a": 4}, ErrorCode.MISALIGNED),
        (Opcode.DX, {"nest_keep": 3}, 0),
        (Opcode.BACKWARD, {"nest_t": 1}, ErrorCode.RESERVED),
        (Opcode.BACKWARD, {"nest_keep": 2}, ErrorCode.RESERVED),
        (Opcode.CONVERT, {"nest_outer": 1}, ErrorCode.RESERVED),
        (Opcode.DX, {"opcode": 6}, ErrorCode.BAD_OPCODE),
        (Opcode.DX, {"opcode": 13}, ErrorCode.BAD_OPCODE),
    ],
)
@pytest.mark.sampled(2)
def test_bounds_and_codes(opcode, change, code):
    """The same with a vector unit, but for the operations and the scale slot that it brings."""
    values = {field.name: getattr(good(opcode), field.name) for field in FIELDS}
    bits = bits_of(Command(**(values | change)))
    assert decide([bits], 64)[0][0] == code
    if change not in ({"opcode": 6}, {"k": 1}):
        assert decide([bits], 64, vector=True)[0][0] == code


@pytest.mark.parametrize(
    "opcode, change, code",
    [
        (Opcode.FORWARD_CHAIN, {"k": 33}, ErrorCode.TOO_LONG),
        (Opcode.DX_CHAIN, {"n": 33}, ErrorCode.TOO_LONG),
        (Opcode.DW_CHAIN, {"m": 33}, ErrorCode.TOO_LONG),
        (Opcode.DX_CHAIN, {"nest_t": 1}, ErrorCode.NEST),
        (Opcode.DX_CHAIN, {"class_w": 0}, ErrorCode.BAD_CLASS),
        (Opcode.DX_CHAIN, {"address_dy": 4}, ErrorCode.MISALIGNED),
        (Opcode.DX_CHAIN, {"columns": 1}, ErrorCode.RESERVED),
        (Opcode.DX_CHAIN, {"version": 0}, ErrorCode.BAD_VERSION),
        (Opcode.CHAIN, {"version": 3}, ErrorCode.BAD_VERSION),
        (Opcode.CHAIN, {"program_length": 0}, ErrorCode.ZERO_SIZE),
        (Opcode.CHAIN, {"program_length": 32}, 0),
        (Opcode.CHAIN, {"program_length": 33}, ErrorCode.TOO_LARGE),
        (Opcode.CHAIN, {"program": 224, "program_length": 32}, 0),
        (Opcode.CHAIN, {"program": 225, "program_length": 32}, ErrorCode.TOO_LARGE),
        (Opcode.CHAIN, {"streams": 120}, 0),
        (Opcode.CHAIN, {"streams": 121}, ErrorCode.TOO_LARGE),
        (Opcode.CHAIN, {"m": 1000, "n": 1000}, 0),
        (Opcode.CHAIN, {"m": 0}, ErrorCode.ZERO_SIZE),
        (Opcode.CHAIN, {"n": 1001}, ErrorCode.TOO_LARGE),
        (Opcode.CHAIN, {"k": 1}, ErrorCode.RESERVED),
        (Opcode.LOAD, {"which": 0, "first": 255, "count": 1}, 0),
        (Opcode.LOAD, {"which": 0, "first": 255, "count": 2}, ErrorCode.TOO_LARGE),
        (Opcode.LOAD, {"which": 1, "first": 0, "count": 256}, 0),
        (Opcode.LOAD, {"which": 1, "first": 1, "count": 256}, ErrorCode.TOO_LARGE),
        (Opcode.LOAD, {"which": 2, "first": 0, "count": 255}, 0),
        (Opcode.LOAD, {"which": 2, "first": 0, "count": 256}, ErrorCode.TOO_LARGE),
        (Opcode.LOAD, {"which": 3, "first": 0, "count": 64}, 0),
        (Opcode.LOAD, {"which": 3, "first": 0, "count": 65}, ErrorCode.TOO_LARGE),
        (Opcode.LOAD, {"which": 3, "first": 2**32 - 1, "count": 2}, ErrorCode.TOO_LARGE),
        (Opcode.LOAD, {"which": 4, "first": 127, "count": 1}, 0),
        (Opcode.LOAD, {"which": 4, "first": 127, "count": 2}, ErrorCode.TOO_LARGE),
        (Opcode.LOAD, {"which": 5, "first": 0, "count": 1}, ErrorCode.TOO_LARGE),
        (Opcode.LOAD, {"which": 2**31, "first": 0, "count": 1}, ErrorCode.TOO_LARGE),
        (Opcode.LOAD, {"count": 0}, ErrorCode.ZERO_SIZE),
        (Opcode.LOAD, {"advance": 4}, ErrorCode.MISALIGNED),
        (Opcode.STORE, {"which": 0, "first": 0, "count": 1}, ErrorCode.TOO_LARGE),
        (Opcode.STORE, {"which": 1, "first": 0, "count": 256}, 0),
        (Opcode.STORE, {"which": 4, "first": 0, "count": 1}, ErrorCode.TOO_LARGE),
        (Opcode.NEXT, {"ahead": 1}, 0),
        (Opcode.NEXT, {"target": 0}, 0),
        (Opcode.NEXT, {"n": 1}, ErrorCode.RESERVED),
        (Opcode.NEXT, {"skip": 1}, ErrorCode.RESERVED),
        (Opcode.CONVERT, {"slot": 255}, 0),
        (Opcode.CONVERT, {"skip": 1}, ErrorCode.RESERVED),
    ],
)
@pytest.mark.sampled(2)
def test_bounds_and_codes_of_a_vector_unit(opcode, change, code):
    values = {field.name: getattr(good(opcode), field.name) for field in FIELDS}
    # Fields that lie in one another's place are put together bit by bit.
    bits = sum((values | change)[field.name] << field.low for field in FIELDS)
    assert decide([bits], 64, vector=True)[0][0] == code
    assert verdict(bits, 64, vector=True)[0] == code


# Machines of planes.

COUNTS = ((1, 2), (1,), (2, 4))
"""In how many planes X, W and dY may be."""
WORDS = {"width_x": 0, "width_w": 1, "width_dy": 2}


def decide_planes(cases):
    """(code, fields) of each."""
    return run_decoder(cases, dataclasses.replace(limits_of(64), planes=COUNTS))


@pytest.mark.parametrize(
    "opcode, used",
    [
        (Opcode.FORWARD, ("width_x", "width_w")),
        (Opcode.DX, ("width_w", "width_dy")),
        (Opcode.DW, ("width_x", "width_dy")),
        (Opcode.BACKWARD, ("width_x", "width_w", "width_dy")),
    ],
)
def test_widths_of_products(opcode, used):
    """Every one of every operand; those of what a product has not are reserved."""
    plain = {field.name: getattr(good(opcode), field.name) for field in FIELDS}
    right = plain | {name: COUNTS[WORDS[name]][-1] - 1 for name in used}
    cases, wanted = [], []
    for name, number in WORDS.items():
        for width in range(4):
            cases.append(bits_of(Command(**right | {name: width})))
            if name in used:
                known = width + 1 in COUNTS[number]
                wanted.append(0 if known else ErrorCode.WIDTH)
            else:
                wanted.append(ErrorCode.RESERVED if width else 0)
    found = decide_planes(cases)
    assert [code for code, _ in found] == wanted
    for (code, fields), bits in zip(found, cases, strict=True):
        if not code:
            assert {name: fields[name] for name in used} == {
                name: bits_field(bits, name) for name in used
            }
    # In a machine without planes they are reserved, whatever they say.
    codes = [code for code, _ in decide(cases, 64)]
    assert codes == [
        ErrorCode.RESERVED if any(bits_field(bits, name) for name in WORDS) else 0 for bits in cases
    ]


def bits_field(bits, name):
    (field,) = (each for each in FIELDS if each.name == name)
    return bits >> field.low & 2**field.bits - 1


@pytest.mark.parametrize("cls", range(3))
def test_width_of_a_conversion(cls):
    plain = {field.name: getattr(good(Opcode.CONVERT), field.name) for field in FIELDS}
    plain["class_x"] = cls
    cases = [bits_of(Command(**plain | {"width": width})) for width in range(4)]
    found = decide_planes(cases)
    for width, (code, fields) in enumerate(found):
        known = width + 1 in COUNTS[cls]
        assert code == (0 if known else ErrorCode.WIDTH)
        assert not known or fields["width"] == width
    codes = [code for code, _ in decide(cases, 64)]
    assert codes == [0, *[ErrorCode.RESERVED] * 3]


# Machines that decide widths.


def deciding():
    """X and dY may be of one plane or two."""
    limits = dataclasses.replace(limits_of(64, vector=True), planes=((1, 2), (1,), (1, 2, 4)))
    assert limits.choices == (True, False, True)
    return limits


def like_host(cases, limits):
    room = roomy(64, vector=True).nests
    codes = set()
    for bits, (code, fields) in zip(cases, run_decoder(cases, limits), strict=True):
        expected, command = verdict_of(bits, dataclasses.replace(limits, nests=room))
        assert code == expected, f"{bits:#0130x}"
        if command is not None:
            assert fields == {name: getattr(command, name) for name in fields}, f"{bits:#0130x}"
        codes.add(code)
    return codes


@pytest.mark.parametrize("opcode", Opcode, ids=machine_name)
@pytest.mark.sampled(5)
def test_a_machine_that_decides_widths(opcode, rng):
    limits = deciding()
    start = good(opcode)
    used = {field.name for field in FIELDS if opcode in field.uses}
    cases = [bits_of(start)] + [bits_of(start) ^ 1 << n for n in range(512)]
    names = [name for name in (*CHOICES, "slot", "which", "class_x", "version") if name in used]
    for _ in range(300):
        changes = {name: rng.choice([0, 1, 2, 5, 6, 7, 255]) for name in names}
        bits = bits_of(start)
        for field in FIELDS:
            if field.name in changes and rng.random() < 0.6:
                mask = (1 << field.bits) - 1 << field.low
                bits = bits & ~mask | changes[field.name] << field.low & mask
        cases.append(bits)
    seen = like_host(cases, limits)
    assert {0, ErrorCode.RESERVED} <= seen
    if used & set(CHOICES):
        assert ErrorCode.WIDTH in seen
