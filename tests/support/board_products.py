# amaranth: UnusedElaboratable=no
"""A product directory with the ports of a machine, and next to nothing in it."""

import json

from amaranth.hdl._ir import PortDirection

from diastole_hw.top import Top
from diastole_sim.host.product import Product
from support.fake_machine import parameters_of
from support.plans import plan_of

HASH = "0123456789abcdef" * 4


def write_stub(folder, *, data_width=64, memory_ports=1, name="mine", side=1, body=""):
    """As `generate` lays it out. ``side`` x ``side``: cells. ``body``: of the machine's module, and
    what is behind it; else there is nothing in it."""
    plan = plan_of(rows=2, cols=2, data_width=data_width, ports=memory_ports)
    flows = {PortDirection.Input: "input", PortDirection.Output: "output"}
    ports = [
        (port, flows[flow], len(signal))
        for port, (signal, flow) in Top(plan, config_hash=0).ports.items()
    ]
    (folder / "rtl").mkdir(parents=True)
    declared = (f"{flow} [{width - 1}:0] {port}" for port, flow, width in ports)
    head = f"module {name} ({', '.join(declared)});\n"
    (folder / "rtl" / f"{name}.v").write_text(f"{head}{body or 'endmodule'}\n")
    (folder / "rtl" / f"{name}_mem_2x8.v").write_text(f"module {name}_mem_2x8; endmodule\n")
    numerics = {"block": 4}
    manifest = {
        "name": name,
        "top": name,
        "config_sha256": HASH,
        "files": [
            {"path": f"rtl/{name}.v", "kind": "verilog", "sha256": ""},
            {"path": f"rtl/{name}_mem_2x8.v", "kind": "memory", "sha256": ""},
        ],
        "parameters": parameters_of(numerics, data_width)
        | {"ports": memory_ports, "rows": side, "cols": side},
        "memories": [],
        "macs": side * side * 16,
        "ports": [dict(zip(("name", "direction", "width"), port, strict=True)) for port in ports],
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return Product.load(folder)
