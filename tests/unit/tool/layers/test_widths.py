"""Widths from the words of a command line, for one machine."""

import pytest

from diastole.errors import BadInput
from diastole.layers.widths import ALL, filled, parse_widths, widths_of
from support.numerics import make_numerics

MIXED = make_numerics(formats=("fast", "bfp2", "fast"), widths=[2, 4, 8])


@pytest.mark.parametrize(
    "text, found",
    [("4", {ALL: 4}), ("x=4,W = 2", {"x": 4, "w": 2}), ("x=2,w=4,dy=8", {"x": 2, "w": 4, "dy": 8})],
)
def test_words(text, found):
    assert parse_widths(text) == found


@pytest.mark.parametrize(
    "text, problems",
    [
        ("y=4", ('--widths takes x, w, dy before "=", not "y"',)),
        ("x=2,x=4", ("--widths must say each of x, w, dy once: x=2,x=4",)),
        ("2,x=4", ("--widths must say each of x, w, dy once: 2,x=4",)),
        ("x=4,2", ("--widths must say each of x, w, dy once: x=4,2",)),
        ("", ('--widths must be bits, as in 4 or x=4,w=2,dy=4, not ""',)),
        (
            "x=four,=2",
            (
                '--widths must be bits, as in 4 or x=4,w=2,dy=4, not "four"',
                '--widths takes x, w, dy before "=", not ""',
            ),
        ),
        ("-2", ('--widths must be bits, as in 4 or x=4,w=2,dy=4, not "-2"',)),
    ],
)
def test_other_words(text, problems):
    with pytest.raises(BadInput) as caught:
        parse_widths(text)
    assert caught.value.problems == problems


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


@pytest.mark.parametrize(
    "formats, asked, problems",
    [
        (
            ("fast", "bfp2", "fast"),
            {"x": 6, "w": 2, "dy": 3},
            (
                "--widths must each be one of 2, 4, 8 (fast.widths), not 6",
                "--widths: format.w is bfp2, which has one width; x, dy may be given",
                "--widths must each be one of 2, 4, 8 (fast.widths), not 3",
            ),
        ),
        (
            ("bfp4", "bfp2", "bfp4"),
            {ALL: 4},
            (
                (
                    "--widths are of classes with the format fast, and this machine has none: "
                    "format.x is bfp4, format.w is bfp2, format.dy is bfp4"
                ),
            ),
        ),
    ],
)
def test_what_a_machine_has_not(formats, asked, problems):
    with pytest.raises(BadInput) as caught:
        widths_of(make_numerics(formats=formats, widths=[2, 4, 8]), asked)
    assert caught.value.problems == problems
