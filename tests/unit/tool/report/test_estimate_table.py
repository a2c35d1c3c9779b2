"""The table of layers, the words below it, and the picture."""

import pytest

from diastole.config.presets import PRODUCTS_ONLY
from diastole.files.layers import NamedLayer
from diastole.layers.costs import layer_costs, total
from diastole.layers.sizes import MachineSize
from diastole.layers.sweep import SweptMachine
from diastole.measure.model_error import machine_of
from diastole.report.estimate_table import advice, lines_of, sweep_lines, write_roofline

NANO = PRODUCTS_ONLY["nano"]


@pytest.fixture
def costs():
    layers = [
        NamedLayer(name="a", m=64, k=48, n=40, repeats=3),
        NamedLayer(name="b", m=9, k=9, n=9),
    ]
    return layer_costs(NANO, layers, ("forward", "backward"), 20)


def test_a_line_for_every_product(costs):
    heading, *lines, sums, _, _, _ = lines_of(costs, total(costs, NANO.macs))
    assert heading.split()[:7] == ["layer", "product", "M", "K", "N", "times", "cycles"]
    assert [line.split()[:6] for line in lines] == [
        ["a", "forward", "64", "48", "40", "3"], ["a", "fused", "64", "48", "40", "3"],
        ["b", "forward", "9", "9", "9", "1"], ["b", "fused", "9", "9", "9", "1"],
    ]  # fmt: skip
    for line, cost in zip(lines, costs, strict=True):
        assert line.split()[6:8] == [f"{cost.cycles:,}", f"{cost.found.utilisation:.1%}"]
        assert line.endswith(cost.bound)
    assert sums.split()[:2] == ["all", f"{sum(cost.cycles for cost in costs):,}"]


def test_passes_where_widths_are_chosen():
    fast = machine_of("nano", "fast")
    layers = [NamedLayer(name="a", m=64, k=48, n=40)]
    widths = (4, 2, 2)
    costs = layer_costs(fast, layers, ("forward", "backward", "convert"), 20, widths=widths)
    found = lines_of(costs, total(costs, fast.macs), {"x": 4, "w": 2, "dy": None})
    heading, *lines, sums = found[:7]
    assert heading.split()[-2:] == ["passes", "bound"]
    place = heading.index("passes")
    assert [line[place : place + 6].strip() for line in (*lines, sums)] == [
        "2", "1.5", "", "", "", "1.67",
    ]  # fmt: skip
    said = "passes: pairs of planes that are multiplied, of x in 4 bits, w in 2 bits"
    assert found[-1] == said
    alone = lines_of(costs, total(costs, fast.macs), dict.fromkeys(("x", "w", "dy")))
    assert "passes" not in "".join(alone)


def test_conversions_have_the_sizes_of_their_tensor():
    layers = [NamedLayer(name="a", m=64, k=48, n=40)]
    costs = layer_costs(NANO, layers, ("convert",), 20)
    _, *lines, _, _, _, _ = lines_of(costs, total(costs, NANO.macs))
    assert [line.split()[:6] for line in lines] == [
        ["a", "convert", "X", "64", "48", "1"],
        ["a", "convert", "W", "48", "40", "1"],
        ["a", "convert", "dY", "64", "40", "1"],
    ]
    assert [line.split()[6] for line in lines] == [f"{cost.cycles:,}" for cost in costs]
    assert "%" not in "".join(lines)


@pytest.mark.parametrize(
    "bound, wider, said",
    [
        ({"multipliers": 0.6, "writing": 0.4}, None, ""),
        (
            {"writing": 0.6, "shape": 0.4},
            {"utilisation": 0.5},
            "60% of the time is bound by writing; with bus.data_width = 256: 50.0% used in all",
        ),
        (
            {"reading": 1.0},
            None,
            ("100% of the time is bound by reading; the bus is as wide as it can be, two ports "
            "(bus.ports) read twice"),
        ),
        (
            {"shape": 1.0},
            None,
            ("100% of the time is bound by shape; an array of fewer rows or columns (array.rows, "
            "array.cols) fits it better"),
        ),
        (
            {"start and end": 0.7, "shape": 0.3},
            None,
            ("70% of the time is bound by start and end; a larger batch, or products in flight "
            "(Device.multiply_together), hide them"),
        ),
    ],
)  # fmt: skip
def test_words(bound, wider, said):
    assert advice(NANO, {"bound": bound}, lambda: wider) == said


@pytest.mark.parametrize("kind, begins", [(".png", b"\x89PNG"), (".svg", b"<?xml")])
def test_picture(costs, tmp_path, kind, begins):
    pytest.importorskip("matplotlib")
    path = tmp_path / f"roof{kind}"
    write_roofline(costs, path, "a $machine$ and layers")
    assert path.read_bytes().startswith(begins)


def test_a_line_for_every_machine():
    size = MachineSize(multipliers=64, scratchpad_kib=3.5, sum_kib=2.25, area_per_mac_nand2=None)
    total = {
        "cycles": 1234, "utilisation": 0.5, "dram_read_bytes": 2e6, "dram_write_bytes": 3e6,
        "bound": {"reading": 0.7, "shape": 0.3},
    }  # fmt: skip
    machines = [
        SweptMachine(overrides=("a=1", "b=2"), size=size, total=total),
        SweptMachine(overrides=("a=1", "b=3"), refused=("b must be even",)),
        SweptMachine(overrides=("a=2", "b=2"), size=size, total=total | {"cycles": 1000}),
    ]
    lines = sweep_lines(machines)
    assert lines[1].split() == [
        "1", "2", "64", "6", "-", "1,234", "50.0%", "2.0", "3.0", "reading",
    ]  # fmt: skip
    assert lines[2].endswith("no such machine")
    assert lines[-2:] == [
        "no such machine: b must be even",
        "the fewest cycles: --set a=2 --set b=2",
    ]
