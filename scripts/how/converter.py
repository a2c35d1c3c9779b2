"""A tile on its way through the converter: exponents, the largest, integers, one element."""

import numpy as np

from diastole.config.presets import PRESETS
from diastole.explain.shown_conversion import conversions_of
from diastole_sim.device.conversion import Conversion
from diastole_sim.golden.convert import quantise

from .canvas import WIDTH, Canvas

SEED = 1
SIDE = 4
CELL = 46
FLOAT_FRACTION = 23


def draw() -> str:
    """Draw a tile of random numbers by the golden conversion of the preset pico."""
    numerics = PRESETS["pico"].numerics
    matrix = np.random.default_rng(SEED).standard_normal((SIDE, SIDE)).astype(np.float32)
    stored = quantise(matrix, Conversion("x", tag=0, step=0), numerics, seed=0)
    (made,) = conversions_of(matrix, stored, numerics, seed=0, tag=0)
    exponents = np.frexp(matrix)[1] - 1
    shared, bits = int(made.exponent[0, 0]), numerics.x.format.precision
    assert shared == exponents.max()
    picture = Canvas(
        "A tile of four by four numbers in the converter",
        f"Exponents of float32 pass a maximum tree, which finds {shared}. Each significand is "
        "shifted by the distance from its exponent, and rounded to an integer.",
    )
    picture.text(8, 18, "1  measure: the exponent of every float32", size=13, bold=True)
    width = SIDE * CELL
    for row, col in np.ndindex(SIDE, SIDE):
        _cell(
            picture, 8 + col * CELL, 28 + row * CELL, f"{matrix[row, col]:.3f}", exponents[row, col]
        )
    for row in range(SIDE):
        y = 28 + row * CELL + CELL / 2
        picture.line(8 + width, y, 8 + width + 28, y, colour="faint", arrow=True)
        picture.rect(8 + width + 30, y - 11, 40, 22, stroke="line")
        words = f"{exponents[row].max()}"
        picture.text(8 + width + 50, y + 4, words, anchor="middle", mono=True)
        picture.line(8 + width + 70, y, 8 + width + 98, y, colour="faint", arrow=row in (1, 2))
    picture.line(8 + width + 98, 28 + CELL / 2, 8 + width + 98, 28 + 3.5 * CELL, colour="faint")
    picture.rect(8 + width + 100, 28 + 2 * CELL - 20, 96, 40, fill="cell", stroke="held")
    picture.text(8 + width + 148, 28 + 2 * CELL - 4, "largest", anchor="middle")
    picture.text(8 + width + 148, 28 + 2 * CELL + 12, f"e = {shared}", anchor="middle", mono=True)
    picture.text(8 + width + 30, 28 + 4 * CELL + 14, "largest of each row", colour="faint")
    top = 28 + SIDE * CELL + 48
    title = f"2  quantise: integers k of {bits} bits, value k times 2^({shared} - {bits - 1})"
    picture.text(8, top, title, size=12, bold=True)
    for row, col in np.ndindex(SIDE, SIDE):
        x, y = 8 + col * CELL, top + 10 + row * CELL * 0.6
        picture.rect(x, y, CELL, CELL * 0.6, fill="cell", stroke="held")
        words = f"{made.significand[row, col]}"
        picture.text(x + CELL / 2, y + 18, words, anchor="middle", mono=True)
    _element(picture, matrix, exponents, made, top + 10, shared, bits)
    return picture.svg()


def _cell(picture: Canvas, x: float, y: float, number: str, exponent: int) -> None:
    picture.rect(x, y, CELL, CELL, fill="panel", stroke="line")
    picture.text(x + CELL / 2, y + 19, number, anchor="middle", mono=True)
    picture.text(x + CELL / 2, y + 36, f"e {exponent}", anchor="middle", colour="faint", mono=True)


def _element(picture, matrix, exponents, made, top, shared, bits) -> None:
    """Write how one element of the tile becomes an integer: the first that lies two binades or more
    below the largest, and is not rounded to zero."""
    matches = (exponents <= shared - 2) & (made.significand != 0)
    row, col = (int(each[0]) for each in np.nonzero(matches))
    x, value = 8 + SIDE * CELL + 16, float(matrix[row, col])
    significand = round(abs(value) * 2.0 ** (FLOAT_FRACTION - int(exponents[row, col])))
    text = f"{significand:024b}"
    lines = [
        f"row {row}, column {col}: {value:.3f}",
        f"= {text[0]}.{text[1:8]}... x 2^{exponents[row, col]}",
        f"{shared - exponents[row, col]} below the largest:",
        f"{made.units[row, col]:.3f} units, rounds to {made.rounded[row, col]}",
        f"sign and {bits} bits: {'-' if value < 0 else '+'}{made.rounded[row, col]:0{bits}b}",
    ]
    for number, line in enumerate(lines):
        if len(line) * 6.2 > WIDTH - x:
            raise ValueError(f"{line!r} is too long")
        picture.text(x, top + 14 + 20 * number, line)
