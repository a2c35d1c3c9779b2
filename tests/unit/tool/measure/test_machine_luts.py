"""Figures of whole machines, of a mapper that finds what a test says."""

import pytest

from diastole.config.presets import PRODUCTS_ONLY
from diastole.measure import machine_luts
from diastole.measure.machine_luts import figures, largest
from diastole.synth.tree import Component

CELL = Component(name="cell", instances=4, own={"nand2": 256 * 90}, parts=())
DUST = Component(name="dust", instances=1, own={"nand2": 256}, parts=())
ARRAY = Component(name="array", instances=1, own={"nand2": 256 * 10}, parts=(CELL, DUST))
WHOLE = Component(name="nano", instances=1, own={"nand2": 256 * 99}, parts=(ARRAY,))


def test_figures():
    asked = []
    sites = {"diastole_pico": 17_001, "diastole_nano": 60_000}

    def map_machine(config, target, flat):
        asked.append((config.name, target.name, flat))
        if flat:
            own = {"sites": sites[config.name], "luts": 99_999}
            return Component(name=config.name, instances=1, own=own, parts=())
        return WHOLE

    found = [(each.what, each.measured, each.met) for each in figures(map_machine)]
    assert found == [
        ("sites of `pico` on ECP5, flat", "17,001", False),
        ("sites of `nano` on ECP5, flat", "60,000", None),
        ("NAND2 per MAC of `nano`: nano", "200.0", None),
        ("NAND2 per MAC of `nano`: array", "101.0", None),
        ("NAND2 per MAC of `nano`: cell", "90.0", None),
    ]
    assert asked == [
        ("diastole_pico", "ecp5", True),
        ("diastole_nano", "ecp5", True),
        ("diastole_nano", "sg13g2", False),
    ]
    assert PRODUCTS_ONLY["nano"].macs == 256


def test_small_ones_are_left_out():
    assert [name for name, _ in largest(WHOLE, 256)] == ["nano", "array", "cell", "dust"]
    assert [name for name, _ in largest(WHOLE, 257)] == ["nano", "array", "cell"]


def test_a_machine_is_mapped_by_the_pinned_yosys(monkeypatch):
    """With all that the flow is told."""
    told = {}

    def synthesise(request, design, tools):
        told.update(flat=request.flat, target=request.target.name, top=design.top)
        told.update(tools=set(tools.versions))
        return type("Found", (), {"tree": WHOLE})

    monkeypatch.setattr(machine_luts, "synthesise", synthesise)
    config = PRODUCTS_ONLY["pico"]
    contents = {
        "top": config.name, "files": [], "ports": [], "memories": [], "macs": 0,
    }  # fmt: skip
    monkeypatch.setattr(machine_luts, "product_contents", lambda config: ({}, contents))
    assert machine_luts.mapped(config, machine_luts.ECP5, True) is WHOLE
    assert told == {"flat": True, "target": "ecp5", "top": config.name, "tools": {"yosys"}}


@pytest.mark.parametrize("preset", machine_luts.MOST_SITES)
def test_presets_that_are_asked_of(preset):
    assert preset in PRODUCTS_ONLY
