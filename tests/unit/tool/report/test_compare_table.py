"""The table of a comparison, cell by cell, and its verdict."""

from diastole.compare.costs import Cost
from diastole.compare.summary import ComparedConfig, Ruling
from diastole.report.compare_table import comparison_legend, comparison_lines, verdict_lines


def compared(name, losses, accuracies, cost=None, reference="of all"):
    reference = FLOAT32 if reference == "of all" else reference
    runs = {
        seed: {"loss": loss, "accuracy": accuracy}
        for seed, (loss, accuracy) in enumerate(zip(losses, accuracies, strict=True))
    }
    return ComparedConfig(name=name, settings={}, runs=runs, reference=reference, cost=cost)


FLOAT32 = compared("float32", [1.0, 2.0], [0.5, 0.75], reference=None)
STEP = {"elements": 1, "macs": 1}
COST = Cost(
    area_per_mac_nand2=100.4, bits_per_element=5.125, passes=1.5, cycles_per_step=12345, **STEP
)


def cells(each):
    *_, line = comparison_lines([each])
    return line.split()


def test_heading_and_float32():
    heading, first, _ = comparison_lines([compared("a", [1.0, 1.0], [0.5, 0.5])])
    assert heading.split("  ")[0] == "configuration"
    assert "area x passes" in heading
    assert first.split() == [
        "float32", "1.5000", "0.7071", "-", "-", "62.50", "17.68", "-", "-", *"-----"
    ]  # fmt: skip


def test_each_is_beside_its_own_float32():
    """Differences from it, and a line of it before the first that has it."""
    other = compared("float32 adam", [3.0, 3.0], [0.5, 0.5], reference=None)
    several = [
        compared("a", [1.0, 2.0], [0.5, 0.75]),
        compared("b", [3.5, 3.5], [0.5, 0.5], reference=other),
        compared("c", [1.5, 2.5], [0.5, 0.75]),
    ]
    _, *lines = comparison_lines(several)
    assert [line.split("  ")[0] for line in lines] == ["float32", "a", "float32 adam", "b", "c"]
    assert [lines[n].split()[3] for n in (1, 3, 4)] == ["+0.0000", "+0.5000", "+0.5000"]


def test_a_line():
    """Differences 1, 3 and -.25, -.25."""
    assert cells(compared("a", [2.0, 5.0], [0.25, 0.5], COST)) == [
        "a", "3.5000", "2.1213", "+2.0000", "1.0000", "37.50", "17.68", "-25.00", "0.00",
        "100", "1.50", "151", "5.12", "12,345",
    ]  # fmt: skip


def test_a_loss_without_measure_keeps_the_columns():
    found = cells(compared("a", [2e33, 4e33], [0.25, 0.5]))
    assert found[:5] == ["a", "3e+33", "1.414e+33", "+3e+33", "1e+33"]


def test_what_is_not_known():
    cost = Cost(
        area_per_mac_nand2=None, bits_per_element=3.0, passes=1.0, cycles_per_step=None, **STEP
    )
    one = compared("one seed", [2.0], [0.25], cost)
    assert cells(one)[2:] == [
        "2.0000", "-", "+1.0000", "-", "25.00", "-", "-25.00", "-", "-", "1.00", "-", "3.00", "-"
    ]  # fmt: skip
    assert cells(compared("a", [None, 1.0], [0.25, 0.5]))[1:5] == ["-"] * 4
    assert cells(compared("a", [], []))[1:] == ["-"] * 13


def test_legend():
    assert comparison_legend((3, 1))[0].startswith("means over the seeds 3, 1 of held-out loss")


def verdict(**found):
    empty = {"better": (), "as_good": (), "worse": (), "dominating": ()}
    return Ruling(plain="bfp4", **(empty | found))


WINS = (
    "the plain configuration wins: at no more area x passes none is better than bfp4, and none as "
    "good at less"
)


def test_verdicts():
    assert verdict_lines(None) == [
        "no verdict: it takes two configurations, and two seeds of each that end in a loss"
    ]
    assert verdict_lines(verdict(better=("a", "b"), as_good=("c",), worse=("d",))) == [
        "of a smaller loss than bfp4, 19 times in 20: a, b",
        "not to be told from bfp4 with these seeds: c",
        "of a larger loss than bfp4, 19 times in 20: d",
        WINS,
    ]
    assert verdict_lines(verdict(as_good=("c", "d"), dominating=("c",)))[-1] == (
        "better at no more area x passes, or not to be told from it at less: c"
    )
