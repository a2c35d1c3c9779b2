"""Describe the memories of a product for users who replace the memories by their own."""

import json
import re
from typing import Any

from diastole.product.facts import Files, ProductFacts, black_box_path

_HEAD = re.compile(r"^module (\w+) \($(.*?)^\);$", re.MULTILINE | re.DOTALL)
_WHY = """\
// This module is an empty memory, for flows that provide a macro or a generated RAM with the name
// of the module. The file with the same name in the folder rtl has the same ports and the contents.
// mem.json has the width and the depth.
// verilator lint_off UNDRIVEN
// verilator lint_off UNUSEDSIGNAL
"""


def black_boxes(facts: ProductFacts) -> Files:
    """Return a file for every memory: an empty module with the name and the ports of the memory."""
    heading = facts.heading("//") + _WHY
    return {
        black_box_path(memory.module): ("blackbox", f"{heading}\n{empty_module(memory.verilog)}")
        for memory in facts.emitted.memories
    }


def empty_module(verilog: str) -> str:
    """Return the module of ``verilog`` without the contents.

    Yosys and Vivado know the attributes of the module. ValueError unless the text has exactly one
    module with ports in the head.
    """
    heads = _HEAD.findall(verilog)
    if len(heads) != 1:
        raise ValueError(f"must be one module with ports in its head, not {len(heads)}")
    ((name, ports),) = heads
    ports = re.sub(r"\boutput reg\b", "output", ports)
    return f"(* blackbox, black_box *)\nmodule {name} ({ports});\nendmodule\n"


def memory_table(facts: ProductFacts) -> str:
    """Return ``mem.json``, a list of the kinds of memories for macro generators.

    An entry has the module, the width, the depth, the ports, the number of instances, and a mark
    for a memory that is worth a macro.
    """
    macros = facts.macros
    rows = [_row(memory, memory["module"] in macros) for memory in facts.memories]
    return json.dumps(rows, indent=2) + "\n"


def _row(memory: dict[str, Any], macro: bool) -> dict[str, Any]:
    ports = [
        port
        | ({"clock_edge": "rising"} if "clock" in port else {})
        | ({"mask": None} if port["kind"] == "write" else {})
        for port in memory["ports"]
    ]
    latency = max(port.get("latency_cycles", 0) for port in memory["ports"])
    bits = memory["width"] * memory["depth"]
    return {
        "name": memory["module"],
        "width": memory["width"],
        "depth": memory["depth"],
        "bits": bits,
        "read_ports": sum(port["kind"] == "read" for port in memory["ports"]),
        "write_ports": sum(port["kind"] == "write" for port in memory["ports"]),
        "read_latency_cycles": latency,
        "read_of_what_is_written": "undefined: the old word or any value",
        "count": memory["instances"],
        "macro": macro,
        "ports": ports,
    }
