"""Commands against their text: words and bits written here by hand, once more."""

import random
import struct
from dataclasses import replace

import pytest

from diastole_sim.spec.command import Command, scale_exponent, scale_field
from diastole_sim.spec.command_check import decode, first_refused
from diastole_sim.spec.command_errors import PRECEDENCE, ErrorCode, MalformedCommandError
from diastole_sim.spec.command_table import Opcode, fields_of, reserved_mask
from diastole_sim.spec.formats import FORMATS
from diastole_sim.spec.limits import Limits
from diastole_sim.spec.nest import Nest, NestLimits, ProductNests
from support.numerics import make_numerics

LIMITS = Limits(block=8, headroom=3, data_width=64, max_size=1000, max_convert_cols=100)
HIGH = 0x12_3456_7890

CONVERT = Command.convert(
    "dy",
    rows=3,
    cols=5,
    source=HIGH,
    destination=0x2000,
    second=HIGH + 0x2000,
    tag=0xDEADBEEF,
    step=7,
    scale=0x9A,
)
PRODUCTS = {
    Opcode.FORWARD: {"address_x": HIGH, "address_w": 0x40, "out_a": 0x80},
    Opcode.DX: {"address_w": 0x40, "address_dy": HIGH, "out_a": 0x80},
    Opcode.DW: {"address_x": 0x40, "address_dy": 0x80, "out_a": HIGH},
    Opcode.BACKWARD: {
        "address_x": 0x10,
        "address_w": 0x40,
        "address_dy": 0x80,
        "address_dy_m": HIGH + 0x40,
        "out_a": 0xC0,
        "out_b": HIGH,
    },
}


def product(opcode, **changes):
    return Command.product(opcode, **({"m": 3, "n": 5, "k": 7} | PRODUCTS[opcode] | changes))


EVERY = [CONVERT, *map(product, PRODUCTS)]
NESTED = (Opcode.FORWARD, Opcode.DX, Opcode.DW)
NEST = Nest(t_blocks=16, groups=3, chunk=24, outer="l", keep="stationary")
SOME = NestLimits(
    t_blocks=(1, 16), groups=(1, 2, 3), chunk=(8, 24),
    chunk_side=4, lane_side=2, stream_blocks=96, stationary_blocks=36, pass_blocks=2,
)  # fmt: skip


def name(command):
    return Opcode(command.opcode).name.lower()


def words(command):
    return struct.unpack("<16I", command.encode())


def test_convert_is_what_the_text_says():
    expected = [0] * 16
    expected[0] = 1 | 1 << 8 | 2 << 16 | 0x9A << 24
    expected[1:3] = 3, 5
    expected[4:7] = HIGH & 0xFFFFFFFF, HIGH >> 32, 0x2000
    expected[8:10] = HIGH + 0x2000 & 0xFFFFFFFF, HIGH >> 32
    expected[14:16] = 0xDEADBEEF, 7
    assert list(words(CONVERT)) == expected


@pytest.mark.parametrize(
    "opcode, first",
    [
        (Opcode.FORWARD, 2 | 1 << 8 | 0 << 16 | 1 << 18),
        (Opcode.DX, 3 | 1 << 8 | 1 << 18 | 2 << 20),
        (Opcode.DW, 4 | 1 << 8 | 0 << 16 | 2 << 20),
        (Opcode.BACKWARD, 5 | 1 << 8 | 0 << 16 | 1 << 18 | 2 << 20),
    ],
)
def test_product_is_what_the_text_says(opcode, first):
    place = {"address_x": 4, "address_w": 6, "address_dy": 8, "out_a": 10, "out_b": 12}
    place["address_dy_m"] = 14
    expected = [first, 3, 5, 7] + [0] * 12
    for name, address in PRODUCTS[opcode].items():
        expected[place[name] : place[name] + 2] = address & 0xFFFFFFFF, address >> 32
    assert list(words(product(opcode))) == expected
    if opcode == Opcode.BACKWARD:
        return
    expected[5] |= 16 << 8 | 1 << 24 | 2 << 25
    expected[7] |= 3 << 8
    expected[9] |= 24 << 8
    assert list(words(product(opcode, nest=NEST))) == expected


@pytest.mark.parametrize("command", EVERY, ids=name)
def test_ahead_is_bit_22_of_the_first_word(command):
    """Of every operation; nobody is ahead without being told."""
    assert command.ahead == 0
    ahead = replace(command, ahead=1)
    assert words(ahead) == (words(command)[0] | 1 << 22, *words(command)[1:])
    assert decode(ahead.encode(), LIMITS) == ahead


@pytest.mark.parametrize("opcode", NESTED, ids=lambda opcode: opcode.name)
def test_nests(opcode):
    """What the machine has is taken, and nothing else; 0 always is."""
    taken = product(opcode, nest=NEST)
    limits = replace(LIMITS, nests=ProductNests(forward=SOME, dx=SOME, dw=SOME))
    assert decode(taken.encode(), limits) == taken
    assert decode(product(opcode).encode(), LIMITS) == product(opcode)
    assert decode(product(opcode, nest=Nest(outer="l")).encode(), LIMITS).nest_outer == 1
    assert code_of(bits_of(taken)) == ErrorCode.NEST
    for change in ({"t_blocks": 8}, {"groups": 4}, {"chunk": 23}):
        assert code_of(bits_of(product(opcode, nest=replace(NEST, **change))), limits) == (
            ErrorCode.NEST
        )


@pytest.mark.parametrize("opcode", NESTED, ids=lambda opcode: opcode.name)
def test_what_a_nest_keeps_must_fit(opcode):
    """A block along every axis: a slab each, of 6 slices of 16 blocks, and of 3 times 2."""
    for short, keeps in (
        (None, ""),
        ("stream_blocks", "stream"),
        ("stationary_blocks", "stationary"),
    ):
        room = replace(SOME, **({short: getattr(SOME, short) - 1} if short else {}))
        limits = replace(LIMITS, nests=ProductNests(forward=room, dx=room, dw=room))
        for bits, keep in enumerate(("none", "stream", "stationary", "both")):
            command = product(opcode, nest=replace(NEST, keep=keep))
            assert command.nest_keep == bits
            refused = bool(keeps) and keep in (keeps, "both")
            found = first_refused([command.encode()], limits)
            assert found == ((0, ErrorCode.NEST) if refused else None)


@pytest.mark.parametrize(
    "opcode, longer", [(Opcode.FORWARD, "n"), (Opcode.DX, "k"), (Opcode.DW, "n")]
)
def test_the_lanes_of_what_is_held(opcode, longer):
    """All of them stay where T is outermost: two slabs from 6 blocks of 8 on."""
    limits = replace(LIMITS, nests=ProductNests(forward=SOME, dx=SOME, dw=SOME))
    for size, fits in ((48, True), (49, False)):
        for outer in ("t", "l"):
            command = product(opcode, nest=replace(NEST, outer=outer), **{longer: size})
            found = first_refused([command.encode()], limits)
            assert found == (None if fits or outer == "l" else (0, ErrorCode.NEST))


@pytest.mark.parametrize("command", EVERY, ids=name)
def test_what_is_encoded_is_decoded(command):
    assert decode(command.encode(), LIMITS) == command


def test_backward_with_one_copy_of_dy():
    addresses = PRODUCTS[Opcode.BACKWARD] | {"address_dy_m": 0}
    both = Command.product(Opcode.BACKWARD, m=1, n=1, k=1, **addresses)
    del addresses["address_dy_m"]
    assert Command.product(Opcode.BACKWARD, m=1, n=1, k=1, **addresses) == both
    assert words(both)[14:] == (0, 0)


@pytest.mark.parametrize("name, bias, last", [("fp8_e4m3", 127, 254), ("nvfp4", 138, 255)])
def test_scale_field(name, bias, last):
    kind = FORMATS[name]
    for value in range(1, last + 1):
        assert scale_field(value - bias, kind) == value
        assert scale_exponent(value, kind) == value - bias
    assert scale_field(None, kind) == 0
    assert scale_exponent(0, kind) is None


def found_in(bits, limits):
    """The error that is found; NONE: there is none."""
    found = first_refused([bits.to_bytes(64, "little")], limits)
    return found[1] if found else ErrorCode.NONE


def code_of(bits, limits=LIMITS):
    with pytest.raises(MalformedCommandError) as raised:
        decode(bits.to_bytes(64, "little"), limits)
    return raised.value.code


def bits_of(command):
    return int.from_bytes(command.encode(), "little")


@pytest.mark.parametrize("command", EVERY, ids=name)
def test_every_reserved_bit_is_refused(command):
    mask = reserved_mask(Opcode(command.opcode))
    for n in range(512):
        if mask >> n & 1:
            assert code_of(bits_of(command) | 1 << n) == ErrorCode.RESERVED, f"bit {n}"
    assert mask >> 22 & 3 == 2
    nested = command.opcode in NESTED
    assert mask >> (32 * 5 + 8) & 0xFFFFFF == (0xF80000 if nested else 0xFFFFFF)
    assert (mask >> 24 & 0xFF) == (0 if command is CONVERT else 0xFF)
    last = {Opcode.CONVERT: 0, Opcode.BACKWARD: 0xFFFFFF << 40}.get(command.opcode, 2**64 - 1)
    assert mask >> 32 * 14 == last


@pytest.mark.parametrize(
    "bits, code",
    [
        (0, ErrorCode.BAD_OPCODE),
        (bits_of(Command(opcode=6)), ErrorCode.BAD_OPCODE),
        (bits_of(CONVERT) ^ 1 << 8, ErrorCode.BAD_VERSION),
        (bits_of(CONVERT) ^ 2 << 8, ErrorCode.BAD_VERSION),
        (bits_of(CONVERT) | 3 << 16, ErrorCode.BAD_CLASS),
        (bits_of(product(Opcode.FORWARD)) | 1 << 16, ErrorCode.BAD_CLASS),
        (bits_of(product(Opcode.DX)) ^ 1 << 18, ErrorCode.BAD_CLASS),
        (bits_of(product(Opcode.DW)) ^ 3 << 20, ErrorCode.BAD_CLASS),
        (bits_of(product(Opcode.DX, m=0)), ErrorCode.ZERO_SIZE),
        (bits_of(product(Opcode.DX, n=0)), ErrorCode.ZERO_SIZE),
        (bits_of(product(Opcode.DX, k=0)), ErrorCode.ZERO_SIZE),
        (bits_of(product(Opcode.DX, k=1001)), ErrorCode.TOO_LARGE),
        (bits_of(product(Opcode.FORWARD, k=65)), ErrorCode.TOO_LONG),
        (bits_of(product(Opcode.DX, n=65)), ErrorCode.TOO_LONG),
        (bits_of(product(Opcode.DW, m=65)), ErrorCode.TOO_LONG),
        (bits_of(product(Opcode.BACKWARD, m=65)), ErrorCode.TOO_LONG),
        (bits_of(product(Opcode.BACKWARD, n=65)), ErrorCode.TOO_LONG),
        (bits_of(product(Opcode.BACKWARD, out_b=4)), ErrorCode.MISALIGNED),
        (bits_of(product(Opcode.BACKWARD, address_dy_m=2)), ErrorCode.MISALIGNED),
        (bits_of(product(Opcode.DX, address_dy=HIGH + 1)), ErrorCode.MISALIGNED),
        (bits_of(CONVERT) | 1 << 32 * 8, ErrorCode.MISALIGNED),
    ],
    ids=lambda value: value.name if isinstance(value, ErrorCode) else "bits",
)
def test_malformed_commands(bits, code):
    assert code_of(bits) == code


def test_limits_are_included():
    sizes = {"m": 64, "n": 64, "k": 1000}
    decode(product(Opcode.BACKWARD, **sizes).encode(), LIMITS)
    wide = {"source": 0, "destination": 0, "tag": 0, "step": 0}
    decode(Command.convert("x", rows=1000, cols=100, **wide).encode(), LIMITS)
    assert code_of(bits_of(Command.convert("x", rows=1, cols=101, **wide))) == ErrorCode.TOO_LARGE


@pytest.mark.parametrize("size", ["m", "n", "k"])
def test_a_size_has_all_bits_of_its_word(size):
    top = bits_of(product(Opcode.DX)) | 1 << 32 * ("mnk".index(size) + 1) + 31
    assert code_of(top) == ErrorCode.TOO_LARGE


def test_the_first_in_order_is_reported():
    everything = product(Opcode.FORWARD, m=0, n=1001, k=65, address_x=1, address_w=1)
    bits = bits_of(everything) | 1 << 31 | 2 << 8 | 3 << 16 | 9 << 32 * 5 + 8 | 3 << 32 * 15 + 8
    planar = replace(LIMITS, planes=((1, 2), (1,), (1, 2)))
    fixes = {
        ErrorCode.BAD_VERSION: lambda b: b & ~(2 << 8),
        ErrorCode.RESERVED: lambda b: b & ~(1 << 31),
        ErrorCode.BAD_CLASS: lambda b: b & ~(3 << 16),
        ErrorCode.WIDTH: lambda b: b & ~(3 << 32 * 15 + 8),
        ErrorCode.ZERO_SIZE: lambda b: b | 1 << 32,
        ErrorCode.TOO_LARGE: lambda b: b & ~(1001 << 64) | 5 << 64,
        ErrorCode.TOO_LONG: lambda b: b & ~(127 << 96) | 7 << 96,
        ErrorCode.MISALIGNED: lambda b: b & ~(1 << 128 | 1 << 192),
    }
    last = (ErrorCode.NEST, ErrorCode.BAD_STREAM, ErrorCode.BAD_PROGRAM)
    assert (ErrorCode.BAD_OPCODE, *fixes, *last) == PRECEDENCE
    for code, fix in fixes.items():
        assert code_of(bits, planar) == code
        bits = fix(bits)
    assert code_of(bits, planar) == ErrorCode.NEST


WIDTHS = {"width_x": (15, 8), "width_w": (15, 10), "width_dy": (15, 12)}


@pytest.mark.parametrize("opcode", PRODUCTS)
def test_widths_of_operands(opcode):
    """Planes less 1, in a machine that has them; reserved in others."""
    counts = {"x": (1, 2), "w": (1,), "dy": (2, 4)}
    planar = replace(LIMITS, planes=tuple(counts.values()))
    used = {name for name in WIDTHS if name in {field.name for field in fields_of(opcode)}}
    for name, (word, low) in WIDTHS.items():
        for planes in range(1, 5):
            right = {each: counts[each.removeprefix("width_")][0] - 1 for each in used}
            wanted = right | ({name: planes - 1} if name in used else {})
            bits = bits_of(product(opcode))
            for each, value in wanted.items():
                bits |= value << 32 * WIDTHS[each][0] + WIDTHS[each][1]
            taken = all(v + 1 in counts[n.removeprefix("width_")] for n, v in wanted.items())
            assert found_in(bits, planar) == (ErrorCode.NONE if taken else ErrorCode.WIDTH)
            assert found_in(bits, LIMITS) == (
                ErrorCode.RESERVED if any(wanted.values()) else ErrorCode.NONE
            )
        if name not in used:
            stray = bits_of(product(opcode)) | 1 << 32 * word + low
            assert found_in(stray, planar) == ErrorCode.RESERVED


@pytest.mark.parametrize("widths, counts", [((2,), (1,)), ((2, 4), (1, 2)), ((4, 8), (2, 4))])
def test_planes_of_a_machine(widths, counts):
    """A machine of one plane has the fields all the same."""
    numerics = make_numerics(formats=("fast", "bfp2", "fast"), widths=widths)
    limits = Limits.of(numerics, data_width=64)
    assert limits.has_planes
    assert limits.planes == (counts, (1,), counts)
    assert not Limits.of(make_numerics(), data_width=64).has_planes


def test_width_of_a_conversion():
    planar = replace(LIMITS, planes=((1, 2), (1,), (2, 4)))
    for number, name in enumerate(("x", "w", "dy")):
        for planes in range(1, 5):
            command = Command.convert(
                name, rows=8, cols=8, source=0, destination=64, tag=0, step=0, planes=planes
            )
            bits = bits_of(command)
            assert bits >> 32 * 3 + 8 & 3 == planes - 1
            known = planes in planar.planes[number]
            assert found_in(bits, planar) == (ErrorCode.NONE if known else ErrorCode.WIDTH)
            assert found_in(bits, LIMITS) == (ErrorCode.RESERVED if planes > 1 else ErrorCode.NONE)


def test_random_bits_never_pass_unnoticed():
    rng = random.Random(5)
    for _ in range(500):
        bits = bits_of(product(Opcode.BACKWARD)) ^ 1 << rng.randrange(512)
        try:
            command = decode(bits.to_bytes(64, "little"), LIMITS)
        except MalformedCommandError:
            continue
        assert int.from_bytes(command.encode(), "little") == bits
