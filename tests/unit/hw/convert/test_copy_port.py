"""What the lanes give away: ports as wide as a word of each machine."""

import pytest

from diastole_hw.convert.copy_port import CopySignature, image_group_layout
from diastole_hw.convert.geometry import Geometry
from support.tiles import MACHINES, machine


@pytest.mark.parametrize("name", MACHINES)
def test_ports(name):
    numerics, data_width = machine(name)
    sizes = Geometry(numerics=numerics, data_width=data_width)
    port = CopySignature(sizes, 0).create()
    assert len(port.write_data) == sizes.lanes * sizes.lane_bits
    assert len(port.group.p.as_value()) == image_group_layout().size == 7
