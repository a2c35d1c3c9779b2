"""Means, deviations, differences by seed, and who wins: worked out by hand."""

import pytest
from scipy import stats

from diastole.compare.costs import Cost
from diastole.compare.summary import STUDENT, ComparedConfig, Spread, spread, verdict_on


def cost(area, passes=1.0, bits=4.0, **step):
    sizes = {"elements": 10, "macs": 20, "cycles_per_step": None} | step
    return Cost(area_per_mac_nand2=area, bits_per_element=bits, passes=passes, **sizes)


def compared(name, losses, area=100.0, reference=None, **more):
    runs = {
        seed: {
            "key": f"{name}{seed}", "loss": loss, "accuracy": 0.5, "mean_passes": None,
            "weights_sha256": "w", "seconds": 1.0,
        }
        for seed, loss in enumerate(losses)
    }  # fmt: skip
    return ComparedConfig(
        name=name,
        settings={"format": name},
        runs=runs,
        reference=reference,
        cost=cost(area, **more),
    )


def test_spread():
    found = spread([1.0, 2.0, 6.0])
    assert found.mean == 3
    assert found.deviation == pytest.approx(7**0.5)  # (4 + 1 + 9) / 2
    assert found.error == pytest.approx((7 / 3) ** 0.5)
    assert spread([2.0]) == Spread(mean=2.0, deviation=None, error=None, count=1)
    assert spread([]) is spread([1.0, None]) is None


@pytest.mark.parametrize("count", [2, 3, 4, 10, 31])
def test_what_is_sure(count):
    """By the quantiles of another library; beyond the table they are smaller."""
    quantile = float(stats.t.ppf(0.975, count - 1))
    for factor, sign in ((0.99, 0), (1.01, 1)):
        given = {"deviation": 0.0, "error": 2.0, "count": count}
        assert Spread(mean=2 * factor * quantile, **given).sign == sign
        assert Spread(mean=-2 * factor * quantile, **given).sign == -sign
    assert len(STUDENT) == 30
    assert [round(stats.t.ppf(0.975, n), 3) for n in range(1, 31)] == list(STUDENT)
    assert Spread(mean=2.05, deviation=0.0, error=1.0, count=1000).sign == 1
    assert Spread(mean=2.0, deviation=None, error=None, count=1).sign is None


def test_differences_are_of_the_same_seed():
    """Seeds differ much, configurations by a constant: no error is left."""
    one, other = compared("one", [1.0, 5.0, 9.0]), compared("other", [0.5, 4.5, 8.5])
    assert one.over(other, "loss") == Spread(mean=0.5, deviation=0.0, error=0.0, count=3)
    assert one.of("loss").error == pytest.approx(16**0.5 / 3**0.5)
    fewer = ComparedConfig(name="fewer", settings={}, runs={2: other.runs[2], 7: other.runs[0]})
    assert one.over(fewer, "loss") == Spread(mean=0.5, deviation=None, error=None, count=1)
    assert one.over(ComparedConfig(name="none", settings={}, runs={}), "loss") is None
    assert compared("a", [1.0, None]).over(one, "loss") is None


def test_record():
    float32 = compared("float32", [1.0, 2.0])
    record = compared("a", [1.5, 3.5], area=10.0, passes=1.5, reference=float32).record()
    assert record["float32"]["name"] == "float32"
    assert record["float32"]["loss"]["mean"] == 1.5
    assert record["float32"]["loss_over_float32"] is None
    assert "float32" not in record["float32"]
    assert record["macs_per_step"] == 20
    assert record["loss"] == {
        "mean": 2.5,
        "deviation": 2**0.5,
        "error": pytest.approx(1),
        "count": 2,
    }
    assert record["loss_over_float32"] == {
        "mean": 1.0, "deviation": pytest.approx(0.5**0.5), "error": pytest.approx(0.5),
        "count": 2,
    }  # fmt: skip
    assert record["accuracy_over_float32"]["mean"] == 0
    assert (record["area_per_mac_nand2"], record["area_passes"], record["passes"]) == (10, 15, 1.5)
    assert record["set"] == {"format": "a"}
    assert [run["seed"] for run in record["runs"]] == [0, 1]
    empty = ComparedConfig(name="b", settings={}, runs={}, reference=float32).record()
    assert (empty["loss"], empty["area_passes"], empty["runs"]) == (None, None, [])


PLAIN = compared("plain", [1.0, 1.2, 1.1])


@pytest.mark.parametrize(
    "losses, area, passes, where, dominates",
    [
        ([0.9, 1.1, 1.0], 100, 1.0, "better", True),
        ([0.9, 1.1, 1.0], 100, 1.1, "better", False),
        ([0.9, 1.1, 1.0], 80, 1.2, "better", True),
        ([1.1, 1.0, 1.2], 100, 1.0, "as_good", False),
        ([1.1, 1.0, 1.2], 99, 1.0, "as_good", True),
        ([1.1, 1.0, 1.2], 99, 1.1, "as_good", False),
        ([1.2, 1.4, 1.3], 1, 1.0, "worse", False),
    ],
)
def test_who_wins(losses, area, passes, where, dominates):
    verdict = verdict_on(PLAIN, [compared("other", losses, area, passes=passes)])
    found = {name: getattr(verdict, name) for name in ("better", "as_good", "worse")}
    assert found == {"better": (), "as_good": (), "worse": ()} | {where: ("other",)}
    assert verdict.dominating == (("other",) if dominates else ())
    assert verdict.wins is not dominates
    assert verdict.record()["plain_wins"] is not dominates
    assert verdict.record()[where] == ["other"]


@pytest.mark.parametrize("bits, dominates", [(4.0, False), (3.5, True)])
def test_bits_decide_where_an_area_is_not_known(bits, dominates):
    verdict = verdict_on(PLAIN, [compared("other", [1.1, 1.0, 1.2], None, bits=bits)])
    assert verdict.wins is not dominates


@pytest.mark.parametrize("area", [50, None])
@pytest.mark.parametrize("share, dominates", [(1, True), (3, False)])
def test_a_larger_network_is_dearer(area, share, dominates):
    """At half the price of a multiplication, three times as many are dearer; so are bits."""
    sizes = {"macs": 20 * share, "elements": 10 * share}
    other = compared("other", [1.1, 1.0, 1.2], area, bits=2.0, **sizes)
    assert verdict_on(PLAIN, [other]).wins is not dominates


def test_no_verdict():
    assert verdict_on(PLAIN, []) is None
    assert verdict_on(compared("a", [1.0]), [compared("b", [2.0])]) is None
    assert verdict_on(PLAIN, [compared("b", [None, 1.0, 1.0])]) is None
