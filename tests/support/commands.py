"""Commands that are in order, one of each operation, and what machines accept."""

from diastole_sim.spec.command import Command, Limits, Opcode
from diastole_sim.spec.nest import Nest, NestLimits, ProductNests

MEMORIES = {"stream_blocks": 40, "held_blocks": 60, "pass_blocks": 2}
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
    names = {
        Opcode.FORWARD: ("address_x", "address_w", "out_a"),
        Opcode.DX: ("address_w", "address_dy", "out_a"),
        Opcode.DW: ("address_x", "address_dy", "out_a"),
        Opcode.BACKWARD: ("address_x", "address_w", "address_dy", "out_a", "out_b"),
    }[opcode]
    taken = NESTS.of(opcode.name.lower())
    nest = taken and Nest(
        t_blocks=taken.t_blocks[-1], groups=taken.groups[0], chunk=taken.chunk[-1], outer="l",
        keep="held",
    )  # fmt: skip
    return Command.product(
        opcode, m=31, n=17, k=29, nest=nest or Nest(), **dict(zip(names, at, strict=False))
    )


def limits_of(data_width):
    return Limits(data_width=data_width, **LIMITS)
