# amaranth: UnusedElaboratable=no
"""Lanes of accumulators: which are measured, and what they are per multiplier."""

import pytest
from amaranth.hdl import Fragment

from diastole.config.presets import PRODUCTS_ONLY
from diastole.measure.area_accumulators import (
    CHUNK_BITS,
    PSUM_BITS,
    IntegerLane,
    LaneArea,
    W,
    figures,
    lane_areas,
)
from diastole_sim.spec.numerics import Numerics
from support.bench import design, run


class Counted:
    """Stands for a mapper: an area is 100 for each bit of a mantissa, and one for each of a sum."""

    def area_nand2(self, component):
        Fragment.get(component, None)
        return 100.0 * getattr(component, "mantissa", 0) + component.sum_bits


def test_widths_are_those_of_nano():
    floats = {"kind": "float", "mantissa": 9, "chunk": 64}
    values = PRODUCTS_ONLY["nano"].numeric_values() | {"headroom": 8}
    plain = Numerics.from_dict(values)
    assert plain.accumulator_bits == W
    assert plain.block_sum_bits + plain.fraction + 1 == PSUM_BITS
    assert Numerics.from_dict(values | {"accumulator": floats}).chunk_sum_bits == CHUNK_BITS


def test_every_lane_is_measured():
    found = {(lane.name, lane.alone): lane.area for lane in lane_areas(Counted())}
    assert found == {
        ("integer", True): 38, ("e6m5", False): 533, ("e8m7", False): 733, ("e6m9", False): 933,
        ("e8m23", False): 2333, ("e6m5", True): 531, ("e8m7", True): 731, ("e6m9", True): 931,
        ("e8m23", True): 2331,
    }  # fmt: skip


@pytest.mark.parametrize("preset, share", [("nano", 32 / 256), ("server", 256 / 16384)])
def test_per_mac(preset, share):
    assert LaneArea("e6m9", True, 1000.0).per_mac(PRODUCTS_ONLY[preset]) == 1000 * share


def test_figures():
    by_name = {figure.what: figure for figure in figures(Counted())}
    assert len(by_name) == 27
    beside = by_name["NAND2 equivalents of a lane of accumulator, e6m9, beside its integer"]
    assert (beside.asked, beside.measured, beside.met) == ("at most 2900", "933", True)
    alone = by_name["NAND2 equivalents of a lane of accumulator, e6m9, alone"]
    assert (alone.asked, alone.measured, alone.met) == ("at most 2500", "931", True)
    assert by_name["of all lanes per MAC of `nano`, integer"].measured == "4.8"


def test_an_integer_lane_adds():
    dut = design(IntegerLane, psum_bits=4, sum_bits=6)

    async def bench(ctx):
        for psum, before in ((-8, 3), (7, -32), (7, 24)):
            ctx.set(dut.psum, psum)
            ctx.set(dut.before, before)
            await ctx.tick()
            assert ctx.get(dut.added) == psum + before

    run(dut, bench)
