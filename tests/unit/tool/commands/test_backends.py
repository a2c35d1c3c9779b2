"""What is checked of a backend before work begins."""

import argparse
import os

import pytest

from diastole.commands.backends import check_execution
from diastole.errors import BadInput


def given(**options):
    return argparse.Namespace(
        **{"backend": "rtl", "trace": None, "stalls": None, "latency": None, "verify": False}
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
    os.mkfifo(tmp_path / "fifo")
    check_execution(given(trace=tmp_path / "fifo"))
    with pytest.raises(BadInput, match=r"is a directory$"):
        check_execution(given(trace=tmp_path))
    with pytest.raises(BadInput, match="there is no folder "):
        check_execution(given(trace=tmp_path / "no" / "a.vcd"))
    assert [path.name for path in tmp_path.iterdir()] == ["fifo"]
