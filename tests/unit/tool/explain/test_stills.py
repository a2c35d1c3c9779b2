"""Stills of a page: how pictures are put together; those of the documents are in tests/product."""

import html
import json
from xml.etree import ElementTree

import pytest

from diastole.explain import stills as stills_module
from diastole.explain.stills import GAP, TITLE, Picture, composed, stills

SVG = "{http://www.w3.org/2000/svg}"


def picture(title, width, height, left=0):
    return Picture(title, f"{left} 0 {width} {height}", f"<g id='{title}'/>")


def places(text):
    """The whole size, and by the group in each picture where the picture stands, and how large."""
    root = ElementTree.fromstring(text)
    inner = {
        next(iter(node)).get("id"): tuple(
            float(node.get(name)) for name in ("x", "y", "width", "height")
        )
        for node in root.findall(f"{SVG}svg")
    }
    return root.get("viewBox"), inner


def test_two_in_a_row_with_room_for_the_widest():
    found = [picture("a", 100, 50), picture("b", 120, 40, left=7), picture("c", 90, 60)]
    whole, inner = places(composed(found, picture("legend", 300, 20)))
    step, row = 120 + GAP, 60 + TITLE + GAP
    assert inner == {
        "a": (0, TITLE, 100, 50),
        "b": (step, TITLE, 120, 40),
        "c": (0, row + TITLE, 90, 60),
        "legend": (0, 2 * row, 300, 20),
    }
    assert whole == f"0 0 300 {2 * row + 20}"


def test_one_alone_and_a_title_that_is_no_markup():
    text = composed([picture("a", 100, 50)])
    assert places(text)[0] == f"0 0 100 {50 + TITLE + GAP}"
    text = composed([Picture("a < b", "0 0 9 9", "")])
    assert ElementTree.fromstring(text).find(f"{SVG}text").text == "a < b"


def test_stills_are_what_the_scripts_of_the_page_leave(monkeypatch):
    one = list(picture("one", 10, 10))
    found = {"still": one, "dataflows": [one, one], "legend": list(picture("legend", 9, 9))}

    def document_after(page, browser):
        assert page.read_text(encoding="utf-8").startswith("<p>the page</p><script>")
        return f'<pre id="found">{html.escape(json.dumps(found))}</pre>'

    monkeypatch.setattr(stills_module, "document_after", document_after)
    made = stills("<p>the page</p>", "browser")
    assert set(made) == {"explain.svg", "dataflows.svg"}
    assert "legend" in made["dataflows.svg"]
    assert "legend" not in made["explain.svg"]


def test_a_page_whose_scripts_do_not_run(monkeypatch):
    monkeypatch.setattr(stills_module, "document_after", lambda *_: "")
    with pytest.raises(RuntimeError, match="lightpanda did not run the scripts of the page"):
        stills("", "lightpanda")
