"""Costs: bits and cycles of a small step worked out by hand, areas as they were measured."""

from fractions import Fraction

import pytest

from diastole.compare.costs import Cost, cost_of, moved_bits, step_cycles
from diastole.config.file import from_document
from diastole.layers.layer_costs import modelled
from diastole_sim.perf.long import estimate_long
from diastole_sim.train.network import LayerShape

SHAPES = [
    LayerShape(m=64, k=32, n=16, input_gradient=False),
    LayerShape(m=64, k=16, n=8, input_gradient=True),
]
X, W, DY = [2048, 1024], [512, 128], [1024, 512]
"""Elements of each layer."""


def config(**formats):
    return from_document({"format": formats} | {"array": {"block": 8}})


def all_of(name):
    return config(x=name, w=name, dy=name)


def test_bits_of_squares_and_of_two_copies():
    """4 bits and a sign, a byte for 64; MXFP8 in both copies, a byte for 32 in each."""
    assert moved_bits(all_of("bfp4").numerics, SHAPES, {}) == 5 + 8 / 64
    assert moved_bits(all_of("mxfp8_e4m3").numerics, SHAPES, {}) == 2 * (8 + 8 / 32)


def test_bits_of_a_mixture_are_by_elements():
    mixed = config(x="bfp4", w="bfp8", dy="bfp2")
    bits = [Fraction(41, 8), Fraction(73, 8), Fraction(25, 8)]
    counts = [sum(X), sum(W), sum(DY)]
    want = sum(b * n for b, n in zip(bits, counts, strict=True)) / sum(counts)
    assert moved_bits(mixed.numerics, SHAPES, {}) == pytest.approx(float(want))


def test_bits_of_planes_hang_on_the_widths():
    """A plane has 3 bits and its exponents; widths that were not said are the widest."""
    fast = all_of("fast").numerics
    plane = 3 + 8 / 64
    assert moved_bits(fast, SHAPES, {}) == pytest.approx(2 * plane)
    names = [f"layer{layer}.{name}" for layer in (0, 1) for name in ("X", "W", "dY")]
    assert moved_bits(fast, SHAPES, dict.fromkeys(names, 2.0)) == pytest.approx(plane)
    one = moved_bits(fast, SHAPES, dict.fromkeys(names, 2.0) | {"layer0.X": 3.0})
    elements = sum(X) + sum(W) + sum(DY)
    assert one == pytest.approx(plane + X[0] / 2 * plane / elements)


def test_cycles_are_those_of_all_products_and_conversions():
    """The model once more, product by product: layer 0 asks for no dX."""
    machine = all_of("bfp4")
    model = modelled(machine, 20)
    parts = {"forward": SHAPES, "dw": SHAPES[:1], "backward": SHAPES[1:]}
    least = sum(
        estimate_long(model, op, each.m, each.n, each.k).macs / machine.macs
        for op, layers in parts.items()
        for each in layers
    )
    cycles = step_cycles(machine, SHAPES)
    alone = [step_cycles(machine, [each]) for each in SHAPES]
    assert cycles == sum(alone)
    assert cycles > least
    dx_too = LayerShape(m=64, k=32, n=16, input_gradient=True)
    assert step_cycles(machine, [dx_too]) > alone[0]


def test_cycles_of_planes_hang_on_the_widths():
    """A tensor that has 4 bits every fourth time: a quarter of the way from 2 to 4."""
    fast, layer = all_of("fast"), SHAPES[1:]
    names = ("layer0.X", "layer0.W", "layer0.dY")

    def cycles(*means):
        return step_cycles(fast, layer, dict(zip(names, means, strict=True)))

    low, wide, all_wide = cycles(2.0, 2.0, 2.0), cycles(4.0, 2.0, 2.0), cycles(4.0, 4.0, 4.0)
    assert low < wide < all_wide == step_cycles(fast, layer)
    assert cycles(2.5, 2.0, 2.0) == pytest.approx(low + (wide - low) / 4, abs=1)
    assert abs(low - step_cycles(all_of("bfp2"), layer)) < 0.02 * low


def test_no_cycles_without_such_a_machine(monkeypatch):
    from diastole.errors import BadInput

    def refuse(*given, **options):
        raise BadInput("no hardware yet")

    monkeypatch.setattr("diastole.compare.costs.layer_costs", refuse)
    found = cost_of(all_of("bfp4"), SHAPES, passes=1.0, widths={})
    assert found.cycles_per_step is None
    assert found.area_per_mac_nand2 == pytest.approx(382, abs=1)


def test_area_times_passes():
    given = {"bits_per_element": 3.0, "elements": 7, "macs": 11, "cycles_per_step": None}
    cost = Cost(area_per_mac_nand2=200.0, passes=1.5, **given)
    assert (cost.area_passes, cost.area_time, cost.bits) == (300, 3300, 21)
    cost = Cost(area_per_mac_nand2=None, passes=1.5, **given)
    assert cost.area_passes is cost.area_time is None


def test_the_size_of_a_step():
    """X W and X^T dY of both layers, and dY W^T of the second."""
    found = cost_of(all_of("bfp4"), SHAPES, passes=1.0, widths={})
    assert found.macs == 2 * 64 * 32 * 16 + 3 * 64 * 16 * 8
    assert found.elements == sum(X) + sum(W) + sum(DY)
