"""The backward pass of the planned presets, fused and as two products."""

import pytest

from diastole.measure import gradient_order_presets
from diastole.measure.gradient_order_presets import (
    BUSES,
    fused_over_apart,
    planned,
    preset_rows,
    preset_table,
)
from diastole_sim.perf.planned import best, best_backward


def test_planned():
    machine = planned("server", "bfp4")
    assert (machine.rows, machine.cols, machine.block) == (16, 16, 8)
    assert (machine.data_width, machine.ports) == (512, 2)
    assert machine.element_bits == (5, 5, 5)
    assert planned("nano", "mxfp8_e4m3").element_bits == (8, 8, 8)


def test_compare():
    """Against the chooser that a host has: what it chooses is the faster of the two."""
    machine = planned("server", "bfp4")
    found = fused_over_apart(machine, 128, 128, 64)
    apart = [best(machine, op, 128, 128, 64) for op in ("dx", "dw")]
    assert found["cycles"] == sum(each.cycles for each in apart)
    assert found["bytes"] == sum(each.read_bytes + each.write_bytes for each in apart)
    chosen = sum(each.cycles for each in best_backward(machine, 128, 128, 64))
    assert chosen == pytest.approx(found["cycles"] * min(1, found["time_ratio"]))
    assert found["bytes_ratio"] <= 1


@pytest.mark.parametrize("format_name", ["mxfp8_e4m3", "nvfp4"])
def test_vector_groups_have_no_fused_pass(format_name):
    found = fused_over_apart(planned("nano", format_name), 32, 32, 32)
    assert (found["time_ratio"], found["bytes_ratio"]) == (None, None)


def test_rows(monkeypatch):
    monkeypatch.setattr(gradient_order_presets, "LAYERS", {"small": (32, 32, 32)})
    rows = list(preset_rows())
    assert [row["preset"] for row in rows[::3]] == list(BUSES)
    lines = list(preset_table(rows))
    assert len(lines) == 2 + len(rows)
    assert lines[2].split()[:3] == ["nano", "bfp4", "small"]
    assert lines[3].split()[-2:] == ["-", "-"]
