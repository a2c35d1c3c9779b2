"""Three moments of a product on an array of two by two cells, from the waves of the Verilog."""

import json
from pathlib import Path

import numpy as np

from diastole.commands.arguments import read_preset

from .canvas import Canvas

RECORD = Path(__file__).with_name("product.json")
MACHINE = ("array.rows=2", "array.cols=2", "array.block=2", "vector.enable=false")
SIZES = {"m": 2, "k": 4, "n": 4}
SIDE, CELLS = 2, 2
"""Elements of a block along a side, and cells of the array along a side."""
NUMBER, HIGH, BESIDE = 52, 18, 76
"""Width and height of a number in a cell, and room for sums in the east of a cell."""


def recorded() -> dict:
    """Run Y = X W in Verilator, X with two rows of four numbers; return what the waves show.

    - ``X``, ``W``: the stored values. ``sums``: partial sum by vector, cell (row by row) and lane.
    - ``first``: cycle in which the first vector is issued. ``latency``: of a cell.
    """
    from diastole.explain.observe import observe
    from diastole.explain.shown_operands import factors_of

    config = read_preset("pico", MACHINE)
    operands, _, (run,) = observe(config, ["forward"], SIZES, 0)
    (way,), (one,) = run.ways, run.passes
    factors = factors_of(way.product, way.streaming, way.stationary, operands, config.numerics)
    sums = np.array(run.sums, float)
    for t, cell, lane in np.ndindex(sums.shape):
        position = cell // CELLS * SIDE + lane
        unit = (
            factors.streaming.maximum[t] + factors.stationary.maximum[position] + factors.rule.unit
        )
        sums[t, cell, lane] *= 2.0 ** int(unit)
    return {
        "machine": list(MACHINE),
        "first": one.first,
        "latency": config.plan.shape.latency,
        "X": operands["X"].values(0).tolist(),
        "W": operands["W"].values(0).tolist(),
        "sums": sums.tolist(),
    }


def draw() -> str:
    """Draw the record of the run. Every sum in the record must be the sum of its products."""
    run = json.loads(RECORD.read_text())
    if run["machine"] != list(MACHINE):
        raise ValueError(f"{RECORD.name} is of another machine")
    x, w, sums = (np.array(run[name]) for name in ("X", "W", "sums"))
    for t, row, col in np.ndindex(len(x), CELLS, CELLS):
        expected = x[t, : SIDE * (col + 1)] @ w[: SIDE * (col + 1), SIDE * row : SIDE * (row + 1)]
        if not np.array_equal(sums[t, row * CELLS + col], expected):
            raise ValueError(f"{RECORD.name}: sums of vector {t} in cell {row}, {col}")
    picture = Canvas(
        "Three moments of a product on two by two cells",
        "Row 0 of X enters cell 0, 0 from the south, hops to the neighbours, and leaves the east "
        "as two elements of Y, while row 1 follows one cycle behind.",
    )
    latency, first = run["latency"], run["first"]
    moments = {
        first + 1: "the first half of X[0] arrives at cell 0, 0",
        first + 1 + latency: "cell 0, 0 has its sums of X[0]",
        first + 2 + latency: "cell 0, 1 has the whole Y[0, 0..1]",
    }
    top = 20
    for when, words in moments.items():
        picture.text(8, top, f"cycle {when}: {words}", size=12, bold=True)
        for row in range(CELLS):
            for col in range(CELLS):
                y = top + 26 + 96 * (CELLS - 1 - row)
                _cell(picture, run, when, row, col, 8 + col * (2 * NUMBER + BESIDE + 8), y)
        top += 96 * CELLS + 34
    _legend(picture, top - 6)
    return picture.svg()


def _cell(picture, run, when, row, col, x, y) -> None:
    """Draw a cell in a cycle: block, vector that arrives from the south, sums that leave."""
    x_values, w_values = run["X"], run["W"]
    lanes, terms = f"{SIDE * row}..{SIDE * row + 1}", f"{SIDE * col}..{SIDE * col + 1}"
    picture.text(x, y - 5, f"cell {row}, {col}: W[{terms}, {lanes}]", colour="faint")
    picture.rect(x, y, SIDE * NUMBER, SIDE * HIGH, fill="cell", stroke="held")
    for lane, term in np.ndindex(SIDE, SIDE):
        number = w_values[SIDE * col + term][SIDE * row + lane]
        at = x + (term + 0.5) * NUMBER
        picture.text(at, y + HIGH * lane + 13, _short(number), anchor="middle", mono=True)
    arrives = when - 1 - row - col - run["first"]
    if 0 <= arrives < len(x_values):
        for term in range(SIDE):
            number, at = x_values[arrives][SIDE * col + term], x + (term + 0.5) * NUMBER
            picture.text(
                at, y + 2 * HIGH + 15, _short(number), anchor="middle", mono=True, colour="stream"
            )
        words = f"↑ X[{arrives}, {terms}]"
        picture.text(x, y + 2 * HIGH + 30, words, colour="stream")
    done = arrives - run["latency"]
    if 0 <= done < len(x_values):
        for lane in range(SIDE):
            number = run["sums"][done][row * CELLS + col][lane]
            at = x + SIDE * NUMBER + 4
            picture.text(at, y + HIGH * lane + 13, f"→ {_short(number)}", mono=True, colour="sums")
        whole = col == CELLS - 1
        words = f"{'Y' if whole else 'part of Y'}[{done}]"
        picture.text(x + SIDE * NUMBER + 4, y + 2 * HIGH + 15, words, colour="sums")


def _short(number: float) -> str:
    return f"{number:.3g}"


def _legend(picture: Canvas, y: float) -> None:
    picture.rect(8, y - 9, 14, 9, fill="cell", stroke="held")
    picture.text(26, y, "stationary block")
    picture.text(140, y, "↑ arriving vector", colour="stream")
    picture.text(256, y, "→ sums leaving the cell", colour="sums")
