"""Draw a square with its shared exponent, and many stochastic roundings of one number."""

import numpy as np

import diastole
from diastole.config.presets import PRESETS
from diastole_sim.golden.copies import Fields
from diastole_sim.golden.element_draws import element_draws
from diastole_sim.golden.random import DrawKey

from .canvas import WIDTH, Canvas

X = [[0.9, -0.3], [0.06, 2.7]]
PLACE = (1, 0)
"""Row and column of the number that is rounded many times."""
STEPS = 48
BITS = 8
STORED_BIAS = 127
MAGNITUDE = 4
"""Bits of an integer of bfp4; the sign is the bit above."""


def draw() -> str:
    """Draw the example of docs/how/numbers.md by the golden conversion."""
    result = diastole.quantise(X, "bfp4", grouping="2x2")
    exponent = int(result.scales[0][0]) - STORED_BIAS
    codes = np.array(result.codes)
    signs = np.where(codes >> MAGNITUDE, -1, 1)
    integers = signs * (codes & (1 << MAGNITUDE) - 1)
    values, unit = np.array(result.values()), 2.0 ** (exponent - MAGNITUDE + 1)
    assert np.array_equal(integers * unit, values)
    number = X[PLACE[0]][PLACE[1]]
    draws, ups = roundings()
    picture = Canvas(
        "A square of bfp4, and stochastic roundings of one number",
        f"Four float32 numbers share the exponent {exponent}. Below, {STEPS} draws of the number "
        f"{number}: {sum(ups)} round up, the others round down to 0.",
    )
    picture.text(8, 18, "A square shares one exponent", size=13, bold=True)
    places = {"float32": (8, X), "integers k": (140, integers), "stored": (272, values)}
    for title, (x, table) in places.items():
        picture.text(x, 38, title, colour="faint")
        for row, col in np.ndindex(2, 2):
            filled = title == "integers k"
            picture.rect(
                x + 58 * col, 44 + 30 * row, 58, 30,
                fill="cell" if filled else "panel", stroke="held" if filled else "line",
            )  # fmt: skip
            words = f"{table[row][col]:g}"
            picture.text(x + 58 * col + 29, 63 + 30 * row, words, anchor="middle", mono=True)
    largest = max(abs(each) for row in X for each in row)
    picture.text(8, 124, f"largest magnitude {largest:g} < 2^{exponent + 1}: exponent {exponent},")
    picture.text(
        8, 139, f"unit 2^({exponent} - {MAGNITUDE - 1}) = {unit:g}; stored = k times {unit:g}"
    )
    _rounding(picture, number / unit, draws, ups)
    return picture.svg()


def roundings() -> tuple[list[int], list[bool]]:
    """Return the draws of one element in :data:`STEPS` steps, and whether the element rounds up."""
    numerics, draws, ups = PRESETS["nano"].numerics, [], []
    finite = Fields.of(np.array([X], np.float32)).finite
    for step in range(STEPS):
        key = DrawKey(seed=0, tags=(0,), step=step, second=False)
        (words,) = element_draws(finite, numerics, key)
        result = diastole.quantise(
            X, "bfp4", grouping="2x2", rounding="stochastic-b", seed=0, tag=0, step=step
        )
        draws.append(int(words[PLACE]))
        ups.append(bool(result.codes[PLACE[0]][PLACE[1]]))
    return draws, ups


def _rounding(picture: Canvas, units: float, draws: list[int], ups: list[bool]) -> None:
    limit = next(
        each for each in range(1 << BITS)
        if int(units * 2 ** (BITS + 1)) + 2 * each + 1 >= 2 ** (BITS + 1)
    )  # fmt: skip
    assert ups == [each >= limit for each in draws], "the rule stochastic-b"
    wide = WIDTH - 24

    def at(value: float) -> float:
        return 12 + wide * value / (1 << BITS)

    name = f"{X[PLACE[0]][PLACE[1]]:g} = {units:.2g} units"
    picture.text(8, 172, f"Stochastic rounding of {name}", size=13, bold=True)
    picture.rect(12, 184, at(limit) - 12, 26, fill="none")
    picture.rect(at(limit), 184, at(1 << BITS) - at(limit), 26, fill="cell", stroke="held")
    picture.text(20, 201, f"draw R below {limit}: down, k = 0")
    picture.text(at(limit) + 5, 201, "up, k = 1")
    for number, (each, up) in enumerate(zip(draws, ups, strict=True)):
        y = 218 + 7 * (number % 8)
        if up:
            picture.rect(at(each), y, 5, 5, fill="held", stroke="held")
        else:
            picture.rect(at(each), y, 5, 5, stroke="stream")
    picture.line(12, 278, 12 + wide, 278, colour="faint")
    picture.text(12, 292, "0")
    picture.text(at(limit), 292, f"{limit}", anchor="middle")
    picture.text(12 + wide, 292, f"{(1 << BITS) - 1}", anchor="end")
    share = ((1 << BITS) - limit) / (1 << BITS)
    picture.text(
        8, 312, f"{sum(ups)} of {len(ups)} draws (steps 0 to {len(ups) - 1}, seed 0) round up;"
    )
    picture.text(8, 327, f"the probability is {(1 << BITS) - limit}/{1 << BITS} = {share:.3f}.")
