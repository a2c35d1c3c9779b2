"""Parts of an operation: what they are called, where they begin and end, what is refused."""

from itertools import pairwise

import pytest

from diastole_sim.spec.operations import DY, OPERATIONS, W, X
from diastole_sim.spec.part import ProductPart, free_axes, require_free, unit_of
from support.stored import make_numerics


def test_a_part_reads_what_it_says():
    part = ProductPart(axis="k", index=2, count=5)
    assert str(part) == "k,2,5"
    assert ProductPart.parse(str(part)) == ProductPart.parse(" K, 2 ,5") == part


@pytest.mark.parametrize(
    "size, unit, count", [(1, 1, 1), (17, 4, 3), (64, 8, 8), (65, 8, 4), (9, 1, 7)]
)
def test_parts_follow_each_other_and_differ_by_a_unit(size, unit, count):
    bounds = [ProductPart(axis="m", index=n, count=count).bounds(size, unit) for n in range(count)]
    assert bounds[0][0] == 0
    assert bounds[-1][1] == size
    assert all(a[1] == b[0] for a, b in pairwise(bounds))
    units = [-(-(last - first) // unit) for first, last in bounds]
    assert all(first % unit == 0 for first, _ in bounds)
    assert units == sorted(units, reverse=True)
    assert max(units) - min(units) <= 1
    assert min(units) >= 1


def test_what_is_summed_over_is_not_parted():
    free = {name: free_axes(operation) for name, operation in OPERATIONS.items()}
    assert free == {"forward": ("m", "n"), "dx": ("m", "k"), "dw": ("n", "k"), "backward": ("k",)}
    require_free(ProductPart.parse("k,0,2"), OPERATIONS["backward"])


def test_groups_stay_together():
    squares = make_numerics("bfp4", block=8)
    assert unit_of("m", (X, W), squares) == 8
    mixed = make_numerics(("bfp4", "1x32"), "bfp4", ("bfp4", "1x16"), block=8)
    assert unit_of("k", (X, W), mixed) == 32
    assert unit_of("n", (X, W), mixed) == 8
    assert unit_of("m", (X, DY), mixed) == 32
    assert unit_of("n", (W, DY), mixed) == 16
