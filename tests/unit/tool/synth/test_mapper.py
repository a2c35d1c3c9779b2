"""Small designs on every target, by real synthesis, both ways; and progress."""

import dataclasses

import pytest

from diastole.errors import CheckFailed
from diastole.synth.mapper import NETLIST, Design, map_design, without_comments, working_folder
from diastole.synth.programs import YOSYS
from diastole.synth.targets import ECP5, FPGAS, sg13g2
from support.small_product import DESIGN, MACHINE, MEMORIES, REGISTERS, write_product

TARGETS = [*FPGAS.values(), sg13g2()]


@pytest.mark.parametrize("flat", [False, True], ids=["by component", "flat"])
@pytest.mark.parametrize("target", TARGETS, ids=lambda each: each.name)
@pytest.mark.sampled(4)
def test_real_synthesis(target, flat):
    device = target.device(None) if target.name in FPGAS else ""
    with working_folder() as folder:
        mapped = map_design(YOSYS.find(), DESIGN, target, folder, device=device, flat=flat)
        assert (folder / "netlist.json").exists() == flat
    assert not folder.exists()
    tree = mapped.tree
    instances = {"s": "t_adds", "s2": "t_adds"}
    if target.name != "sg13g2":  # where memories are black boxes
        instances["words"] = "t_words"
    assert ("adds", 2) in {(part.name, part.instances) for part in tree.parts}
    assert mapped.scopes == (instances if flat else {})
    total = tree.total
    if target.name == "sg13g2":
        assert total["registers"] == REGISTERS
        assert 24 * 6 < total["nand2"] < 600
        return
    assert REGISTERS <= total["registers"] <= REGISTERS + 25
    assert total.get("block_rams", 0) + total.get("lut_ram", 0) >= 1
    assert total.get("carry", 0) + total.get("luts", 0) > 8


def test_a_component_is_counted_as_often_as_it_is_there():
    with working_folder() as folder:
        tree = map_design(YOSYS.find(), DESIGN, sg13g2(), folder).tree
    (adds,) = tree.everywhere("adds")
    assert (adds.instances, adds.own["registers"]) == (2, 16)
    assert adds.own["nand2"] == pytest.approx(tree.total["nand2"] - tree.own["nand2"])


def test_progress():
    said = []
    with working_folder() as folder:
        map_design(YOSYS.find(), DESIGN, sg13g2(), folder, said=said.append)
    # black boxes are not mapped
    assert said == ["mapped 1 of 2 components"]


def test_what_yosys_refuses(tmp_path):
    wrong = Design(top="t", machine="module t(); nonsense;", memories="", ports=(), memory_bits=0)
    with pytest.raises(CheckFailed, match=r"^yosys \S+: machine.v:1: ERROR: syntax error"):
        map_design(YOSYS.find(), wrong, ECP5, tmp_path, device="85k")


def test_of_a_product(tmp_path):
    found = Design.of_product(write_product(tmp_path))
    assert found == DESIGN
    assert (found.top, found.machine, found.memories) == ("t", MACHINE, MEMORIES)
    assert (found.memory_bits, found.prefix, len(found.ports)) == (2048, "t_", 5)


def test_words_change_no_netlist():
    """Comments and empty lines move every line of the text, and no name in the netlist."""
    told = DESIGN.machine.replace("\n", "  // said here\n\n// and there\n")
    assert told.count("//") > 10
    netlists = []
    for machine in (DESIGN.machine, told):
        design = dataclasses.replace(DESIGN, machine=machine)
        with working_folder() as folder:
            map_design(YOSYS.find(), design, ECP5, folder, device="85k", flat=True)
            netlists.append((folder / NETLIST).read_text())
    assert netlists[0] == netlists[1]
    assert '"src": "machine.v:' in netlists[0]


def test_only_comments_are_left_out():
    code = "module t(\n  input a,\n  output b\n);\n  assign b = a / 2;\nendmodule\n"
    told = code.replace("  output", "\n  // of a\n  output").replace("a,", "a, // in")
    assert without_comments("// of it\n" + told) == code != told
