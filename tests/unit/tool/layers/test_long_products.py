"""`estimate` of long products on presets in many formats, against a walk through all chunks."""

from math import prod

import pytest

from diastole.files.layers import NamedLayer
from diastole.layers.layer_costs import layer_costs, modelled
from diastole_sim.perf import estimate
from diastole_sim.spec.sizes.uses import WIDEST
from support.presets import in_format
from support.sweep import sweep

PRESETS = ("pico", "nano", "edge", "server")
FORMATS = ("bfp5", "fp8_e5m2", "mxfp8_e4m3", "mxfp4_e2m1", "nvfp4", "fast")
LONGEST = 5000
MAX_CYCLES = 120_000
"""Cycles of the array for a product whose chunks are all walked through."""
OF_CYCLES = 0.02


def drawn(rng, multipliers):
    """Return M, K and N of 1 to 5000 each, one of them of 300 at least."""
    while True:
        sizes = [round(2 ** rng.uniform(0, LONGEST.bit_length())) for _ in range(3)]
        sizes[rng.randrange(3)] = rng.randint(300, LONGEST)
        if max(sizes) <= LONGEST and prod(sizes) <= MAX_CYCLES * multipliers:
            return sizes


def against_a_whole_walk(preset, name, phase, sizes, widths=WIDEST):
    """Compare what a phase of a layer costs with a walk through every chunk of its loops."""
    config = in_format(preset, name)
    machine = modelled(config, 20)
    m, k, n = sizes
    layer = NamedLayer(name="layer", m=m, k=k, n=n)
    for cost in layer_costs(config, [layer], (phase,), 20, widths=widths):
        whole = estimate(machine, cost.phase, m, n, k, cost.nest, widths)
        where = f"{cost.phase} of {m} x {k} x {n}, {widths}, {cost.nest}"
        assert cost.cycles == pytest.approx(whole.cycles, rel=OF_CYCLES), where
        assert cost.multiplications <= cost.cycles * config.macs, where
        assert cost.estimate.read_bytes == whole.read_bytes, where
        assert cost.estimate.write_bytes == whole.write_bytes, where


@pytest.mark.parametrize("number", [0, *(sweep(number) for number in range(1, 8))])
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("preset", PRESETS)
def test_shapes_that_are_multiples_of_nothing(preset, name, number, rng):
    """The loops are those that the machine would take; no estimate exceeds the multipliers."""
    widths = tuple(rng.choice((2, 4)) for _ in range(3)) if name == "fast" else WIDEST
    for phase in rng.sample(("forward", "dx", "dw", "backward"), 2):
        sizes = drawn(rng, in_format(preset, name).macs)
        against_a_whole_walk(preset, name, phase, sizes, widths)


@pytest.mark.parametrize(
    "preset, name, phase, sizes",
    [
        ("edge", "bfp5", "forward", (66, 2643, 401)),
        ("server", "mxfp8_e4m3", "forward", (3363, 353, 111)),
        ("pico", "bfp5", "forward", (3147, 14, 18)),
        ("edge", "mxfp4_e2m1", "dx", (93, 294, 3083)),
        ("edge", "nvfp4", "forward", (113, 121, 2971)),
    ],
)
def test_shapes_with_a_short_last_tile(preset, name, phase, sizes):
    """A few whole tiles say little about these: the last one is short, or tiles begin at several
    places of a beat."""
    against_a_whole_walk(preset, name, phase, sizes)
