"""Area of one lane of an accumulator, of integers and of floats, and what lanes add to machines."""

# pyright: standard, reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
# pyright: reportInvalidTypeForm=false
# Hardware, which is checked as hw/ is: pyproject.toml says why.
from collections.abc import Iterator
from dataclasses import dataclass

from amaranth.hdl import Module, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole.config.keys import Config
from diastole.config.presets import PRODUCTS_ONLY
from diastole.measure.area import Mapper
from diastole.measure.figure import Figure, at_most, shown
from diastole_hw.memory.chunk_lane import ChunkLane

W, PSUM_BITS, CHUNK_BITS = 38, 31, 33
"""Of bfp4 with F = 18 and blocks of 8: G = 8; two cells in a row; chunks of 64 elements."""
NAMES = {"e6m5": 5, "e8m7": 7, "e6m9": 9, "e8m23": 23}
ASKED = {("e6m9", False): 2900.0, ("e6m9", True): 2500.0}
"""The most of a lane, by its name and whether a partial sum is a chunk alone."""
MACHINES = ("nano", "server")


class IntegerLane(wiring.Component):
    """``added`` = ``before`` + ``psum``, a cycle later: a lane of
    :class:`diastole_hw.memory.port_sums.PortSums`, by itself.

    Members: ``psum``, ``before``: In(signed(...)); ``added``: Out(signed(sum_bits)), a register.
    Timing: one cycle.
    """

    def __init__(self, *, psum_bits: int, sum_bits: int):
        self.psum_bits, self.sum_bits = psum_bits, sum_bits
        super().__init__(
            {
                "psum": In(signed(psum_bits)),
                "before": In(signed(sum_bits)),
                "added": Out(signed(sum_bits)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.added.eq(self.before + self.psum)
        return m


@dataclass(frozen=True)
class LaneArea:
    """NAND2 equivalents of a lane. ``alone``: of floats, every partial sum is a chunk."""

    name: str
    alone: bool
    area: float

    def per_mac(self, config: Config) -> float:
        """Of all lanes of a machine, over its multipliers."""
        lanes = (config.array.rows + config.array.cols) * config.array.block
        return self.area * lanes / config.macs


def lane_areas(mapper: Mapper) -> Iterator[LaneArea]:
    """Integers, then floats of every name with their integers beside them, and alone."""
    integer = IntegerLane(psum_bits=PSUM_BITS, sum_bits=W)
    yield LaneArea("integer", True, mapper.area_nand2(integer))
    for alone in (False, True):
        for name, mantissa in NAMES.items():
            lane = ChunkLane(
                psum_bits=PSUM_BITS,
                sum_bits=PSUM_BITS if alone else CHUNK_BITS,
                mantissa=mantissa,
                alone=alone,
            )
            yield LaneArea(name, alone, mapper.area_nand2(lane))


def figures(mapper: Mapper) -> Iterator[Figure]:
    """A lane of each, and what it is per MAC."""
    for lane in lane_areas(mapper):
        how = "" if lane.name == "integer" else ", alone" if lane.alone else ", beside its integer"
        what = f"NAND2 equivalents of a lane of accumulator, {lane.name}{how}"
        most = ASKED.get((lane.name, lane.alone))
        yield (
            shown(what, lane.area, "{:.0f}")
            if most is None
            else at_most(what, lane.area, most, "{:.0f}")
        )
        for preset in MACHINES:
            words = f"of all lanes per MAC of `{preset}`, {lane.name}{how}"
            yield shown(words, lane.per_mac(PRODUCTS_ONLY[preset]), "{:.1f}")
