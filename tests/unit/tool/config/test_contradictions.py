"""Keys that do not go together: each fault once, with the keys that it follows from."""

import pytest

from diastole.config.contradictions import contradictions
from diastole.config.keys import Config


def config(**tables):
    return Config.model_validate(tables)


def faults(wrong=(), **tables):
    return list(contradictions(config(**tables), set(wrong)))


def test_none():
    assert faults() == []


BF16_VECTORS = {"format": {"x": "bf16"}, "block": {"x": "1x16"}}


def test_groups_that_a_format_does_not_take():
    (line,) = faults(**BF16_VECTORS)
    assert line.endswith('where format.x is bf16, not "1x16"')


@pytest.mark.parametrize(
    "wrong", ["block.x", "format.x", "array.block", "block", "format", "array"]
)
def test_nothing_follows_from_what_was_refused(wrong):
    """The key has its default then, which nobody wrote; its table as a whole too."""
    assert faults([wrong], **BF16_VECTORS) == []


@pytest.mark.parametrize("wrong", ["block.w", "format.dy", "cell.window", "bus"])
def test_other_mistakes_hide_nothing(wrong):
    assert len(faults([wrong], **BF16_VECTORS)) == 1


def test_scales_that_a_format_does_not_take():
    assert faults(format={"w": "bf16"}, scale={"w": "floor"}) == [
        'scale.w must be left out where format.w is bf16, not "floor"'
    ]
    (line,) = faults(scale={"w": "up"})
    assert line.startswith("scale.w must be one of floor, ")
    assert line.endswith('where format.w is bfp4, not "up"')


def test_every_class_is_looked_at():
    lines = faults(
        format=dict.fromkeys(("x", "w", "dy"), "bf16"),
        scale=dict.fromkeys(("x", "w", "dy"), "floor"),
    )
    assert [line.split()[0] for line in lines] == ["scale.x", "scale.w", "scale.dy"]


@pytest.mark.parametrize("name", ["w", "dy"])
@pytest.mark.parametrize("written", [True, False])
def test_vectors_are_not_turned_at_the_edge(name, written):
    tables = {"format": {name: "mxint8"}, "array": {"transpose": "edge"}}
    if written:
        tables["block"] = {name: "1x32"}
    (line,) = faults(**tables)
    assert line.startswith(f'block.{name} must be squares such as "32x32" ')
    assert "array.transpose is edge (in_place takes vectors)" in line
    assert line.endswith('not "1x32"' + ("" if written else ", the default of mxint8"))
    tables["array"] = {"transpose": "in_place"}
    assert faults(**tables) == []


def test_a_fault_hides_what_follows_from_it():
    """A group that a format does not take says nothing of turning, or of the block's side."""
    tables = {"format": {"w": "mxint8"}, "block": {"w": "tensor"}, "array": {"transpose": "edge"}}
    (line,) = faults(**tables)
    assert line.endswith('where format.w is mxint8, not "tensor"')


def test_all_or_none_of_nvfp4():
    (line,) = faults(format={"dy": "nvfp4"})
    assert line.endswith("(nvfp4 is chosen for dy)")
    assert faults(format=dict.fromkeys(("x", "w", "dy"), "nvfp4")) == []


def test_two_ports_need_even_numbers_of_cells():
    odd = {"array": {"rows": 3, "cols": 5}, "bus": {"ports": 2}}
    assert faults(**odd) == [
        f"array.{name} must be even where bus.ports is 2, not {cells}"
        for name, cells in (("rows", 3), ("cols", 5))
    ]
    assert faults(**odd | {"bus": {"ports": 1}}) == []
    assert faults(**odd | {"array": {"rows": 2, "cols": 6}}) == []
    assert faults(["array.rows"], **odd) == faults(**odd)[1:]
    assert faults(["bus.ports"], **odd) == []


def test_chunks_of_what_passes_sum():
    """In every direction that is used."""
    floats = {"kind": "float", "chunk": 64}
    multiple = "accumulator.chunk must be a multiple of"
    summed = "the elements of a contraction that a pass sums"
    east, north = (
        "array.cols x array.block = {} to the east",
        "array.rows x array.block = {} to the north",
    )
    both = f"{multiple} {east} and {north}, {summed}"
    assert faults(accumulator=floats) == []
    assert faults(accumulator=floats, array={"rows": 6, "cols": 6}) == [
        f"{both.format(48, 48)}, not 64: use 48, 96, 144, 192 and so on"
    ]
    assert faults(accumulator=floats, array={"rows": 16, "cols": 16}) == [
        f"{both.format(128, 128)}, not 64: use 128, 256, 384, 512"
    ]
    edge = {"rows": 6, "cols": 4, "transpose": "edge"}
    assert faults(accumulator=floats, array=edge) == []
    assert faults(accumulator=floats, array=edge | {"cols": 32}) == [
        f"{multiple} {east.format(256)}, {summed}, not 64: use 256, 512"
    ]
    assert faults(accumulator=floats, array={"rows": 64, "cols": 2, "block": 16}) == [
        (
            f"{both.format(32, 1024)}, not 64: no chunk up to 512 is such a multiple: "
            "set accumulator.kind to integer"
        )
    ]
    assert faults(["array.rows"], accumulator=floats, array={"rows": 6}) == []
    assert faults(accumulator={"chunk": 64}, array={"rows": 6, "cols": 6}) == []
    block = {"block": 16}
    assert faults(accumulator={"kind": "float", "chunk": 24}, array=block) == [
        "accumulator.chunk must be a multiple of array.block = 16, not 24"
    ]


@pytest.mark.parametrize("name", ["x", "w", "dy"])
def test_chunks_of_planes(name):
    formats = dict.fromkeys(("x", "w", "dy"), "bfp2") | {name: "fast"}
    refused = (
        f'accumulator.kind must be integer where format.{name} is fast, not "float": the '
        "planes of fast are not summed chunk by chunk"
    )
    assert faults(format=formats, accumulator={"kind": "float"}) == [refused]
    assert faults(["accumulator.kind"], format=formats, accumulator={"kind": "float"}) == []
    assert faults(format=formats) == []


def test_special_lanes_are_no_more_than_lanes():
    wide = {"vector": {"enable": True, "special": 16}}
    assert faults(**wide) == ["vector.special must be at most array.block, 8, not 16"]
    assert faults(["vector.special"], **wide) == []
    assert faults(vector={"enable": False, "special": 16}) == []
