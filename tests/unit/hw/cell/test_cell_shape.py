"""Shapes of cells, and the layouts that follow from them."""

from dataclasses import replace

import pytest

from diastole_hw.cell.cell_shape import PIPELINES, CellShape, Element
from diastole_hw.cell.layouts import stationary_layout, sum_layout, vector_layout
from diastole_sim.spec.formats import parse_format
from support.cells import BFP3, BFP4, BFP5, E4M3, E5M2

SQUARE = CellShape(
    rows=3, block=4, south=BFP3, west=BFP5, stationary=BFP4, sum_bits=12, fraction=18
)
EVERYTHING = CellShape(
    rows=2,
    block=8,
    south=BFP3,
    west=E5M2,
    stationary=E4M3,
    window=16,
    exact=False,
    sum_bits=28,
    fraction=18,
    lane_deficits=True,
    significands=True,
    extents=True,
    poison=True,
)


def sizes(layout):
    return {name: field.width for name, field in layout}


def test_layouts_of_block_floating_point():
    assert sizes(vector_layout(SQUARE, BFP3)) == {"elements": 16, "deficit": 5, "nonzero": 1}
    assert sizes(stationary_layout(SQUARE)) == {
        "row": 2,
        "index": 2,
        "elements": 20,
        "deficit_east": 5,
        "deficit_north": 5,
        "nonzero": 1,
        "valid": 1,
    }
    assert sizes(sum_layout(4, 30)) == {"sums": 120, "inexact": 1}


def test_layouts_with_everything():
    marks = {"significand": 4, "extent": 6}
    vector = {"elements": 8 * 9, "deficit": 6, "nonzero": 1} | marks | {"poison": 1}
    assert sizes(vector_layout(EVERYTHING, E4M3)) == vector
    stationary = sizes(stationary_layout(EVERYTHING))
    assert {name: stationary[name] for name in ("significand", "extent", "poison")} == marks | {
        "poison": 8
    }
    assert sizes(sum_layout(8, 50, poison=True)) == {"sums": 400, "inexact": 1, "poison": 8}


def test_widths():
    assert (SQUARE.product_bits, SQUARE.tree_bits, SQUARE.lanes) == (9, 12, 1)
    assert SQUARE.vector_element == BFP5
    assert (EVERYTHING.product_bits, EVERYTHING.tree_bits, EVERYTHING.lanes) == (16, 20, 8)
    assert EVERYTHING.vector_element == Element(significand_bits=3, depth=29)
    assert EVERYTHING.extent_limit == 16
    assert replace(EVERYTHING, directions=("east",)).lanes == 1
    assert replace(EVERYTHING, directions=("east",)).vector_element == BFP3


def test_pipelines_of_a_shape():
    def of(shape):
        return [replace(shape, pipeline=name) for name in PIPELINES]

    assert [each.tree_cut for each in of(SQUARE)] == [None, 0, 1]
    assert [each.tree_cut for each in of(EVERYTHING)] == [None, 0, 0]
    assert [each.tree_cut for each in of(replace(SQUARE, block=1))] == [None, 0, 0]
    cycles = [(each.input_cycles, each.multiply_add_cycles) for each in of(SQUARE)]
    assert cycles == [(0, 1), (0, 2), (1, 3)]
    assert [each.stages for each in of(SQUARE)] == [1, 2, 4]
    assert [each.latency for each in of(SQUARE)] == [2, 3, 6]
    assert [each.latency for each in of(EVERYTHING)] == [2, 3, 7]
    assert [each.direction_copies for each in of(SQUARE)] == [1, 1, 2 * SQUARE.block]
    assert replace(SQUARE, pipeline="full", directions=("east",)).direction_copies == 1


@pytest.mark.parametrize(
    "stream, stationary, block, counts",
    [(3, 3, 8, (3, 4)), (4, 4, 8, (2, 3)), (2, 3, 2, (2, 2)), (8, 8, 8, (1, 2)), (8, 2, 8, (2, 3))],
)
def test_products_of_a_dsp_block(stream, stationary, block, counts):
    """As many as fit 18 bits, or 24; no more than there are lanes."""
    streamed = Element(significand_bits=stream)
    shape = replace(SQUARE, south=streamed, west=streamed, block=block)
    shape = replace(shape, stationary=Element(significand_bits=stationary))
    assert shape.products_per_dsp == 0
    for name, count in zip(("dsp", "dsp25"), counts, strict=True):
        assert replace(shape, multiplier=name).products_per_dsp == count


@pytest.mark.parametrize(
    "names, element",
    [
        (["bfp4", "bfp7"], Element(significand_bits=7)),
        (["fp8_e4m3", "mxfp8_e4m3"], E4M3),
        (["fp8_e5m2"], E5M2),
        (["fp8_e5m2", "fp8_e4m3"], Element(significand_bits=4, depth=29)),
        (["bfp8", "mxfp4_e2m1"], Element(significand_bits=8, depth=2)),
    ],
)
def test_element_that_holds_formats(names, element):
    assert Element.for_formats(*map(parse_format, names)) == element
