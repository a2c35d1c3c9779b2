"""What the lanes give away, by the sizes of a machine."""

import pytest

from diastole_hw.convert.image.copy_port import CopySignature, image_group_layout
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes
from support.tiles import MACHINES, class_of, machine


@pytest.mark.parametrize("name", MACHINES)
def test_a_word_has_the_elements_of_the_lanes(name):
    numerics, data_width = machine(name)
    sizes = ConverterSizes(numerics=numerics, data_width=data_width)
    bits = max(class_of(numerics, cls).format.element_bits for cls in range(3))
    for copy in range(1 + sizes.two_copies):
        members = CopySignature(sizes, copy).members
        assert members["write_data"].shape == sizes.lanes * bits
        assert members["freed"].flow.name == "In"
        assert members["group"].flow.name == "Out"


def test_a_group_says_where_it_is():
    assert set(image_group_layout().members) == {
        "copy", "line_end", "copy_end", "first_row", "first_col", "last_row", "last_col",
    }  # fmt: skip
