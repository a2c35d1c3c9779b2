"""How far long work is: a line for every tenth, or a bar on a terminal."""

import builtins
import sys
import time

import pytest

from diastole.commands.progress import progress


def told(capsys, steps):
    with progress("work") as report:
        for done in range(1, steps + 1):
            report(done, steps, 1 / done)
    out, err = capsys.readouterr()
    assert out == ""
    return err.splitlines()


@pytest.mark.parametrize(
    "steps, lines",
    [
        (1, [1]),
        (3, [1, 2, 3]),
        (10, list(range(1, 11))),
        (25, [3, 5, 8, 10, 13, 15, 18, 20, 23, 25]),
        (1000, list(range(100, 1001, 100))),
    ],
)
def test_a_line_for_every_tenth(capsys, steps, lines):
    assert told(capsys, steps) == [
        f"diastole: work: step {done} of {steps}, loss {1 / done:.4f}" for done in lines
    ]


def test_time_that_is_left(capsys, monkeypatch):
    """Of work that is long enough to wait for; from the steps so far, which took as long each."""
    clock = iter([100.0, 104.0, 108.0, 112.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    assert [line.partition("loss ")[2] for line in told(capsys, 3)] == [
        "1.0000, about 8 s left",
        "0.5000, about 4 s left",
        "0.3333",
    ]


class Terminal:
    """Standard error on a terminal."""

    encoding = "utf-8"

    def __init__(self):
        self.written = []

    def isatty(self):
        return True

    def write(self, text):
        self.written.append(text)

    def flush(self): ...


def test_a_bar_on_a_terminal(monkeypatch, capsys):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress("work") as report:
        report(1, 2, 0.5)
        report(2, 2, 0.25)
    shown = "".join(terminal.written)
    assert "work, loss 0.2500" in shown
    assert "100%" in shown
    assert capsys.readouterr().out == ""


def test_lines_on_a_terminal_without_rich(monkeypatch):
    terminal, real = Terminal(), builtins.__import__

    def without_rich(name, *rest, **options):
        if name.startswith("rich"):
            raise ImportError(name)
        return real(name, *rest, **options)

    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(builtins, "__import__", without_rich)
    with progress("work") as report:
        report(1, 1, 0.5)
    assert "".join(terminal.written) == "diastole: work: step 1 of 1, loss 0.5000\n"


def test_nothing_but_a_bar(monkeypatch, capsys):
    with progress("work", lines=False) as report:
        report(1, 1, None)
    assert capsys.readouterr() == ("", "")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress("work", lines=False) as report:
        report(1, 1, None)
    shown = "".join(terminal.written)
    assert "work" in shown
    assert "loss" not in shown


def test_without_a_loss(capsys):
    with progress("work") as report:
        report(1, 1, None)
    assert capsys.readouterr().err == "diastole: work: step 1 of 1\n"


def test_without_a_standard_error(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", None)
    with progress("work") as report:
        report(1, 1, 0.5)
    assert capsys.readouterr().out == ""
