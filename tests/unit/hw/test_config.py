"""The configuration object: presets, derived values, the hash."""

import pytest
from pydantic import ValidationError

from diastole.config import AccumulatorConfig, ArrayConfig, Config
from diastole.config_file import FIELDS
from diastole.keywords import KEYWORDS
from diastole.presets import PRESETS
from diastole_sim.numerics import Numerics


@pytest.mark.parametrize(
    "preset, cells, block, bus, macs",
    [
        ("pico", 1, 4, 32, 16),
        ("nano", 2, 8, 64, 256),
        ("edge", 6, 8, 64, 2304),
        ("server", 16, 8, 512, 16384),
    ],
)
def test_presets_are_those_of_the_contract(preset, cells, block, bus, macs):
    config = PRESETS[preset]
    assert config.to_dict() == {
        "name": f"diastole_{preset}",
        "array": {"rows": cells, "cols": cells, "block": block, "transpose": "in_place"},
        "format": {"x": "bfp4", "w": "bfp4", "dy": "bfp4"},
        "rounding": {"x": "nearest", "w": "nearest", "dy": "stochastic-b", "bits": 8},
        "accumulator": {"fraction": 18, "headroom": 14},
        "bus": {"data_width": bus},
    }
    assert config.macs == macs


def test_every_preset_is_there():
    assert list(PRESETS) == ["pico", "nano", "edge", "server"]


def test_numerics_carries_what_decides_the_bits():
    assert PRESETS["nano"].numerics == Numerics.from_dict(
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


def test_numerics_does_not_know_the_array():
    assert PRESETS["nano"].numerics == PRESETS["server"].numerics


def test_hash_is_of_the_content():
    assert Config().config_sha256 == Config(array=ArrayConfig()).config_sha256
    hashes = {
        Config().config_sha256,
        Config(name="other").config_sha256,
        Config(array=ArrayConfig(rows=3)).config_sha256,
        Config(accumulator=AccumulatorConfig(fraction=17)).config_sha256,
        *(preset.config_sha256 for preset in PRESETS.values()),
    }
    assert len(hashes) == 8


def test_hash_stays_from_release_to_release():
    assert PRESETS["nano"].config_sha256 == (
        "9343f6e9430612bcfeadd29cba745d957ca43d3abe03cfa9727cd73fdcd3f3e9"
    )


def test_config_is_frozen():
    with pytest.raises(ValidationError):
        Config().name = "other"
    with pytest.raises(ValidationError):
        Config().array.rows = 3


def test_every_key_has_a_default_and_a_description():
    assert sorted(FIELDS) == [
        "accumulator.fraction",
        "accumulator.headroom",
        "array.block",
        "array.cols",
        "array.rows",
        "array.transpose",
        "bus.data_width",
        "format.dy",
        "format.w",
        "format.x",
        "name",
        "rounding.bits",
        "rounding.dy",
        "rounding.w",
        "rounding.x",
    ]
    assert all(field.description and not field.is_required() for field in FIELDS.values())


def test_keywords_are_those_of_the_standard():
    assert len(KEYWORDS) == 248
    assert {"wire", "edge", "cell", "logic", "nettype", "xor", "accept_on"} <= KEYWORDS
