"""What is printed, whatever the words hold and wherever they go."""

import io
import sys

import pytest

from diastole import console
from diastole.errors import BadInput


class Stream(io.TextIOWrapper):
    """Standard output or error of any encoding; ``failure`` is raised instead of writing."""

    def __init__(self, encoding="utf-8", failure=None):
        self.raw, self.failure = io.BytesIO(), failure
        super().__init__(self.raw, encoding, write_through=True)

    def write(self, text):
        if self.failure is not None:
            raise self.failure
        return super().write(text)

    @property
    def text(self):
        return self.raw.getvalue().decode(self.encoding)


@pytest.fixture
def redirected(monkeypatch):
    """Descriptors that were given up: tests keep theirs."""
    found = []
    monkeypatch.setattr(console, "_redirect_to_null", found.append)
    return found


@pytest.mark.parametrize(
    "encoding, text, shown",
    [
        ("utf-8", "grün", "grün"),
        ("ascii", "grün 𝄞", "gr\\xfcn \\U0001d11e"),
        ("utf-8", "a\udcffb", "a\\udcffb"),
        ("utf-8", "a\x1b[31m\r\tb\x7f", "a\\x1b[31m\\r\\tb\\x7f"),
        ("utf-8", "two\nlines", "two\nlines"),
    ],
)
def test_what_cannot_be_shown_is_escaped(monkeypatch, encoding, text, shown):
    stream = Stream(encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    console.say(text)
    assert stream.text == f"{shown}\n"


def test_json(monkeypatch):
    stream = Stream("ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    console.print_json({"a": "ü\n"})
    assert stream.text == '{\n  "a": "\\u00fc\\n"\n}\n'


@pytest.mark.parametrize(
    "function, start", [(console.note, ""), (console.warn, "warning: ")], ids=["note", "warn"]
)
def test_remarks_take_one_line(monkeypatch, function, start):
    stream = Stream("ascii")
    monkeypatch.setattr(sys, "stderr", stream)
    function("a\nü\x07")
    assert stream.text == f"diastole: {start}a\\n\\xfc\\x07\n"


def test_failures_may_take_more(monkeypatch):
    stream = Stream()
    monkeypatch.setattr(sys, "stderr", stream)
    console.fail("hung\nstate: \x1b")
    assert stream.text == "diastole: error: hung\nstate: \\x1b\n"


@pytest.mark.parametrize("function", [lambda: console.say("a"), lambda: console.print_json({})])
def test_results_need_an_output(monkeypatch, function):
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(BadInput, match=r"^standard output is closed$"):
        function()


def test_remarks_need_none(monkeypatch, capsys):
    """They never go to standard output instead."""
    monkeypatch.setattr(sys, "stderr", None)
    console.note("a")
    assert capsys.readouterr().out == ""


def test_a_full_disk(monkeypatch, redirected):
    full = OSError(28, "No space left on device")
    monkeypatch.setattr(sys, "stdout", Stream(failure=full))
    with pytest.raises(BadInput, match=r"^standard output: No space left on device$"):
        console.say("a")
    assert redirected == [1]
    monkeypatch.setattr(sys, "stderr", Stream(failure=full))
    console.note("a")
    assert redirected == [1, 2]


def test_a_reader_that_goes_is_no_error(monkeypatch, redirected):
    monkeypatch.setattr(sys, "stdout", Stream(failure=BrokenPipeError()))
    console.say("a")
    assert redirected == [1]
