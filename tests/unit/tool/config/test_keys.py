"""The configuration object: presets, derived values, the hash."""

import tomllib
from typing import get_args

import pytest
from pydantic import ValidationError

from diastole.config.file import FIELDS, from_document
from diastole.config.keys import (
    AccumulatorConfig,
    ArrayConfig,
    BusConfig,
    CellConfig,
    Config,
    MemoryConfig,
    RoundingConfig,
)
from diastole.config.presets import PRODUCTS_ONLY
from diastole.errors import BadInput
from diastole_hw.cell.cell_shape import MULTIPLIERS, PIPELINES
from diastole_hw.emit.keywords import KEYWORDS
from diastole_sim.spec.numerics import Numerics
from support.sources import ROOT

DRAWS = {"bits": 8, "kind": "counter", "lfsr_bits": 24}


@pytest.mark.parametrize(
    "preset, cells, block, bus, ports, panel, macs",
    [
        ("pico", 1, 4, 32, 1, 16, 16),
        ("nano", 2, 8, 128, 1, 64, 256),
        ("edge", 6, 8, 256, 1, 64, 2304),
        ("server", 16, 8, 512, 2, 256, 16384),
    ],
)
def test_presets_are_those_of_the_contract(preset, cells, block, bus, ports, panel, macs):
    config = PRODUCTS_ONLY[preset]
    assert config.to_dict() == {
        "name": f"diastole_{preset}",
        "special": "flag",
        "numbers": None,
        "array": {"rows": cells, "cols": cells, "block": block, "transpose": "in_place"},
        "format": {"x": "bfp4", "w": "bfp4", "dy": "bfp4"},
        "block": {"x": None, "w": None, "dy": None},
        "scale": {
            "x": None, "w": None, "dy": None, "source": "current", "history": 1, "margin": 0,
        },
        "overflow": {"x": "saturate", "w": "saturate", "dy": "saturate"},
        "cell": {"pipeline": "none", "multiplier": "fabric", "window": None},
        "rounding": {"x": "nearest", "w": "nearest", "dy": "stochastic-b", **DRAWS},
        "fast": {"widths": (2, 4)},
        "accumulator": {
            "fraction": 18, "headroom": 14, "kind": "integer", "mantissa": 9, "chunk": 64,
        },
        "bus": {"data_width": bus, "ports": ports},
        "memory": {"output_register": False},
        "vector": {"enable": False, "special": None, "panel_kib": panel, "draws": False},
    }  # fmt: skip
    assert config.macs == macs


@pytest.mark.parametrize("kind, bits", [("counter", 8), ("lfsr", 8), ("lfsr3", 3), ("data", 8)])
def test_a_kind_brings_its_bits(kind, bits):
    assert RoundingConfig(kind=kind).bits == bits
    assert RoundingConfig(kind=kind, bits=5).bits == 5
    numerics = from_document({}, [f"rounding.kind={kind}"]).numerics
    assert (numerics.rounding_kind, numerics.random_bits) == (kind, bits)


def test_an_identity_is_of_every_key():
    """``numbers`` alone does not count, only what it means; nor does how a value was given."""
    plain = Config().config_sha256
    changed = {key: from_document({}, [key]).config_sha256 for key in (
        "rounding.kind=data", "rounding.kind=lfsr", "rounding.kind=lfsr3", "bus.ports=2",
        "rounding.lfsr_bits=7", "vector.panel_kib=16", "memory.output_register=true",
        "scale.source=delayed", "cell.pipeline=full", "cell.multiplier=dsp", "fast.widths=[2]",
    )}  # fmt: skip
    assert len({plain, *changed.values()}) == 1 + len(changed)
    assert from_document({}, ["rounding.kind=counter", "bus.ports=1"]).config_sha256 == plain
    preset = from_document({"numbers": "ibm-fp8"})
    meant = preset.model_dump(exclude_none=True)
    del meant["numbers"]
    assert from_document(meant).config_sha256 == preset.config_sha256


def test_every_preset_is_there():
    assert list(PRODUCTS_ONLY) == ["pico", "nano", "edge", "server"]


def test_numerics_carries_what_decides_the_bits():
    assert PRODUCTS_ONLY["nano"].numerics == Numerics.from_dict(
        {
            "block": 8,
            "x": {"format": "bfp4", "rounding": "nearest"},
            "w": {"format": "bfp4", "rounding": "nearest"},
            "dy": {"format": "bfp4", "rounding": "stochastic-b"},
            "random_bits": 8,
            "fraction": 18,
            "headroom": 14,
        }
    )


@pytest.mark.parametrize(
    "override, key, value",
    [
        ("format.x=mxint8", "x", ("mxint8", "1x32", "rceil", "saturate")),
        ("block.w=1x16", "w", ("bfp4", "1x16", "floor", "saturate")),
        ("scale.dy=rceil", "dy", ("bfp4", "8x8", "rceil", "saturate")),
        (
            "overflow.w=specification format.w=fp8_e4m3",
            "w",
            ("fp8_e4m3", "tensor", "rceil", "specification"),
        ),
    ],
)
def test_numerics_has_what_is_said_of_a_class(override, key, value):
    numerics = from_document({}, override.split()).numerics.to_dict()
    parts = ("format", "grouping", "scale", "overflow")
    assert tuple(numerics[key][part] for part in parts) == value
    plain = Config().numerics.to_dict()
    assert {k: v for k, v in numerics.items() if k != key} == {
        k: v for k, v in plain.items() if k != key
    }


@pytest.mark.parametrize(
    "override, key, value",
    [
        ("cell.window=0", "window", 0),
        ("cell.window=48", "window", 48),
        ("special=poison", "special", "poison"),
    ],
)
def test_numerics_has_what_is_said_of_the_machine(override, key, value):
    expected = Config().numerics.to_dict() | {key: value}
    assert from_document({}, [override]).numerics.to_dict() == expected


@pytest.mark.parametrize(
    "overrides, history, margin",
    [((), 1, 0), (("scale.history=16",), 16, 0), (("scale.margin=2", "scale.history=3"), 3, 2)],
)
def test_numerics_has_what_is_said_of_delayed_scales(overrides, history, margin):
    scaled = {"format": {"x": "fp8_e4m3"}}
    config = from_document(scaled, ["scale.source=delayed", *overrides])
    said = {"source": "delayed", "history": history, "margin": margin}
    assert config.numerics.to_dict() == from_document(scaled).numerics.to_dict() | said
    usual = from_document(scaled, ["scale.source=delayed"])
    assert (config.config_sha256 == usual.config_sha256) == (not overrides)


@pytest.mark.parametrize("source", ["current", "host"])
@pytest.mark.parametrize("key, value, usual", [("history", 2, 1), ("margin", 1, 0)])
def test_keys_of_delayed_scales_belong_to_them(source, key, value, usual):
    with pytest.raises(BadInput) as caught:
        from_document({}, [f"scale.source={source}", f"scale.{key}={value}"])
    (text,) = caught.value.problems
    assert (
        f"scale.{key} must be {usual} where scale.source is {source}, not {value}: "
        f"scale.{key} works only with scale.source = delayed"
    ) in text


@pytest.mark.parametrize("key, value, usual", [("history", 2, 1), ("margin", 1, 0)])
@pytest.mark.parametrize("formats", ["bfp4", "mxfp8_e4m3"])
def test_delayed_scales_are_of_whole_tensors(key, value, usual, formats):
    """Where every group has a scale of its own, these keys would change nothing."""
    document = {"format": dict.fromkeys(("x", "w", "dy"), formats)}
    with pytest.raises(BadInput) as caught:
        from_document(document, ["scale.source=delayed", f"scale.{key}={value}"])
    (text,) = caught.value.problems
    assert (
        f"scale.{key} must be {usual} where no class has a scale for its whole tensor (block = "
        f"tensor, or nvfp4), not {value}"
    ) in text


def test_numerics_does_not_know_the_array():
    assert PRODUCTS_ONLY["nano"].numerics == PRODUCTS_ONLY["server"].numerics


def test_hash_is_of_the_content():
    assert Config().config_sha256 == Config(array=ArrayConfig()).config_sha256
    hashes = {
        Config().config_sha256,
        Config(name="other").config_sha256,
        Config(array=ArrayConfig(rows=3)).config_sha256,
        Config(accumulator=AccumulatorConfig(fraction=17)).config_sha256,
        Config(cell=CellConfig(window=0)).config_sha256,
        Config(cell=CellConfig(pipeline="products")).config_sha256,
        Config(cell=CellConfig(pipeline="full")).config_sha256,
        Config(cell=CellConfig(multiplier="dsp")).config_sha256,
        Config(cell=CellConfig(multiplier="dsp25")).config_sha256,
        Config(bus=BusConfig(ports=2)).config_sha256,
        Config(memory=MemoryConfig(output_register=True)).config_sha256,
        *(preset.config_sha256 for preset in PRODUCTS_ONLY.values()),
    }
    assert len(hashes) == 15


@pytest.mark.parametrize("widths, fraction", [("[2]", 18), ("[2,4]", 22), ("[2,4,6,8]", 30)])
def test_fraction_of_planes(widths, fraction):
    """14 + 2 m where the file does not say it: what is exact in one plane of bfp4 is so in two."""
    document = {"format": {"x": "bfp2", "w": "fast", "dy": "bfp2"}}
    config = from_document(document, [f"fast.widths={widths}"])
    assert config.accumulator.fraction == config.numerics.fraction == fraction
    assert from_document(document, ["accumulator.fraction=9"]).accumulator.fraction == 9
    assert from_document({}, [f"fast.widths={widths}"]).accumulator.fraction == 18


def test_a_mantissa_may_have_a_name():
    named, plain = (
        from_document({"accumulator": {"kind": "float", "mantissa": mantissa}})
        for mantissa in ("e8m7", 7)
    )
    assert named == plain
    assert named.config_sha256 == plain.config_sha256


def test_hardware_of_floats():
    config = from_document({"accumulator": {"kind": "float"}})
    assert config.plan.floats


def test_hash_is_the_same_however_the_content_is_written():
    one = tomllib.loads('block.x = "1x8"\n[format]\nx = "bfp3"\nw = "bfp4"')
    other = tomllib.loads('format = {w = "bfp4", x = "bfp3"}\n[block]\nx = "1x8"')
    hashes = {from_document(text).config_sha256 for text in (one, other)}
    assert len(hashes) == 1
    assert from_document(one, ["block.w=8x8"]).config_sha256 not in hashes


def test_config_is_frozen():
    with pytest.raises(ValidationError):
        Config().name = "other"
    with pytest.raises(ValidationError):
        Config().array.rows = 3


def test_every_key_has_a_default_and_a_description():
    assert sorted(FIELDS) == [
        "accumulator.chunk",
        "accumulator.fraction",
        "accumulator.headroom",
        "accumulator.kind",
        "accumulator.mantissa",
        "array.block",
        "array.cols",
        "array.rows",
        "array.transpose",
        "block.dy",
        "block.w",
        "block.x",
        "bus.data_width",
        "bus.ports",
        "cell.multiplier",
        "cell.pipeline",
        "cell.window",
        "fast.widths",
        "format.dy",
        "format.w",
        "format.x",
        "memory.output_register",
        "name",
        "numbers",
        "overflow.dy",
        "overflow.w",
        "overflow.x",
        "rounding.bits",
        "rounding.dy",
        "rounding.kind",
        "rounding.lfsr_bits",
        "rounding.w",
        "rounding.x",
        "scale.dy",
        "scale.history",
        "scale.margin",
        "scale.source",
        "scale.w",
        "scale.x",
        "special",
        "vector.draws",
        "vector.enable",
        "vector.panel_kib",
        "vector.special",
    ]
    assert all(field.description and not field.is_required() for field in FIELDS.values())


def test_keywords_are_those_of_the_standard():
    assert len(KEYWORDS) == 248
    assert {"wire", "edge", "cell", "logic", "nettype", "xor", "accept_on"} <= KEYWORDS


@pytest.mark.parametrize("widths", [[2], [4], [2, 4], [2, 6]], ids=str)
def test_the_fraction_of_fast_is_that_of_the_document(widths):
    """`docs/formats.md`: F is 14 + 2 m by default, with the widest m."""
    text = (ROOT / "docs" / "formats.md").read_text()
    assert "F is 14 + 2 m by default, with the widest m." in text
    formats = dict.fromkeys(("x", "w", "dy"), "fast")
    config = from_document({"format": formats, "fast": {"widths": widths}})
    assert config.numerics.fraction == 14 + 2 * max(widths)


@pytest.mark.parametrize("key, names", [("pipeline", PIPELINES), ("multiplier", MULTIPLIERS)])
def test_keys_of_the_cell_name_what_the_hardware_has(key, names):
    assert get_args(CellConfig.model_fields[key].annotation) == tuple(names)
