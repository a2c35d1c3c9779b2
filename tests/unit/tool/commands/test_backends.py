"""What is checked of a backend before work begins."""

import argparse
import os

import pytest

from diastole.commands.backends import execution_of
from diastole.errors import BadInput
from diastole.execution import Execution


def given(**options):
    return argparse.Namespace(
        **dict.fromkeys(("trace", "trace_depth", "stalls", "latency", "port", "baud"))
        | {"backend": "rtl", "seed": 0, "verify": False}
        | options
    )


@pytest.mark.parametrize(
    "options",
    [{}, {"stalls": 0, "verify": True}, {"backend": "golden"}],
    ids=["rtl", "rtl with all", "golden"],
)
def test_nothing_to_say(capsys, options):
    execution_of(given(**options))
    assert capsys.readouterr().err == ""


def test_options_that_change_nothing(capsys):
    execution_of(given(backend="golden", stalls=0, latency=9, verify=True))
    start = "diastole: warning: --"
    lines = capsys.readouterr().err.splitlines()
    assert [line.removeprefix(start).split()[0] for line in lines] == [
        "stalls",
        "latency",
        "verify",
    ]


def test_waves_need_a_place(tmp_path):
    execution_of(given(trace=tmp_path / "a.vcd"))
    os.mkfifo(tmp_path / "fifo.fst")
    execution_of(given(trace=tmp_path / "fifo.fst", trace_depth=2))
    (tmp_path / "folder.vcd").mkdir()
    with pytest.raises(BadInput, match=r"is a directory$"):
        execution_of(given(trace=tmp_path / "folder.vcd"))
    with pytest.raises(BadInput, match="there is no folder "):
        execution_of(given(trace=tmp_path / "no" / "a.vcd"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fifo.fst", "folder.vcd"]


def test_a_board_is_as_it_is(capsys):
    execution_of(given(backend="board", port="COM1", stalls=1, latency=2, verify=True))
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        (
            f"diastole: warning: --{name} changes nothing with --backend board, which has "
            "fixed hardware"
        )
        for name in ("stalls", "latency")
    ]


def test_what_was_asked():
    asked = execution_of(given(backend="board", port="COM1", baud=115200, seed=4, verify=True))
    assert asked == Execution(backend="board", port="COM1", baud=115200, seed=4)
    asked = execution_of(given(stalls=4, latency=9))
    assert asked == Execution(stalls=4, latency=9)


def test_what_is_refused():
    with pytest.raises(BadInput, match=r"^--backend board needs --port, "):
        execution_of(given(backend="board"))
