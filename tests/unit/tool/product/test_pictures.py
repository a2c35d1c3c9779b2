"""Pictures are well-formed, and have the sizes of the machine."""

from xml.etree import ElementTree

import pytest

from diastole.config.presets import PRESETS
from diastole.product.example import FirstRun
from diastole.product.pictures import Box, Wire, blocks, drawing, first_run
from support.product_facts import facts_of, little_config
from support.sources import ROOT

SVG = "{http://www.w3.org/2000/svg}"


def texts(picture: str) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(picture).iter(f"{SVG}text")]


@pytest.mark.parametrize("config", [little_config(), PRESETS["nano"]], ids=["little", "nano"])
def test_blocks_have_their_sizes(config):
    facts = facts_of(config)
    plan = config.plan
    found = texts(blocks(facts))
    assert f"Array, {plan.rows} x {plan.cols} cells" in found
    assert f"{plan.macs} in all" in found
    assert f"AXI4, {plan.data_width} bits" in found
    assert f"stationary: {plan.stationary_blocks} blocks a bank" in found
    assert ("Vector unit" in found) == (plan.vector is not None)


def test_the_picture_of_the_documents_is_current():
    kept = (ROOT / "docs" / "blocks.svg").read_text(encoding="utf-8")
    assert texts(kept) == texts(blocks(facts_of(PRESETS["nano"]))), "python scripts/pictures.py"


def test_formats_that_differ_are_told_apart():
    facts = facts_of(little_config("mixed", format={"x": "bfp3", "w": "bfp5", "dy": "bfp2"}))
    found = texts(blocks(facts))
    assert "X bfp3, W bfp5" in found
    assert "dY bfp2" in found


def test_first_run_has_the_addresses():
    facts = facts_of(little_config())
    run = FirstRun(numerics=facts.config.numerics, data_width=32)
    found = texts(first_run(facts, run))
    for place in run.places.values():
        assert f"0x{place.address:08X}  {place.what}" in found
    assert "X 5 x 9 and W 9 x 6 as floats" in found


def test_nothing_is_drawn_outside():
    for config in (little_config(), PRESETS["nano"]):
        facts = facts_of(config)
        run = FirstRun(numerics=config.numerics, data_width=config.bus.data_width)
        for picture in (blocks(facts), first_run(facts, run)):
            root = ElementTree.fromstring(picture)
            width, height = int(root.get("width")), int(root.get("height"))
            for box in root.iter(f"{SVG}rect"):
                x, y = int(box.get("x", 0)), int(box.get("y", 0))
                assert x + int(box.get("width")) <= width
                assert y + int(box.get("height")) <= height


def test_what_means_something_to_xml_is_escaped():
    box = Box(x=0, y=0, width=10, title="a < b & c", lines=())
    picture = drawing("<&>", 20, 20, [box, Wire(points=((0, 0), (0, 9)), label="<")])
    assert texts(picture) == ["a < b & c", "<"]
