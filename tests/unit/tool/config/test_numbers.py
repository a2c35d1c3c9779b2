"""Published numbers: defaults of a file, and laid over one."""

import tomllib

import pytest

from diastole.config.file import from_document, to_toml
from diastole.config.keys import AccumulatorConfig, Config
from diastole.config.numbers import NUMBERS
from diastole.config.presets import PRODUCTS_ONLY
from diastole.devices import GoldenDevice

FORMATS = {
    "ibm-fp8": {"x": "fp8_e5m2", "w": "fp8_e5m2", "dy": "fp8_e5m2"},
    "hfp8": {"x": "fp8_e4m3", "w": "fp8_e4m3", "dy": "fp8_e5m2"},
    "intel-fp8": {"x": "fp8_e5m2", "w": "fp8_e5m2", "dy": "fp8_e5m2"},
}
FLOATS = {"kind": "float", "mantissa": 9, "chunk": 64}
IN_FLOAT32 = FLOATS | {"mantissa": 23}
SUMS = {"ibm-fp8": FLOATS, "hfp8": FLOATS, "intel-fp8": IN_FLOAT32}
STOCHASTIC = {"x": "stochastic-b", "w": "nearest", "dy": "stochastic-b"}


def test_every_one_is_tested():
    assert FORMATS.keys() == SUMS.keys() == NUMBERS.keys()
    masters = {name: (each.master, each.master_rounding) for name, each in NUMBERS.items()}
    e6m9 = ("e6m9", "stochastic-b")
    assert masters == {"ibm-fp8": e6m9, "hfp8": e6m9, "intel-fp8": ("fp16", "nearest")}


@pytest.mark.parametrize("name", NUMBERS)
def test_what_they_are(name):
    config, sums = from_document({"numbers": name}), SUMS[name]
    assert config.format.model_dump() == FORMATS[name]
    assert config.accumulator.model_dump() == sums | {"fraction": 18, "headroom": 14}
    assert config.numerics.to_dict()["accumulator"] == sums
    assert Config(numbers=name) == config
    assert Config(numbers=name).numbers == name
    short = Config(numbers=name, accumulator=AccumulatorConfig(chunk=32))
    assert short.accumulator.floats == sums | {"chunk": 32}


def test_the_recipe_of_intel():
    """No scale of a tensor, gradients that become Inf, stochastic activations and gradients, and
    the floors of the scale of the loss of GNMT: 8K after 40 000 steps, 32K after 150 000."""
    config = from_document({"numbers": "intel-fp8"})
    assert {n: getattr(config.rounding, n) for n in STOCHASTIC} == STOCHASTIC
    assert config.scale.source == "host"
    assert config.overflow.model_dump() == {"x": "saturate", "w": "saturate", "dy": "specification"}
    intel = NUMBERS["intel-fp8"]
    assert (intel.gradient, intel.loss_scale) == ("fp8_e5m2", 13)
    floors = [(step, 2**exponent) for step, exponent in intel.loss_scale_floor]
    assert floors == [(40_000, 8 * 1024), (150_000, 32 * 1024)]
    for name in ("ibm-fp8", "hfp8"):
        assert NUMBERS[name].loss_scale is None
        assert NUMBERS[name].loss_scale_floor == ()


def test_all_that_the_numbers_tell_is_replaced():
    """A file that spells out every key, and an override of one of them; other keys stay."""
    text = to_toml(from_document({}, ["rounding.bits=5", "overflow.x=saturate", "special=poison"]))
    overrides = ["rounding.x=stochastic-a", "numbers=intel-fp8"]
    config = from_document(tomllib.loads(text), overrides)
    assert config.scale.source == "host"
    assert (config.rounding.x, config.rounding.w, config.rounding.bits) == (
        "stochastic-a",
        "nearest",
        5,
    )
    assert (config.overflow.dy, config.special) == ("specification", "poison")
    delayed = to_toml(from_document({"format": FORMATS["hfp8"], "scale": {"source": "delayed"}}))
    other = from_document(tomllib.loads(delayed), ["numbers=ibm-fp8"])
    assert other.scale.source == "delayed"


def test_the_file_has_the_last_word():
    text = 'numbers = "ibm-fp8"\nformat.dy = "bfp8"\naccumulator.chunk = 32\nblock.w = "8x8"'
    config = from_document(tomllib.loads(text))
    assert config.format.model_dump() == FORMATS["ibm-fp8"] | {"dy": "bfp8"}
    assert config.accumulator.floats == FLOATS | {"chunk": 32}
    assert config.block.w == "8x8"


@pytest.mark.parametrize("name", NUMBERS)
def test_an_override_replaces_the_numbers_of_a_file(name):
    """Wherever it stands among others; what is no number stays."""
    text = to_toml(from_document({}, ["block.x=16x16", "accumulator.fraction=20", "array.rows=4"]))
    overrides = ["accumulator.mantissa=e6m5", f"numbers={name}"]
    config = from_document(tomllib.loads(text), overrides)
    assert config.format.model_dump() == FORMATS[name]
    assert config.block.x is None
    assert (config.accumulator.fraction, config.array.rows) == (20, 4)
    assert config.accumulator.floats == SUMS[name] | {"mantissa": 5}


@pytest.mark.parametrize("name", NUMBERS)
def test_what_init_writes_reads_back(name):
    config = from_document(PRODUCTS_ONLY["nano"].to_dict(), [f"numbers={name}"])
    assert from_document(tomllib.loads(to_toml(config))) == config


def test_the_hash_is_of_what_they_mean():
    plain = from_document({"format": FORMATS["ibm-fp8"], "accumulator": FLOATS})
    assert from_document({"numbers": "ibm-fp8"}).config_sha256 == plain.config_sha256
    assert from_document({"numbers": "hfp8"}).config_sha256 != plain.config_sha256


def test_a_golden_device_has_them():
    device = GoldenDevice(PRODUCTS_ONLY["nano"], overrides=["numbers=ibm-fp8"])
    assert device.numerics == from_document({"numbers": "ibm-fp8"}).numerics
