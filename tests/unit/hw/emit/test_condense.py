"""Condensed Verilog declares the same names, and connects the same bits."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diastole_hw.emit.condense import WIDTH, condense
from diastole_hw.emit.sharing import convert_ports
from diastole_hw.emit.verilog import emit

MODULE = """\
module unit (
  input clk,
  output [7:0] o
);
  reg time_zero;
  initial time_zero <= 0;
  wire _00_;
  wire [3:0] _01_;
  reg _02_;
  wire _03_;
  reg [3:0] _04_;
  wire [3:0] _05_;
  wire [3:0] named;
  wire named_too;
  assign _00_ = named[0];
  assign o[7] = named[3];
  assign o[6:5] = named[2:1];
  assign o[4] = named[1];
  assign o[3] = named[0];
  assign o[2] = _01_[3];
  assign o[1] = named_too;
  assign o[0] = named[3];
endmodule
"""


def test_of_one_width_together_and_parts_side_by_side():
    assert condense(MODULE).splitlines()[6:] == [
        "  wire _00_, _03_;",
        "  wire [3:0] _01_, _05_;",
        "  reg _02_;",
        "  reg [3:0] _04_;",
        "  wire [3:0] named;",
        "  wire named_too;",
        "  assign _00_ = named[0];",
        "  assign o[7:5] = named[3:1];",
        "  assign o[4:3] = named[1:0];",
        "  assign o[2] = _01_[3];",
        "  assign o[1] = named_too;",
        "  assign o[0] = named[3];",
        "endmodule",
    ]


def test_long_declarations_are_folded():
    one_by_one = "".join(f"  wire _{n:02}_;\n" for n in range(90))
    lines = condense(one_by_one).splitlines()
    assert 2 < len(lines) < 10
    assert max(map(len, lines)) <= WIDTH
    assert re.findall(r"_\d+_", " ".join(lines)) == [f"_{n:02}_" for n in range(90)]
    assert [line[-1] for line in lines] == [","] * (len(lines) - 1) + [";"]


def test_groups_that_are_apart_stay_apart():
    """Each of them is condensed."""
    declared = "  wire _0_;\n  wire _1_;\n  wire named;\n  wire _2_;\n  wire _3_;\n"
    assert condense(declared) == "  wire _0_, _1_;\n  wire named;\n  wire _2_, _3_;\n"
    pair = "  assign {0}[1] = x[1];\n  assign {0}[0] = x[0];\n"
    text = "  assign c = d;\n".join(pair.format(name) for name in "ab")
    assert condense(text).splitlines() == [
        "  assign a[1:0] = x[1:0];",
        "  assign c = d;",
        "  assign b[1:0] = x[1:0];",
    ]


SPAN = st.tuples(st.integers(0, 15), st.integers(1, 4))
CONNECTIONS = st.lists(
    st.tuples(st.sampled_from("ab"), SPAN, st.sampled_from("xy"), st.integers(0, 15)), min_size=1
)
DOWN = st.integers(1, 12).flatmap(
    lambda n: st.lists(
        st.tuples(st.integers(1, 3), st.sampled_from("xy"), st.integers(0, 9)),
        min_size=n,
        max_size=n,
    )
)


def part(name: str, low: int, bits: int) -> str:
    return f"{name}[{low}]" if bits == 1 else f"{name}[{low + bits - 1}:{low}]"


def connected(text: str) -> list[tuple[str, int, str, int]]:
    """Every bit, with the one that it is connected to, as often as it is."""
    found = []
    for line in text.splitlines():
        left, right = re.fullmatch(r"  assign (.+) = (.+);", line).groups()
        ends = []
        for side in (left, right):
            name, high, low = re.fullmatch(r"(\w)\[(\d+)(?::(\d+))?\]", side).groups()
            ends.append([(name, bit) for bit in range(int(low or high), int(high) + 1)])
        found += [(*to, *of) for to, of in zip(*ends, strict=True)]
    return sorted(found)


@given(CONNECTIONS)
def test_connects_the_same_bits(connections):
    text = "".join(
        f"  assign {part(to, low, bits)} = {part(of, at, bits)};\n"
        for to, (low, bits), of, at in connections
    )
    assert connected(condense(text)) == connected(text)


@given(DOWN)
def test_connects_the_same_bits_of_one_signal(parts):
    text, low = "", sum(bits for bits, _, _ in parts)
    for bits, of, at in parts:
        low -= bits
        text += f"  assign {part('a', low, bits)} = {part(of, at, bits)};\n"
    assert connected(condense(text)) == connected(text)


@pytest.mark.parametrize("name", ["time_zero", "_a_", "count_1_", "_1"])
def test_only_intermediate_results_are_together(name):
    text = f"  reg {name};\n  reg {name}x;\n"
    assert condense(text) == text


def test_emission_is_condensed(demo):
    verilog = emit(demo, name="demo", ports=convert_ports(demo)).verilog
    assert condense(verilog) == verilog
