"""Long products, of which what repeats is passed over, against a walk through all of them."""

from math import prod

import pytest

from diastole_sim.perf import Memory, estimate
from diastole_sim.perf import long as unit
from diastole_sim.perf.chunk_walk import WalkedProduct, loops_of
from diastole_sim.perf.fused import FusedWalk
from diastole_sim.perf.long import estimate_long
from diastole_sim.perf.product_estimate import gradients_apart
from diastole_sim.perf.product_run import ProductRun
from diastole_sim.spec.nest import Nest
from support.modelled import modelled
from support.sweep import sweep

SQUARES = {"block": 8, "element_bits": (5, 5, 5)}
MACHINES = {
    "pico": modelled(rows=1, cols=1, block=4, data_width=32, element_bits=(5, 5, 5)),
    "nano": modelled(rows=2, cols=2, data_width=128, **SQUARES),
    "edge": modelled(rows=6, cols=6, data_width=256, **SQUARES),
    "server": modelled(rows=16, cols=16, data_width=512, ports=2, **SQUARES),
    "far": modelled(
        rows=2, cols=2, data_width=64, memory=Memory.axi(400), has_vector=False, **SQUARES
    ),
    "vectors": modelled(
        rows=2, cols=3, block=4, data_width=64, element_bits=(8, 8, 8), vectors=(32, 32, 32)
    ),
}
NESTS = (
    "", "t_blocks=4,groups=2,chunk=12,outer=l", "t_blocks=8,groups=1",
    "t_blocks=16,groups=4,chunk=2",
)  # fmt: skip
OPERATIONS = ("forward", "dx", "dw", "backward")
MAX_CYCLES = 300_000
"""Of the multiplications for each multiplier of a product that is walked through."""


def near(found, whole):
    """Beats and slots are those of the whole, and every cycle has a name."""
    where = f"{found.op} {found.m} x {found.k} x {found.n}: {found.cycles} for {whole.cycles}"
    assert found.cycles == pytest.approx(whole.cycles, rel=0.02), where
    assert found.cycles >= found.slots, where
    assert found.utilisation <= 1, where
    for name in ("op", "fused", "m", "n", "k", "slots", "read_beats", "write_beats", "passes"):
        assert getattr(found, name) == getattr(whole, name), f"{name} of {where}"
    for each in (found, whole):
        assert each.slots + sum(each.waits.values()) == each.cycles
        assert each.slots + sum(each.idle.values()) == each.cycles
    for name, cycles in whole.waits.items():
        assert abs(found.waits[name] - cycles) <= 0.02 * whole.cycles + 4, f"{name} of {where}"


def sides(rng, machine, most=5000):
    """Of any length, one of them not short, as far as there is time to walk through all."""
    while True:
        found = [round(2 ** rng.uniform(0, most.bit_length())) for _ in range(3)]
        found[rng.randrange(3)] = rng.randrange(300, most)
        if prod(found) <= MAX_CYCLES * machine.macs and max(found) <= most:
            return found


@pytest.mark.parametrize("number", [0, *(sweep(number) for number in range(1, 12))])
@pytest.mark.parametrize("op", OPERATIONS)
@pytest.mark.parametrize("name", MACHINES)
def test_long_products(name, op, number, rng):
    """In the machine's own loops, or others."""
    machine = MACHINES[name]
    sizes, nest = sides(rng, machine), Nest.parse(rng.choice(NESTS))
    near(estimate_long(machine, op, *sizes, nest), estimate(machine, op, *sizes, nest))


@pytest.mark.parametrize("outer", ["t", "l"])
def test_operands_that_stay(outer):
    """Of a few blocks along the lanes and the contraction: W is loaded once."""
    machine, nest = (
        MACHINES["nano"],
        Nest(t_blocks=8, groups=1, chunk=2, outer=outer, keep="stationary"),
    )
    found = estimate_long(machine, "forward", 5000, 30, 28, nest)
    near(found, estimate(machine, "forward", 5000, 30, 28, nest))
    again = estimate_long(machine, "forward", 5000, 30, 28, Nest(t_blocks=8, groups=1, chunk=2))
    assert found.read_beats < again.read_beats


@pytest.mark.parametrize(
    "op, m, k, n, nest, slots",
    [
        # 25 chunks of the contraction of 16 elements, 147 = 128 + 19 vectors by 4 groups: a tile of
        # 19 vectors is over before the one of 128 has been written.
        ("dw", 3136, 147, 64, "t_blocks=16,groups=4,chunk=2,keep=stationary", 196 * (128 + 19) * 4),
        (
            "forward",
            784,
            1152,
            128,
            "t_blocks=16,groups=4,chunk=8,outer=l,keep=stationary",
            72 * 784 * 8,
        ),
    ],
)
def test_a_last_tile_that_is_short(op, m, k, n, nest, slots):
    """No vector enters the array before the one in front of it."""
    found = estimate_long(MACHINES["nano"], op, m, n, k, Nest.parse(nest))
    assert found.slots == slots
    assert slots <= found.cycles <= 1.01 * slots


def test_addresses_that_grow(rng):
    """Of 1884 chunks of three rows and 35 columns: loading waits for addresses of up to 11 bits,
    each of which takes a cycle."""
    machine = modelled(rows=1, cols=1, block=4, data_width=128, element_bits=(3, 3, 3))
    nest = Nest.parse("t_blocks=8,groups=8,chunk=2")
    found, whole = (each(machine, "dw", 7536, 35, 3, nest) for each in (estimate_long, estimate))
    near(found, whole)
    assert found.cycles == pytest.approx(whole.cycles, rel=0.002)


def chunks_walked(monkeypatch, *arguments):
    """How many chunks a long product walks through."""
    walked, chunk = [], ProductRun.chunk
    monkeypatch.setattr(
        ProductRun, "chunk", lambda self, each: walked.append(each) or chunk(self, each)
    )
    estimate_long(*arguments)
    monkeypatch.undo()
    return len(walked)


def test_time_hardly_grows(monkeypatch):
    """The largest product has 4096 times the chunks of the smallest one, of which few are walked
    through."""
    machine = MACHINES["nano"]
    chunks = [
        chunks_walked(monkeypatch, machine, "forward", *(32 * size,) * 3) for size in (32, 128, 512)
    ]
    assert max(chunks) < 300, chunks
    # A fused pass of 65 536 tiles and 7 slices, whose addresses have up to 17 bits.
    assert chunks_walked(monkeypatch, machine, "backward", 100, 100, 1 << 20) < 17 * 7 * 20


@pytest.mark.parametrize("sizes, count", [((2048, 512, 512), 16 * 8 * 8), ((128, 64, 8192), 128)])
def test_few_chunks_are_all_walked_through(sizes, count, monkeypatch):
    """Up to 128, which no state of the machine is looked at for."""
    m, n, k = sizes
    walked = chunks_walked(monkeypatch, MACHINES["nano"], "forward", m, n, k)
    assert (walked == count) == (count <= 128)


def test_nothing_is_passed_over_that_differs(monkeypatch):
    """Where no state is like another one all chunks are walked through, to the same end."""
    machine, sizes = MACHINES["nano"], (400, 300, 2000)
    whole = estimate(machine, "forward", *sizes)
    monkeypatch.setattr(unit.Moment, "near", lambda *_: False)
    chunks = 4 * 5 * 32
    assert chunks_walked(monkeypatch, machine, "forward", *sizes) == chunks
    monkeypatch.setattr(unit.Moment, "near", lambda *_: False)
    assert estimate_long(machine, "forward", *sizes).cycles == pytest.approx(whole.cycles, abs=20)


@pytest.mark.parametrize("op", OPERATIONS)
def test_beats_of_maxima(op):
    """Those of what is passed over are counted one by one: tiles begin anywhere in their beats."""
    for name in ("edge", "vectors"):
        machine = MACHINES[name]
        m, n, k = 300, 90, 700
        found = estimate_long(machine, op, m, n, k, Nest(t_blocks=4, groups=1))
        whole = estimate(machine, op, m, n, k, Nest(t_blocks=4, groups=1))
        assert found.read_beats == whole.read_beats


def test_maxima_of_a_walk():
    """Of 20 blocks in tiles of 4, and 5 in tiles of 2, a byte each in beats of 4: each tile has a
    beat along 5 steps of one, and 3 of the other."""
    machine = modelled(rows=1, cols=1, block=4, data_width=32, element_bits=(5, 5, 5))
    loops = loops_of(machine, "forward", 80, 20, 100, Nest(t_blocks=4, groups=2))
    assert WalkedProduct(machine, loops).maxima_beats == 5 * 3 + 3 * 5
    # 3 blocks of M and 2 of N, a beat each, and 25 of K in tiles of 4, for X and for W.
    assert machine.fused_tile_blocks == 4
    assert FusedWalk(machine, (10, 7, 100)).maxima_beats == 1 + 1 + 2 * 7


def test_gradients_that_do_not_fit_together_follow_each_other():
    machine = MACHINES["nano"]
    found = estimate_long(machine, "backward", 700, 700, 700)
    parts = [estimate_long(machine, op, 700, 700, 700) for op in ("dx", "dw")]
    assert found == gradients_apart(parts)
    assert found.cycles == sum(part.cycles for part in parts)
    assert found.macs == 2 * 700**3
