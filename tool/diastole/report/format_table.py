"""Describe all number formats, and the combinations of formats that a machine accepts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from diastole.layers.cell_areas import areas
from diastole_sim.codes.survey import bits_per_element, element_range
from diastole_sim.spec.formats import (
    default_product_bits,
    exact_product_bits,
    parse_format,
)
from diastole_sim.spec.numerics import CLASS_NAMES


@dataclass(frozen=True)
class Combination:
    """Combination of formats of X, W and dY that a machine accepts, with the consequence."""

    x: str
    w: str
    dy: str
    remark: str


COMBINATIONS = (
    Combination("any but nvfp4", "any but nvfp4", "any but nvfp4", "mixed as you like"),
    Combination("nvfp4", "nvfp4", "nvfp4", "all three or none: the scales are not powers of two"),
    Combination("any", "any", "squares, tensor", "both gradients in one pass over dY"),
    Combination("any", "any", "vectors", "dX, then dW: each reads its own copy of dY"),
    Combination(
        "any", "squares, tensor", "squares, tensor", 'needed where array.transpose = "edge"'
    ),
)


def record(name: str, block: int) -> dict[str, Any]:
    """Return a format with defaults in blocks of side ``block``, as plain values.

    ``groups``: groupings by class. ``bits``: bits of an element with its share of the exponents.
    ``bits_both``: these bits in all copies. ``largest``, ``smallest``: positive elements with a
    scale of 1. ``ulp``: unit in the last place at 1. ``depth``: D. ``window``: window of products
    of the format with itself, exact if equal to ``exact_window``.
    """
    format = parse_format(name)
    bits, both = bits_per_element(name, block)
    largest, smallest = element_range(format)
    measured = areas()["formats"].get(name, {})
    return {
        "name": name,
        "groups": {each: str(format.default_grouping(block, each)) for each in CLASS_NAMES},
        "element_bits": format.element_bits,
        "bits": bits,
        "bits_both": both,
        "largest": largest,
        "smallest": smallest,
        "ulp": 2.0 ** (1 - format.precision),
        "depth": format.depth,
        "window": default_product_bits(format, format),
        "exact_window": exact_product_bits(format, format),
        "cell": measured.get("label"),
        "area_per_mac_nand2": measured.get("area_per_mac_nand2"),
    }


def table(records: Iterable[dict[str, Any]]) -> list[str]:
    """Return a table of formats for readers, a line per format under a heading."""
    heading = ["format", "groups", "bits", "both", "largest", "smallest", "ulp", "D", "window"]
    return align([[*heading, "NAND2/MAC"], *map(_cells, records)])


def _cells(record: dict[str, Any]) -> list[str]:
    groups, window, area = record["groups"], record["window"], record["area_per_mac_nand2"]
    exact = record["exact_window"]
    return [
        record["name"],
        groups["x"] + (f" (W {groups['w']})" if groups["w"] != groups["x"] else ""),
        f"{record['bits']:.5g}",
        f"{record['bits_both']:.5g}",
        f"{record['largest']:.6g}",
        power(record["smallest"]),
        power(record["ulp"]),
        str(record["depth"]),
        f"{window} exact" if window == exact else f"{window} of {exact}",
        "-" if area is None else f"{area:.0f}",
    ]


def legend(block: int) -> list[str]:
    """Return the meaning of the columns of :func:`table`."""
    command = areas()["command"]
    return [
        f"groups: elements that share a scale, by default, with array.block = {block}",
        "bits: of an element and a share of the scales; both: in both copies, if groups are 1xN",
        "largest, smallest: positive elements at scale 1; ulp: at 1; D: binades below the largest",
        "window: bits of a product in the cell (cell.window), by default and for exact products",
        f"NAND2/MAC: area of a cell, by {command}"
        if command
        else "NAND2/MAC: area of a cell; not measured here",
        "e<E>m<M>, E in 2..5, M in 1..5, 1 + E + M at most 8: --formats e3m4 shows one",
    ]


def combinations() -> list[str]:
    """Return the combinations of formats, for readers."""
    rows = [[each.x, each.w, each.dy, each.remark] for each in COMBINATIONS]
    return align([["X", "W", "dY", ""], *rows], left=4)


def align(rows: Sequence[Sequence[str]], left: int = 2, ends: int = 0) -> list[str]:
    """Return lines of columns that are two spaces apart. The first ``left`` and the last ``ends``
    columns are aligned to the left, the remaining columns to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines: list[str] = []
    for row in rows:
        cells = [
            cell.ljust(width) if place < left or place >= len(row) - ends else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def power(value: float) -> str:
    """Return a power of two as a power: ``2^-9``. 1 and 2 are plain numbers."""
    exponent = value.hex().partition("p")[2]
    return f"{value:g}" if value in (1, 2) else f"2^{int(exponent)}"
