"""What a mistyped name was meant to be."""

import pytest

from diastole.nearest import meant

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
    assert meant(given, KNOWN) == f"; did you mean {wanted}?"


@pytest.mark.parametrize("given", ["", "  ", "lion", "x", 3, None])
def test_no_guess(given):
    assert meant(given, KNOWN) == ""
    assert meant("adam", ()) == ""
