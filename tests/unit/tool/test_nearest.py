"""What a mistyped name was meant to be."""

import pytest

from diastole.nearest import suggestion

KNOWN = ("sgd", "nesterov", "rmsprop", "adam", "adamw")


@pytest.mark.parametrize(
    "given, wanted",
    [
        ("adma", "adam"),
        ("ADAM", "adam"),
        ("sdg", "sgd"),
        (" rms", "rmsprop"),
        ("ada", "adam or adamw"),
        ("nestrov", "nesterov"),
    ],
)
def test_a_guess(given, wanted):
    assert suggestion(given, KNOWN) == f"; did you mean {wanted}?"


@pytest.mark.parametrize("given", ["", "  ", "lion", "x", 3, None])
def test_no_guess(given):
    assert suggestion(given, KNOWN) == ""
    assert suggestion("adam", ()) == ""
