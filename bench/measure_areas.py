"""Area of whole machines and of units, in NAND2 equivalents.

Of all but memories with a clocked read.
"""

from functools import cache

from bench.figure import figure, shown
from bench.lanes import IntegerLane, RoundingLanes
from bench.mapping import area, machine, part, whole, within_cycle
from diastole.config.presets import PRESETS, PRODUCTS_ONLY
from diastole.product.generate import product_contents
from diastole.synth.flow import Request, Tools, synthesise
from diastole.synth.mapper import Design
from diastole.synth.targets import ECP5, NAND2, SITES
from diastole.synth.tools import YOSYS
from diastole_hw.convert.lanes.monitor import Monitor
from diastole_hw.convert.lanes.quantise import LaneQuantiser
from diastole_hw.convert.lanes.scale_trial import ScaleTrial
from diastole_hw.memory.chunk_lane import ChunkLane
from diastole_hw.vector.core.lane import Lane
from diastole_hw.vector.float.float_add import FloatAdd
from diastole_hw.vector.float.float_mul import FloatMul
from diastole_hw.vector.float.function_rows import FunctionRows
from diastole_hw.vector.float.parabola import Parabola
from diastole_hw.vector.float.special import SpecialLane
from diastole_hw.vector.float.special_argument import SpecialArgument
from diastole_sim.spec.formats import FOUR_OVER_SIX
from diastole_sim.spec.numerics import CLASS_NAMES
from support.presets import changed, floating, in_format

AREA = "{:,.0f}"
NANO = PRODUCTS_ONLY["nano"]
BEFORE = {"edge": 1_257_500, "server": 7_229_400}
"""What presets had with fixed loops and a bus of 64 bits, without any memory."""


@figure(
    "area of {preset} without vector unit, bus of {data_width} bits",
    at_most={("nano", 64): 377_900, **shown(("nano", 128), ("edge", 256), ("server", 512))},
    form=AREA,
)
def machine_area(preset, data_width):
    """The bound is what `nano` had with fixed loops, one command at a time and half the rate of
    conversion, without any memory."""
    return whole(changed(preset, bus={"data_width": data_width}))


@figure(
    "area of {preset} without vector unit, per MAC", at_most={"nano": 1200, "edge": 575}, form=AREA
)
def area_per_mac(preset):
    return whole(PRODUCTS_ONLY[preset]) / PRODUCTS_ONLY[preset].macs


@figure("area of {preset} with its vector unit, per MAC", at_most=shown("nano", "edge"), form=AREA)
def vector_per_mac(preset):
    return whole(PRESETS[preset]) / PRESETS[preset].macs


@figure(
    "logic of {preset} since it had fixed loops and 64 bits, without any memory, over its cells",
    at_most={"edge": 0.04, "server": 0.07},
    form="{:.1%}",
)
def added_logic(preset):
    config = PRODUCTS_ONLY[preset]
    cells = part(config, "cell") * config.array.rows * config.array.cols
    return (whole(config) - within_cycle(config) - BEFORE[preset]) / cells


@figure("sites of {preset} on ECP5, flat", at_most={"pico": 17_000, "nano": None}, form=AREA)
def ecp5_sites(preset):
    contents = Design.of_contents(*product_contents(PRODUCTS_ONLY[preset]))
    request = Request(target=ECP5, flat=True)
    return synthesise(request, contents, Tools(yosys=YOSYS.of_wheel())).tree.total[SITES]


@figure("parts of nano without vector unit, per MAC", form="{:.1f}")
def largest_parts():
    """Components that take a fiftieth of the machine or more, outer ones first."""
    tree = machine(NANO)

    def largest(component):
        if component.total[NAND2] >= tree.total[NAND2] / 50:
            yield component.name, component.total[NAND2] / NANO.macs
            for inner in component.parts:
                yield from largest(inner)

    return largest(tree)


UNITS = {
    "lane": (Lane, 11_000),
    "lane's multiplier": (FloatMul, None),
    "lane's adder": (FloatAdd, None),
    "special lane": (SpecialLane, 24_000),
    "special lane's argument": (SpecialArgument, None),
    "special lane's tables": (FunctionRows, None),
    "special lane's parabola": (Parabola, None),
}


@figure(
    "area of the vector unit's {unit}",
    at_most={name: maximum for name, (_, maximum) in UNITS.items()},
    form=AREA,
)
def vector_units(unit):
    return area(UNITS[unit][0]())


PSUM_BITS, CHUNK_BITS = 31, 33
"""Of bfp4 with F = 18 and blocks of 8; two cells in a row; chunks of 64 elements."""
MANTISSAS = {"integer": None, "e6m5": 5, "e8m7": 7, "e6m9": 9, "e8m23": 23}


@cache
def lane_area(name, place):
    if name == "integer":
        return area(IntegerLane(psum_bits=PSUM_BITS, sum_bits=38))
    alone = place == "alone"
    sum_bits = PSUM_BITS if alone else CHUNK_BITS
    mantissa = MANTISSAS[name]
    return area(ChunkLane(psum_bits=PSUM_BITS, sum_bits=sum_bits, mantissa=mantissa, alone=alone))


LANES = {(name, place): None for name in MANTISSAS for place in ("beside its integer", "alone")}
del LANES["integer", "beside its integer"]
LANES |= {("e6m9", "beside its integer"): 2900, ("e6m9", "alone"): 2500}


@figure("area of a lane of accumulator, {name}, {place}", at_most=LANES, form=AREA)
def accumulator_lanes(name, place):
    """Alone, every partial sum is a chunk."""
    return lane_area(name, place)


@figure(
    "area of all lanes of accumulator {name}, {place}, per MAC",
    at_most=shown(*LANES),
    form="{:.1f}",
)
def accumulators_per_mac(name, place):
    for preset in ("nano", "server"):
        config = PRODUCTS_ONLY[preset]
        lanes = (config.array.rows + config.array.cols) * config.array.block
        yield preset, lane_area(name, place) * lanes / config.macs


@figure("area of nano with accumulators of e6m9", form=AREA)
def accumulator_machine():
    return whole(floating("nano"))


def rounding_area(lanes, loads, rule, *, pairs):
    return area(RoundingLanes(lanes=lanes, rule=f"stochastic-{rule}", pairs=pairs, loads=loads))


@figure(
    "area of {lanes} rounding lanes with registers of 24 bits over lfsr3, states loaded: {loads}, "
    "rule {rule}",
    at_least={
        (2, False, "a"): 9.75, (2, True, "a"): 9, (4, True, "a"): 14,
        **shown((2, False, "b"), (2, True, "b"), (4, True, "b")),
    },
    form="{:.1f} times",
)  # fmt: skip
def rounding_lanes(lanes, loads, rule):
    """Four lanes that are not loaded are no unit: which element is inverted would be constant."""
    apart, paired = (rounding_area(lanes, loads, rule, pairs=pairs) for pairs in (False, True))
    return apart / paired


@figure("area of two of {lanes} rounding lanes, states loaded: {loads}, rule A", form=AREA,
        at_most=shown((2, False), (2, True), (4, True)))  # fmt: skip
def two_lane_areas(lanes, loads):
    for name, pairs in (("24 bits", False), ("lfsr3", True)):
        yield name, rounding_area(lanes, loads, "a", pairs=pairs) * 2 / lanes


@figure("area of nano, dY rounded stochastically", form=AREA)
def draw_machines():
    for name, keys in {
        "counter, 8 bits": {},
        "lfsr, 8 of 24 bits": {"kind": "lfsr", "bits": 8, "lfsr_bits": 24},
        "lfsr3": {"kind": "lfsr3", "bits": 3},
        "data, 8 bits": {"kind": "data", "bits": 8},
    }.items():
        yield name, whole(changed("nano", rounding=keys))


def planes(name, data_width=128):
    """Return nano in a format, with the fraction bits of `fast`, and of the presets for bfp4."""
    fraction = 18 if name == "bfp4" else 22
    tables = {"accumulator": {"fraction": fraction}, "bus": {"data_width": data_width}}
    return in_format("nano", name, **tables)


def beyond(name):
    """Return the area outside array and converter."""
    config = planes(name)
    return whole(config) - part(config, "array") - part(config, "converter")


@figure("area of nano in {name}", at_most=shown("bfp2", "fast", "bfp4"), form=AREA)
def plane_machines(name):
    config = planes(name)
    yield "all", whole(config)
    yield "array", part(config, "array")
    yield "converter", part(config, "converter")
    yield "the rest", beyond(name)


@figure("logic of nano in fast outside array and converter, over bfp2", at_most=1.03, form="{:.3f}")
def plane_logic():
    return beyond("fast") / beyond("bfp2")


@cache
def monitor(lanes):
    """Return the area of what lanes have for the precision monitor, and of its sums."""
    numerics = planes("fast", 32 * lanes).numerics
    lane, plain = (
        area(LaneQuantiser(numerics=numerics, monitored=monitored)) for monitored in (True, False)
    )
    return area(Monitor(lanes=lanes)) + lanes * (lane - plain)


@figure("area of the precision monitor, {lanes} lanes", at_most={2: 950, 4: 1100}, form=AREA)
def monitor_area(lanes):
    return monitor(lanes)


@figure("the monitor over the converter of nano at 64 bits", at_most=0.025, form="{:.1%}")
def monitor_share():
    return monitor(2) / part(planes("fast", 64), "converter")


def scaled(rule):
    """Return pico in NVFP4 with a scale rule."""
    return in_format("pico", "nvfp4", scale=dict.fromkeys(CLASS_NAMES, rule))


@figure("area in NVFP4 with two scales", form=AREA)
def scale_units():
    yield "lane of the converter", area(LaneQuantiser(numerics=scaled(FOUR_OVER_SIX).numerics))
    yield "its trial", area(ScaleTrial())


@figure("area of pico in NVFP4, {rule}", at_most=shown("nearest", FOUR_OVER_SIX), form=AREA)
def scale_machines(rule):
    yield "all", whole(scaled(rule))
    yield "converter", part(scaled(rule), "converter")
