"""Write benches of a product that check themselves: in plain Verilog, and in cocotb."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from diastole.product.c_driver import makefile
from diastole.product.facts import LICENCE
from diastole.product.host_view import HostView
from diastole.product.scene import BASE
from diastole.product.vectors import Vectors

TEXTS = Path(__file__).parent / "texts"
CLOCK, RESET = "aclk", "aresetn"
IDS = {"awid": "output", "bid": "input", "arid": "output", "rid": "input"}
CHANNELS = 5
"""Number of channels of a memory port. Every channel has a separate stall bit."""

Ports = list[dict[str, Any]]


def _text(name: str) -> str:
    return (TEXTS / name).read_text(encoding="utf-8")


def _filled(text: str, values: Mapping[str, object]) -> str:
    for name, value in values.items():
        text = text.replace(f"@{name}@", f"{value}")
    return text


def _range(port: dict[str, Any]) -> str:
    return f"[{port['width'] - 1}:0] " if port["width"] > 1 else ""


def _heading(view: HostView, comment: str) -> str:
    lines = (f"SPDX-License-Identifier: {LICENCE}", f"{view.origin}; do not edit.")
    return "".join(f"{comment} {line}\n" for line in lines)


def verilog_bench(view: HostView, vectors: Vectors, ports: Ports) -> str:
    """Return the bench that needs no Python: Verilog with ``$fatal``, for Icarus and Verilator."""
    signals = [
        f"  reg {_range(port)}{port['name']} = 0;"
        if port["direction"] == "input"
        else f"  wire {_range(port)}{port['name']};"
        for port in ports
    ]
    memories = [
        _filled(
            _text("memory.v").replace("PORT", prefix),
            {f"bit{channel}": CHANNELS * place + channel for channel in range(CHANNELS)},
        )
        for place, prefix in enumerate(view.buses)
    ]
    values = {
        "base": f"40'h{BASE:x}",
        "beats": len(vectors.inputs) // view.beat_bytes,
        "bytes": view.beat_bytes,
        "writes": len(vectors.writes),
        "reads": len(vectors.reads),
        "signals": "\n".join(signals),
        "memories": "".join(memories),
        "instance": f"  {view.name} machine (\n{_connections(ports)}\n  );",
    }
    text = _text("bench.v").replace("MACHINE", view.name)
    return _heading(view, "//") + _filled(text, values)


def _connections(ports: Ports, passed: str = "") -> str:
    names = ((port["name"], port["direction"] == "output") for port in ports)
    return ",\n".join(f"    .{name}({passed if out else ''}{name})" for name, out in names)


def cocotb_wrapper(view: HostView, ports: Ports) -> str:
    """Return a module that connects the ports of the machine to the AXI models of cocotbext-axi.
    The models require identifiers, and read after the rising edge of the clock. Outputs of the
    module change at the falling edge, because simulators differ in the values after the rising
    edge."""
    outputs = [port for port in ports if port["direction"] == "output"]
    declared = [
        f"  {port['direction']}{' reg' if port in outputs else ''} {_range(port)}{port['name']}"
        for port in ports
    ]
    prefixes = [each for each in view.buses if any(p["name"][:5] == "m_axi" for p in ports)]
    declared += [
        f"  {flow} [0:0] {prefix}_{port}" for prefix in prefixes for port, flow in IDS.items()
    ]
    lines = [
        f"// Connects the ports of {view.name} to the AXI models of cocotbext-axi.",
        f"module {view.name}_wrapper (",
        ",\n".join(declared),
        ");",
    ]
    lines += [
        f"  assign {prefix}_{port} = 1'b0;"
        for prefix in prefixes
        for port, flow in IDS.items()
        if flow == "output"
    ]
    lines += [f"  wire {_range(port)}from_{port['name']};" for port in outputs]
    lines += [f"  always @(negedge {CLOCK}) begin"]
    lines += [f"    {port['name']} <= from_{port['name']};" for port in outputs]
    lines += ["  end", f"  {view.name} machine (", _connections(ports, "from_"), "  );"]
    return _heading(view, "//") + "\n".join([*lines, "endmodule", ""])


def cocotb_bench(view: HostView) -> str:
    """Return the cocotb tests, with the run that the Verilog bench also uses."""
    values = {"base": f"0x{BASE:X}", "bytes": view.beat_bytes, "ports": view.ports}
    return _heading(view, "#") + _filled(
        _text("bench.py.txt").replace("MACHINE", view.name), values
    )


def cocotb_makefile(view: HostView) -> str:
    """Return the Makefile that starts the two benches."""
    return _heading(view, "#") + makefile("bench.mk", view.name, inside=".")
