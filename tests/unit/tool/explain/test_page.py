"""The page: one file, from which nothing of a user's text escapes, and numbers as they are."""

import json
import re

import numpy as np
import pytest

from diastole.config.presets import PRODUCTS_ONLY
from diastole.explain.page import TITLES, copy_key, write_page
from diastole.explain.shown_run import Pass, ShownRun, ways_of
from diastole.report.palette import DARK, LIGHT
from diastole_hw.plan.modes import Mode
from diastole_sim.spec.operations import OPERATIONS
from support.pages import random_operands
from support.products import machine

SIZES = {"m": 2, "k": 3, "n": 1}
CONFIG = PRODUCTS_ONLY["pico"]
GROUPED = machine("grouped", "bfp4", block=dict.fromkeys(("x", "w", "dy"), "1x4"))
LARGE = 2**60 + 1
"""An integer that no double holds."""


@pytest.fixture
def page():
    def made(first="forward", config=CONFIG):
        operands = random_operands(config, SIZES, seed=5)
        results = {"Y": np.random.default_rng(5).standard_normal((2, 1)).astype(np.float32)}
        run = ShownRun(mode=Mode.FORWARD, ways=ways_of(config.plan, Mode.FORWARD), cycles=9)
        run.passes.append(Pass(first=4, loads=0, t0=0, count=1, row=0, col=0, rows=1, cols=1))
        run.sums.append([[1, -2, 3, -LARGE]])
        runs = [("dx", run), ("forward", run)]
        return operands, results, write_page(config, SIZES, operands, results, runs, first)

    return made


def data_of(page):
    return json.loads(re.search('id="data">(.*?)</script>', page, re.DOTALL)[1])


def test_it_asks_nothing_of_a_network(page):
    text = page()[2]
    assert not re.search(r"(src|href)=|@import|url\(|fetch\(|XMLHttpRequest|import\(", text)
    addresses = set(re.findall(r"https?://[^\"' ]*", text))
    assert addresses == {"http://www.w3.org/2000/svg"}, "the name of a language, never asked for"


def test_numbers_are_those_of_the_tensors(page):
    operands, results, text = page()
    data = data_of(text)
    for name, operand in operands.items():
        values = np.array(data["tensors"][name]["values"], np.float32)
        assert np.array_equal(values, operand.values(0))
        assert np.array_equal(np.array(data["inputs"][name], np.float32), operand.floats)
        made = data["tensors"][name]["made"]
        assert made["significand"] == operand.conversions[0].significand.tolist()
        assert (made["draws"] is None) == (name != "dY"), "the class that rounds with draws"
    assert np.array_equal(np.array(data["tensors"]["Y"]["values"], np.float32), results["Y"])
    assert data["tensors"]["W"]["axes"] == ["k", "n"]
    assert data["runs"][0]["sums"] == [1, -2, 3, str(-LARGE)], "as text, where a double is not it"
    assert data["runs"][0]["passes"] == [[4, 0, 0, 1, 0, 0, 1, 1]]


@pytest.mark.parametrize("first, number", [("dx", 0), ("forward", 1)])
def test_the_operation_that_is_shown_first(page, first, number):
    assert data_of(page(first)[2])["first"] == number


def test_two_copies_have_names_of_their_own(page):
    operands, _, text = page(config=GROUPED)
    data = data_of(text)
    assert set(data["tensors"]) == {"X/0", "X/1", "W/0", "W/1", "dY/0", "dY/1", "Y"}
    way = data["runs"][0]["ways"][0]
    assert (way["streamed"], way["held"]) == ("X/0", "W/1")
    assert copy_key("X", 1, operands) == "X/1"


def test_every_operation_has_a_title():
    assert set(TITLES) == set(OPERATIONS)


def test_what_is_held_and_what_enters_is_said(page):
    assert "Vectors of X enter from the south; sums of Y leave to the east." in page()[2]


def test_colours_follow_the_reader(page):
    """Every colour that is used has a value in each theme, and none is written out."""
    text = page()[2]
    style, rest = re.search(r"<style>(.*?)</style>(.*)", text, re.DOTALL).groups()
    light, dark, chosen = (
        dict(re.findall(r"--(\w+): (#\w+)", rule))
        for rule in re.findall(r":root[^{]*\{([^}]*)\}", style)
    )
    assert (light, dark, chosen) == (LIGHT, DARK, DARK)
    used = set(re.findall(r"var\(--(\w+)\)", style)) | set(re.findall(r"COLOUR\.(\w+)", rest))
    assert used <= set(LIGHT)
    assert len(used) > 12
    assert not re.search(r"[\"' (:]#[0-9a-f]{3,6}[\"';)]", rest)
    assert "prefers-color-scheme: dark" in style


def test_controls_have_names(page):
    text = page()[2]
    for button in re.findall(r"<button[^>]*>.*?</button>", text):
        assert re.search(r'aria-label="\w|>\w', button), button
