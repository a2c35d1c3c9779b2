"""The verdict: order, what is enough, and the words for it, from trials made by hand."""

import json

import pytest

from diastole.config.file import from_document
from diastole.layers import cell_areas
from diastole.report.verdict_table import (
    NO_FIGURE,
    PRODUCTS_LEGEND,
    conclusion,
    products_table,
    ranking_legend,
    ranking_table,
    records,
    verdict_of,
    verdict_record,
)
from diastole.trials.mixtures import Settings, make_mixtures
from diastole.trials.trial import Trial
from diastole_sim.codes.quality import ResultQuality, Worst

BLOCK = Settings(block=8)
ALONE = ResultQuality(counted=4, snr_db=None, row=None, column=None, exact=True, overflow=False)


@pytest.fixture(autouse=True)
def measured(tmp_path, monkeypatch):
    cells = {
        "bfp4": {"area_per_mac_nand2": 386.2},
        "bfp8": {"area_per_mac_nand2": 941},
        "mxint8": {"area_per_mac_nand2": 775},
    }
    path = tmp_path / "areas.json"
    path.write_text(json.dumps({"formats": cells, "command": "pytest bench -k format_cells"}))
    monkeypatch.setattr(cell_areas, "AREAS", path)


def quality(whole, row, column):
    return ResultQuality(
        counted=4,
        snr_db=whole,
        row=Worst(index=3, snr_db=row),
        column=Worst(index=71, snr_db=column),
        exact=False,
        overflow=True,
    )


def trial(*formats, bits, both=None, settings=BLOCK, **products):
    (mixture,), _ = make_mixtures([formats if len(formats) == 3 else formats * 3], settings)
    return Trial(
        mixture=mixture,
        surveys={},
        products=products,
        bits=bits,
        bits_both=both or bits,
    )


def three():
    return [
        trial("bfp8", bits=9.125, Y=quality(41, 38.04, 37), dX=quality(42, 40, 39)),
        trial("mxint8", bits=8.25, both=16.5, Y=quality(35, 30, 22), dX=quality(31, 31, 31)),
        trial("bfp4", "bfp4", "bf16", bits=7, Y=quality(20, 18, 4.5), dX=quality(9, 8, 7)),
        trial("bfp4", bits=5.125, Y=quality(20, 18, 4.5), dX=quality(19, 18, 17)),
        trial("bfp3", "bfp3", "bfp8", bits=5.125, Y=quality(14, 1, 2), dX=quality(19, 18, 17)),
    ]


def test_products():
    assert products_table([*three()[:3], trial("bf16", bits=16.125, Y=ALONE, dX=ALONE)]) == [
        "format           Y dB    row  column  dX dB    row  column",
        "bfp8             41.0   38.0    37.0   42.0   40.0    39.0",
        "mxint8           35.0   30.0    22.0   31.0   31.0    31.0",
        "bfp4/bfp4/bf16   20.0   18.0     4.5    9.0    8.0     7.0",
        "bf16            exact  exact   exact  exact  exact   exact",
    ]


def test_by_bits_then_by_area_and_the_unknown_last():
    verdict = verdict_of(three(), 20)
    assert [each.mixture.name for each in verdict.ranked] == [
        "bfp4", "bfp3/bfp3/bfp8", "bfp4/bfp4/bf16", "bfp8", "mxint8",
    ]  # fmt: skip
    assert ranking_table(verdict) == [
        "format           bits   both  NAND2/MAC  worst dB           where  20 dB",
        "bfp4            5.125  5.125        386       4.5  column 71 of Y     no",
        "bfp3/bfp3/bfp8  5.125  5.125          -       1.0      row 3 of Y     no",
        "bfp4/bfp4/bf16      7      7          -       4.5  column 71 of Y     no",
        "bfp8            9.125  9.125        941      37.0  column 71 of Y    yes",
        "mxint8           8.25   16.5        775      22.0  column 71 of Y    yes",
    ]


def test_conclusion():
    assert conclusion(verdict_of(three(), 20), BLOCK) == [
        "20 dB in the worst row and column of every product:",
        "  fewest bits: bfp8, 9.125 stored bits per element, 941 NAND2 per MAC",
        "  smallest cell: mxint8, 16.5 stored bits per element, 775 NAND2 per MAC",
        (
            "  next: diastole init my.toml; diastole check my.toml --set array.block=8 "
            "--set format.x=bfp8 --set format.w=bfp8 --set format.dy=bfp8"
        ),
    ]


def test_one_that_is_smallest_in_both():
    lines = conclusion(verdict_of(three(), 4.5), BLOCK)
    assert [line.split(":")[0] for line in lines[1:]] == ["  fewest bits", "  next"]
    assert lines[1].startswith("  fewest bits: bfp4, ")


def test_none_is_enough():
    lines = conclusion(verdict_of(three(), 37.5), BLOCK)
    assert lines[:2] == [
        "no mixture has 37.5 dB in the worst row and column of every product;",
        "  nearest: bfp8, 37.0 dB in column 71 of Y",
    ]
    assert "--set format.x=bfp8" in lines[2]


def test_no_cell_is_known():
    lines = conclusion(verdict_of(three()[2:3], 1), BLOCK)
    assert lines[1:-1] == [
        "  fewest bits: bfp4/bfp4/bf16, 7 stored bits per element, its cell was not measured"
    ]


def test_what_is_next_makes_the_same_machine():
    settings = Settings(block=4, grouping={"x": "8x8"}, rounding={"dy": "stochastic-a"})
    only = trial("bfp4", "bfp4", "bf16", bits=7, settings=settings, Y=quality(20, 18, 4.5))
    line = conclusion(verdict_of([only], 1), settings)[-1]
    overrides = [word for word in line.split() if "=" in word]
    assert from_document({}, overrides).numerics == only.mixture.numerics


def test_exact_is_enough():
    found = verdict_of([trial("bf16", bits=16.125, Y=ALONE)], 1e6)
    assert ranking_table(found)[1].split()[-3:] == ["exact", "-", "yes"]
    assert verdict_record(found)["smallest"] == "bf16"


def test_without_a_figure_nothing_is_recommended():
    found = verdict_of(three(), None)
    assert conclusion(found, BLOCK) == list(NO_FIGURE)
    assert max(map(len, NO_FIGURE)) <= 100
    heading, *rows = ranking_table(found)
    assert heading.split()[-1] == "where"
    assert not any(row.split()[-1] in ("yes", "no") for row in rows)
    assert {each["reaches"] for each in records(found)} == {None}


def test_legends():
    assert max(map(len, (*PRODUCTS_LEGEND, *ranking_legend()))) <= 100
    assert "by pytest bench -k format_cells;" in ranking_legend()[2]


def test_as_plain_values():
    verdict = verdict_of(three(), 20)
    found = records(verdict)
    assert [each["name"] for each in found] == [each.mixture.name for each in three()]
    assert [each["reaches"] for each in found] == [True, True, False, False, False]
    assert found[2] == {
        "name": "bfp4/bfp4/bf16",
        "formats": {"x": "bfp4", "w": "bfp4", "dy": "bf16"},
        "groups": {"x": "8x8", "w": "8x8", "dy": "tensor"},
        "rounding": {"x": "nearest", "w": "nearest", "dy": "stochastic-b"},
        "scale": {"x": "floor", "w": "floor", "dy": "fixed"},
        "products": {
            "Y": {
                "counted": 4,
                "snr_db": 20,
                "worst_row": {"index": 3, "snr_db": 18},
                "worst_column": {"index": 71, "snr_db": 4.5},
                "exact": False,
                "overflow": True,
            },
            "dX": {
                "counted": 4,
                "snr_db": 9,
                "worst_row": {"index": 3, "snr_db": 8},
                "worst_column": {"index": 71, "snr_db": 7},
                "exact": False,
                "overflow": True,
            },
        },
        "bits": 7,
        "bits_both": 7,
        "area_per_mac_nand2": None,
        "worst": {"product": "Y", "axis": "column", "index": 71, "snr_db": 4.5},
        "reaches": False,
    }
    assert found[3]["area_per_mac_nand2"] == 386.2


@pytest.mark.parametrize(
    "least_db, names",
    [
        (20, {"smallest": "bfp8", "smallest_cell": "mxint8", "nearest": None}),
        (99, {"smallest": None, "smallest_cell": None, "nearest": "bfp8"}),
        (None, {"smallest": None, "smallest_cell": None, "nearest": None}),
    ],
)
def test_the_verdict_as_plain_values(least_db, names):
    found = verdict_record(verdict_of(three(), least_db))
    ranking = ["bfp4", "bfp3/bfp3/bfp8", "bfp4/bfp4/bf16", "bfp8", "mxint8"]
    assert found == {"least_db": least_db, "ranking": ranking} | names


def test_an_exact_product_as_plain_values():
    (found,) = records(verdict_of([trial("bf16", bits=16.125, Y=ALONE)], 20))
    assert found["worst"] is None
    assert found["products"]["Y"] == {
        "counted": 4,
        "snr_db": None,
        "worst_row": None,
        "worst_column": None,
        "exact": True,
        "overflow": False,
    }
