"""The longest path, out of a report of nextpnr, in names of ours."""

import pytest

from diastole.synth.paths import PathPoint, longest_path, place_of

SCOPES = {
    "machine": "m",
    "machine.core": "m_core",
    "machine.core.cell_0": "m_cell",
    "machine.core.bank": "m_bank",
}


@pytest.mark.parametrize(
    "name, component, signal",
    [
        ("machine.core.level_TRELLIS_FF_Q_4", "core", "level"),
        ("machine.core.level_TRELLIS_FF_Q_DI_LUT4_Z_D_CCU2C_S1$CCU2_COMB0", "core", "level"),
        ("machine.core.row0_addr[3]", "core", "row0_addr[3]"),
        ("machine.core.cell_0.sum_LUT4_Z[3]", "core.cell_0", "sum"),
        ("machine.core.bank.ram_words.0.0_DOB9", "core.bank", "ram_words"),
        ("machine.core.cell_0._0__TRELLIS_FF_Q_DI", "core.cell_0", ""),
        ("machine.busy_SB_LUT4_O", "", "busy"),
        ("fold1_TRELLIS_FF_Q_2", "harness", "fold1"),
        ("$PACKER_GND", "harness", ""),
    ],
)
def test_places(name, component, signal):
    assert place_of(name, SCOPES) == PathPoint(component=component, signal=signal)


def test_a_design_without_a_harness():
    assert place_of("core.x_LUT4_Z", {"core": "m_core"}) == PathPoint(component="core", signal="x")
    assert place_of("x_LUT4_Z", {"core": "m_core"}) == PathPoint(component="", signal="x")
    assert str(PathPoint(component="", signal="x")) == "top: x"
    assert str(PathPoint(component="core", signal="")) == "core"


def step(kind, delay, begin, end, net=None):
    ends = {"from": {"cell": begin}, "to": {"cell": end}}
    return {"type": kind, "delay": delay, **ends} | ({"net": net} if net else {})


BANK, LUT, FLIP = (
    "machine.core.bank.ram_words.0.0",
    "machine.core.bank.read_LUT4_Z",
    "machine.core.cell_0._0__TRELLIS_FF_Q",
)
PATH = [
    step("clk-to-q", 5.5, BANK, BANK),
    step("routing", 1.0, BANK, LUT, "machine.core.bank.ram_words.0.0_DOB9[1]"),
    step("logic", 0.25, LUT, LUT),
    step("routing", 2.0, LUT, FLIP, "machine.core.bank.read"),
    step("setup", 0.125, FLIP, FLIP),
]
CLOCK = "posedge $glbnet$aclk"
REPORT = [
    {"from": "<async>", "to": CLOCK, "path": [step("routing", 99.0, "shifted", LUT)]},
    {"from": CLOCK, "to": CLOCK, "path": PATH},
    {"from": CLOCK, "to": CLOCK, "path": PATH[:3]},
]


def test_the_longest_between_registers():
    path = longest_path(REPORT, SCOPES)
    assert path is not None
    assert (path.ns, path.logic_ns, path.routing_ns) == (8.875, 5.875, 3.0)
    assert str(path.begin) == "core.bank: ram_words"
    assert str(path.end) == "core.cell_0"
    found = [
        (str(each.place), each.cells, each.logic_ns, each.routing_ns) for each in path.stretches
    ]
    assert found == [("core.bank: read", 2, 5.75, 1.0), ("core.cell_0", 1, 0.125, 2.0)]
    record = path.record()
    assert record["from"] == {"component": "core.bank", "signal": "ram_words"}
    assert record["stretches"][1] == {
        "component": "core.cell_0", "signal": "", "cells": 1, "logic_ns": 0.125, "routing_ns": 2.0
    }  # fmt: skip


def test_none():
    assert longest_path(REPORT[:1], SCOPES) is None
