"""Descriptors of streams: their bits, and every rule that one can break."""

from dataclasses import replace

import pytest

from diastole_sim.spec.stream_table import (
    FIELDS,
    INPUT_KINDS,
    KIND_MEANINGS,
    OUTPUT_KINDS,
    PANEL_ORDER_MEANINGS,
    Descriptor,
    Kind,
    PanelOrder,
    StreamLimits,
    Walk,
    stream_problems,
)

WALK = Walk(rows=13, cols=9, block=4)
LIMITS = StreamLimits(data_width=128, panel_vectors=64)
ROWS = Descriptor(kind=Kind.F32, address=32, pitch=48)
PANEL = Descriptor(kind=Kind.PANEL, address=4, pitch=3)
LIST = Descriptor(kind=Kind.LABELS)


def test_every_kind_and_order_has_a_meaning():
    assert set(KIND_MEANINGS) == set(Kind)
    assert set(PANEL_ORDER_MEANINGS) == set(PanelOrder)


def test_bits_are_where_the_definition_has_them():
    stream = Descriptor(
        kind=12, address=0x12_3456_7890, tensor_class=2, per_step=1, watch=1, aux=0xAB,
        pitch=0x1234_5678, offset=0x9ABC_DEF0, by_slot=1,
    )  # fmt: skip
    words = [int.from_bytes(stream.encode()[at : at + 4], "little") for at in range(0, 16, 4)]
    assert words[0] == 0x3456_7890
    assert words[1] == 0x12 | 12 << 8 | 2 << 12 | 1 << 14 | 1 << 15 | 0xAB << 16 | 1 << 30
    assert words[2:] == [0x1234_5678, 0x9ABC_DEF0]
    assert Descriptor.decode(stream.encode()) == stream
    assert Descriptor(decides=1).encode()[7] == 0x80


def test_fields_do_not_overlap():
    taken = 0
    for field in FIELDS:
        bits = (1 << field.bits) - 1 << field.low
        assert not taken & bits
        taken |= bits
    windowed = 1 << 56
    found = Descriptor.decode(windowed.to_bytes(16, "little"))
    assert found.rest == windowed


def test_an_address_moves_with_the_step_where_that_is_asked():
    assert replace(ROWS, per_step=1, offset=64).at_step(3) == 32 + 192
    assert replace(ROWS, offset=64).at_step(3) == 32
    # The sum is modulo 2^40, as in the hardware.
    assert replace(ROWS, address=2**40 - 64, per_step=1, offset=64).at_step(3) == 128


def test_a_walk_counts_blocks():
    assert (WALK.block_rows, WALK.block_cols) == (4, 3)


@pytest.mark.parametrize("kind", INPUT_KINDS)
def test_inputs_in_order(kind):
    stream = PANEL if kind == Kind.PANEL else Descriptor(kind=kind)
    limits = replace(LIMITS, draws=kind == Kind.DRAWS)
    found = stream_problems(
        stream, WALK, limits, output=False, of_product=kind == Kind.PRODUCT, index_list=LIST
    )
    assert found == []


@pytest.mark.parametrize("kind", OUTPUT_KINDS)
def test_outputs_in_order(kind):
    stream = PANEL if kind == Kind.PANEL else Descriptor(kind=kind, watch=1)
    walk = replace(WALK, by_columns=kind == Kind.COLUMN)
    assert stream_problems(stream, walk, LIMITS, output=True) == []


@pytest.mark.parametrize(
    "stream, changes, text",
    [
        (Descriptor(), {}, "a stream of kind 0 cannot be an input"),
        (Descriptor(kind=12), {}, "a stream of kind 12 cannot be an input"),
        (Descriptor(kind=1), {"output": True}, "a stream of kind 1 cannot be an output"),
        (Descriptor(kind=1), {}, "only a chain of a product can read a product"),
        (replace(ROWS, address=8), {}, "address must be a multiple of a beat, 16 bytes, not 8"),
        (replace(ROWS, pitch=40), {}, "pitch must be a multiple of a beat, 16 bytes, not 40"),
        (
            replace(ROWS, per_step=1, offset=4),
            {},
            "offset must be a multiple of a beat, 16 bytes, not 4",
        ),
        (
            replace(ROWS, offset=16),
            {},
            "offset has no meaning in a stream of kind f32, and must be 0",
        ),
        (replace(ROWS, watch=1), {}, "watch has no meaning in a stream of kind f32, and must be 0"),
        (replace(ROWS, aux=1), {}, "aux has no meaning in a stream of kind f32, and must be 0"),
        (
            replace(ROWS, tensor_class=1),
            {},
            "tensor_class has no meaning in a stream of kind f32, and must be 0",
        ),
        (
            replace(ROWS, rest=1 << 56),
            {},
            "rest has no meaning in a stream of kind f32, and must be 0",
        ),
        (replace(PANEL, aux=4, pitch=0), {}, "aux 4 is not an order of vectors of the panel"),
        (
            replace(PANEL, aux=3, pitch=0),
            {"output": True},
            "aux 3 is not an order of vectors of the panel",
        ),
        (
            replace(PANEL, address=17),
            {},
            "the stream needs 65 vectors of the panel, but the panel has 64",
        ),
        (
            replace(PANEL, aux=1),
            {},
            "pitch has no meaning in a stream of kind panel, and must be 0",
        ),
        (
            Descriptor(kind=Kind.DRAWS, pitch=7),
            {},
            "the machine has no streams of random numbers (vector.draws)",
        ),
        (Descriptor(kind=13, address=256), {"output": True}, "there is no constant 256"),
        (
            Descriptor(kind=6),
            {"output": True},
            "a vector of columns must be written by a walk by columns",
        ),
        (
            Descriptor(kind=7),
            {"output": True, "by_columns": True},
            "a vector of rows must be written by a walk by rows",
        ),
        (
            Descriptor(kind=12),
            {"output": True, "by_columns": True},
            "an image must be written by a walk by rows",
        ),
        (Descriptor(kind=8), {}, "the list of gathered rows is not a stream of labels"),
        (Descriptor(kind=12, tensor_class=3), {"output": True}, "there is no class 3"),
    ],
)
def test_each_rule(stream, changes, text):
    walk = replace(WALK, by_columns=changes.pop("by_columns", False))
    assert stream_problems(stream, walk, LIMITS, **({"output": False} | changes)) == [text]


def test_a_list_of_rows_is_in_order_too():
    rows = Descriptor(kind=Kind.GATHERED_U8)
    wrong = replace(LIST, address=4)
    assert stream_problems(rows, WALK, LIMITS, output=False, index_list=wrong) == [
        "the list of gathered rows: address must be a multiple of a beat, 16 bytes, not 4"
    ]


def test_the_panel_is_full_to_its_last_vector():
    # 4 x 3 blocks of 4 vectors from vector 4 on, in rows of 3 blocks: 4 + 48.
    assert stream_problems(PANEL, WALK, replace(LIMITS, panel_vectors=52), output=False) == []
    assert stream_problems(PANEL, WALK, replace(LIMITS, panel_vectors=51), output=False)


def test_small_masks_are_written_by_rows_only():
    mask = Descriptor(kind=Kind.MASK)
    tall = Walk(rows=5, cols=5, block=2, by_columns=True)
    assert stream_problems(mask, tall, LIMITS, output=True) == [
        "a mask with blocks of a fraction of a byte must be written by a walk by rows"
    ]
    assert stream_problems(mask, tall, LIMITS, output=False) == []


@pytest.mark.parametrize("field", ["by_slot", "decides"])
def test_images_whose_width_the_slot_says(field):
    limits = replace(LIMITS, choices=(True, False, True))
    image = Descriptor(kind=Kind.IMAGE, aux=3, **{field: 1})

    def problems(stream, limits=limits, output=True):
        return stream_problems(stream, WALK, limits, output=output)

    assert not problems(image)
    assert problems(replace(image, aux=0)) == ["no slot gives the width of the image"]
    decides_none = ["the machine chooses no widths for the class of the image"]
    assert problems(replace(image, tensor_class=1)) == decides_none
    assert problems(image, LIMITS) == decides_none
    assert "there is no class 3" in problems(replace(image, tensor_class=3))
    for stream, output in ((ROWS, True), (ROWS, False), (PANEL, False)):
        name = Kind(stream.kind).name.lower()
        found = problems(replace(stream, **{field: 1}), output=output)
        assert found == [f"{field} has no meaning in a stream of kind {name}, and must be 0"]
