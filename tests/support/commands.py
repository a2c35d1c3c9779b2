"""Commands that are in order, one of each operation, and what machines accept."""

from dataclasses import replace

from diastole_sim.spec.command import Command, ProgramPlace
from diastole_sim.spec.command_table import (
    CHAINED,
    MULTIPLYING,
    PRODUCTS,
    TRANSFERS,
    Opcode,
    opcodes_of,
)
from diastole_sim.spec.limits import Limits, VectorLimits, VectorTable
from diastole_sim.spec.nest import Nest, NestLimits, ProductNests

MEMORIES = {"stream_blocks": 40, "stationary_blocks": 60, "pass_blocks": 2}
SIDES = {"chunk_side": 1, "lane_side": 2} | MEMORIES
NORTH = {"chunk_side": 3, "lane_side": 1} | MEMORIES
NESTS = ProductNests(
    forward=NestLimits(t_blocks=(1, 2, 4), groups=(1, 2, 3), chunk=(2, 4), **SIDES),
    dx=NestLimits(t_blocks=(2, 4, 8), groups=(2, 4), chunk=(3, 6, 9), **NORTH),
    dw=NestLimits(t_blocks=(16,), groups=(1,), chunk=(1,), **SIDES),
)
LIMITS = {
    "block": 4, "headroom": 3, "max_size": 1000, "max_convert_cols": 100, "nests": NESTS,
}  # fmt: skip


PROGRAM = ProgramPlace(first=0xA5, length=21, streams=0x55)
ON_MACHINES = [(opcode, False) for opcode in opcodes_of(vector=False)]
ON_MACHINES += [(opcode, True) for opcode in Opcode]
"""Operations, and whether a machine that has them has a vector unit."""


def good(opcode, data_width=64):
    """One valid command of each operation; every field that it uses is odd in some way."""
    at = [0xA5_0000_0000 + n * 0x1234 * data_width for n in range(5)]
    if opcode == Opcode.CONVERT:
        return Command.convert(
            "dy",
            rows=999,
            cols=99,
            source=at[0],
            destination=at[1],
            tag=0xDEADBEEF,
            step=0x12345678,
        )
    if opcode == Opcode.CHAIN:
        return replace(Command.chain(PROGRAM, m=31, n=17), columns=1, update=1, skip=1)
    if opcode in TRANSFERS:
        make = Command.store if opcode == Opcode.STORE else Command.load
        place = {"address": at[0], "advance": 3 * data_width}
        return make(VectorTable.PANEL, first=25, count=37, **place)
    if opcode == Opcode.NEXT:
        return Command.next(0xDEADBEEF)
    names = {
        Opcode.FORWARD: ("address_x", "address_w"),
        Opcode.DX: ("address_w", "address_dy"),
        Opcode.DW: ("address_x", "address_dy"),
        Opcode.BACKWARD: ("address_x", "address_w", "address_dy", "out_b"),
    }
    plain = next(op for op, operation in PRODUCTS.items() if operation == MULTIPLYING[opcode])
    addresses = names[plain] if opcode in CHAINED else (*names[plain], "out_a")
    taken = NESTS.of(plain.name.lower())
    nest = taken and Nest(
        t_blocks=taken.t_blocks[-1], groups=taken.groups[0], chunk=taken.chunk[-1], outer="l",
        keep="stationary",
    )  # fmt: skip
    shape = {"m": 31, "n": 17, "k": 29, "nest": nest or Nest()}
    places = dict(zip(addresses, at, strict=False))
    if opcode in CHAINED:
        return Command.chained(opcode, PROGRAM, **shape, **places, skip=True)
    return Command.product(opcode, **shape, **places)


def limits_of(data_width, *, vector=False):
    unit = VectorLimits(panel_vectors=64) if vector else None
    return Limits(data_width=data_width, vector=unit, **LIMITS)
