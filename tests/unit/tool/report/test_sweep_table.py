"""Many machines: the table, the front of cycles against area, the picture."""

import pytest

from diastole.layers.machine_size import MachineSize
from diastole.layers.sweep import SweptMachine
from diastole.report.sweep_table import FRONT, REST, sweep_lines, write_front

TOTAL = {
    "utilisation": 0.5, "dram_read_bytes": 2e6, "dram_write_bytes": 3e6, "bound": "reading",
    "seconds": 0.00125, "tops": 0.25,
}  # fmt: skip


def machine(value, *, macs=64, area=None, cycles=1234):
    size = MachineSize(multipliers=macs, scratchpad_kib=3.5, sum_kib=2.25, area_per_mac_nand2=area)
    return SweptMachine(
        overrides=("a=1", f"b={value}"), size=size, total=TOTAL | {"cycles": cycles}
    )


MACHINES = [
    machine(2, macs=64, area=100.0, cycles=5000),
    SweptMachine(overrides=("a=1", "b=3"), refused=("b must be even",)),
    machine(4, macs=32, area=100.0, cycles=9000),
    machine(6, macs=128, area=100.0, cycles=5000),
    machine(8, macs=256, area=100.0, cycles=1234),
]


def test_a_line_for_every_machine():
    lines = sweep_lines(MACHINES)
    assert lines[1].split() == [
        "1", "2", "64", "6", "6", "5,000", "50.0%", "2.0", "3.0", "reading",
    ]  # fmt: skip
    assert lines[2].endswith("no such machine")
    assert "no such machine: b must be even" in lines


def test_it_ends_in_the_machines_that_no_other_one_beats():
    """By area; the third has the cycles of the first in twice the cells."""
    lines = sweep_lines(MACHINES)
    start = lines.index(FRONT["cells_nand2"])
    front = [line.split() for line in lines[start + 2 : -1]]
    assert [(row[1], row[4], row[5]) for row in front] == [
        ("4", "3", "9,000"), ("2", "6", "5,000"), ("8", "26", "1,234"),
    ]  # fmt: skip
    assert lines[-1] == REST


def test_machines_without_a_known_area():
    """One without is not compared; where none has an area, multipliers stand for it."""
    some = sweep_lines([*MACHINES, machine(10, cycles=7)])
    assert some[-2] == "1 machines have no known area and are not compared"
    none = sweep_lines([machine(2, macs=64), machine(4, macs=32)])
    start = none.index(FRONT["multipliers"])
    assert [line.split()[1] for line in none[start + 2 : -1]] == ["4"]


def test_columns_at_a_clock():
    lines = sweep_lines(MACHINES, 100)
    assert lines[0].split()[6:10] == ["cycles", "ms", "TOPS", "used"]
    assert lines[1].split()[5:8] == ["5,000", "1.25", "0.25"]


@pytest.mark.parametrize("clock, label", [(None, "cycles"), (100.0, "milliseconds at 100 MHz")])
def test_picture(tmp_path, monkeypatch, clock, label):
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    kept = []
    made = Figure.subplots
    monkeypatch.setattr(Figure, "subplots", lambda self: kept.append(made(self)) or kept[-1])
    path = tmp_path / "front.png"
    write_front(MACHINES, path, "a $sweep$", clock)
    assert path.read_bytes().startswith(b"\x89PNG")
    (axes,) = kept
    assert axes.get_xlabel() == "area of all cells, k NAND2"
    assert axes.get_ylabel() == label
    assert list(axes.lines[0].get_xdata()) == [3.2, 6.4, 25.6]
    assert [text.get_text() for text in axes.texts] == ["a=1, b=4", "a=1, b=2", "a=1, b=8"]
