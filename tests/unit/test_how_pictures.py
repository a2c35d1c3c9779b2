"""Pictures of docs/how: drawn from this tree, legible on a telephone, described for those who do
not see them."""

import json
import re
from xml.etree import ElementTree

import pytest
from matplotlib import pyplot
from scripts.how import PICTURES, numbers, product
from scripts.how.canvas import WIDTH, Canvas

from diastole.report.palette import LIGHT
from support.sources import ROOT
from support.sweep import sweep

HOW = ROOT / "docs" / "how"
SVG = "{http://www.w3.org/2000/svg}"
TELEPHONE = 328
"""Pixels of a picture on a screen of 360 pixels."""
EACH = pytest.mark.parametrize("name", PICTURES)
SHARED = {"array.md": "../dataflows.svg"}
"""Pages whose picture is a still of `diastole explain`, which tests/product compares."""


@EACH
def test_it_is_current(name):
    kept = (HOW / name).read_text(encoding="utf-8")
    assert kept == PICTURES[name](), "python scripts/pictures.py renews it"


@EACH
def test_it_is_described(name):
    root = ElementTree.parse(HOW / name).getroot()
    assert root.get("role") == "img"
    parts = {
        each.get("id"): each.text for each in root if each.tag in (f"{SVG}title", f"{SVG}desc")
    }
    assert root.get("aria-labelledby").split() == list(parts) == ["title", "about"]
    assert all(len(text) > 20 for text in parts.values())


@EACH
def test_a_telephone_shows_its_text(name):
    root = ElementTree.parse(HOW / name).getroot()
    left, top, width, height = map(float, root.get("viewBox").split())
    assert (left, top, width) == (0, 0, WIDTH)
    texts = list(root.iter(f"{SVG}text"))
    assert texts
    for text in texts:
        assert float(text.get("font-size")) * TELEPHONE / width >= 9, text.text
        assert 0 < float(text.get("y")) < height


@EACH
def test_it_has_the_colours_of_the_palette(name):
    """The style of dark paper replaces each of them, the paper too."""
    root = ElementTree.parse(HOW / name).getroot()
    style = root.find(f"{SVG}style").text
    used = {
        (key, node.get(key))
        for node in root.iter()
        for key in ("fill", "stroke")
        if node.get(key) not in (None, "none")
    }
    assert ("fill", LIGHT["page"]) in used
    for key, colour in used:
        assert colour in LIGHT.values()
        assert f'[{key}="{colour}"]' in style


@pytest.mark.parametrize("page", sorted(HOW.glob("*.md")), ids=lambda page: page.name)
def test_every_page_has_its_picture(page):
    pictures = re.findall(r"!\[([^]]+)\]\(([^)]+)\)", page.read_text(encoding="utf-8"))
    assert SHARED.get(page.name, f"{page.stem}.svg") in [path for _, path in pictures]


def test_the_draws_are_those_of_the_page():
    """The first three are in a table of docs/how/numbers.md."""
    draws, ups = numbers.roundings()
    assert draws[:3] == [78, 21, 64]
    assert ups == [each >= 195 for each in draws]
    assert {True, False} == set(ups)


def altered(change, folder, monkeypatch):
    """The record of the product with a change."""
    record = json.loads(product.RECORD.read_text())
    change(record)
    path = folder / "product.json"
    path.write_text(json.dumps(record))
    monkeypatch.setattr(product, "RECORD", path)


def test_a_sum_that_is_wrong(tmp_path, monkeypatch):
    def change(record):
        record["sums"][1][3][0] += 2**-8

    altered(change, tmp_path, monkeypatch)
    with pytest.raises(ValueError, match=r"product\.json: sums of vector 1 in cell 1, 1"):
        product.draw()


def test_a_record_of_another_machine(tmp_path, monkeypatch):
    altered(lambda record: record["machine"].pop(), tmp_path, monkeypatch)
    with pytest.raises(ValueError, match=r"product\.json is of another machine"):
        product.draw()


@pytest.mark.parametrize("kept", [sweep("product.json")])
def test_the_record_is_what_the_waves_show(kept):
    """Compiles a machine of its own, and runs it."""
    assert json.loads((ROOT / "scripts" / "how" / kept).read_text()) == product.recorded()


@pytest.mark.parametrize(
    "place", [{"x": 390}, {"x": 20, "anchor": "middle"}, {"x": 8, "size": 10}], ids=str
)
def test_text_that_would_not_be_legible(place):
    with pytest.raises(ValueError, match="'a long line' is too small, or leaves the picture"):
        Canvas("a", "b").text(y=10, words="a long line", **place)


def test_a_rectangle_outside():
    with pytest.raises(ValueError, match="a rectangle from 390 to 410 leaves the picture"):
        Canvas("a", "b").rect(390, 0, 20, 10)


@pytest.mark.parametrize("name", ["blocks.svg", "dataflows.svg", "explain.svg"])
def test_further_pictures_follow_the_reader(name):
    """Their paper changes with their ink."""
    root = ElementTree.parse(ROOT / "docs" / name).getroot()
    style = "".join(each.text for each in root.iter(f"{SVG}style"))
    _, dark = style.split("@media (prefers-color-scheme:dark){")
    papers = [each for each in root if each.tag == f"{SVG}rect"]
    paper = papers[0].get("fill")
    assert "text{fill:" in dark or f'[fill="{LIGHT["ink"]}"]' in dark
    assert (".p{fill:" if paper is None else f'[fill="{paper}"]') in dark
    assert root.find(f"{SVG}title").text


def test_the_curve_has_white_paper():
    """A picture of pixels does not change its colours: the paper is opaque on any page."""
    pixels = pyplot.imread(ROOT / "docs" / "training.png")
    for row, column in ((0, 0), (0, -1), (-1, 0), (-1, -1)):
        assert list(pixels[row, column]) == [1, 1, 1, 1]
