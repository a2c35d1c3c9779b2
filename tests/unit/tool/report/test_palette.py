"""Colours can be read and told apart, on light and on dark paper, with any colour vision."""

from itertools import combinations
from xml.etree import ElementTree

import numpy as np
import pytest

from diastole.report.palette import DARK, LIGHT, apply_theme, variables

THEMES = pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
TEXTS = ["ink", "faint", "stream", "sums"]
# Simulation of colour vision: Machado, Oliveira and Fernandes, 2009, severity 1.
VISION = {
    "all": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
TO_XYZ = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
DISTINCT = 15
"""Distance in CIELAB that nobody overlooks; 2.3 is the least that is seen side by side."""


def linear(colour):
    parts = np.array(list(bytes.fromhex(colour[1:]))) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    """By WCAG 2.2."""
    low, high = sorted(float(np.dot(TO_XYZ[1], linear(each))) for each in (one, other))
    return (high + 0.05) / (low + 0.05)


def lab(colour, vision):
    light = np.clip(np.array(VISION[vision]) @ linear(colour), 0, 1)
    x, y, z = np.cbrt(np.array(TO_XYZ) @ light / [0.9505, 1, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_contrast_by_hand():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)  # as WebAIM has it


@THEMES
def test_text_has_contrast(colours):
    for name in TEXTS:
        assert contrast(colours[name], colours["page"]) >= 4.5, name
    for paper in ("panel", "cell"):
        assert contrast(colours["ink"], colours[paper]) >= 4.5, paper


@THEMES
def test_frames_have_contrast(colours):
    assert contrast(colours["held"], colours["page"]) >= 3
    assert contrast(colours["now"], colours["page"]) >= 3


@THEMES
@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("names", [["stream", "held", "sums"], ["X", "W", "dY"], ["east", "north"]])
def test_meanings_are_told_apart(colours, vision, names):
    for one, other in combinations(names, 2):
        distance = np.linalg.norm(lab(colours[one], vision) - lab(colours[other], vision))
        assert distance >= DISTINCT, (one, other)


def test_a_colour_has_one_meaning():
    assert list(LIGHT) == list(DARK)
    for colours in (LIGHT, DARK):
        assert len(set(colours.values())) == len(colours)


def test_variables():
    assert variables({"ink": "#000000", "page": "#ffffff"}) == "--ink: #000000; --page: #ffffff"


def test_a_picture_has_both_colours():
    text = '<svg><svg fill="var(--ink)"/><a stroke="var(--held)" fill="none"/></svg>\n'
    root = ElementTree.fromstring(apply_theme(text))
    inner, other, style = root
    assert inner.get("fill") == LIGHT["ink"]
    assert (other.get("stroke"), other.get("fill")) == (LIGHT["held"], "none")
    assert style.text == (
        "@media (prefers-color-scheme:dark){"
        f'[stroke="{LIGHT["held"]}"]{{stroke:{DARK["held"]}}}'
        f'[fill="{LIGHT["ink"]}"]{{fill:{DARK["ink"]}}}}}'
    )


def test_a_name_without_a_colour():
    with pytest.raises(KeyError, match="nobody"):
        apply_theme('<svg fill="var(--nobody)"></svg>')
