"""The gate of docstrings and documents."""

import json

import pytest

from support import prose
from support.prose import Figures

PLAIN = '''"""Split a request into bursts."""

WIDTH = 8
"""Bits of a byte."""


class Queue:
    """Keep words in order."""

    def depth(self):
        "Number of words."
        return f"of {WIDTH}"
'''
CRYPTIC = PLAIN.replace("Split a request", "Of those that it splits").replace("Number of", "Its")


def test_docstrings_are_those_of_modules_classes_functions_and_attributes():
    texts = ["Split a request into bursts.", "Bits of a byte.", "Keep words in order."]
    assert list(prose.docstrings(PLAIN)) == [*texts, "Number of words."]


def test_figures_of_a_package():
    assert prose.of_package([PLAIN]) == Figures()
    # 4 of 17 words are vague, and 1 of 4 docstrings begins with "of".
    assert prose.of_package([CRYPTIC]) == Figures(vague=23.5, headless=25.0)


@pytest.mark.parametrize(
    "text, headless",
    [
        ("Of an operand.", True),
        ("Whether a bit is lost.", True),
        ("what a unit does", True),
        ("The same, of rows.", True),
        ("Offsets of rows.", False),
        ("Forward a word.", False),
        ("Two words.", False),
    ],
)
def test_beginnings_without_a_subject(text, headless):
    assert (prose.HEADLESS.match(text) is not None) == headless


def test_names_in_backticks_are_no_vague_words():
    assert prose.vague_rate(["`it` and ``that`` and :class:`this.those` and https://what.org"]) == 0
    assert prose.vague_rate(["The unit keeps it."]) == 25


@pytest.mark.parametrize(
    "text, count",
    [
        ("word " * 40, 0),
        ("word " * 41, 1),
        ("word " * 30 + "end. " + "word " * 30, 0),
        ("word " * 30 + "end; " + "word " * 30, 1),
        ("word " * 30 + "\n\n" + "word " * 30, 0),
        ("word " * 30 + "\n- " + "word " * 30, 0),
        ("word " * 21 + "\n" + "word " * 20, 1),
    ],
)
def test_sentences_of_more_than_forty_words(text, count):
    assert len(prose.long_sentences(text)) == count


def test_figures_of_a_document():
    long = "plain " * 30
    table, code, link = f"| {long} |", f"    {long}", "see https://" + "x" * 130
    text = "\n".join(["A title", "", table, code, f"```\n{long}\n```", link, "The words it has."])
    assert prose.of_document(text).lines == 0
    assert prose.of_document(text + "\n" + long).lines == 1
    assert prose.of_document("The words it has.").vague == 25


def test_the_text_of_a_notebook_is_its_markdown(tmp_path):
    path = tmp_path / "docs" / "a.ipynb"
    path.parent.mkdir()
    cells = [("markdown", ["# A title\n", "The words it has."]), ("code", ["it = those"])]
    cells.append(("markdown", ["- plain " + "plain " * 50]))
    document = {"cells": [{"cell_type": kind, "source": lines} for kind, lines in cells]}
    path.write_text(json.dumps(document))
    assert prose.document_text(path) == "# A title\nThe words it has.\n\n" + cells[2][1][0] + "\n"
    for package in prose.PACKAGES:
        (tmp_path / package).mkdir(parents=True)
    # 1 of 57 words is vague. The last cell is a sentence, and a line, that is too long.
    expected = Figures(vague=1.8, sentences=1, lines=1)
    assert prose.measured(tmp_path) == {"docs/a.ipynb": expected}


def test_limits_of_some_texts(tmp_path):
    path = tmp_path / "prose.toml"
    path.write_text('[all]\nvague = 5.0\nlines = 0\n["a.md"]\nlines = 3\nwhy = "a table"\n')
    common, own = prose.read_limits(path)
    assert common == Figures(vague=5.0)
    assert own == {"a.md": Figures(vague=5.0, lines=3)}
    found = {"a.md": Figures(vague=5.1, lines=3), "b.md": Figures(lines=1)}
    assert prose.problems(found, common, own) == [
        "a.md: vague is 5.1, and may be 5.0",
        "b.md: lines is 1, and may be 0",
    ]
    assert prose.problems({}, common, own) == ["a.md: there is no such text; take its limits out"]


def test_a_limit_without_a_reason_is_refused(tmp_path):
    path = tmp_path / "prose.toml"
    path.write_text('[all]\nvague = 5.0\n["a.md"]\nlines = 3\n')
    with pytest.raises(ValueError, match="needs a why"):
        prose.read_limits(path)


def test_every_package_and_document_is_measured():
    found = prose.measured()
    assert {"hw/diastole_hw", "hw/diastole_hw/cell", "README.md"} <= found.keys()
    assert {"docs/how/array.md", "docs/tutorials/array.ipynb"} <= found.keys()
    assert prose.read_limits()[0].vague <= 5
