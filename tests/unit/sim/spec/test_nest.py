"""Nests in words, and what a machine takes of them."""

from dataclasses import replace

import pytest

from diastole_sim.spec.nest import Nest, NestLimits, ProductNests

LIMITS = NestLimits(
    t_blocks=(1, 2, 4), groups=(2, 4), chunk=(3, 6),
    chunk_side=3, lane_side=5, stream_blocks=20, stationary_blocks=90, pass_blocks=7,
)  # fmt: skip


def test_in_words_and_back():
    nest = Nest(t_blocks=4, groups=2, chunk=6, outer="l", keep="stationary")
    assert str(nest) == "t_blocks=4,groups=2,chunk=6,outer=l,keep=stationary"
    assert Nest.parse(str(nest)) == nest
    assert Nest.parse(" chunk = 3 ,outer=l") == Nest(chunk=3, outer="l")
    assert Nest.parse("keep=both") == Nest(keep="both")
    assert Nest.parse("") == Nest()


def test_limits():
    assert LIMITS.problem(Nest()) is None
    assert LIMITS.problem(Nest(t_blocks=4, groups=4, chunk=6, outer="l")) is None
    assert LIMITS.problem(Nest(t_blocks=3)) == "t_blocks must be one of 1, 2, 4, not 3"
    assert LIMITS.problem(Nest(groups=3)) == "groups must be one of 2, 4, not 3"
    assert LIMITS.problem(Nest(chunk=4)) == "chunk must be one of 3, 6, not 4"


@pytest.mark.parametrize(
    "keep, stream, held",
    [
        ("none", False, False),
        ("stream", True, False),
        ("stationary", False, True),
        ("both", True, True),
    ],
)
def test_what_is_kept(keep, stream, held):
    nest = Nest(keep=keep)
    assert (nest.keeps_stream, nest.keeps_stationary) == (stream, held)


def test_slabs():
    """A chunk of 6 is 2 slices of 3: of 4 blocks that stream each, and 4 times 7 that are held."""
    assert LIMITS.slabs(Nest()) == (8, 56)
    assert LIMITS.slabs(Nest(t_blocks=1, groups=2, chunk=3)) == (1, 14)
    assert LIMITS.with_defaults(Nest(chunk=3, keep="stationary", outer="l")) == Nest(
        t_blocks=4, groups=4, chunk=3, keep="stationary", outer="l"
    )


def test_panels():
    """13 blocks of the contraction in chunks of 3: 5 slabs, for each of the tiles that stay."""
    nest = Nest(t_blocks=2, groups=2, chunk=3)
    blocks = (5, 21, 13)  # 3 T tiles, and 3 of the lanes: 10 blocks each
    assert LIMITS.panels(nest, blocks) == (5 * 2, 3 * 5 * 14)
    assert LIMITS.panels(replace(nest, outer="l"), blocks) == (3 * 5 * 2, 5 * 14)
    assert LIMITS.panels(nest, (4, 20, 12)) == (4 * 2, 2 * 4 * 14)
    assert LIMITS.panels(Nest(), (1, 1, 1)) == (8, 56), "a short chunk takes as much"


def test_panels_of_planes():
    """Slabs of every plane stay: three of what streams, two of what is held."""
    nest, blocks = Nest(t_blocks=2, groups=2, chunk=3), (2, 10, 6)
    assert LIMITS.panels(nest, blocks) == (2 * 2, 2 * 14)
    assert LIMITS.panels(nest, blocks, (3, 2)) == (3 * 4, 2 * 28)
    kept = replace(nest, keep="stationary")
    assert LIMITS.problem(kept, blocks, (9, 3)) is None
    assert LIMITS.problem(kept, blocks, (1, 4)) == (
        "keep=stationary needs 112 blocks of the stationary operand in every bank, but a bank has "
        "90; use keep=none, shorter tiles or another outer loop"
    )


@pytest.mark.parametrize(
    "nest, blocks, fits",
    [
        # T outermost: of what streams a tile's part, of what is held all: 2 slabs of 14 a lane tile
        (Nest(t_blocks=4, groups=2, chunk=3, keep="stream"), (99, 99, 15), True),  # 5 of 4 blocks
        (Nest(t_blocks=4, groups=2, chunk=3, keep="stream"), (1, 1, 16), False),
        (Nest(t_blocks=4, groups=2, chunk=3, keep="stationary"), (99, 30, 6), True),  # 84 of 90
        (Nest(t_blocks=4, groups=2, chunk=3, keep="stationary"), (1, 31, 6), False),
        (Nest(t_blocks=4, groups=2, chunk=3, keep="both"), (99, 30, 6), True),
        (Nest(t_blocks=4, groups=2, chunk=3, keep="both"), (1, 31, 6), False),
        (Nest(t_blocks=4, groups=2, chunk=3, keep="none"), (999, 999, 999), True),
        # lanes outermost: the other way round
        (Nest(t_blocks=4, groups=2, chunk=3, outer="l", keep="stream"), (8, 99, 6), True),
        (Nest(t_blocks=4, groups=2, chunk=3, outer="l", keep="stream"), (12, 1, 6), False),
        (Nest(t_blocks=4, groups=2, chunk=3, outer="l", keep="stationary"), (99, 99, 18), True),
        (Nest(t_blocks=4, groups=2, chunk=3, outer="l", keep="stationary"), (1, 1, 19), False),
    ],
)
def test_what_is_kept_must_fit(nest, blocks, fits):
    assert (LIMITS.problem(nest, blocks) is None) == fits
    assert LIMITS.problem(nest) is None, "it is looked at where the sizes are known"


@pytest.mark.parametrize("keep, needs", [("stream", "8"), ("stationary", "56"), ("both", "8")])
def test_what_does_not_fit_in_words(keep, needs):
    small = replace(LIMITS, stream_blocks=7, stationary_blocks=55)
    operand, has = {"stationary": ("stationary", 55)}.get(keep, ("streaming", 7))
    assert small.problem(Nest(keep=keep), (1, 1, 1)) == (
        f"keep={keep} needs {needs} blocks of the {operand} operand in every bank, but a "
        f"bank has {has}; use keep=none, shorter tiles or another outer loop"
    )


def test_in_a_manifest():
    other = replace(LIMITS, t_blocks=(8,), groups=(1,), chunk=(2,), chunk_side=2)
    nests = ProductNests(forward=LIMITS, dx=other, dw=LIMITS)
    assert ProductNests.from_dict(nests.to_dict()) == nests
    assert nests.to_dict()["dx"] == {
        "t_blocks": [8], "groups": [1], "chunk": [2],
        "chunk_side": 2, "lane_side": 5, "stream_blocks": 20, "stationary_blocks": 90,
        "pass_blocks": 7,
    }  # fmt: skip
    assert nests.of("dx") == other
    assert nests.of("backward") is None
