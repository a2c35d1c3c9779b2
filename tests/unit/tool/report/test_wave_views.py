"""Views of waves name signals that are there."""

import re

import pytest

from diastole.backend import make_device
from diastole.config.presets import PRODUCTS_ONLY
from diastole.errors import BadInput
from diastole.execution import Execution
from diastole.report.wave_views import write_views

PORTS = [
    {"name": "aclk", "width": 1},
    {"name": "s_axil_awaddr", "width": 12},
    {"name": "m_axi_arvalid", "width": 1},
]


def test_views(tmp_path):
    waves = tmp_path / "waves.fst"
    gtkwave, surfer = (path.read_text() for path in write_views(waves, PORTS))
    assert gtkwave.splitlines() == [
        f'[dumpfile] "{waves}"',
        "@28", "product.Harness.product.aclk",
        "@200", "-registers",
        "@22", "product.Harness.product.s_axil_awaddr[11:0]",
        "@200", "-memory",
        "@28", "product.Harness.product.m_axi_arvalid",
    ]  # fmt: skip
    assert surfer.splitlines() == [
        f"load_file {waves}",
        "variable_add product.Harness.product.aclk",
        "divider_add registers",
        "variable_add product.Harness.product.s_axil_awaddr",
        "divider_add memory",
        "variable_add product.Harness.product.m_axi_arvalid",
        "zoom_fit",
    ]


def test_a_view_that_somebody_has_saved_stays(tmp_path):
    own = tmp_path / "waves.gtkw"
    own.write_text("mine")
    _, other = write_views(tmp_path / "waves.vcd", PORTS)
    assert own.read_text() == "mine"
    assert other.read_text().startswith("load_file ")


def test_no_place_for_views(tmp_path):
    with pytest.raises(BadInput):
        write_views(tmp_path / "no" / "waves.vcd", PORTS)


def test_signals_of_a_machine(tmp_path, capsys):
    """A trace of one level has what its views show."""
    waves = tmp_path / "waves.vcd"
    with make_device(Execution(seed=1, trace=waves, trace_depth=1), PRODUCTS_ONLY["pico"]):
        pass
    said = capsys.readouterr().err.splitlines()
    assert said[-1] == (
        f"diastole: wrote {waves}; views of the waves: {tmp_path}/waves.gtkw, {tmp_path}/waves.sucl"
    )
    scope: list[str] = []
    found = set()
    for line in waves.read_text().splitlines():
        words = line.split()
        if words[:1] == ["$scope"]:
            scope.append(words[2])
        elif words[:1] == ["$upscope"]:
            scope.pop()
        elif words[:1] == ["$var"]:
            found.add(".".join([*scope, words[4]]))
    shown = re.findall(r"variable_add (.*)", (tmp_path / "waves.sucl").read_text())
    assert len(shown) > 40
    assert set(shown) <= found
