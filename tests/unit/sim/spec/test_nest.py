"""Nests in words, and what a machine takes of them."""

import pytest

from diastole_sim.spec.nest import Nest, NestLimits, ProductNests
from support.texts import exactly

LIMITS = NestLimits(t_blocks=(1, 2, 4), groups=(2, 4), chunk=(3, 6))


def test_in_words_and_back():
    nest = Nest(t_blocks=4, groups=2, chunk=6, outer="l")
    assert str(nest) == "t_blocks=4,groups=2,chunk=6,outer=l"
    assert Nest.parse(str(nest)) == nest
    assert Nest.parse(" chunk = 3 ,outer=l") == Nest(chunk=3, outer="l")
    assert Nest.parse("") == Nest()


@pytest.mark.parametrize(
    "text, said",
    [
        ("t=4", "a nest is NAME=VALUE,... with names t_blocks, groups, chunk, outer, not t=4"),
        (
            "groups",
            "a nest is NAME=VALUE,... with names t_blocks, groups, chunk, outer, not groups",
        ),
        ("groups=-1", "groups must be a number of at least 0, not -1"),
        ("chunk=x", "chunk must be a number of at least 0, not x"),
        ("chunk=4097", "chunk must be an integer in 0..4096, not 4097"),
        ("outer=c", "outer must be one of t, l, not 'c'"),
    ],
)
def test_refused(text, said):
    with pytest.raises(ValueError, match=exactly(said)):
        Nest.parse(text)


def test_limits():
    assert LIMITS.problem(Nest()) is None
    assert LIMITS.problem(Nest(t_blocks=4, groups=4, chunk=6, outer="l")) is None
    assert LIMITS.problem(Nest(t_blocks=3)) == "t_blocks must be one of 1, 2, 4, not 3"
    assert LIMITS.problem(Nest(groups=3)) == "groups must be one of 2, 4, not 3"
    assert LIMITS.problem(Nest(chunk=4)) == "chunk must be one of 3, 6, not 4"


def test_in_a_manifest():
    other = NestLimits(t_blocks=(8,), groups=(1,), chunk=(2,))
    nests = ProductNests(forward=LIMITS, dx=other, dw=LIMITS)
    assert ProductNests.from_dict(nests.to_dict()) == nests
    assert nests.to_dict()["dx"] == {"t_blocks": [8], "groups": [1], "chunk": [2]}
    assert nests.of("dx") == other
    assert nests.of("backward") is None
