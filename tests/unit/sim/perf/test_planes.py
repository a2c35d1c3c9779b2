"""Products of planes: what is loaded when, and what they cost beside those of one plane."""

import random
from dataclasses import replace

import pytest

from diastole_sim.perf import estimate
from diastole_sim.perf.choose import candidates, choose_nest, closed_form_cost
from diastole_sim.perf.chunk_walk import NOTHING, WalkedProduct, every_chunk, loops_of
from diastole_sim.perf.long import estimate_long
from diastole_sim.spec.nest import Nest, NestLimits
from diastole_sim.spec.part import ProductPart
from support.modelled import modelled

SIZES = {"rows": 2, "cols": 2, "block": 8, "element_bits": (3, 3, 3), "data_width": 64}
ONE = modelled(**SIZES)
FAST = modelled(**SIZES, widths=(2, 4, 6, 8))
MACHINES = {
    "nano": (ONE, modelled(**SIZES, widths=(2, 4))),
    "vectors": tuple(
        modelled(**SIZES | {"data_width": 128}, vectors=(16, 16, 16), widths=widths)
        for widths in (None, (2, 4))
    ),
    "edge": tuple(modelled(**SIZES, in_place=False, widths=widths) for widths in (None, (2, 4))),
}
LIMITS = NestLimits(
    t_blocks=(1, 2, 4, 8, 16), groups=(1, 2, 3, 4), chunk=(2, 4, 6, 8),
    chunk_side=2, lane_side=2, stream_blocks=256, stationary_blocks=2048, pass_blocks=2,
)  # fmt: skip
"""Of a product whose sums leave to the east."""
FACTORS = {"forward": "xw", "dx": ("dy", "w"), "dw": ("x", "dy")}
NAMES = ("x", "w", "dy")


def widths_of(op, streams, helds):
    """With so many planes of what streams and is held, and one of the third tensor."""
    planes = dict(zip(FACTORS[op], (streams, helds), strict=True))
    return tuple(2 * planes.get(name, 1) for name in NAMES)


# The order of loading.


@pytest.mark.parametrize(
    "keep, loads, frees",
    [  # of what streams, of what is held: pairs 00 10 20 01 11 21 of two chunks, in two T tiles
        ("none", ("111000" * 4, "100100" * 4), ("000111" * 4, "001001" * 4)),
        (
            "stationary",
            ("111000" * 4, "100100" * 2 + "0" * 12),
            ("000111" * 4, "0" * 12 + "001001" * 2),
        ),
        ("stream", ("111000" * 4, "100100" * 4), ("000111" * 4, "001001" * 4)),  # of one lane tile
    ],
)
def test_pairs_of_planes_are_the_innermost_loops(keep, loads, frees):
    """200 x 64 x 100: 25 blocks in tiles of 16, 8 lanes, 13 of the contraction in chunks of 8; X of
    three planes, W of two."""
    loops = loops_of(FAST, "forward", 200, 64, 100, Nest(keep=keep), (6, 4, 2))
    assert loops.planes == (3, 2)
    assert loops.slabs == loops_of(ONE, "forward", 200, 64, 100).slabs
    chunks = list(every_chunk(WalkedProduct(FAST, loops)))
    for said, want in (("loads", loads), ("frees", frees)):
        got = zip(*(getattr(chunk, said) for chunk in chunks), strict=True)
        assert tuple("".join(map(str, map(int, each))) for each in got) == want
    whole = list(every_chunk(WalkedProduct(ONE, loops_of(ONE, "forward", 200, 64, 100))))
    for number, chunk in enumerate(chunks):
        alike = whole[number // 6]  # the chunk of one plane: its rectangles, but not its maxima
        want = [alike.regions[-2:][not held] if there else NOTHING
                for held, there in ((1, chunk.loads[1]), (0, chunk.loads[0]))]  # fmt: skip
        assert list(chunk.regions[-2:]) == want
        assert (chunk.slots, chunk.slices, chunk.groups, chunk.uses) == (
            alike.slots, alike.slices, alike.groups, alike.uses,
        )  # fmt: skip
        maxima = chunk.regions[:-2]
        assert maxima == (whole[number // 6].regions[:-2] if number % 6 == 0 else ())
    of_tile = ["1" + 11 * "0", 11 * "0" + "1"]
    for said, want in (("first", of_tile[0]), ("last", of_tile[1])):
        assert "".join(str(int(getattr(chunk, said))) for chunk in chunks) == want * 2
    assert [chunk.opens[0] for chunk in chunks] == [chunk.first for chunk in chunks]
    assert [chunk.closes[0] for chunk in chunks] == [chunk.last for chunk in chunks]
    assert [bool(chunk.spans[0]) for chunk in chunks] == [chunk.last for chunk in chunks]


# Bytes.


@pytest.mark.parametrize("streams, helds", [(1, 1), (2, 1), (1, 3), (2, 4)])
@pytest.mark.parametrize("outer", ["t", "l"])
@pytest.mark.parametrize("keep", ["none", "stream", "stationary", "both"])
@pytest.mark.sampled(3)
def test_bytes_of_nests_in_closed_form(outer, keep, streams, helds):
    """128 x 192 x 128: 2 T tiles of 8 blocks, 6 lane tiles of 4, 2 chunks of 8. A row of what
    streams is a whole group of 8 blocks of 192 bits, 1 + 24 beats; one of what is held half of it,
    1 + 12 beats. Each tile has a beat of maxima of either."""
    nest = Nest(t_blocks=8, groups=2, chunk=8, outer=outer, keep=keep)
    widths = widths_of("forward", streams, helds)
    found = estimate(FAST, "forward", 128, 192, 128, nest, widths)
    stream_tiles = 2 if keep in ("stream", "both") else 2 * 6
    held_tiles = 6 if keep in ("stationary", "both") else 2 * 6
    beats = 2 * (streams * stream_tiles * 8 * 25 + helds * held_tiles * 8 * 13) + 2 * 6 * 2
    assert found.read_beats == beats
    assert found.write_beats == 128 * 192 * 4 // 8
    assert found.slots == streams * helds * estimate(ONE, "forward", 128, 192, 128, nest).slots


@pytest.mark.parametrize("widths", [(2, 2, 2), (4, 2, 6), (2, 6, 4)])
def test_the_fused_pass_reads_each_plane_once_a_tile(widths):
    """64 x 48 x 40: 8, 6 and 5 blocks, 3 k tiles; 1 + 6 beats of two blocks of X and 1 + 3 of one,
    1 + 18 of a row of W and of dY. Maxima of 8 blocks or fewer are a beat: X and W of each k tile,
    dY's of rows and columns once."""
    found = estimate(FAST, "backward", 64, 48, 40, widths=widths)
    assert found.fused
    x, w, dy = (width // 2 for width in widths)
    assert found.read_beats == x * 8 * (7 + 7 + 4) + w * 5 * 19 + dy * 8 * 19 + 2 * 3 + 2


def test_parts_read_what_is_theirs():
    """Two machines that share M: each reads its rows of X, and W for the tiles that it has."""
    whole = estimate(FAST, "forward", 512, 64, 64, widths=(6, 4, 2))
    bounds = [ProductPart(axis="m", index=index, count=2).bounds(512, 8) for index in range(2)]
    assert bounds == [(0, 256), (256, 512)]
    parts = [
        estimate(FAST, "forward", last - first, 64, 64, widths=(6, 4, 2)) for first, last in bounds
    ]
    assert sum(part.read_beats for part in parts) == whole.read_beats
    assert all(0.5 < part.cycles / whole.cycles < 0.55 for part in parts)


# Cycles.


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("op", FACTORS)
@pytest.mark.parametrize("streams, helds", [(1, 1), (2, 1), (1, 2), (2, 2)])
@pytest.mark.sampled(3)
def test_time_grows_with_passes(name, op, streams, helds):
    """Of 512 x 512 x 512, within 1 %; of one plane it is to the cycle that of bfp2."""
    one, fast = MACHINES[name]
    widths = widths_of(op, streams, helds)
    alone = estimate(one, op, 512, 512, 512)
    for found in (
        estimate(fast, op, 512, 512, 512, widths=widths),
        estimate_long(fast, op, 512, 512, 512, widths=widths),
    ):
        assert found.cycles == pytest.approx(streams * helds * alone.cycles, rel=0.01)
        assert found.slots == streams * helds * alone.slots
        assert found.utilisation == pytest.approx(alone.utilisation, rel=0.01)
    if streams == helds == 1:
        assert estimate(fast, op, 512, 512, 512, widths=widths) == alone


@pytest.mark.parametrize("widths", [(2, 2, 2), (4, 2, 2), (2, 4, 2), (2, 2, 4), (4, 4, 4)])
def test_time_of_the_fused_pass(widths):
    """With each plane of dY those of X, 16 slots a pass, stream beside those of W: either alone
    takes as long as blocks are loaded, 16 cycles, so that nothing is lost."""
    one, fast = MACHINES["nano"]
    x, w, dy = (width // 2 for width in widths)
    alone = estimate(one, "backward", 256, 256, 512)
    found = estimate(fast, "backward", 256, 256, 512, widths=widths)
    assert found.fused
    assert found.slots == dy * (x + w) * alone.slots // 2
    assert found.cycles == pytest.approx(dy * (x + w) / 2 * alone.cycles, rel=0.01)


@pytest.mark.parametrize("op", ["forward", "dx", "dw", "backward"])
def test_long_products_of_planes(op):
    rng = random.Random(op)
    for widths in ((4, 4, 4), (2, 6, 4), (8, 2, 2)):
        sizes = [rng.randrange(20, 70) for _ in range(3)]
        sizes["mkn".index({"forward": "m", "dx": "m", "dw": "k", "backward": "k"}[op])] = 900
        m, k, n = sizes
        found, whole = (
            function(FAST, op, m, n, k, widths=widths) for function in (estimate_long, estimate)
        )
        assert (found.fused, found.passes) == (whole.fused, whole.passes)
        assert found.write_beats == whole.write_beats
        assert found.read_beats == pytest.approx(whole.read_beats, rel=0.005)
        assert found.cycles == pytest.approx(whole.cycles, rel=0.01)


def test_planes_that_do_not_fit_together_are_two_products():
    """32 slabs of dY's slices hold 16 of two planes: 256 elements."""
    for function in (estimate, estimate_long):
        found = [
            function(FAST, "backward", m, 40, 24, widths=widths)
            for m, widths in ((256, (4, 2, 4)), (257, (4, 2, 4)), (257, (4, 2, 2)))
        ]
        assert [each.fused for each in found] == [True, False, True]
        assert [each.passes for each in found] == [3, 3, 1.5]


def test_loads_that_are_not_hidden_bring_all_planes():
    """Of what streams, which those of what is held need one after the other."""
    one, fast = (replace(each, max_places=1) for each in (ONE, FAST))
    alone = estimate(one, "forward", 512, 512, 512)
    found = estimate(fast, "forward", 512, 512, 512, widths=(4, 6, 2))
    assert alone.utilisation < 0.9
    assert found.slots == 6 * alone.slots
    assert found.slots < found.cycles < 6 * alone.cycles, "planes come while others are multiplied"


# The choice of loops.


def test_nests_keep_what_fits_with_all_planes():
    """Of 32 blocks of M and 8 of the contraction: panels of 4 x 16 blocks that stream, of 256; with
    more planes than four none of the longest tiles may be kept."""
    blocks = (32, 8, 32)
    for planes in ((1, 1), (4, 1), (4, 4)):
        found = list(candidates(LIMITS, blocks, planes))
        assert found
        for nest in found:
            panels = LIMITS.panels(nest, blocks, planes)
            assert LIMITS.problem(nest, blocks, planes) is None
            assert not nest.keeps_stream or panels[0] <= 256
    kept = [
        sum(nest.keeps_stream for nest in candidates(LIMITS, blocks, (count, 1)))
        for count in (1, 2, 4)
    ]
    assert kept[0] > kept[1] > kept[2]


@pytest.mark.parametrize("op", ["forward", "dw"])
@pytest.mark.parametrize("planes", [(2, 1), (1, 2), (2, 2), (4, 4)])
@pytest.mark.sampled(4)
def test_the_choice_is_near_the_best_of_some(op, planes, rng):
    """Within 1 % in the mean of the best of a sample, and never behind the machine's own."""
    losses = []
    for _ in range(2):
        sizes = [int(2 ** rng.uniform(3, 6.5)) for _ in range(3)]
        widths = widths_of(op, *planes)
        chosen = choose_nest(FAST, LIMITS, op, *sizes, widths)
        loops = loops_of(FAST, op, *sizes, widths=widths)
        assert LIMITS.problem(chosen, loops.blocks, planes) is None
        cycles = estimate(FAST, op, *sizes, chosen, widths).cycles
        assert cycles <= 1.007 * estimate(FAST, op, *sizes, widths=widths).cycles
        some = rng.sample(list(candidates(LIMITS, loops.blocks, planes)), 20)
        best = min(estimate(FAST, op, *sizes, nest, widths).cycles for nest in some)
        losses.append(cycles / min(cycles, best) - 1)
    assert sum(losses) / len(losses) <= 0.01, losses


@pytest.mark.parametrize("planes", [(1, 1), (2, 1), (1, 3), (2, 2)])
def test_closed_form_of_a_large_product(planes):
    """Which no model is asked for: work and beats of all planes."""
    widths = widths_of("forward", *planes)
    sizes = (2048, 1024, 1024)
    nest = Nest(t_blocks=16, groups=4, chunk=8)
    cost = closed_form_cost(FAST, loops_of(FAST, "forward", *sizes, nest, widths))
    found = estimate_long(FAST, "forward", *sizes, nest, widths)
    assert cost.cycles == pytest.approx(found.cycles, rel=0.03)
    assert cost.beats == pytest.approx(found.read_beats, rel=0.02)  # it leaves out maxima
