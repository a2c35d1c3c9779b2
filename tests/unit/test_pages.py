"""Snippets of pages of the documents, run as they stand there."""

import re
import subprocess
import sys

import numpy as np

from support.sources import ROOT

BLOCK = re.compile(r"(?:^    .*\n|^\n(?=    ))+", re.MULTILINE)


def blocks(page):
    """Return the indented blocks of a page, without the indentation."""
    found = BLOCK.findall((ROOT / "docs" / page).read_text())
    return [re.sub(r"^    ", "", block, flags=re.MULTILINE) for block in found]


def test_the_square_of_the_numbers():
    """Every line of the example with a comment says its value first in the comment."""
    names: dict[str, object] = {}
    first, *_ = (block for block in blocks("how/numbers.md") if "import diastole" in block)
    checked = 0
    for line in first.strip().splitlines():
        code, _, said = line.partition("#")
        if not said:
            exec(code, names)
            continue
        value = re.match(r"\s*(\[.*?\]\])", said)
        assert value is not None, line
        np.testing.assert_array_equal(eval(code, names), np.array(eval(value[1])))
        checked += 1
    assert checked == 3


def test_draws_of_the_numbers():
    names: dict[str, object] = {}
    text = (ROOT / "docs" / "how" / "numbers.md").read_text()
    exec("import diastole\nx = [[0.9, -0.3], [0.06, 2.7]]", names)
    (call,) = (b.strip() for b in blocks("how/numbers.md") if "stochastic-b" in b and "step=" in b)
    rows = re.findall(r"^\| ([012]) \| [\d, ]+ \| ([-\d., ]+) \|$", text, re.MULTILINE)
    assert [step for step, _ in rows] == ["0", "1", "2"]
    for step, said in rows:
        found = eval(call.replace("step=2", f"step={step}"), names)
        assert np.array_equal(np.ravel(found), [float(word) for word in said.split(",")]), step


def test_the_reference_pages_are_those_of_the_tree(tmp_path):
    """`python scripts/reference_pages.py` renews the pages."""
    script = ROOT / "scripts" / "reference_pages.py"
    subprocess.run([sys.executable, script, tmp_path], check=True, capture_output=True)
    made = {page.name: page.read_text() for page in tmp_path.iterdir()}
    stored = {page.name: page.read_text() for page in (ROOT / "docs" / "reference").iterdir()}
    assert made
    assert made == stored
