# amaranth: UnusedElaboratable=no
"""Which bytes of exponent fields words bring, against loops over elements and their units."""

import pytest

from diastole_hw.convert.lanes.field_word import FieldWord
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes
from support.bench import design, run
from support.tiles import MACHINES, class_of, machine, tile_shape

NAMES = list(MACHINES)


def unit_of(numerics, cls, copy, row, col):
    """The unit of an element of a tile: its number along, and its row, or down, and its column."""
    chosen, block = class_of(numerics, cls), numerics.block
    if chosen.grouping.kind == "vector":
        size = chosen.grouping.size
        return (row // size, col) if copy else (row, col // size)
    return row // block, col // block


def field_place(numerics, cls, copy, row, col):
    """(group of the strip, byte of its field) of the unit of an element."""
    chosen, block = class_of(numerics, cls), numerics.block
    if chosen.grouping.kind != "vector":
        return 0, col // block % 8
    along, across = (row, col) if copy else (col, row)
    run_ = along % (8 * block) // min(chosen.grouping.size, 8 * block)
    return (col // block if copy else 0), run_ * block + across % block


def exponent_of(unit):
    return (7 * unit[0] + 13 * unit[1]) % 256


def fold_of(unit):
    return (unit[0] + unit[1]) % 4


def lowered(numerics, cls, dut, exponent, fold):
    if not dut.sizes.folds[cls] or exponent == 255:
        return exponent
    depth = class_of(numerics, cls).format.depth
    return 0 if 0 in (exponent, fold) else (exponent - depth - 1 + fold) % 256


def check(name, cls, copy):
    """Every word of a tile's first strips, in the order of its groups."""
    numerics, data_width = machine(name)
    dut = design(FieldWord, ConverterSizes(numerics=numerics, data_width=data_width), copy=copy)
    block, lanes = numerics.block, dut.sizes.lanes
    height, width = tile_shape(numerics, cls)
    banks = len(dut.o.enable)

    async def main(ctx):
        ctx.set(dut.cls, cls)
        seen = {}
        for row in range(min(height, 9 * block)):
            half = row // (8 * block if copy else block)
            for col in range(0, width, lanes):
                units = [unit_of(numerics, cls, copy, row, col + n) for n in range(lanes)]
                ctx.set(dut.at, {"row": row, "word": col // lanes})
                ctx.set(dut.exponents, [exponent_of(unit) for unit in units])
                ctx.set(dut.folds, [fold_of(unit) for unit in units])
                await ctx.delay(1e-10)
                if not ctx.get(dut.first):
                    brought = {}
                else:
                    group, first = ctx.get(dut.o.group), ctx.get(dut.o.row) * banks
                    values, enable = ctx.get(dut.o.values), ctx.get(dut.o.enable)
                    brought = {
                        (group, first + n): values[n] for n in range(banks) if enable >> n & 1
                    }
                wanted = {}
                for n, unit in enumerate(units):
                    # A group has its own part of a unit that goes on.
                    group = (half, 0 if copy else col // (8 * block), unit)
                    place = field_place(numerics, cls, copy, row, col + n)
                    if group not in seen or seen[group] == (row, col):
                        seen[group] = row, col
                        byte = lowered(numerics, cls, dut, exponent_of(unit), fold_of(unit))
                        wanted[place] = byte
                assert brought == wanted, f"row {row} column {col}"

    run(dut, main)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("cls", range(3))
@pytest.mark.sampled(3)
def test_fields(name, cls):
    check(name, cls, 0)
    if class_of(machine(name)[0], cls).grouping.kind == "vector":
        check(name, cls, 1)
