"""Options of the loss's scale: what they take, and what they say of the rest."""

import argparse
from types import SimpleNamespace

import pytest

from diastole.commands.scaling import exponent, floors, scale_argument, scaling_of
from diastole.errors import BadInput
from diastole_sim.train.loss_scaling import LossScaling
from support.texts import exactly


@pytest.mark.parametrize("text, value", [("-14", -14), ("0", 0), ("24", 24), ("+3", 3)])
def test_exponents(text, value):
    assert exponent(text) == value


@pytest.mark.parametrize("text", ["-15", "25", "1.0", "1_0", "٣", "", "2^3"])
def test_texts_that_are_no_exponent(text):
    message = f"must be an integer in -14..24, not {text!r}"
    with pytest.raises(argparse.ArgumentTypeError) as caught:
        exponent(text)
    assert str(caught.value).startswith(message[:30])


def test_floors():
    assert floors("40000=13,150000=15") == ((40000, 13), (150000, 15))
    assert floors("0=-14") == ((0, -14),)


@pytest.mark.parametrize(
    "text", ["", "3", "3=", "=4", "3=4=5", "3=4,", "5=4,5=6", "6=4,5=6", "3=5,4=4", "3=25", "-1=3"]
)
def test_texts_that_are_no_floors(text):
    with pytest.raises(argparse.ArgumentTypeError):
        floors(text)


def test_floors_need_a_scale():
    asked = argparse.Namespace(loss_scale=None, loss_scale_floor=((3, 4),))
    text = "--loss-scale-floor needs --loss-scale X, the exponent of the first step"
    with pytest.raises(BadInput, match=exactly(text)):
        scale_argument(asked)


def test_published_numbers_give_what_is_not_asked():
    published = SimpleNamespace(loss_scale=13, loss_scale_floor=((40, 13),))
    nothing = argparse.Namespace(loss_scale=None, loss_scale_floor=None)
    assert scale_argument(nothing) == {}
    assert scaling_of(scale_argument(nothing)) is None
    assert scale_argument(nothing, published) == vars(published)
    asked = argparse.Namespace(loss_scale=5, loss_scale_floor=None)
    assert scaling_of(scale_argument(asked, published)) == LossScaling(
        exponent=5, floors=((40, 13),)
    )
