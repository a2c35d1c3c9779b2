"""Formats that are tried together, and those that do not go together."""

import pytest

from diastole.config.file import from_document
from diastole.config.keys import Config
from diastole.errors import BadInput
from diastole.trials.mixtures import Mixture, Settings, combine, make_mixtures, name_of

ALL = ("x", "w", "dy")
PLAIN = Settings(block=8)


def triples(text):
    return [tuple(each.split("/")) for each in text.split()]


@pytest.mark.parametrize(
    "given, present, expected",
    [
        ({}, ALL, ""),
        ({"dy": ["c"]}, ALL, "a/a/c b/b/c"),
        ({"x": ["c", "d"], "w": ["e"]}, ALL, "c/e/a c/e/b d/e/a d/e/b"),
        ({"x": ["c"], "w": ["d"], "dy": ["e", "f"]}, ALL, "c/d/e c/d/f"),
        ({"w": ["d"], "x": ["c"]}, ALL, "c/d/a c/d/b"),
        ({"x": ["c"], "w": ["d"]}, ("x", "w"), "c/d/c"),
        ({"x": ["c"]}, ("x", "w"), "c/a/a c/b/b"),
    ],
)
def test_combinations(given, present, expected):
    assert combine(["a", "b"], given, present) == triples(expected)


def test_names():
    assert name_of(("bfp4", "bfp4", "bfp4")) == "bfp4"
    assert name_of(("bfp4", "bfp4", "bf16")) == "bfp4/bfp4/bf16"


def test_a_mixture_is_the_machine_of_a_configuration():
    """All that is not said is as in a file that does not say it."""
    settings = Settings(
        block=4,
        rounding={"dy": "stochastic-a"},
        scale={"x": "even"},
        grouping={"w": "16x16"},
    )
    formats = ("bfp4", "bfp6", "fp8_e5m2")
    (found,), problems = make_mixtures([formats], settings)
    expected = {
        "array": {"block": 4},
        "format": {"x": "bfp4", "w": "bfp6", "dy": "fp8_e5m2"},
        "rounding": {"dy": "stochastic-a"},
        "scale": {"x": "even"},
        "block": {"w": "16x16"},
    }
    assert found == Mixture(formats=formats, numerics=from_document(expected).numerics)
    assert (found.name, found.uniform, problems) == ("bfp4/bfp6/fp8_e5m2", False, [])


def test_gradients_are_rounded_as_a_machine_does():
    (found,), _ = make_mixtures([("bfp4",) * 3], PLAIN)
    default = Config().rounding
    assert (found.numerics.x.rounding, found.numerics.w.rounding) == ("nearest", "nearest")
    assert found.numerics.dy.rounding == default.dy == "stochastic-b"


def test_overrides_lead_to_the_same_machine():
    settings = Settings(block=16, rounding={"x": "stochastic-c"}, grouping={"dy": "1x32"})
    formats = ("bfp4", "bfp4", "bfp3")
    (found,), _ = make_mixtures([formats], settings)
    assert from_document({}, settings.overrides(formats)).numerics == found.numerics


def test_what_does_not_go_together_is_left_out():
    wanted = triples("bfp4/bfp4/bfp4 nvfp4/nvfp4/bfp4 bf16/bf16/bf16")
    found, problems = make_mixtures(wanted, Settings(block=8, grouping={"x": "8x8"}))
    assert [each.name for each in found] == ["bfp4"]
    assert problems == [
        (
            "nvfp4/nvfp4/bfp4: format.x, format.w and format.dy must all be nvfp4, or "
            "none of them: the scales of nvfp4 are not powers of two (nvfp4 is chosen for "
            "x and w)"
        ),
        'bf16: block.x must be "tensor" where format.x is bf16, not "8x8"',
    ]


@pytest.mark.parametrize(
    "wanted, options", [("bfp4/bfp4/bfp4 nvfp4/nvfp4/bfp4", {"strict": True}), ("nvfp4/a/a", {})]
)
def test_what_is_refused(wanted, options):
    with pytest.raises(BadInput) as caught:
        make_mixtures(triples(wanted), PLAIN, **options)
    assert len(caught.value.problems) == 1


def test_nothing_asked_is_nothing_refused():
    assert make_mixtures([], PLAIN, strict=True) == ([], [])
