"""The page on which a user steps through a product: one file, which asks nothing of a network.

What `page.js` finds in it, beside the machine and the sizes by axis: ``tensors``, operands by copy
and results, with their ``axes`` and ``values``; ``runs``, the products, with what
:class:`diastole.explain.story.Run` has of each: ``passes`` as lists of the fields of
:class:`diastole.explain.story.Pass`, ``sums`` flat.
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
from diastole.explain.story import NORTH, Doubles, Operands, Run, Way
from diastole_sim.device.interface import Floats
from diastole_sim.spec.operations import OPERANDS, PRODUCTS

TITLES = {"forward": "Y = X W", "dx": "dX = dY Wᵀ", "dw": "dW = Xᵀ dY", "backward": "dX and dW"}
SIDES = (("south", "east"), ("west", "north"))
"""By direction, where vectors enter and sums leave."""


def write_page(
    config: Config,
    sizes: Mapping[str, int],
    operands: Operands,
    results: Mapping[str, Floats],
    runs: Sequence[tuple[str, Run]],
    first: str,
) -> str:
    """The page. ``runs``: by the names of operations; ``first`` is shown first."""
    names = [name for name, _ in runs]
    data = {
        "machine": {
            "rows": config.plan.rows,
            "cols": config.plan.cols,
            "block": config.plan.block,
            "stages": config.plan.shape.stages,
        },
        "sizes": dict(sizes),
        "tensors": _tensors(operands, results),
        "runs": [_run(name, run, operands) for name, run in runs],
        "first": names.index(first),
    }
    shape = " x ".join(str(sizes[axis]) for axis in "mkn")
    title = f"{config.name}: a product of {shape}, cycle by cycle"
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return Template(_part("page.html")).substitute(
        title=html.escape(title),
        about=html.escape(_about(config)),
        data=text.replace("<", "\\u003c"),  # no text of a user's ends the element
        script=_part("page.js"),
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
    """What a copy of an operand is called in the page."""
    return f"{name}/{copy}" if (name, 1) in operands else name


def _tensors(operands: Operands, results: Mapping[str, Floats]) -> dict[str, Any]:
    tensors: dict[str, Any] = {}
    by_name = {tensor.name: tensor for tensor in OPERANDS}
    for (name, copy), values in operands.items():
        found = {"of": name, "axes": by_name[name].axes, "values": _rounded(values)}
        tensors[copy_key(name, copy, operands)] = found
    for name, values in results.items():
        axes = PRODUCTS[name].result.axes
        tensors[name] = {"of": name, "axes": axes, "values": _rounded(values)}
    return tensors


def _rounded(values: Doubles | Floats) -> list[list[float]]:
    """Numbers of binary32 in as many digits as name them."""
    return [[float(str(number)) for number in row] for row in values.astype(np.float32)]


def _run(name: str, run: Run, operands: Operands) -> dict[str, Any]:
    return {
        "title": TITLES[name],
        "what": _what(run, operands),
        "cycles": run.cycles,
        "ways": [_way(way, operands) for way in run.ways],
        "passes": [astuple(each) for each in run.passes],
        "sums": [number for slot in run.sums for cell in slot for number in cell],
        "arrivals": run.arrivals,
        "reads": run.reads,
        "writes": run.writes,
        "waits": run.waits,
    }


def _way(way: Way, operands: Operands) -> dict[str, Any]:
    keys = {
        role: copy_key(tensor.name, way.product.copy(tensor), operands)
        for role, tensor in (("streamed", way.streamed), ("held", way.held))
    }
    return keys | {
        "direction": way.direction,
        "result": way.product.result.name,
        "t": way.t,
        "rows": way.rows,
        "cols": way.cols,
    }


def _what(run: Run, operands: Operands) -> str:
    """The dataflow in words."""
    held = run.ways[0].held.name
    parts = [f"Blocks of {held} are held."]
    for way in run.ways:
        enters, leaves = SIDES[way.direction]
        parts.append(
            f"Vectors of {way.streamed.name} enter from the {enters}; "
            f"sums of {way.product.result.name} leave to the {leaves}."
        )
    one_copy = (held, 1) not in operands
    if len(run.ways) == 2:
        parts.append(f"One block of {held}, as it is stored, serves both products.")
    elif one_copy and all(way.direction == NORTH for way in run.ways):
        parts.append(
            f"{held} is not turned: its blocks are as forward has them, only the way is other."
        )
    return " ".join(parts)
