"""The comparison of orders: what is summed, what it is compared with, how it is told."""

from dataclasses import replace

import pytest

from diastole.measure import gradient_order
from diastole.measure.gradient_order import (
    BEST,
    COLUMNS,
    IN_PARTS,
    MACHINES,
    PARTS,
    SHARED,
    Product,
    calibration,
    figures,
    mean,
    order_record,
    order_table,
    product,
    ratios,
    several,
    step_cycles,
    step_products,
    wins,
)
from diastole.measure.networks import NETWORKS, Layer, Network
from diastole_sim.perf.orders.layer import SEPARATE, SQUARE, backward_pass, forward_pass
from diastole_sim.perf.orders.search import Shape
from diastole_sim.perf.orders.systolic import SMALL

FEW = [each for each in NETWORKS if each.name in ("NCF", "DLRM")]
ONE = Network("one", (Layer(m=512, k=256, n=256),))


def test_a_batch():
    """It multiplies m; where W is of the sample, it multiplies products."""
    layer = Layer(m=5, k=6, n=7, repeats=2)
    assert product(layer, 4) == Product(Shape(20, 7, 6), 2, True)
    scores = Layer(m=5, k=6, n=7, repeats=2, products=3, weights=False)
    assert product(scores, 4) == Product(Shape(5, 7, 6), 24, True)


def test_depthwise_is_left_out():
    (mobilenet,) = (each for each in NETWORKS if each.name == "MobileNet")
    few, all_ = (list(step_products(mobilenet, 4, depthwise)) for depthwise in (False, True))
    assert len(all_) - len(few) == 13
    assert {each.sizes.n for each in all_} - {each.sizes.n for each in few} == {1}


@pytest.mark.parametrize("against", [SQUARE, SEPARATE])
def test_a_step_is_forward_and_backward(against):
    """Twice the layer is twice the time; what is slower leaves what it is compared with."""
    shape = Shape(512, 256, 256)
    found = step_cycles(SMALL, [Product(shape, 2, True)], against)
    before = forward_pass(SMALL, shape, against).cycles(SMALL)
    both = {name: each.cycles(SMALL) for name, each in backward_pass(SMALL, shape, True).items()}
    assert found[against] == 2 * (before + both[against])
    for name in SHARED:
        least = min(both[against], both.get(name, both[against]))
        assert found[name] == 2 * (before + least)
    assert found[BEST] == 2 * (before + min(both.values()))
    assert found[PARTS] <= found[BEST]


@pytest.mark.parametrize("against", COLUMNS)
def test_ratios(against):
    """No order is slower than what it is compared with, and none is faster than the best."""
    found = ratios(SMALL, against, FEW)
    assert list(found) == ["NCF", "DLRM", "mean"]
    for row in found.values():
        assert list(row) == list(COLUMNS[against])
        whole = [value for name, value in row.items() if name not in (IN_PARTS, PARTS)]
        assert row[PARTS] <= row[BEST] == min(whole) <= max(whole) <= 1
        assert row[PARTS] <= row[IN_PARTS] <= row.get(SEPARATE, 1)
    assert found["mean"][BEST] == pytest.approx((found["NCF"][BEST] + found["DLRM"][BEST]) / 2)


def test_mean():
    assert mean([{"a": 1.0, "b": 2.0}, {"a": 3.0, "b": 6.0}]) == {"a": 2.0, "b": 4.0}


def test_calibration_by_hand():
    """512 x 256 x 256 at batch 1 on a machine with tiles of 4 sides, 180: dX loads dY and W in
    2 x 3 tiles twice and three times, dW loads X and dY twice each."""
    machine = replace(MACHINES[0], batch=1)
    found = calibration(machine, [ONE])
    m, n, k = 512, 256, 256
    dy = 2 * m * n + 2 * m * n
    reads = dy + 3 * k * n + 2 * m * k
    assert found["dY of reads"] == dy / reads
    assert found["dY of traffic"] == dy / (reads + m * k + k * n)
    assert found["faster without dY"] > 1


def test_several():
    """Two machines that share a layer gain as one does, or nearly."""
    found = several(MACHINES[1], 2, FEW)
    assert list(found) == [SQUARE, SEPARATE]
    assert all(0.5 < value < 1 for value in found.values())


def test_several_have_their_own_samples():
    """Attention's scores, which have no weights, are not cut: as on one machine, of any number."""
    scores = Network("scores", (Layer(m=512, k=64, n=512, products=12, weights=False),))
    one = ratios(MACHINES[0], SEPARATE, [scores])["mean"][BEST]
    assert several(MACHINES[0], 4, [scores])[SEPARATE] == pytest.approx(one)


def test_wins():
    found = wins(MACHINES[1], FEW)
    assert sum(found.values()) == sum(len(list(step_products(each, 8))) for each in FEW)


def test_table():
    found = order_record(MACHINES[0], FEW, (2,), False)
    lines = list(order_table(found))
    assert lines[0] == "small: time over square; bytes: element 4, result 4, sum 4"
    assert (
        lines[1].split()
        == "separate its parts interleaved dX-major dW-major dY held best order and parts".split()
    )
    assert [line.split()[0] for line in lines[2:6]] == ["NCF", "DLRM", "mean", "published"]
    assert lines[5].split() == ["published"], "of nine networks, not of two"
    assert any(line.startswith("2 machines, ") for line in lines)


def test_published_beside_nine():
    """Under the columns that the paper has."""
    found = order_record(MACHINES[0], NETWORKS, (), False)
    (line,) = (each for each in order_table(found) if each.startswith("published"))
    assert line.split() == ["published", "0.992", "0.762", "0.707"]


def test_figures(monkeypatch):
    monkeypatch.setattr(gradient_order, "NETWORKS", tuple(FEW))
    found = list(figures())
    assert [each.asked for each in found] == ["at most 0.700", "", "at most 0.850", ""]
    assert all(0 < float(each.measured) < 1 for each in found)
