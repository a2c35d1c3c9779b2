"""The memories of a product for those who put their own in their place."""

import json
import re
from typing import Any

from diastole.product.facts import ProductFacts

_HEAD = re.compile(r"^module (\w+) \($(.*?)^\);$", re.MULTILINE | re.DOTALL)
_WHY = """\
// The memories without contents, for flows that have macros or generated RAM of these names: read
// this file instead of the behavioural ones. Their ports are those, and {table} has their shapes.
// verilator lint_off DECLFILENAME
// verilator lint_off UNDRIVEN
// verilator lint_off UNUSEDSIGNAL
"""


def black_boxes(facts: ProductFacts) -> str:
    """Every memory as a module of the same name and ports that is empty."""
    boxes = [empty_module(memory.verilog) for memory in facts.emitted.memories]
    return "\n".join([facts.heading("//") + _WHY.format(table="mem.json"), *boxes])


def empty_module(verilog: str) -> str:
    """The one module of a text, without what is in it; ValueError if there is no such module.

    The attributes are those that Yosys and Vivado know.
    """
    found = _HEAD.findall(verilog)
    if len(found) != 1:
        raise ValueError(f"must be one module with ports in its head, not {len(found)}")
    ((name, ports),) = found
    ports = re.sub(r"\boutput reg\b", "output", ports)
    return f"(* blackbox, black_box *)\nmodule {name} ({ports});\nendmodule\n"


def memory_table(facts: ProductFacts) -> str:
    """``mem.json``: for each kind of memory its module, width, depth, ports and how many of it
    there are; for generators of macros."""
    return json.dumps([_row(memory) for memory in facts.memories], indent=2) + "\n"


def _row(memory: dict[str, Any]) -> dict[str, Any]:
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
        "read_of_what_is_written": "old word or anything: no machine depends on it",
        "count": memory["instances"],
        "ports": ports,
    }
