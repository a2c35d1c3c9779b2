"""Small designs on every target, by real synthesis, both ways; and progress."""

import dataclasses
import json
import re

import pytest

from diastole.errors import CheckFailed
from diastole.synth.mapper import (
    NETLIST,
    Design,
    MapRequest,
    map_design,
    without_comments,
    working_folder,
)
from diastole.synth.targets import ECP5, FPGAS, sg13g2
from diastole.synth.tools import YOSYS
from support.small_product import (
    DESIGN,
    MACHINE,
    MEMORIES,
    QUEUE_BITS,
    REGISTERS,
    write_product,
)

TARGETS = [*FPGAS.values(), sg13g2()]


@pytest.mark.parametrize("flat", [False, True], ids=["by component", "flat"])
@pytest.mark.parametrize("target", TARGETS, ids=lambda each: each.name)
@pytest.mark.sampled(4)
def test_real_synthesis(target, flat):
    device = target.device(None) if target.name in FPGAS else ""
    with working_folder() as folder:
        asked = MapRequest(target, device=device, flat=flat)
        mapped = map_design(YOSYS.find(), DESIGN, asked, folder)
        assert (folder / NETLIST).exists() == (flat or target.name in FPGAS)
    assert not folder.exists()
    tree = mapped.tree
    instances = {"s": "t_adds", "s2": "t_adds", "queue": "t_queue"}
    if target.name != "sg13g2":  # where memories with a clocked read are black boxes
        instances["words"] = "t_words"
    assert ("adds", 2) in {(part.name, part.instances) for part in tree.parts}
    assert mapped.scopes == (instances if flat else {})
    total = tree.total
    if target.name == "sg13g2":
        assert total["registers"] == REGISTERS + QUEUE_BITS
        assert (24 + QUEUE_BITS) * 6 < total["nand2"] < 800
        return
    assert REGISTERS <= total["registers"] <= REGISTERS + QUEUE_BITS + 25
    assert total.get("block_rams", 0) + total.get("lut_ram", 0) >= 1
    assert total.get("carry", 0) + total.get("luts", 0) > 8


def test_a_component_is_counted_as_often_as_it_is_there():
    with working_folder() as folder:
        tree = map_design(YOSYS.find(), DESIGN, MapRequest(sg13g2()), folder).tree
    (adds,) = tree.everywhere("adds")
    assert (adds.instances, adds.local["registers"]) == (2, 16)
    (queue,) = tree.everywhere("queue")
    others = tree.local["nand2"] + queue.total["nand2"]
    assert adds.local["nand2"] == pytest.approx(tree.total["nand2"] - others)


def test_an_own_count_finds_the_same_area():
    """By the areas of the library's text and the types of cells in the netlist: everything but the
    memory with a clocked read, which is one cell without area."""
    text = sg13g2().library.path.read_text()
    areas = dict(re.findall(r'cell \("?(\w+)"?\) \{\s+area : ([\d.]+);', text))
    with working_folder() as folder:
        tree = map_design(YOSYS.find(), DESIGN, MapRequest(sg13g2(), flat=True), folder).tree
        cells = json.loads((folder / NETLIST).read_text())["modules"]["t"]["cells"].values()
    types = [cell["type"] for cell in cells if cell["type"] != "$scopeinfo"]
    assert [each for each in types if each not in areas] == ["t_words"]
    area = sum(float(areas.get(each, 0)) for each in types) / float(areas["sg13g2_nand2_1"])
    assert tree.total["nand2"] == pytest.approx(area)
    registers = sum(each.startswith("sg13g2_df") for each in types)
    assert registers == tree.total["registers"] == REGISTERS + QUEUE_BITS


LATCHES = """module t_queue (
  input clk, input en, input [1:0] to, input [1:0] of, input [4:0] d, output [4:0] q
);
  reg [4:0] first, second, third;
  assign q = of[1] ? third : of[0] ? second : first;
  always @* if (clk & en & (to == 0)) first = d;
  always @* if (clk & en & (to == 1)) second = d;
  always @* if (clk & en & (to == 2)) third = d;
endmodule
"""


@pytest.mark.parametrize("latches", [False, True], ids=["registers", "latches"])
def test_a_memory_that_is_read_within_the_cycle_by_hand(latches):
    """Of 3 words of 5 bits, by the library's areas: a bit is a register of 6.75 NAND2 equivalents
    or a latch of 4.25. No register of the library has an enable, so each has a multiplexer of 2.5,
    or less; each bit that is read is chosen by two; three words have decoders of at most 3 each."""
    words = MEMORIES.split("module t_queue")
    text = words[0] + (LATCHES if latches else "module t_queue" + words[1])
    design = dataclasses.replace(DESIGN, memories=text)
    with working_folder() as folder:
        tree = map_design(YOSYS.find(), design, MapRequest(sg13g2()), folder).tree
    (queue,) = tree.everywhere("queue")
    kinds = ("latches", "registers") if latches else ("registers", "latches")
    assert [queue.total.get(kind, 0) for kind in kinds] == [QUEUE_BITS, 0]
    holding, enables = (4.25 * QUEUE_BITS, 0) if latches else (6.75 * QUEUE_BITS, QUEUE_BITS)
    multiplexers = enables + 2 * 5
    area = queue.total["nand2"]
    assert holding + 1.25 * multiplexers < area < holding + 2.5 * multiplexers + 3 * 3


def test_progress():
    said = []
    with working_folder() as folder:
        map_design(YOSYS.find(), DESIGN, MapRequest(sg13g2()), folder, report=said.append)
    # black boxes are not mapped
    assert said == ["mapped 1 of 3 components", "mapped 2 of 3 components"]


def test_what_yosys_refuses(tmp_path):
    wrong = Design(top="t", machine="module t(); nonsense;")
    with pytest.raises(CheckFailed, match=r"^yosys \S+: machine.v:1: ERROR: syntax error"):
        map_design(YOSYS.find(), wrong, MapRequest(ECP5, device="85k"), tmp_path)


def test_of_a_product(tmp_path):
    found = Design.of_product(write_product(tmp_path))
    assert found == DESIGN
    assert (found.top, found.machine, found.memories) == ("t", MACHINE, MEMORIES)
    assert (found.clocked.bits, found.within_cycle.bits) == (2048, QUEUE_BITS)
    assert (found.macs, found.prefix, len(found.ports)) == (4, "t_", 5)


def test_words_change_no_netlist():
    """Comments and empty lines move every line of the text, and no name in the netlist."""
    told = DESIGN.machine.replace("\n", "  // said here\n\n// and there\n")
    assert told.count("//") > 10
    netlists = []
    for machine in (DESIGN.machine, told):
        design = dataclasses.replace(DESIGN, machine=machine)
        with working_folder() as folder:
            map_design(YOSYS.find(), design, MapRequest(ECP5, device="85k", flat=True), folder)
            netlists.append((folder / NETLIST).read_text())
    assert netlists[0] == netlists[1]
    assert '"src": "machine.v:' in netlists[0]


def test_only_comments_are_left_out():
    code = "module t(\n  input a,\n  output b\n);\n  assign b = a / 2;\nendmodule\n"
    told = code.replace("  output", "\n  // of a\n  output").replace("a,", "a, // in")
    assert without_comments("// of it\n" + told) == code != told
