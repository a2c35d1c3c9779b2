"""Pages of `diastole explain` in the browsers of this machine, with a reader that tries everything.

`page_reader.js` presses keys and points at what is there, and leaves what it was told in the page.
"""

import html
import json
import re
from pathlib import Path

import numpy as np
import pytest

from diastole.explain.browser import LIGHTPANDA, browsers, document_after
from diastole.explain.shown_conversion import conversions_of
from diastole.explain.shown_operands import ShownOperand
from diastole_sim.device.conversion import Conversion
from diastole_sim.golden.convert import quantise
from diastole_sim.spec.operations import OPERANDS

NONE = pytest.mark.skip("no browser: make setup installs one where the system is new enough")
BROWSERS = browsers() or [pytest.param(None, marks=NONE)]
"""Parameters of a test: every browser, or a skip that says why there is none."""
NO_CHROMIUM = pytest.mark.skip("no Chromium: the layout of a page needs a browser that draws")
CHROMIUM = [each for each in browsers() if Path(each).name != LIGHTPANDA] or [
    pytest.param(None, marks=NO_CHROMIUM)
]
"""Parameters of a test: every browser that draws, or a skip that says why there is none."""
READER = Path(__file__).with_name("page_reader.js").read_text()


def left_in(document):
    """Return what a script of ours has left in the document of a page, as JSON."""
    found = re.search('<pre id="told">(.*?)</pre>', document, re.DOTALL)
    assert found, "the scripts of the page did not run"
    return json.loads(html.unescape(found[1]))


def read_in(browser, text, folder):
    """What a reader of the page ``text`` is told."""
    page = folder / "page.html"
    page.write_text(text.replace("</body>", f"<script>{READER}</script></body>"), encoding="utf-8")
    return left_in(document_after(page, browser))


RULER = """
const frame = document.querySelector("iframe"), inner = frame.contentWindow, page = inner.document;
const box = node => node.getBoundingClientRect();
const paper = () => inner.getComputedStyle(page.body).backgroundColor.match(/\\d+/g).map(Number);
const stage = page.getElementById("stage"), picture = page.getElementById("picture");
const buttons = [...page.querySelectorAll("button")].map(box);
const scale = box(picture).width / picture.viewBox.baseVal.width;
const sizes = [...picture.querySelectorAll("text")]
  .map(each => Number(each.getAttribute("font-size")));
const found = {width: inner.innerWidth, page: page.documentElement.scrollWidth,
  stage: stage.clientWidth, picture: stage.scrollWidth, buttons: buttons.length,
  smallest: Math.min(...buttons.flatMap(each => [each.width, each.height])),
  text: scale * Math.min(...sizes)};
for (const theme of ["light", "dark"]) {
  page.documentElement.dataset.theme = theme;
  found[theme] = paper();
}
frame.remove();
const result = document.createElement("pre");
result.id = "told";
result.textContent = JSON.stringify(found);
document.body.append(result);
"""


def measured_in(browser, text, folder, *, width):
    """Sizes of the page ``text`` in a window of so many pixels, and its paper by theme."""
    (folder / "inner.html").write_text(text, encoding="utf-8")
    page = folder / "frame.html"
    page.write_text(
        f'<body><iframe src="inner.html" style="width:{width}px;height:4000px;border:0"></iframe>'
        f'<script>window.addEventListener("load", () => {{{RULER}}});</script>',
        encoding="utf-8",
    )
    return left_in(document_after(page, browser))


def shown_operand(given, each, numerics, *, seed):
    """A tensor as the golden model converts it for the page."""
    tag = each.number
    stored = quantise(given, Conversion(each.tensor_class, tag=tag, step=0), numerics, seed=seed)
    conversions = conversions_of(given, stored, numerics, seed=seed, tag=tag)
    return ShownOperand(floats=given, stored=stored, conversions=conversions)


def random_operands(config, sizes, *, seed, kind=None):
    """X, W and dY of a machine, normally distributed or of a ``kind`` of data."""
    random = np.random.default_rng(seed)
    operands = {}
    for each in OPERANDS:
        shape = (sizes[each.rows], sizes[each.columns])
        given = (
            random.standard_normal(shape).astype(np.float32)
            if kind is None
            else kind(random, shape)
        )
        operands[each.name] = shown_operand(given, each, config.numerics, seed=seed)
    return operands
