"""Loops as data: every tile and every chunk once, in the order that is said."""

import pytest

from diastole_sim.perf.planned import PlannedNest


@pytest.mark.parametrize("outer", ["t", "l"])
def test_every_tile_once(outer):
    nest = PlannedNest(t_blocks=4, groups=2, chunk=8, outer=outer)
    tiles = list(nest.tiles(10, 13, 6))
    assert sorted(tiles) == [(t, lane) for t in (0, 4, 8) for lane in (0, 6, 12)]
    assert tiles[1] == ((0, 6) if outer == "t" else (4, 0))


@pytest.mark.parametrize(
    "chunk, blocks, side, want",
    [
        (8, 20, 2, [(0, 2), (2, 6), (8, 8), (16, 4)]),
        (8, 1, 2, [(0, 1)]),
        (6, 13, 6, [(0, 6), (6, 6), (12, 1)]),
    ],
)
def test_the_first_chunk_is_a_slice(chunk, blocks, side, want):
    assert list(PlannedNest(t_blocks=1, groups=1, chunk=chunk).chunks(blocks, side)) == want


def test_fused_passes_go_slice_by_slice():
    nest = PlannedNest(t_blocks=2, groups=3, chunk=6, keep_b=True, fused=True)
    assert list(nest.chunks(13, 6)) == [(0, 6), (6, 6), (12, 1)]


def test_text():
    assert str(PlannedNest(t_blocks=2, groups=1, chunk=8, keep_a=True)) == "t>l T2 G1 c8 keep A"
    fused = PlannedNest(t_blocks=2, groups=4, chunk=2, outer="l", keep_b=True, fused=True)
    assert str(fused) == "l>t T2 G4 c2 keep B fused"


@pytest.mark.parametrize(
    "keys, message",
    [
        ({"t_blocks": 0}, "t_blocks must be an integer in"),
        ({"groups": -1}, "groups must be an integer in"),
        ({"outer": "c"}, "outer must be one of t, l, not 'c'"),
    ],
)
def test_errors(keys, message):
    with pytest.raises(ValueError, match=message):
        PlannedNest(**{"t_blocks": 1, "groups": 1, "chunk": 1} | keys)
