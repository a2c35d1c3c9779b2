"""Tables and pictures of what formats make of tensors."""

import re

import matplotlib as mpl
import numpy as np
import pytest

from diastole.report.survey_table import LEGEND, PANELS, tensor_table, write_picture
from diastole_sim.codes.survey import Bits, Survey, survey

EXACT = Survey(
    format="bf16",
    grouping="tensor",
    copies=1,
    counted=4,
    snr_db=None,
    saturated=0.0,
    underflowed=0.0,
    spread=None,
    row_deficit=None,
    column_deficit=None,
)
NOISY = Survey(
    format="mxfp4_e2m1",
    grouping="1x32",
    copies=2,
    counted=4,
    snr_db=17.25,
    saturated=0.125,
    underflowed=0.5,
    spread=Bits(largest=12, usual=5),
    row_deficit=Bits(largest=3, usual=1),
    column_deficit=Bits(largest=10, usual=2),
)


def test_table():
    assert tensor_table("W", (3, 40), [EXACT, NOISY]) == [
        "W (3 x 40)",
        "format      groups  SNR dB  saturated  underflowed  spread  rows  columns",
        "bf16        tensor   exact     0.000%       0.000%       -     -        -",
        "mxfp4_e2m1  1x32      17.2    12.500%      50.000%    5 12  1  3     2 10",
    ]
    assert max(map(len, LEGEND)) <= 100


def test_no_element_with_a_noise_is_not_exact(tmp_path, texts):
    found = survey(np.full((4, 4), np.nan, np.float32), "bfp4", block=4)
    assert tensor_table("X", (4, 4), [found])[-1].split()[:3] == ["bfp4", "4x4", "-"]
    assert any("-: no element" in line for line in LEGEND)
    for surveys, dashes in (([found, EXACT], 1), ([EXACT, EXACT], 0)):
        write_picture({"X": surveys}, tmp_path / "a.svg", "title")
        assert texts(tmp_path / "a.svg").count("-") == dashes


def test_figures_of_the_panels():
    assert [figure(EXACT) for _, figure, _ in PANELS] == [None, 0, 0, None, None, None]
    assert [figure(NOISY) for _, figure, _ in PANELS] == [17.25, 12.5, 50, 5, 2, 10]


@pytest.fixture
def texts(monkeypatch):
    """Text in an SVG is text if it is not drawn as paths."""
    monkeypatch.setitem(mpl.rcParams, "svg.fonttype", "none")
    return lambda path: re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text())


def test_picture(tmp_path, texts):
    path = tmp_path / "a.svg"
    write_picture({"A": [EXACT, NOISY], "B": [NOISY, EXACT]}, path, "the title")
    found = texts(path)
    assert found.count("bf16") == found.count("A") == len(PANELS)
    assert {heading for heading, _, _ in PANELS} | {"the title", "17", "12"} <= set(found)


@pytest.mark.parametrize("name", ["$x", "$\\frac{$", "$$", "a_b^c", "日本", "\x1b[31m", "a\nb", ""])
@pytest.mark.parametrize("suffix", ["svg", "png"])
@pytest.mark.sampled(4)
def test_names_are_no_formulas(tmp_path, texts, name, suffix):
    """Neither of tensors nor of files; nor is anything warned of."""
    path = tmp_path / f"a.{suffix}"
    write_picture({name: [NOISY]}, path, f"{name} and $\\more{{$")
    if suffix == "svg":
        shown = {"\x1b[31m": "\\x1b[31m", "a\nb": "a\\nb"}.get(name, name)
        assert f"{shown} and $\\more{{$" in texts(path)


def test_a_survey_of_real_numbers(tmp_path):
    matrix = np.linspace(-3, 5, 64, dtype=np.float32).reshape(8, 8)
    surveys = [survey(matrix, name, block=8) for name in ("bfp4", "nvfp4", "bf16")]
    write_picture({"X": surveys}, tmp_path / "a.png", "title")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert len(tensor_table("X", matrix.shape, surveys)) == 5
