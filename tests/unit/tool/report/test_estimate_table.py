"""The table of layers, and the words below it."""

import pytest

from diastole.config.file import from_document
from diastole.config.presets import PRODUCTS_ONLY
from diastole.files.layers import NamedLayer
from diastole.layers.bounds import MEANINGS
from diastole.layers.layer_costs import layer_costs, total
from diastole.report.estimate_table import advice, lines_of, pace_line, significant
from support.presets import in_format

NANO = PRODUCTS_ONLY["nano"]


@pytest.fixture
def costs():
    layers = [
        NamedLayer(name="a", m=64, k=48, n=40, repeats=3),
        NamedLayer(name="b", m=9, k=9, n=9),
    ]
    return layer_costs(NANO, layers, ("forward", "backward"), 20)


def test_a_line_for_every_product(costs):
    table = lines_of(costs, total(costs, NANO.macs))
    heading, *lines, sums = table[: table.index("")]
    assert heading.split()[:7] == ["layer", "product", "M", "K", "N", "times", "cycles"]
    assert [line.split()[:6] for line in lines] == [
        ["a", "forward", "64", "48", "40", "3"], ["a", "fused", "64", "48", "40", "3"],
        ["b", "forward", "9", "9", "9", "1"], ["b", "fused", "9", "9", "9", "1"],
    ]  # fmt: skip
    for line, cost in zip(lines, costs, strict=True):
        cycles, used = line.split()[6:8]
        assert cycles == f"{cost.cycles:,}"
        assert float(used.rstrip("%")) == pytest.approx(100 * cost.utilisation, abs=0.1)
        assert line.split()[10] == cost.bound
        others = [part.rsplit(" ", 1) for part in line.split(cost.bound, 1)[1].split(", ")]
        listed = float(used.rstrip("%")) + sum(float(part) for _, part in others)
        assert listed == pytest.approx(100)
    assert sums.split()[:2] == ["all", f"{sum(cost.cycles for cost in costs):,}"]
    names = [line.split(":")[0] for line in table[table.index("") + 2 :]]
    assert names == [name for name in total(costs, NANO.macs)["shares"] if name != "multipliers"]


def test_columns_at_a_clock(costs):
    sums = total(costs, NANO.macs, 200)
    heading, first, *_ = lines_of(costs, sums, clock_mhz=200)
    assert heading.split()[6:11] == ["cycles", "ms", "GB/s", "TOPS", "used"]
    cycles, ms, rate, tops = first.split()[6:10]
    seconds = int(cycles.replace(",", "")) / 200e6
    assert float(ms) == pytest.approx(1e3 * seconds, rel=0.01)
    moved = 3 * (costs[0].estimate.read_bytes + costs[0].estimate.write_bytes)
    assert float(rate) == pytest.approx(moved / seconds / 1e9, rel=0.01)
    assert float(tops) == pytest.approx(2 * 3 * 64 * 48 * 40 / seconds / 1e12, rel=0.01)
    # 256 multipliers; 16 bytes a cycle in each direction.
    said = pace_line(NANO, sums, 200)
    assert said.startswith(f"at 200 MHz: {sums['seconds']:.3g} s; ")
    assert "of 0.102 TOPS; " in said
    assert said.endswith("GB/s, of 3.2 read and 3.2 written at the same time")


@pytest.mark.parametrize(
    "value, text",
    [(0.00012345, "0.000123"), (12.34, "12.3"), (12.0, "12"), (123456.7, "123,457"), (0, "0"),
     (1000, "1,000"), (999.6, "1000")],
)  # fmt: skip
def test_three_digits(value, text):
    assert significant(value) == text


def test_passes_where_widths_are_chosen():
    fast = in_format("nano", "fast")
    layers = [NamedLayer(name="a", m=64, k=48, n=40)]
    widths = (4, 2, 2)
    costs = layer_costs(fast, layers, ("forward", "backward", "convert"), 20, widths=widths)
    found = lines_of(costs, total(costs, fast.macs), {"x": 4, "w": 2, "dy": None})
    heading, *lines, sums = found[:7]
    assert heading.split()[-5:-2] == ["passes", "bound", "other"]
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
    table = lines_of(costs, total(costs, NANO.macs))
    _, *lines, _ = table[: table.index("")]
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
        ("multipliers", None, ""),
        (
            "converter",
            {"utilisation": 0.0, "cycles": 4321},
            "60% of the cycles go to converter; with bus.data_width = 256: 4,321 cycles",
        ),
        (
            "writing",
            {"utilisation": 0.5, "cycles": 1},
            "60% of the cycles go to writing; with bus.data_width = 256: 50.0% used in all",
        ),
        (
            "reading",
            None,
            ("60% of the cycles go to reading; the bus is as wide as it can be, two ports "
            "(bus.ports) move twice"),
        ),
        (
            "shape",
            None,
            ("60% of the cycles go to shape; an array of fewer rows or columns (array.rows, "
            "array.cols) fits it better"),
        ),
        (
            "start",
            {"utilisation": 0.5},
            ("60% of the cycles go to start; a larger batch, or products in flight "
            "(Device.multiply_together), hide it"),
        ),
    ],
)  # fmt: skip
def test_words(bound, wider, said):
    assert advice(NANO, {"bound": bound, "shares": {bound: 0.6}}, lambda: wider) == said


@pytest.mark.parametrize("bound", ["reading", "writing", "loading", "swap", "shape"])
def test_nothing_is_advised_that_the_machine_has(bound):
    """Two ports, an array of one cell: neither more ports nor fewer rows."""
    array = {"array": {"rows": 1, "cols": 1, "block": 4}}
    smallest = from_document(array)
    two_ports = from_document({"array": {"rows": 2, "cols": 2}, "bus": {"ports": 2}})
    total = {"bound": bound, "shares": {bound: 0.6}}
    assert "array.rows" not in advice(smallest, total, lambda: None)
    assert "bus.ports" not in advice(two_ports, total, lambda: None)
    assert "array.rows" in advice(two_ports, total, lambda: None) or bound not in ("swap", "shape")


def test_every_bound_has_a_cure():
    for name in MEANINGS:
        if name != "multipliers":
            assert advice(NANO, {"bound": name, "shares": {name: 0.5}}, lambda: None)
