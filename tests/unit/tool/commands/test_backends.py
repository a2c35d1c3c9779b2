"""What is checked of a backend before work begins."""

import argparse
import os
import re

import pytest

from diastole.commands.backends import HARDWARE, check_execution, hardware_options
from diastole.errors import BadInput


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


def test_waves_need_hardware(tmp_path):
    with pytest.raises(BadInput, match=r"^--trace needs --backend rtl: "):
        check_execution(given(backend="golden", trace=tmp_path / "a.vcd"))


def test_waves_need_a_place(tmp_path):
    check_execution(given(trace=tmp_path / "a.vcd"))
    os.mkfifo(tmp_path / "fifo.fst")
    check_execution(given(trace=tmp_path / "fifo.fst", trace_depth=2))
    (tmp_path / "folder.vcd").mkdir()
    with pytest.raises(BadInput, match=r"is a directory$"):
        check_execution(given(trace=tmp_path / "folder.vcd"))
    with pytest.raises(BadInput, match="there is no folder "):
        check_execution(given(trace=tmp_path / "no" / "a.vcd"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fifo.fst", "folder.vcd"]


def test_waves_have_one_of_two_formats(tmp_path):
    text = f"--trace must end in .vcd or .fst, not {tmp_path}/a.lxt"
    with pytest.raises(BadInput, match=f"^{re.escape(text)}$"):
        check_execution(given(trace=tmp_path / "a.lxt"))


def test_a_depth_of_no_waves():
    with pytest.raises(BadInput, match=r"^--trace-depth needs --trace, "):
        check_execution(given(trace_depth=3))


def test_a_board_has_a_port(capsys):
    check_execution(given(backend="board", port="/dev/ttyUSB0", verify=True))
    check_execution(given(backend="board", port="/dev/ttyUSB0", baud=115200))
    assert capsys.readouterr().err == ""
    text = "--backend board needs --port, where the board is, such as /dev/ttyUSB0"
    with pytest.raises(BadInput, match=rf"^{re.escape(text)}$"):
        check_execution(given(backend="board"))
    for option, value in (("port", "COM1"), ("baud", 9600)):
        for backend in ("rtl", "golden"):
            text = f"--{option} is of --backend board, not of {backend}"
            with pytest.raises(BadInput, match=rf"^{re.escape(text)}$"):
                check_execution(given(backend=backend, **{option: value}))


def test_a_board_is_as_it_is(capsys, tmp_path):
    check_execution(given(backend="board", port="COM1", stalls=1, latency=2))
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        f"diastole: warning: --{name} changes nothing with --backend board, which is as it is"
        for name in ("stalls", "latency")
    ]
    with pytest.raises(BadInput, match=r"^--trace needs --backend rtl: a board records none$"):
        check_execution(given(backend="board", port="COM1", trace=tmp_path / "a.vcd"))


def test_options_of_hardware():
    options = hardware_options(given(port="COM1", stalls=4))
    assert options == dict.fromkeys(HARDWARE) | {"port": "COM1", "stalls": 4}
