"""What the README says is asked is what the bench asks."""

import re
from pathlib import Path

import pytest

from diastole.measure import (
    accuracy,
    area,
    comparing,
    emission,
    golden_speed,
    gradient_order,
    torch_speed,
    utilisation,
)

README = Path(__file__).parents[4] / "README.md"


def percent(value):
    return f"{100 * value:g}"


ASKED = {
    "digits, held-out accuracy": (f"{percent(accuracy.LEAST)} / {percent(accuracy.LEAST_MEAN)} %"),
    "utilisation of `nano`": f"{percent(utilisation.LEAST['forward'])} %",
    "the same, both gradients": f"{percent(utilisation.LEAST['backward'])} %",
    "bytes the fused pass reads": f"{utilisation.MOST_BYTES:g}",
    "area per MAC": f"{area.MOST_PER_MAC:g}",
    "simulated cycles per second": f"{utilisation.LEAST_CYCLES_PER_SECOND:_}".replace("_", " "),
    "time of a step with the best order": (
        f"{gradient_order.MOST['small']:g} / {gradient_order.MOST['large']:g}"
    ),
    "golden products of a stack": f"{golden_speed.LEAST_RATIO:g} times",
    "numpy's time over that of": f"{torch_speed.LEAST_RATIO:g}",
    "`compare` of 12": f"{comparing.MOST_COMPARING_SECONDS:g} s",
    "`text`, 300 steps": (
        f"{comparing.CASES['bfp4 1x16'].most_seconds:g}, "
        f"{comparing.CASES['MXFP8 E4M3'].most_seconds:g} s"
    ),
    "its held-out loss over": f"{percent(comparing.MOST_OVER_FLOAT32)} %",
    "emission of": (
        f"{emission.LIMITS['nano'][0]} / {emission.LIMITS['server'][0]} s, "
        f"{emission.LIMITS['server'][1] / 1e6:g} MB"
    ),
}


@pytest.mark.parametrize("what", ASKED)
def test_asked(what):
    text = README.read_text()
    (row,) = re.findall(rf"^\| {re.escape(what)}.*$", text, re.MULTILINE)
    assert [cell.strip() for cell in row.split("|")][2] == ASKED[what]


def test_products_ask_alike():
    assert {utilisation.LEAST[op] for op in ("forward", "dx", "dw")} == {
        utilisation.LEAST["forward"]
    }
