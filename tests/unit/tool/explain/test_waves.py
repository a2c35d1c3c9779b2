"""Waves read back: what signals were in every cycle, whatever the order of changes in the file."""

import io

import pytest
from amaranth.hdl import signed, unsigned
from amaranth.lib import data
from vcd import VCDWriter

from diastole.explain.waves import member, read_waves

NAMES = ("inner.wide", "inner.bit")


@pytest.fixture
def waves(tmp_path):
    """``waves([(time, {signal: value}), ...])``: what is read of a clock of period 2."""

    def made(changes, clock_first=True):
        text = io.StringIO()
        with VCDWriter(text, timescale="1 ns") as writer:
            signals = {
                "aclk": writer.register_var("outer", "aclk", "wire", 1, 0),
                "wide": writer.register_var("outer.inner", "wide", "wire", 70, 0),
                "bit": writer.register_var("outer.inner", "bit", "wire", 1, 0),
            }
            for time, values in changes:
                for name in sorted(values, reverse=not clock_first):
                    writer.change(signals[name], time, values[name])
        path = tmp_path / "a.vcd"
        path.write_text(text.getvalue())
        return read_waves(path, "outer", NAMES)

    return made


@pytest.mark.parametrize("clock_first", [True, False])
def test_values_are_those_before_the_edge_that_ends_a_cycle(waves, clock_first):
    found = waves(
        [
            (1, {"aclk": 1, "wide": 5}),
            (2, {"aclk": 0}),
            (3, {"aclk": 1, "bit": 1, "wide": 1 << 69}),
            (4, {"aclk": 0, "bit": 0}),
            (5, {"aclk": 1, "wide": 7}),
            (6, {"aclk": 0, "bit": 1}),
            (7, {"aclk": 1}),
        ],
        clock_first,
    )
    assert found["inner.wide"][:4] == [0, 5, 1 << 69, 7]
    assert found["inner.bit"][:4] == [0, 0, 0, 1]
    assert found.high("inner.bit")[0] == 3


def test_every_signal_has_a_value_in_every_cycle(waves):
    found = waves([(time, {"aclk": time % 2}) for time in range(1, 20)])
    assert {len(found[name]) for name in NAMES} == {found.cycles}
    assert found.cycles >= 9


def test_another_machines_waves_are_refused(tmp_path, waves):
    waves([(1, {"aclk": 1}), (2, {"aclk": 0})])
    with pytest.raises(ValueError, match=r"the waves have no inner\.absent, other"):
        read_waves(tmp_path / "a.vcd", "outer", (*NAMES, "inner.absent", "other"))
    with pytest.raises(ValueError, match="no aclk"):
        read_waves(tmp_path / "a.vcd", "elsewhere", ())


def test_members_of_packed_numbers():
    inner = data.StructLayout({"low": unsigned(3), "high": signed(5)})
    layout = data.StructLayout({"first": 1, "several": data.ArrayLayout(inner, 3)})
    value = layout.const(
        {"first": 1, "several": [{"low": n, "high": n - 2} for n in (1, 2, 5)]}
    ).as_bits()
    assert member(layout, value, "first") == 1
    assert [member(layout, value, "several", n, "low") for n in range(3)] == [1, 2, 5]
    assert [member(layout, value, "several", n, "high") for n in range(3)] == [31, 0, 3]
