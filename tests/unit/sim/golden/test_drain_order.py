"""The order of a result's blocks, as the loops of its product have them."""

import numpy as np
import pytest

from diastole_sim.golden.drain_order import order_of, tile_order
from diastole_sim.spec.command import Command, ProgramPlace
from diastole_sim.spec.command_table import Opcode
from diastole_sim.spec.limits import Limits
from diastole_sim.spec.nest import Nest, NestLimits, ProductNests
from diastole_sim.spec.stream_table import Walk
from support.random_programs import tile_lines

PLACE = ProgramPlace(first=0, length=1, streams=0)
MEMORIES = {"chunk_side": 1, "stream_blocks": 99, "stationary_blocks": 99, "pass_blocks": 1}
NESTS = ProductNests(
    forward=NestLimits(t_blocks=(1, 2, 3), groups=(1, 2), chunk=(1,), lane_side=2, **MEMORIES),
    dx=NestLimits(t_blocks=(1, 2), groups=(1, 3), chunk=(1,), lane_side=1, **MEMORIES),
    dw=NestLimits(t_blocks=(2,), groups=(1,), chunk=(1,), lane_side=4, **MEMORIES),
)
LIMITS = Limits(block=4, headroom=3, data_width=64, nests=NESTS)


def blocks(order):
    """In order: (i, j, first, last)."""
    return list(zip(order.i, order.j, order.first, order.last, strict=True))


def expected(size, tile, down):
    return [
        (i, j, place == 0, place == len(line) - 1)
        for line in tile_lines(size, 4, tile, down)
        for place, (i, j) in enumerate(line)
    ]


@pytest.mark.parametrize("outer", ["t", "l"])
@pytest.mark.parametrize("tile", [(1, 1), (2, 3), (5, 2), (2, 9)])
def test_tiles(tile, outer):
    order = tile_order(Walk(rows=17, cols=29, block=4), *tile, outer)
    assert blocks(order) == expected((17, 29), tile, outer == "l")


@pytest.mark.parametrize(
    "opcode, size, lengths, tile",
    [
        (Opcode.FORWARD_CHAIN, (18, 40), {}, (3, 4)),
        (Opcode.FORWARD_CHAIN, (18, 40), {"t_blocks": 1, "groups": 1}, (1, 2)),
        (Opcode.DX_CHAIN, (18, 22), {"t_blocks": 1}, (1, 3)),
        (Opcode.DW_CHAIN, (22, 40), {}, (2, 4)),
    ],
)
@pytest.mark.parametrize("outer", ["t", "l"])
def test_nests(opcode, size, lengths, tile, outer):
    addresses = {
        Opcode.FORWARD_CHAIN: ("address_x", "address_w"),
        Opcode.DX_CHAIN: ("address_w", "address_dy"),
        Opcode.DW_CHAIN: ("address_x", "address_dy"),
    }[opcode]
    command = Command.chained(
        opcode,
        PLACE,
        m=18,
        n=40,
        k=22,
        nest=Nest(**lengths, outer=outer),
        **dict.fromkeys(addresses, 0),
    )
    assert blocks(order_of(command, LIMITS)) == expected(size, tile, outer == "l")


@pytest.mark.parametrize("columns", [False, True])
def test_chains_over_memory(columns):
    order = order_of(Command.chain(PLACE, m=9, n=13, columns=columns), LIMITS)
    assert np.array_equal(order.i[:2], [0, 1] if columns else [0, 0])
    assert (order.rows, order.cols, order.lines_are_whole) == (9, 13, True)
    assert order.by_columns == columns
