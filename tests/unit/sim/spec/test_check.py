"""The words of range errors, in full."""

import pytest

from diastole_sim.spec.check import require_choice, require_int
from support.texts import exactly


@pytest.mark.parametrize("value", [1, 7])
def test_accepts_the_ends(value):
    assert require_int("drop", value, 1, 7) == value


@pytest.mark.parametrize("value", [0, 8, -3, True, 1.0, "3", None])
def test_refuses_what_is_no_integer_in_range(value):
    message = f"drop must be an integer in 1..7, not {value!r}"
    with pytest.raises(ValueError, match=exactly(message)):
        require_int("drop", value, 1, 7)


def test_choice_returns_the_value():
    assert require_choice("block", 8, (1, 8)) == 8


@pytest.mark.parametrize("value", [2, True, "8", 8.0])
def test_refuses_what_is_no_choice(value):
    with pytest.raises(ValueError, match=f"^block must be one of 1, 8, not {value!r}$"):
        require_choice("block", value, (1, 8))
