"""Requests and beats with whose they are: what is in them, bit by bit."""

import pytest
from amaranth.hdl import Shape

from diastole_hw.bus.services import (
    FETCH,
    ReadSignature,
    WriteSignature,
    owned_beat_layout,
    owned_request_layout,
    owner_tag_layout,
    request_layout,
    write_beat_layout,
)


def fields(layout):
    return {name: (field.offset, field.width) for name, field in layout}


def test_an_owned_request_is_a_request_and_whose_it_is():
    assert fields(request_layout()) == {"addr": (0, 40), "beats": (40, 16)}
    assert fields(owned_request_layout()) == fields(request_layout()) | {"owner_tag": (56, 3)}
    assert fields(owner_tag_layout()) == {"owner": (0, 2), "command": (2, 1)}
    assert FETCH == 0


@pytest.mark.parametrize("width", [32, 512])
def test_beats(width):
    wanted = {"data": (0, width), "units": (width, 4), "failed": (width + 4, 1)}
    assert fields(owned_beat_layout(width)) == wanted
    assert fields(write_beat_layout(width)) == {"data": (0, width), "strb": (width, width // 8)}
    reads, writes = ReadSignature(width).create(), WriteSignature(width).create()
    assert Shape.cast(reads.beats.payload.shape()).width == width
    assert Shape.cast(writes.beats.payload.shape()).width == width + width // 8
