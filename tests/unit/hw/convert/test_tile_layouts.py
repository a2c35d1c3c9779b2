"""What a queue of tiles keeps of each."""

import pytest

from diastole_hw.convert.tile_layouts import requested_layout, tile_layout, waiting_tile_layout
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes
from support.tiles import machine


@pytest.fixture
def sizes():
    numerics, data_width = machine("squares")
    return ConverterSizes(numerics=numerics, data_width=data_width)


@pytest.mark.parametrize("in_patches", [False, True])
def test_a_waiting_tile_has_its_index_only_where_nobody_else_knows_it(sizes, in_patches):
    waiting = set(waiting_tile_layout(sizes, in_patches=in_patches).members)
    assert set(tile_layout(sizes).members) - waiting == (set() if in_patches else {"index"})


def test_a_request_needs_the_whole_address_and_a_reader_that_in_the_beat(sizes):
    assert requested_layout(sizes)["address"].width == 40
    assert 2 ** tile_layout(sizes)["address"].width == sizes.data_width // 8
