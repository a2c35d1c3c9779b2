"""What is checked of a backend before work begins."""

import argparse
import os
import re

import pytest

from diastole.commands.backends import check_execution
from diastole.errors import BadInput


def given(**options):
    return argparse.Namespace(
        **dict.fromkeys(("trace", "trace_depth", "stalls", "latency"))
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
