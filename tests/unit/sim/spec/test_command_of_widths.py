"""Commands whose widths scale slots say: their bits, and what is refused."""

import pytest

from diastole_sim.spec.command import Command
from diastole_sim.spec.command_check import MalformedCommandError, decode
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.command_table import PRODUCTS, Opcode
from diastole_sim.spec.limits import Limits, VectorLimits
from diastole_sim.spec.nest import Nest, NestLimits, ProductNests
from diastole_sim.spec.numerics import CLASS_NAMES
from support.numerics import make_numerics

NEST = NestLimits(
    t_blocks=(1, 2, 4),
    groups=(1, 2),
    chunk=(1, 2, 4),
    chunk_side=1,
    lane_side=1,
    stream_blocks=8,
    stationary_blocks=8,
    pass_blocks=1,
)
BITS = {"x": 8, "w": 16, "dy": 24}
"""Of word 13, where the slot of each operand begins."""
READS = {
    Opcode.FORWARD: ("x", "w"),
    Opcode.DX: ("w", "dy"),
    Opcode.DW: ("x", "dy"),
    Opcode.BACKWARD: ("x", "w", "dy"),
}
ADDRESSES = {
    Opcode.FORWARD: ("address_x", "address_w", "out_a"),
    Opcode.DX: ("address_w", "address_dy", "out_a"),
    Opcode.DW: ("address_x", "address_dy", "out_a"),
    Opcode.BACKWARD: ("address_x", "address_w", "address_dy", "out_a", "out_b"),
}


def limits(formats="fast", widths=(2, 4), *, unit=True):
    numerics = make_numerics(formats=formats, widths=widths)
    vector = VectorLimits(panel_vectors=64) if unit else None
    nests = ProductNests(forward=NEST, dx=NEST, dw=NEST)
    return Limits.of(numerics, data_width=64, nests=nests, vector=vector)


def found(command, machine):
    try:
        assert decode(command.encode(), machine) == command
    except MalformedCommandError as error:
        return error.code
    return ErrorCode.NONE


def convert(name="x", slot=5, **flags):
    return Command.convert(
        name, rows=8, cols=8, source=0, destination=64, tag=0, step=0, slot=slot, **flags
    )


def product(opcode, slots, **others):
    places = dict.fromkeys(ADDRESSES[opcode], 0)
    return Command.product(opcode, m=8, n=8, k=8, slots=slots, **places, **others)


@pytest.mark.parametrize("flag, bit", [("by_slot", 10), ("decides", 11)])
def test_conversions(flag, bit):
    command = convert(**{flag: True})
    bits = int.from_bytes(command.encode(), "little")
    assert bits ^ int.from_bytes(convert().encode(), "little") == 1 << 32 * 3 + bit
    machine = limits(("fast", "bfp2", "fast"))
    codes = {name: found(convert(name, **{flag: True}), machine) for name in CLASS_NAMES}
    assert codes == {"x": ErrorCode.NONE, "w": ErrorCode.WIDTH, "dy": ErrorCode.NONE}
    assert found(convert(slot=None, **{flag: True}), machine) == ErrorCode.WIDTH
    for other in (limits("bfp4"), limits(widths=(4,)), limits(unit=False)):
        assert found(convert(slot=None, **{flag: True}), other) == ErrorCode.RESERVED


@pytest.mark.parametrize("opcode", PRODUCTS)
def test_operands(opcode):
    machine = limits(("fast", "bfp2", "fast"))
    for name in CLASS_NAMES:
        if name not in READS[opcode]:
            stray = int.from_bytes(product(opcode, {}).encode(), "little")
            stray |= 1 << 32 * 13 + BITS[name]
            with pytest.raises(MalformedCommandError) as raised:
                decode(stray.to_bytes(64, "little"), machine)
            assert raised.value.code == ErrorCode.RESERVED
            continue
        command = product(opcode, {name: 254})
        bits = int.from_bytes(command.encode(), "little")
        plain = int.from_bytes(product(opcode, {}).encode(), "little")
        assert bits ^ plain == 255 << 32 * 13 + BITS[name]
        wanted = ErrorCode.WIDTH if name == "w" else ErrorCode.NONE
        assert found(command, machine) == wanted
        assert found(command, limits("bfp4")) == ErrorCode.RESERVED
        assert found(command, limits(unit=False)) == ErrorCode.RESERVED


def test_a_nest_must_take_the_most_planes():
    """What is held stays: 5 blocks in one plane fit, those in two do not."""
    nest = Nest(t_blocks=1, groups=1, chunk=4, keep="stationary")
    sizes = {"m": 8, "n": 4, "k": 16}
    places = dict.fromkeys(ADDRESSES[Opcode.FORWARD], 0)

    def of(k, **widths):
        return Command.product(
            Opcode.FORWARD, **sizes | {"k": 4 * k}, nest=nest, **places, **widths
        )

    machine = limits()
    assert found(of(8), machine) == ErrorCode.NONE
    assert found(of(8, planes={"w": 2}), machine) == ErrorCode.NEST
    assert found(of(8, slots={"w": 0}), machine) == ErrorCode.NEST
    assert found(of(8, slots={"x": 0}), machine) == ErrorCode.NONE
    assert found(of(4, slots={"w": 0}), machine) == ErrorCode.NONE
