"""Write the page on which a user steps through a product: one file, without requests to a network.

`theme.js` chooses light or dark colours. `page.js` and `numbers.js` read this data, beside the
machine and the sizes by axis:

- ``formats`` and ``inputs``: the format and the float32 values of each operand, by name.
- ``tensors``: operands by copy, and results, with their ``axes`` and ``values``; ``made`` has the
  fields of :class:`diastole.explain.shown_conversion.ShownConversion` of an operand.
- ``runs``: the fields of :class:`diastole.explain.shown_run.ShownRun` for each product. ``passes``
  are lists of the fields of :class:`diastole.explain.shown_run.Pass`; ``sums`` are flat, as text
  where a double cannot hold the integer.
"""

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np

from diastole.config.keys import Config
from diastole.explain.shown_conversion import ShownConversion
from diastole.explain.shown_operands import Doubles, Operands, factors_of
from diastole.explain.shown_run import NORTH, ShownDirection, ShownRun
from diastole.explain.sum_rules import SumSide
from diastole.report.palette import DARK, LIGHT, variables
from diastole_sim.device.interface import Floats
from diastole_sim.spec.numerics import Numerics, TensorClass
from diastole_sim.spec.operations import CLASSES, OPERANDS, PRODUCTS
from diastole_sim.spec.rounding import is_stochastic

TITLES = {"forward": "Y = X W", "dx": "dX = dY Wᵀ", "dw": "dW = Xᵀ dY", "backward": "dX and dW"}
SIDES = (("south", "east"), ("west", "north"))
"""Sides of the array where vectors enter and where sums leave, by direction."""
SCRIPTS = ("numbers.js", "page.js")
SAFE = 1 << 53
"""Least magnitude of integers that JavaScript may not hold exactly."""


def write_page(
    config: Config,
    sizes: Mapping[str, int],
    operands: Operands,
    results: Mapping[str, Floats],
    runs: Sequence[tuple[str, ShownRun]],
    first: str,
) -> str:
    """Return the page. ``runs`` are by name of the operation, and the page first shows
    ``first``."""
    names = [name for name, _ in runs]
    plan, numerics = config.plan, config.numerics
    data = {
        "machine": {
            "rows": plan.rows,
            "cols": plan.cols,
            "block": plan.block,
            "latency": plan.shape.latency,
        },
        "sizes": dict(sizes),
        "formats": {name: _format(numerics, name) for name in operands},
        "inputs": {name: _rounded(operand.floats) for name, operand in operands.items()},
        "tensors": _tensors(operands, results),
        "runs": [_run(name, run, operands, numerics) for name, run in runs],
        "first": names.index(first),
    }
    shape = " x ".join(str(sizes[axis]) for axis in "mkn")
    title = f"{config.name}: a product of {shape}, cycle by cycle"
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return Template(_part("page.html")).substitute(
        title=html.escape(title),
        about=html.escape(_about(config)),
        data=text.replace("<", "\\u003c"),  # a text of a user cannot end the element
        light=variables(LIGHT),
        dark=variables(DARK),
        theme=_part("theme.js"),
        script="\n".join(_part(name) for name in SCRIPTS),
    )


def _part(name: str) -> str:
    return files("diastole.explain").joinpath(name).read_text(encoding="utf-8")


def _about(config: Config) -> str:
    formats = ", ".join(
        f"{tensor.name} in {config.numerics.tensor_class(tensor.tensor_class).format.name}"
        for tensor in OPERANDS
    )
    cells = config.plan.rows * config.plan.cols
    array = "One cell" if cells == 1 else f"{config.plan.rows} x {config.plan.cols} cells"
    return (
        f"{array} of {config.plan.block} x {config.plan.block} multipliers, {formats}. Everything "
        "here is read from the waves of the generated Verilog; every number was compared with the "
        "converted tensors, and every result with the numpy model, bit for bit."
    )


def copy_key(name: str, copy: int, operands: Operands) -> str:
    """Return the name of a copy of an operand in the page."""
    return f"{name}/{copy}" if operands[name].copies > 1 else name


def _format(numerics: Numerics, name: str) -> dict[str, Any]:
    """Return the values that the conversion of an operand depends on."""
    storage = numerics.tensor_class(CLASSES[name])
    return {
        "name": storage.format.name,
        "precision": storage.format.precision,
        "depth": storage.format.depth,
        "scales": storage.format.two_level,
        "rule": storage.rounding,
        "bits": numerics.random_bits if is_stochastic(storage.rounding) else 0,
        "group": _group_shape(storage),
    }


def _group_shape(storage: TensorClass) -> list[int]:
    """Return the rows and columns of a group in copy 0; 0 where the group is the tensor."""
    size = storage.grouping.size
    return [1 if storage.grouping.kind == "vector" else size, size]


def _tensors(operands: Operands, results: Mapping[str, Floats]) -> dict[str, Any]:
    tensors: dict[str, Any] = {}
    by_name = {tensor.name: tensor for tensor in OPERANDS}
    for name, operand in operands.items():
        for copy, made in enumerate(operand.conversions):
            tensors[copy_key(name, copy, operands)] = {
                "of": name,
                "axes": by_name[name].axes,
                "values": _rounded(operand.values(copy)),
                "copy": copy,
                "made": _made(made),
            }
    for name, values in results.items():
        axes = PRODUCTS[name].result.axes
        tensors[name] = {"of": name, "axes": axes, "values": _rounded(values)}
    return tensors


def _made(made: ShownConversion) -> dict[str, Any]:
    arrays = {
        name: getattr(made, name).tolist()
        for name in ("significand", "depth", "exponent", "folds", "scale", "place", "units")
    }
    draws = None if made.draws is None else made.draws.tolist()
    return arrays | {"rounded": made.rounded.tolist(), "draws": draws}


def _rounded(values: Doubles | Floats) -> list[list[float]]:
    """Return numbers of binary32 with as many digits as identify them."""
    return [[float(str(number)) for number in row] for row in values.astype(np.float32)]


def _run(name: str, run: ShownRun, operands: Operands, numerics: Numerics) -> dict[str, Any]:
    return {
        "title": TITLES[name],
        "what": _what(run, operands),
        "cycles": run.cycles,
        "ways": [_way(way, operands, numerics) for way in run.ways],
        "passes": [astuple(each) for each in run.passes],
        "sums": [_integer(each) for each in np.ravel(run.sums).tolist()],
        "arrivals": run.arrivals,
        "reads": run.reads,
        "writes": run.writes,
        "waits": run.waits,
    }


def _integer(number: int) -> int | str:
    return number if abs(number) < SAFE else str(number)


def _way(way: ShownDirection, operands: Operands, numerics: Numerics) -> dict[str, Any]:
    keys = {
        role: copy_key(tensor.name, way.product.copy(tensor), operands)
        for role, tensor in (("streamed", way.streaming), ("held", way.stationary))
    }
    factors = factors_of(way.product, way.streaming, way.stationary, operands, numerics)
    return keys | {
        "window": factors.rule.product_bits,
        "fraction": factors.rule.fraction,
        "unit": factors.rule.unit,
        "sides": {"streamed": _side(factors.streaming), "held": _side(factors.stationary)},
        "direction": way.direction,
        "result": way.product.result.name,
        "t": way.t,
        "rows": way.rows,
        "cols": way.cols,
    }


def _side(side: SumSide) -> dict[str, Any]:
    return {"deficit": side.deficit.tolist(), "maximum": side.maximum.tolist()}


def _what(run: ShownRun, operands: Operands) -> str:
    """Return a description of the dataflow in words."""
    stationary = run.ways[0].stationary.name
    parts = [f"Blocks of {stationary} are held."]
    for way in run.ways:
        enters, leaves = SIDES[way.direction]
        parts.append(
            f"Vectors of {way.streaming.name} enter from the {enters}; "
            f"sums of {way.product.result.name} leave to the {leaves}."
        )
    one_copy = operands[stationary].copies == 1
    if len(run.ways) == 2:
        parts.append(f"One block of {stationary}, as it is stored, serves both products.")
    elif one_copy and all(way.direction == NORTH for way in run.ways):
        parts.append(
            f"{stationary} is not turned: its blocks are as forward has them, "
            "only the way is other."
        )
    return " ".join(parts)
