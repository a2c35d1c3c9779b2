"""The words of range errors, in full."""

import pytest

from diastole_sim.spec.require import (
    real_number,
    require_choice,
    require_int,
    signed_number,
    whole_number,
)


@pytest.mark.parametrize("value", [1, 7])
def test_accepts_the_ends(value):
    assert require_int("drop", value, 1, 7) == value


@pytest.mark.parametrize(
    "text, whole, signed, real",
    [
        ("0", 0, 0, 0), ("12", 12, 12, 12), ("007", 7, 7, 7), ("-3", None, -3, -3),
        ("+3", None, 3, 3), ("1.5", None, None, 1.5), (".5", None, None, 0.5),
        ("2.", None, None, 2), ("-1e-3", None, None, -0.001), ("1E2", None, None, 100),
    ],
)  # fmt: skip
def test_numbers(text, whole, signed, real):
    assert (whole_number(text), signed_number(text), real_number(text)) == (whole, signed, real)


@pytest.mark.parametrize(
    "text",
    ["", " 3 ", "3 ", "1_000", "\u0663", "\u00b2", "\uff13", "--3", "+", ".", "e3", "0x2", "nan",
     "inf", "-Infinity", "1e400", "3\n", "9" * 400],
)  # fmt: skip
def test_texts_that_are_no_numbers(text):
    """Python takes most of them: other scripts' digits, underlines, spaces, NaN."""
    assert (whole_number(text), signed_number(text), real_number(text)) == (None, None, None)


def test_choice_returns_the_value():
    assert require_choice("block", 8, (1, 8)) == 8
