"""What the rule `four-over-six` of NVFP4 brings, and what its hardware costs."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from diastole.config.file import from_document
from diastole.config.keys import Config
from diastole.config.presets import PRODUCTS_ONLY
from diastole.measure.area import Mapper
from diastole.measure.figure import Figure, near, shown
from diastole_hw.convert.quantise import LaneQuantiser
from diastole_hw.convert.trial import ScaleTrial
from diastole_sim.codes.api import quantise
from diastole_sim.perf import Memory
from diastole_sim.perf.conversion import estimate_conversion
from diastole_sim.spec.formats import FOUR_OVER_SIX
from diastole_sim.spec.numerics import CLASS_NAMES

Draw = Callable[[np.random.Generator, tuple[int, int]], NDArray[np.float64]]
DISTRIBUTIONS: Mapping[str, tuple[Draw, float]] = {
    "normal": (lambda random, shape: random.standard_normal(shape), 0.087),
    "Laplace": (lambda random, shape: random.laplace(size=shape), 0.088),
    "uniform": (lambda random, shape: random.uniform(-1, 1, shape), 0.087),
}
"""And the relative error that is asked of the rule in groups of 16."""
SHAPE = 1024, 1024
SIDE, LATENCY = 512, 20
"""Of a tensor whose conversion is estimated, and of its memory."""
WITHIN = 0.001
GROUPINGS = "1x16", "16x16"


def figures() -> Iterator[Figure]:
    """Errors of data of several kinds, and cycles of conversions, with either rule."""
    yield from _errors()
    for name in CLASS_NAMES:
        once, twice = (_cycles(rule, name) for rule in ("nearest", FOUR_OVER_SIX))
        what = f"cycles of {FOUR_OVER_SIX} over nearest, {name} of {SIDE} x {SIDE}, pico"
        yield shown(what, twice / once, "{:.3f}")


def _cycles(rule: str, tensor_class: str) -> int:
    config = pico_of(rule)
    return estimate_conversion(
        config.numerics,
        tensor_class,
        SIDE,
        SIDE,
        data_width=config.bus.data_width,
        memory=Memory.axi(LATENCY),
    ).cycles


def _errors() -> Iterator[Figure]:
    for name, (draw, asked) in DISTRIBUTIONS.items():
        array = draw(np.random.default_rng(0), SHAPE).astype(np.float32)
        for grouping in GROUPINGS:
            for rule in ("nearest", FOUR_OVER_SIX):
                found = _relative(array, grouping, rule)
                what = f"relative error, {name} data, {grouping}, {rule}"
                if (grouping, rule) == (GROUPINGS[0], FOUR_OVER_SIX):
                    yield near(what, found, asked, WITHIN, "{:.4f}")
                else:
                    yield shown(what, found, "{:.4f}")


def _relative(array: NDArray[np.float32], grouping: str, rule: str) -> float:
    """Of root mean squares."""
    exact = array.astype(np.float64)
    stored = quantise(array, "nvfp4", grouping=grouping, scale=rule).values()
    return float(np.linalg.norm(stored - exact) / np.linalg.norm(exact))


def rule_areas(mapper: Mapper) -> Iterator[Figure]:
    """Of a lane, and of `pico` in NVFP4 with and without."""
    numerics = pico_of(FOUR_OVER_SIX).numerics
    lane = mapper.area_nand2(LaneQuantiser(numerics=numerics))
    yield shown("NAND2 equivalents of a lane of the converter", lane, "{:,.0f}")
    yield shown("NAND2 equivalents of its trial", mapper.area_nand2(ScaleTrial()), "{:,.0f}")
    for rule in ("nearest", FOUR_OVER_SIX):
        whole, converter = mapper.parts(pico_of(rule), "converter")
        for part, area in (("all", whole), ("converter", converter)):
            yield shown(f"NAND2 equivalents of pico in nvfp4, {rule}, {part}", area, "{:,.0f}")


def pico_of(rule: str) -> Config:
    """The preset `pico` in NVFP4 with a scale rule."""
    document = PRODUCTS_ONLY["pico"].to_dict()
    document["format"] = dict.fromkeys(CLASS_NAMES, "nvfp4")
    document["scale"] = dict.fromkeys(CLASS_NAMES, rule)
    document.pop("block", None)
    return from_document(document)
