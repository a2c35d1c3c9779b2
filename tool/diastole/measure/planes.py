"""What hardware of the format `fast` costs: its cell, its machine beside those of one width, the
precision monitor."""

from collections.abc import Generator, Iterator

from diastole.config.file import from_document
from diastole.config.keys import Config
from diastole.config.presets import PRODUCTS_ONLY
from diastole.measure import area_formats
from diastole.measure.area import Mapper
from diastole.measure.figure import Figure, at_most, shown
from diastole_hw.convert.monitor import Monitor
from diastole_hw.convert.quantise import LaneQuantiser
from diastole_sim.spec.numerics import CLASS_NAMES

FRACTION = 22
"""F of `fast`, and of the machine of bfp2 that it is compared with."""
CELLS = ("fast", "fast 1x16")
PASSES = (1, 2, 4)
"""Of products of 2 by 2, 2 by 4 and 4 by 4 bits."""
PARTS = ("array", "converter")
MOST_REST = 1.03
"""What is outside these, over that of bfp2."""
MOST_MONITOR = {64: 950, 128: 1100}
"""NAND2 equivalents by the width of the bus, of 2 and of 4 lanes."""
MOST_SHARE = 0.025
"""Of the converter of `nano` with a bus of 64 bits."""


def figures(mapper: Mapper) -> Iterator[Figure]:
    """Of all that."""
    yield from _cells(mapper)
    converter = yield from _machines(mapper)
    monitors = {width: _monitor(mapper, width) for width in MOST_MONITOR}
    for width, area in monitors.items():
        what = f"NAND2 equivalents of the monitor, {width // 32} lanes"
        yield at_most(what, area, MOST_MONITOR[width], "{:,.0f}")
    what = "the monitor's share of the converter, `nano` at 64 bits"
    yield at_most(what, monitors[64] / converter, MOST_SHARE, "{:.1%}")


def _cells(mapper: Mapper) -> Iterator[Figure]:
    rows = {
        cell.name: area_formats.measure(cell, mapper)
        for cell in area_formats.choose_cells([*CELLS, "bfp4"])
    }
    per_mac = {name: row["area_per_mac_nand2"] for name, row in rows.items()}
    for name in CELLS:
        what = f"NAND2 equivalents per MAC of the cell of {name}"
        yield at_most(what, per_mac[name], rows[name]["asked"], "{:.1f}")
    for passes in PASSES:
        ratio = passes * per_mac["fast"] / per_mac["bfp4"]
        yield shown(f"area x {passes} passes of fast over the cell of bfp4", ratio, "{:.2f}")
    what = "passes at which fast and bfp4 have the same area x passes"
    yield shown(what, per_mac["bfp4"] / per_mac["fast"], "{:.2f}")


def _machines(mapper: Mapper) -> Generator[Figure, None, float]:
    """Of `nano` by parts; returns the area of the converter with a bus of 64 bits."""
    rest: dict[str, float] = {}
    for name, fraction in (("bfp2", FRACTION), ("fast", FRACTION), ("bfp4", 18)):
        whole, array, converter = mapper.parts(nano_of(name, fraction, 128), *PARTS)
        rest[name] = whole - array - converter
        for part, area in (
            ("all", whole), ("array", array), ("converter", converter), ("rest", rest[name]),
        ):  # fmt: skip
            yield shown(f"NAND2 equivalents of nano in {name}, {part}", area, "{:,.0f}")
    what = "the rest of nano in fast, over that in bfp2"
    yield at_most(what, rest["fast"] / rest["bfp2"], MOST_REST, "{:.3f}")
    _, converter = mapper.parts(nano_of("fast", FRACTION, 64), "converter")
    yield shown("NAND2 equivalents of the converter of nano in fast, 64 bits", converter, "{:,.0f}")
    return converter


def nano_of(name: str, fraction: int, data_width: int) -> Config:
    """The preset `nano` in one format."""
    document = PRODUCTS_ONLY["nano"].to_dict()
    document["format"] = dict.fromkeys(CLASS_NAMES, name)
    document["accumulator"]["fraction"] = fraction
    document["bus"]["data_width"] = data_width
    return from_document(document)


def _monitor(mapper: Mapper, data_width: int) -> float:
    """What lanes have for it, and its sums."""
    numerics, lanes = nano_of("fast", FRACTION, data_width).numerics, data_width // 32
    lane, plain = (
        mapper.area_nand2(LaneQuantiser(numerics=numerics, monitored=monitored))
        for monitored in (True, False)
    )
    return mapper.area_nand2(Monitor(lanes=lanes)) + lanes * (lane - plain)
