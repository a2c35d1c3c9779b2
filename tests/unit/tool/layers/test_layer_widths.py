"""Widths from the words of a command line, for one machine."""

import pytest

from diastole.layers.layer_widths import ALL, filled, parse_widths, widths_of
from support.numerics import make_numerics

MIXED = make_numerics(formats=("fast", "bfp2", "fast"), widths=[2, 4, 8])


@pytest.mark.parametrize(
    "text, found",
    [("4", {ALL: 4}), ("x=4,W = 2", {"x": 4, "w": 2}), ("x=2,w=4,dy=8", {"x": 2, "w": 4, "dy": 8})],
)
def test_words(text, found):
    assert parse_widths(text) == found


@pytest.mark.parametrize(
    "asked, widths, written_out",
    [
        ({}, (None, None, None), (8, None, 8)),
        ({ALL: 4}, (4, None, 4), (4, None, 4)),
        ({"dy": 2}, (None, None, 2), (8, None, 2)),
    ],
)
def test_of_a_machine(asked, widths, written_out):
    """W has one width."""
    assert widths_of(MIXED, asked) == widths
    assert filled(MIXED, widths) == dict(zip(("x", "w", "dy"), written_out, strict=True))
