"""Long products from a few tiles, against a walk through all of them."""

from dataclasses import replace

import pytest

from diastole_sim.perf import ModelledMachine, estimate
from diastole_sim.perf.long import chunks_that_cover, estimate_long, sampled
from diastole_sim.perf.product import gradients_apart
from diastole_sim.perf.walk import loops_of
from diastole_sim.spec.nest import Nest

SQUARES = {"block": 8, "element_bits": (5, 5, 5)}
MACHINES = {
    "nano": ModelledMachine(rows=2, cols=2, data_width=128, **SQUARES),
    "edge": ModelledMachine(rows=6, cols=6, data_width=256, **SQUARES),
    "ports": ModelledMachine(rows=4, cols=4, data_width=256, ports=2, **SQUARES),
    "vectors": ModelledMachine(
        rows=2, cols=3, block=4, data_width=64, element_bits=(8, 8, 8), vectors=(32, 32, 32)
    ),
}
NESTS = ("", "t_blocks=4,groups=2,chunk=12,outer=l", "t_blocks=8,groups=1")


def near(found, whole):
    assert found.write_beats == whole.write_beats
    assert found.read_beats == pytest.approx(whole.read_beats, rel=0.005)
    assert found.cycles == pytest.approx(whole.cycles, rel=0.01)
    assert (found.op, found.fused) == (whole.op, whole.fused)
    assert (found.m, found.n, found.k) == (whole.m, whole.n, whole.k)
    assert sum(found.idle.values()) == pytest.approx(
        sum(whole.idle.values()), abs=0.01 * whole.cycles
    )


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("op", ["forward", "dx", "dw", "backward"])
@pytest.mark.sampled(3)
def test_long_products(name, op, rng):
    """Of one dimension or two that are long, with any rest."""
    machine = MACHINES[name]
    for _ in range(2):
        sizes = [int(2 ** rng.uniform(4, 6)) for _ in range(3)]
        sizes[rng.randrange(3)] = rng.randrange(600, 1600)
        nest = Nest.parse(rng.choice(NESTS))
        near(estimate_long(machine, op, *sizes, nest), estimate(machine, op, *sizes, nest))


@pytest.mark.parametrize("outer", ["t", "l"])
def test_operands_that_stay(outer):
    """Of a few blocks along the lanes and the contraction: W is loaded once."""
    machine, nest = MACHINES["nano"], Nest(t_blocks=8, groups=1, chunk=2, outer=outer, keep="held")
    found = estimate_long(machine, "forward", 5000, 30, 28, nest)
    near(found, estimate(machine, "forward", 5000, 30, 28, nest))
    again = estimate_long(machine, "forward", 5000, 30, 28, Nest(t_blocks=8, groups=1, chunk=2))
    assert found.read_beats < again.read_beats


def test_a_contraction_that_writes_wait_for():
    """With few chunks the writer is slower than the passes, with many it is not: the line is drawn
    where it is not."""
    machine, nest = MACHINES["nano"], Nest.parse("t_blocks=8,groups=2,chunk=2,outer=l,keep=held")
    loops = loops_of(machine, "forward", 90, 35, 1442, nest)
    assert chunks_that_cover(machine, loops) == 4  # 64 rows of 8 beats; two passes of 64 a chunk
    near(
        estimate_long(machine, "forward", 90, 35, 1442, nest),
        estimate(machine, "forward", 90, 35, 1442, nest),
    )


@pytest.mark.parametrize(
    "widths, chunks, fewest", [((2, 2, 2), 4, 12), ((4, 2, 2), 2, 4), ((4, 8, 2), 1, 4)]
)
def test_planes_take_longer_than_writes(widths, chunks, fewest, monkeypatch):
    """Two passes of 64 a chunk and pair of planes; so shorter contractions are looked at: of 92
    chunks at least two more, in step with beats of maxima, which 8 chunks fill."""
    machine = replace(MACHINES["nano"], widths=((2, 4, 8),) * 3)
    nest = Nest.parse("t_blocks=8,groups=2,chunk=2")
    loops = loops_of(machine, "forward", 90, 35, 1474, nest, widths)
    assert chunks_that_cover(machine, loops) == chunks
    seen = set()
    monkeypatch.setattr(
        "diastole_sim.perf.long.estimate",
        lambda machine, op, m, n, k, *rest, **more: (
            seen.add(k) or estimate(machine, op, m, n, k, *rest, **more)
        ),
    )
    estimate_long(machine, "forward", 90, 35, 1474, nest, widths)
    assert seen == {16 * fewest + 2, 16 * (fewest + 8) + 2}


def test_what_is_short_is_walked_through(monkeypatch):
    seen = []
    monkeypatch.setattr(
        "diastole_sim.perf.long.estimate",
        lambda machine, op, m, *rest, **more: (
            seen.append(m) or estimate(machine, op, m, *rest, **more)
        ),
    )
    machine = MACHINES["nano"]
    assert estimate_long(machine, "forward", 60, 50, 40) == estimate(machine, "forward", 60, 50, 40)
    assert len(seen) == 1
    estimate_long(machine, "forward", 6000, 50, 40, Nest(t_blocks=8))
    assert seen[1:] == [3 * 64 + 48, 5 * 64 + 48]  # two tiles of 8 blocks make a beat of maxima


@pytest.mark.parametrize(
    "size, blocks, samples",
    [
        (5000, 16, (2 * 128 + 8, 3 * 128 + 8)),  # 39 tiles and 8 elements
        (384, 16, (384,)),
        (385, 16, (385,)),  # three tiles: no more than are looked at
        (513, 16, (2 * 128 + 1, 3 * 128 + 1)),
        (10_000, 4, (4 * 32 + 16, 8 * 32 + 16)),  # 312 tiles: four of them are in step with beats
        (10_064, 4, (2 * 32 + 16, 6 * 32 + 16)),
    ],
)
def test_samples(size, blocks, samples):
    assert sampled(MACHINES["nano"], size, blocks) == samples


def test_gradients_that_do_not_fit_together_follow_each_other():
    machine = MACHINES["nano"]
    found = estimate_long(machine, "backward", 700, 700, 700)
    parts = [estimate_long(machine, op, 700, 700, 700) for op in ("dx", "dw")]
    assert found == gradients_apart(parts)
    assert found.cycles == sum(part.cycles for part in parts)
    assert found.macs == 2 * 700**3


@pytest.mark.parametrize("sizes", [(0, 5, 5), (5, 2**24, 5)])
def test_what_is_refused(sizes):
    with pytest.raises(ValueError, match="must be an integer in"):
        estimate_long(MACHINES["nano"], "forward", *sizes)
