"""What is checked of a backend before work begins."""

import argparse
import os

import pytest

from diastole.commands.backends import HARDWARE, check_execution, hardware_options


def given(**options):
    return argparse.Namespace(
        **dict.fromkeys(("trace", "trace_depth", "stalls", "latency", "port", "baud"))
        | {"backend": "rtl", "verify": False}
        | options
    )


@pytest.mark.parametrize(
    "options",
    [{}, {"stalls": 0, "verify": True}, {"backend": "golden"}],
    ids=["rtl", "rtl with all", "golden"],
)
def test_nothing_to_say(capsys, options):
    check_execution(given(**options))
    assert capsys.readouterr().err == ""


def test_options_that_change_nothing(capsys):
    check_execution(given(backend="golden", stalls=0, latency=9, verify=True))
    start = "diastole: warning: --"
    lines = capsys.readouterr().err.splitlines()
    assert [line.removeprefix(start).split()[0] for line in lines] == [
        "stalls",
        "latency",
        "verify",
    ]


def test_waves_need_a_place(tmp_path):
    check_execution(given(trace=tmp_path / "a.vcd"))
    os.mkfifo(tmp_path / "fifo.fst")
    check_execution(given(trace=tmp_path / "fifo.fst", trace_depth=2))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fifo.fst"]


def test_a_board_has_a_port(capsys):
    check_execution(given(backend="board", port="/dev/ttyUSB0", verify=True))
    check_execution(given(backend="board", port="/dev/ttyUSB0", baud=115200))
    assert capsys.readouterr().err == ""


def test_a_board_is_as_it_is(capsys, tmp_path):
    check_execution(given(backend="board", port="COM1", stalls=1, latency=2))
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        f"diastole: warning: --{name} changes nothing with --backend board, which is as it is"
        for name in ("stalls", "latency")
    ]


def test_options_of_hardware():
    options = hardware_options(given(port="COM1", stalls=4))
    assert options == dict.fromkeys(HARDWARE) | {"port": "COM1", "stalls": 4}
