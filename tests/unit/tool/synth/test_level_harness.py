"""The top of four pins, by what a simulator sees through it."""

import pytest

from diastole.synth.level_harness import FOLD, harness_text, levels
from diastole.synth.mapper import Design, MapRequest, map_design, working_folder
from diastole.synth.targets import ECP5
from diastole.synth.tools import YOSYS

PORTS = [
    {"name": "aclk", "direction": "input", "width": 1},
    {"name": "aresetn", "direction": "input", "width": 1},
    {"name": "a", "direction": "input", "width": 3},
    {"name": "b", "direction": "input", "width": 2},
    {"name": "sum", "direction": "output", "width": 5},
    {"name": "busy", "direction": "output", "width": 1},
]
MACHINE = """module unit (input aclk, input aresetn, input [2:0] a, input [1:0] b,
  output reg [4:0] sum, output busy);
  assign busy = ^a;
  always @(posedge aclk) sum <= aresetn ? a * b : 0;
endmodule
"""


def test_levels():
    assert levels(1) == [1]
    assert levels(4) == [4, 1]
    assert levels(17) == [17, 5, 2, 1]
    assert FOLD == 4


def test_ports_are_connected_in_their_order():
    text = harness_text("unit", PORTS)
    assert "module unit_harness(input aclk, input aresetn, input shifted, output folded);" in text
    for line in (
        "reg [5:0] chain;",
        ".a(chain[2:0]),",
        ".b(chain[4:3]),",
        ".sum(taken[4:0]),",
        ".busy(taken[5:5]),",
        "fold1[0] <= ^fold0[3:0];",
        "fold1[1] <= ^fold0[5:4];",
        "fold2[0] <= ^fold1[1:0];",
        "assign folded = fold2;",
        ".aresetn(reset_n)",
    ):
        assert line in text


def test_nothing_of_the_machine_is_optimised_away():
    design = Design(top="unit", machine=MACHINE, ports=tuple(PORTS)).in_harness()
    with working_folder() as folder:
        mapped = map_design(YOSYS.find(), design, MapRequest(ECP5, device="85k", flat=True), folder)
    of_harness = 1 + 5 + sum(levels(6))  # the chain's last bit is behind the last port
    assert mapped.tree.total["registers"] == of_harness + 5
    (machine,) = mapped.tree.parts
    assert (machine.name, machine.local["dsps"]) == ("unit", 1)
    assert mapped.scopes == {"machine": "unit"}


@pytest.mark.parametrize("left", [PORTS[1:], PORTS[:4]])
def test_what_has_no_clock_or_no_output(left):
    with pytest.raises(ValueError, match="unit has no aclk, aresetn or outputs"):
        harness_text("unit", left)
