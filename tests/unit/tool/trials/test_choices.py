"""What is to be tried, from a command line: what is taken, and every mistake at once."""

import pytest

from diastole.config.file import accepted
from diastole.errors import BadInput
from diastole.trials.choices import parse_by_class, parse_choices, parse_names
from diastole.trials.mixtures import Settings


def problems(work, *arguments):
    with pytest.raises(BadInput) as caught:
        work(*arguments)
    return list(caught.value.problems)


def test_names_once_each():
    assert parse_names("x", "bfp4, e3m4,bfp4") == ["bfp4", "e3m4"]


def test_fast_has_no_width_of_its_own():
    said = "must not have fast: at 2 and at 4 bits it stores what bfp2 and bfp4 do, in planes; try"
    assert problems(parse_choices, "bfp4,fast", {"x": "fast"}, 8) == [
        f"--formats {said} these",
        f"--x {said} these",
    ]


def test_kinds_of_draws():
    choices = parse_choices("bfp4", {"rounding": "dy=stochastic-a"}, 4, "lfsr3")
    assert choices.settings == Settings(block=4, kind="lfsr3", rounding={"dy": "stochastic-a"})
    assert "rounding.kind=lfsr3" in choices.settings.overrides(("bfp4",) * 3)
    assert problems(parse_choices, "bfp4", {}, 8, "dice") == [
        '--rounding-kind must be one of counter, lfsr, lfsr3, data, not "dice"'
    ]


def test_unknown_names():
    known = accepted("format.x")
    assert problems(parse_names, "dy", "a,bfp4,fp8_e4m") == [
        f'--dy must each be {known}, not "a"',
        f'--dy must each be {known}, not "fp8_e4m"; did you mean fp8_e4m3?',
    ]


@pytest.mark.parametrize(
    "name, text, expected",
    [
        ("rounding", "nearest", dict.fromkeys(("x", "w", "dy"), "nearest")),
        ("rounding", "dY = stochastic-a", {"dy": "stochastic-a"}),
        ("scale", "x=even,w=up", {"x": "even", "w": "up"}),
        ("grouping", "1x16", dict.fromkeys(("x", "w", "dy"), "1x16")),
        ("grouping", "w=tensor,dy=16x16", {"w": "tensor", "dy": "16x16"}),
    ],
)
def test_settings_by_class(name, text, expected):
    assert parse_by_class(name, text) == expected


@pytest.mark.parametrize(
    "name, text, message",
    [
        (
            "rounding",
            "stocastic-b",
            (
                f'--rounding must be {accepted("rounding.x")}, not "stocastic-b"; did you mean '
                "stochastic-b?"
            ),
        ),
        ("scale", "x=wild", f'--scale must be {accepted("scale.x")}, not "wild"'),
        ("grouping", "2x3", f'--grouping must be {accepted("block.x")}, not "2x3"'),
        ("grouping", "dy=", f'--grouping must be {accepted("block.x")}, not ""'),
        ("grouping", "3x3", f'--grouping must be {accepted("block.x")}, not "3x3"'),
        ("rounding", "y=nearest", '--rounding accepts only x, w, dy before "=", not "y"'),
        (
            "rounding",
            "nearest,x=nearest",
            "--rounding must give each of x, w, dy a single value, not nearest,x=nearest",
        ),
    ],
)
def test_wrong_settings(name, text, message):
    assert problems(parse_by_class, name, text) == [message]


def test_everything_together():
    given = {"dy": "bf16", "scale": "dy=floor"}
    found = parse_choices("bfp2,bfp4", given, 16)
    assert (found.names, found.mixed) == (["bfp2", "bfp4"], {"dy": ["bf16"]})
    assert found.settings == Settings(block=16, scale={"dy": "floor"})


def test_every_mistake_at_once():
    found = problems(parse_choices, "a,b", {"x": "c", "rounding": "d", "grouping": "q=e"}, 8)
    assert [text.split()[0] for text in found] == [
        "--formats", "--formats", "--x", "--rounding", "--grouping",
    ]  # fmt: skip
