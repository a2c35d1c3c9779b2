"""What a conversion is asked, and what is refused of it before there are numbers."""

import pytest

from diastole_sim.device.conversion import Conversion
from support.texts import exactly


@pytest.mark.parametrize(
    "tensor_class, given, message",
    [
        ("y", {}, "tensor class must be one of x, w, dy, not 'y'"),
        ("x", {"tag": -1}, "tag must be an integer in 0..4294967295, not -1"),
        ("x", {"tag": 2**32}, "tag must be an integer in 0..4294967295, not 4294967296"),
        ("w", {"step": -1}, "step must be an integer in 0..4294967295, not -1"),
        ("dy", {"step": 2**32}, "step must be an integer in 0..4294967295, not 4294967296"),
    ],
)
def test_refusals(tensor_class, given, message):
    with pytest.raises(ValueError, match=exactly(message)):
        Conversion(tensor_class, **given)


def test_what_is_not_asked():
    asked = Conversion("x")
    assert (asked.tag, asked.step, asked.scale, asked.width, asked.overlap) == (
        0,
        0,
        None,
        None,
        False,
    )
