"""Where tensors are in memory and in the panel."""

import pytest

from diastole_sim.program.memory_plan import LINE_BYTES, MemoryPlan, folded_stream, stream_of
from diastole_sim.spec.command import Command
from diastole_sim.spec.image import image_layouts
from diastole_sim.spec.stream_table import Descriptor, Kind, PanelOrder, Walk, panel_vectors
from support.numerics import make_numerics


def plan(data_width=128, vectors=64, **numerics):
    made = make_numerics(**numerics)
    return MemoryPlan(numerics=made, data_width=data_width, panel_vectors=vectors)


@pytest.mark.parametrize(
    "kind, pitch, rows",
    [(Kind.F32, 64, 5), (Kind.BF16, 32, 5), (Kind.U8, 16, 5), (Kind.MASK, 16, 2)],
)
def test_rows(kind, pitch, rows):
    found = plan()
    found.take("before", "table", (1,), 3)
    area = found.tensor("a", kind, 5, 13)
    assert (area.address, area.pitch, area.length) == (LINE_BYTES, pitch, pitch * rows)
    assert (area.kind, area.shape) == (kind.name.lower(), (5, 13))
    assert found.end >= area.end
    assert found.end % LINE_BYTES == 0
    expected = Descriptor(kind=kind, address=area.address, pitch=pitch)
    assert stream_of(area).descriptor == expected
    assert stream_of(area).name == "a"


def test_a_mask_has_a_bit_for_every_element_of_a_block():
    assert plan(data_width=32, block=1).tensor("a", Kind.MASK, 3, 33).pitch == 8
    assert plan(data_width=32, block=8).tensor("a", Kind.MASK, 3, 33).pitch == 40


def test_vectors_and_what_a_step_has():
    found = plan()
    vector = found.vector("b", Kind.COLUMN, 7)
    assert (vector.length, vector.shape) == (32, (7,))
    assert stream_of(vector).descriptor == Descriptor(kind=Kind.COLUMN, address=vector.address)
    table = found.by_step("labels", "int32", 3, 5)
    assert (table.pitch, table.length, table.shape) == (32, 96, (3, 5))
    expected = Descriptor(kind=Kind.LABELS, address=table.address, per_step=1, offset=32)
    assert stream_of(table, Kind.LABELS, per_step=True).descriptor == expected


@pytest.mark.parametrize(
    "data_width, block, size, shape",
    [
        (128, 8, 64, (8, 8)),
        (128, 8, 10, (2, 8)),
        (128, 8, 65, (5, 16)),
        (128, 8, 1, (1, 8)),
        (512, 4, 33, (3, 16)),
        (32, 1, 5, (1, 5)),
        (128, 2, 9, (2, 8)),
    ],
)
def test_vectors_as_tensors(data_width, block, size, shape):
    found = plan(data_width=data_width, block=block)
    assert found.folded(size) == shape
    area = found.vector("b", Kind.COLUMN, size)
    assert area.length == 4 * shape[0] * shape[1] >= 4 * size
    folded = folded_stream(area, shape[1])
    expected = Descriptor(kind=Kind.F32, address=area.address, pitch=4 * shape[1])
    assert (folded.name, folded.descriptor) == ("b", expected)


@pytest.mark.parametrize(
    "formats, groupings, source",
    [
        ("bfp4", None, "current"),
        ("bfp4", "1x8", "current"),
        ("nvfp4", "1x16", "delayed"),
        ("fp8_e4m3", "tensor", "delayed"),
        ("fp8_e4m3", "tensor", "current"),
        ("fast", None, "current"),
    ],
)
def test_images(formats, groupings, source):
    found = plan(formats=formats, groupings=groupings, source=source)
    image = found.image("W", "w", (11, 7), tag=9, slot=9)
    chosen = found.numerics.converted_class("w")
    layouts = image_layouts(chosen, (11, 7), block=4, data_width=128)
    areas = list(found.areas.values())
    planes = chosen.format.plane_count
    assert [area.length for area in areas] == [planes * each.total_bytes for each in layouts]
    assert image.addresses == (areas[0].address, areas[-1].address)
    assert (image.slot is None) == (source == "current")
    assert image.descriptor() == Descriptor(
        kind=Kind.IMAGE,
        address=areas[0].address,
        offset=areas[-1].address - areas[0].address,
        tensor_class=1,
        pitch=9,
        aux=10 if source == "delayed" else 0,
    )


@pytest.mark.parametrize("order", [order for order in PanelOrder if order < 3])
def test_the_panel(order):
    found = plan(vectors=64)
    assert found.panel("before", PanelOrder.BLOCK_ROW, 5, 1).descriptor.address == 0
    stream = found.panel("a", order, 11, 7)
    assert stream.descriptor.address == 8
    assert found.panel_end == panel_vectors(stream.descriptor, Walk(rows=11, cols=7, block=4))
    assert found.panel("too large", PanelOrder.BLOCK, 16, 16) is None
    room = 64 - found.panel_end
    assert found.panel("rest", PanelOrder.BLOCK_ROW, room, 1) is not None
    assert found.panel("no more", PanelOrder.BLOCK_ROW, 1, 1) is None


def test_what_is_taken_back_from_the_panel():
    made = plan(vectors=16)  # of blocks of 4
    for name, columns in (("a", 5), ("b", 4), ("c", 4)):
        assert made.panel(name, PanelOrder.BLOCK_COLUMN, 1, columns) is not None
    assert made.in_panel == {"a": (0, 8), "b": (8, 12), "c": (12, 16)}
    made.empty_panel(8)
    assert made.in_panel == {"a": (0, 8)}
    again = made.panel("d", PanelOrder.BLOCK_COLUMN, 1, 8)
    assert again.descriptor.address == 8
    assert made.panel("e", PanelOrder.BLOCK_COLUMN, 1, 1) is None
    assert made.in_panel == {"a": (0, 8), "d": (8, 16)}


def test_commands_have_a_place():
    made = plan()
    commands = [Command.next(3), Command.next(4)]
    area, data = made.commands("all", commands)
    assert (area.kind, area.shape, area.length) == ("commands", (2,), 128)
    assert data == commands[0].encode() + commands[1].encode()
    assert made.areas["all"] == area
