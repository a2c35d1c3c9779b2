# amaranth: UnusedElaboratable=no
"""Which nest a command gets."""

import pytest

from diastole.config.presets import PRODUCTS_ONLY
from diastole_hw.top import Top
from diastole_sim.host.loops import ProductLoops
from diastole_sim.perf.choose import choose_nest
from diastole_sim.perf.modelled_machine import Memory, ModelledMachine
from diastole_sim.spec.nest import Nest
from support.products import MACHINES
from support.texts import exactly

CONFIG = PRODUCTS_ONLY["nano"]
PARAMETERS = Top(CONFIG.plan, config_hash=0).parameters
SIZES = {"m": 64, "n": 40, "k": 70}


def test_by_the_model():
    machine = ModelledMachine.of(CONFIG.numerics, rows=2, cols=2, data_width=128)
    loops = ProductLoops(PARAMETERS)
    limits = loops.limits
    assert limits == CONFIG.plan.nests
    for op in ("forward", "dx", "dw"):
        want = choose_nest(machine, limits.of(op), op, *SIZES.values())
        assert loops.of(op, **SIZES) == loops.of(op, **SIZES) == want
    assert loops.of("backward", **SIZES) == Nest()


def test_by_the_memory():
    """One that is far away takes larger tiles."""
    slow = Memory.axi(100)
    machine = ModelledMachine.of(CONFIG.numerics, rows=2, cols=2, data_width=128, memory=slow)
    chosen = [ProductLoops(PARAMETERS, memory=memory) for memory in (None, slow)]
    near, far = (loops.of("forward", m=64, n=64, k=64) for loops in chosen)
    assert far == choose_nest(machine, chosen[1].limits.of("forward"), "forward", 64, 64, 64)
    assert far != near


def test_by_the_cells():
    """What they and the memories take changes what is best for this product."""
    sizes = {"m": 24, "n": 40, "k": 100}
    rest = {"rows": 2, "cols": 2, "data_width": 128}
    found = []
    for cycles in (2, 16):
        machine = ModelledMachine.of(CONFIG.numerics, **rest, cell_cycles=cycles)
        loops = ProductLoops(PARAMETERS, cell_cycles=cycles)
        found.append(loops.of("forward", **sizes))
        limits = loops.limits.of("forward")
        assert found[-1] == choose_nest(machine, limits, "forward", *sizes.values())
    assert found[0] != found[1]


def test_as_it_is_asked_for():
    nest = Nest(t_blocks=4, groups=1, outer="l")
    loops = ProductLoops(PARAMETERS, nest)
    assert loops.of("dx", **SIZES) == nest
    with pytest.raises(
        ValueError, match=exactly("backward takes no nest: the loops of backward are fixed")
    ):
        loops.of("backward", **SIZES)
    loops.nest = Nest()
    assert loops.of("backward", **SIZES) == Nest()
    loops.nest = Nest(groups=5)
    said = "the nest of dw: groups must be one of 1, 2, 3, 4, not 5"
    with pytest.raises(ValueError, match=exactly(said)):
        loops.of("dw", **SIZES)


def test_gradients_in_one_pass_or_apart():
    """``nano`` keeps a dY of 512 x 512; with groups of vectors there is no such pass."""
    loops = ProductLoops(PARAMETERS)
    assert loops.products("dx", m=600, n=9) == ("dx",)
    assert loops.products("backward", m=512, n=512) == ("backward",)
    assert loops.products("backward", m=513, n=9) == ("dx", "dw")
    vectors = MACHINES["mxfp8_e4m3"]
    loops = ProductLoops(Top(vectors.plan, config_hash=0).parameters)
    assert loops.products("backward", m=1, n=1) == ("dx", "dw")


@pytest.mark.parametrize("wrong", [{}, PARAMETERS | {"nests": {"forward": 3}}])
def test_no_manifest(wrong):
    with pytest.raises((KeyError, TypeError, ValueError, AttributeError)):
        ProductLoops(wrong)


def test_gradients_of_planes_in_one_pass_or_apart():
    """A dY of as many planes takes so many times the room; W's planes have parts of half a bank."""
    config = MACHINES["fast_2x2"]
    plan, loops = config.plan, ProductLoops(Top(config.plan, config_hash=0).parameters)
    m, n = plan.fused_blocks_m * plan.block, plan.fused_blocks_n * plan.block
    for dy, w in ((2, 2), (4, 2), (2, 4), (4, 4)):
        most_m = plan.fused_slices_m // (dy // 2) * plan.cols * plan.block
        most_n = n // (w // 2)
        widths = (2, w, dy)
        for over_m, over_n in ((0, 0), (1, 0), (0, 1)):
            found = loops.products("backward", m=most_m + over_m, n=most_n + over_n, widths=widths)
            assert (found == ("backward",)) == (over_m == over_n == 0), (dy, w)
    assert (most_m, most_n) == (m // 2, n // 2)


def test_what_is_kept_of_planes():
    """Twice the planes, twice the room."""
    config = MACHINES["fast_2x2"]
    loops = ProductLoops(Top(config.plan, config_hash=0).parameters, Nest(keep="stream"))
    limits = loops.limits.forward
    slab, _ = limits.slabs(Nest())
    chunks = limits.stream_blocks // slab
    k = chunks * limits.chunk[-1] * config.plan.block
    narrow, wide = (2, 2, 2), (4, 2, 2)
    assert loops.of("forward", m=9, n=9, k=k, widths=narrow).keep == "stream"
    said = (
        "the nest of forward: keep=stream needs 512 blocks of the streaming operand in "
        "every bank, but a bank has 256; use keep=none, shorter tiles or another outer "
        "loop"
    )
    with pytest.raises(ValueError, match=exactly(said)):
        loops.of("forward", m=9, n=9, k=k, widths=wide)
