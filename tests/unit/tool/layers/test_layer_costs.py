"""Costs of layers: sums, names of what binds, and products that the model is asked for."""

import re
from types import SimpleNamespace

import pytest

from diastole.config.presets import PRODUCTS_ONLY
from diastole.files.layers import NamedLayer
from diastole.layers import layer_costs as unit
from diastole.layers.layer_costs import LayerCost, layer_costs, modelled, total, usual_use
from diastole_sim.perf import Memory, estimate
from diastole_sim.perf.conversion_estimate import estimate_conversion
from diastole_sim.spec.nest import Nest
from support.presets import in_format

NANO = PRODUCTS_ONLY["nano"]
LAYERS = [
    NamedLayer(name="a", m=64, k=48, n=40, repeats=3),
    NamedLayer(name="b", m=700, k=20, n=600),
    NamedLayer(name="again", m=64, k=48, n=40),
]


def test_every_phase_of_every_layer():
    """Gradients that do not fit the fused pass are two products."""
    costs = layer_costs(NANO, LAYERS, ("forward", "backward"), 20)
    assert [(cost.name, cost.phase) for cost in costs] == [
        ("a", "forward"), ("a", "backward"), ("b", "forward"), ("b", "dx"), ("b", "dw"),
        ("again", "forward"), ("again", "backward"),
    ]  # fmt: skip
    machine = modelled(NANO, 20)
    for cost in costs:
        found = estimate(
            machine, cost.phase, cost.estimate.m, cost.estimate.n, cost.estimate.k, cost.nest
        )
        assert cost.estimate == found or cost.estimate.cycles == pytest.approx(
            found.cycles, rel=0.01
        )
    assert costs[0].estimate == costs[5].estimate
    assert (costs[0].cycles, costs[0].macs) == (3 * costs[5].cycles, 3 * 64 * 48 * 40)


def test_passes_of_planes():
    """Of W in 2 bits and the others in 4: dX and dW do not fit together, and forward takes half as
    many as dW."""
    fast = in_format("nano", "fast")
    widths = (4, 2, 4)
    phases = ("forward", "backward", "convert")
    costs = layer_costs(fast, [LAYERS[0]], phases, 20, widths=widths)
    machine = modelled(fast, 20)
    assert [(cost.phase, cost.passes) for cost in costs] == [
        ("forward", 2), ("backward", 3), *[("convert", None)] * 3,
    ]  # fmt: skip
    for cost in costs[:2]:
        found = cost.estimate
        assert found == estimate(machine, cost.phase, found.m, found.n, found.k, cost.nest, widths)
        assert cost.multiplications == cost.passes * cost.macs
    for cost, width in zip(costs[2:], widths, strict=True):
        assert cost.estimate == estimate_conversion(
            fast.numerics, cost.estimate.tensor_class, cost.estimate.rows, cost.estimate.cols,
            data_width=128, memory=Memory.axi(20), width=width,
        )  # fmt: skip
        assert cost.record()["passes"] is None
    sums = total(costs, fast.macs)
    assert sums["passes"] == (2 * 1 + 3 * 2) / 3
    cycles = sum(cost.cycles for cost in costs)
    assert sums["utilisation"] == 8 * costs[0].macs / cycles / fast.macs
    assert total(costs[2:], fast.macs)["passes"] is None
    # Of 37 blocks of M two planes are more than the fused pass keeps.
    large = NamedLayer(name="large", m=296, k=20, n=40)
    parts = [layer_costs(fast, [large], ("backward",), 20, widths=some) for some in
             ((4, 2, 4), (4, 2, 2))]  # fmt: skip
    assert [[cost.phase for cost in each] for each in parts] == [["dx", "dw"], ["backward"]]


def test_products_alike_are_looked_at_once(monkeypatch):
    seen = []
    real = unit.estimate_long
    monkeypatch.setattr(unit, "estimate_long", lambda *args: seen.append(args[1:5]) or real(*args))
    layer_costs(NANO, LAYERS, ("forward",), 20)
    assert seen == [("forward", 64, 40, 48), ("forward", 700, 600, 20)]


def test_a_far_memory_takes_longer():
    near, far = (
        layer_costs(NANO, LAYERS[:1], ("forward",), latency)[0].cycles for latency in (20, 200)
    )
    assert 3 * 300 < far - near < 3 * 1500


def test_the_machine_is_that_of_the_configuration():
    edge = PRODUCTS_ONLY["edge"].array.model_copy(update={"transpose": "edge"})
    machine = modelled(PRODUCTS_ONLY["edge"].model_copy(update={"array": edge}), 33)
    assert (machine.rows, machine.cols, machine.block, machine.in_place) == (6, 6, 8, False)
    assert (machine.data_width, machine.ports, machine.memory.read_cycles) == (256, 1, 38)
    assert modelled(PRODUCTS_ONLY["server"], 20).ports == 2


def cost(*, slots=0, read_beats=0, write_beats=0, macs=0, repeats=1, passes=1, **waits):
    """A product on 256 multipliers with two ports of 16 bytes."""
    cycles = slots + sum(waits.values())
    found = SimpleNamespace(
        cycles=cycles, slots=slots, read_beats=read_beats, write_beats=write_beats, macs=macs,
        multipliers=256, read_bytes=16 * read_beats, write_bytes=16 * write_beats,
        passes=passes, multiplications=passes * macs, waits=waits,
    )  # fmt: skip
    return LayerCost(name="x", phase="dx", repeats=repeats, nest=Nest(), ports=2, estimate=found)


@pytest.mark.parametrize(
    "counts, bound",
    [
        ({"slots": 950, "macs": 950 * 256, "end": 50}, "multipliers"),
        ({"slots": 950, "macs": 500 * 256, "end": 50}, "shape"),
        ({"slots": 950, "macs": 475 * 256, "passes": 2, "end": 50}, "multipliers"),
        ({"slots": 600, "macs": 600 * 256, "reading": 300, "end": 100}, "reading"),
        ({"slots": 600, "macs": 450 * 256, "loading": 160, "writing": 240}, "writing"),
    ],
)
def test_what_binds(counts, bound):
    assert cost(**counts).bound == bound


def test_total():
    costs = [
        cost(slots=950, macs=200_000, read_beats=10, write_beats=3, repeats=3, reading=50),
        cost(write_beats=2000, macs=56_000, slots=400, writing=600),
    ]
    found = total(costs, 256)
    shares = found.pop("shares")
    assert found == {
        "cycles": 4000,
        "macs": 656_000,
        "passes": 1,
        "utilisation": 656_000 / 4000 / 256,
        "dram_read_bytes": 480,
        "dram_write_bytes": 16 * 2009,
        "bound": "shape",
    }
    # 2562.5 cycles of multipliers, of 3 * 950 + 400 of the array; 3 * 50 of reading.
    assert shares == pytest.approx(
        {"multipliers": 0.640625, "shape": 0.171875, "reading": 0.0375, "writing": 0.15}
    )


def test_pace():
    """4000 cycles at 100 MHz are 40 microseconds, in which 2 * 656 000 operations are 32.8
    * 10^9 in a second, and 32 624 bytes .8156 * 10^9."""
    costs = [
        cost(slots=950, macs=200_000, read_beats=10, write_beats=3, repeats=3, reading=50),
        cost(write_beats=2000, macs=56_000, slots=400, writing=600),
    ]
    found = total(costs, 256, 100)
    assert found["seconds"] == pytest.approx(40e-6)
    assert found["tops"] == pytest.approx(0.0328)
    assert found["gb_per_s"] == pytest.approx(0.8156)
    pace = costs[0].pace(200)
    assert pace.seconds == pytest.approx(15e-6)
    assert pace.tops == pytest.approx(0.08)
    assert "seconds" not in total(costs, 256)


def test_conversions_of_every_layer():
    """Each operand of a layer, in its own sizes; no multiplication in any."""
    costs = layer_costs(NANO, LAYERS, ("forward", "convert"), 20)
    converted = [cost for cost in costs if cost.phase == "convert"]
    assert [(cost.name, cost.what) for cost in converted[:4]] == [
        ("a", "convert X"), ("a", "convert W"), ("a", "convert dY"), ("b", "convert X"),
    ]  # fmt: skip
    assert [cost.sizes for cost in converted[:3]] == [
        {"m": 64, "k": 48}, {"k": 48, "n": 40}, {"m": 64, "n": 40},
    ]  # fmt: skip
    found = estimate_conversion(
        NANO.numerics, "w", 48, 40, data_width=NANO.bus.data_width, memory=Memory.axi(20)
    )
    assert converted[1].estimate == found
    assert converted[1].cycles == 3 * found.cycles
    assert (converted[1].macs, converted[1].utilisation) == (0, 0)
    record = converted[1].record()
    assert (record["m"], record["k"], record["n"], record["order"]) == (None, 48, 40, None)
    assert record["dram_read_bytes"] == 3 * 48 * 40 * 4
    assert total(costs, 256)["macs"] == total(costs[:1] + costs[4:5] + costs[8:9], 256)["macs"]


def test_usual_use_in_words():
    assert re.fullmatch(
        r"model: forward of 512 x 512 x 512 keeps 99\.\d% of the multipliers busy, bound by "
        "multipliers",
        usual_use(NANO),
    )
