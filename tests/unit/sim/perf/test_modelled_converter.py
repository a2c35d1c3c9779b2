# amaranth: UnusedElaboratable=no
"""What the model knows of the converter, against the hardware and by hand."""

import pytest

from diastole_hw.convert.lanes.quantise import LaneQuantiser
from diastole_sim.perf.modelled_converter import ModelledConverter
from diastole_sim.spec.sizes.draws import row_hash_cycles
from support.numerics import make_numerics

MACHINES = {
    "squares": {"block": 8, "formats": "bfp4"},
    "small blocks": {"block": 2, "formats": ("bfp3", "bfp5", "bfp2")},
    "one element": {"block": 1, "formats": "bfp8"},
    "large squares": {"block": 8, "formats": "bfp6", "groupings": "32x32"},
    "vectors": {"block": 4, "groupings": "1x64"},
    "a scale of the tensor": {"block": 4, "formats": "fp8_e4m3"},
    "to infinity": {"block": 4, "formats": "fp8_e5m2", "overflows": "specification"},
    "mxfp8": {"block": 8, "formats": "mxfp8_e4m3"},
    "nvfp4": {"block": 8, "formats": "nvfp4"},
    "bf16": {"block": 16, "formats": "bf16"},
    "planes": {"block": 4, "formats": ("fast", "bfp2", "fast"), "widths": [2, 4, 8]},
    "draws by rows": {"block": 4, "formats": "fp8_e4m3", "rounding_kind": "lfsr", "lfsr_bits": 9},
    "no generator": {"block": 4, "formats": "fp8_e4m3", "rounding_kind": "data"},
}


@pytest.mark.parametrize("machine", MACHINES)
def test_lanes_take_as_long_as_those_of_the_hardware(machine):
    numerics = make_numerics(**MACHINES[machine])
    model = ModelledConverter(numerics=numerics, tensor_class="x", data_width=128)
    if not numerics.scale_significands:  # else as long as the bits of a quotient ask for
        assert model.lane_cycles == LaneQuantiser(numerics=numerics).latency


@pytest.mark.parametrize("data_width", [32, 64, 128, 256, 512])
def test_rows_start_as_often_as_those_of_the_hardware(data_width):
    numerics = make_numerics(block=8, rounding_kind="lfsr3", random_bits=3)
    model = ModelledConverter(numerics=numerics, tensor_class="dy", data_width=data_width)
    assert model.row_start == row_hash_cycles(model.lanes)


def test_words_cover_the_blocks_that_there_are():
    numerics = make_numerics(block=8, formats="bfp4")
    model = ModelledConverter(numerics=numerics, tensor_class="x", data_width=128)
    assert model.words(9, 17) == 2 * 8 * 3 * 2  # rows of blocks, rows, blocks, words
    wide = ModelledConverter(numerics=numerics, tensor_class="x", data_width=512)
    assert wide.words(9, 17) == 2 * 8 * 2  # a word has two blocks
