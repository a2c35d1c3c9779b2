# amaranth: UnusedElaboratable=no
"""What the texts of a product are made from, without the time that its Verilog takes."""

from functools import cache

from diastole.config.file import from_document
from diastole.config.keys import Config
from diastole.product.facts import ProductFacts
from diastole_hw.emit.verilog import Emitted, MemoryModule
from diastole_hw.memory.ram import Ram
from diastole_hw.top import Top

SHAPES = ((16, 8), (1024, 20))
"""Depth and width of the memories."""
PORTS = [
    {"kind": "write", "clock": "clk", "enable": "write_en"}
    | {"address": "write_addr", "data": "write_data"},
    {"kind": "read", "clock": "clk", "enable": "read_en"}
    | {"address": "read_addr", "data": "read_data", "latency_cycles": 1},
]


def little_config(name: str = "little", **tables: object) -> Config:
    """A machine of one cell with blocks of 4 on a bus of 32 bits, and what ``tables`` change."""
    document = {
        "name": name,
        "array": {"rows": 1, "cols": 1, "block": 4},
        "bus": {"data_width": 32},
    }
    return from_document(document | tables)


@cache
def facts_of(config: Config) -> ProductFacts:
    """Of a machine whose Verilog is a comment, and whose memories are those of ``SHAPES``."""
    top = Top(config.plan, config_hash=config.identification)
    memories = [
        MemoryModule(
            read_latency_cycles=1,
            module=f"{config.name}_mem_{depth}x{width}",
            width=width,
            depth=depth,
            instances=depth // 16,
            verilog=Ram(width=width, depth=depth).template(f"{config.name}_mem_{depth}x{width}"),
        )
        for depth, width in SHAPES
    ]
    return ProductFacts(
        config=config,
        emitted=Emitted(verilog="// empty\n", modules=[config.name], memories=memories),
        parameters=top.parameters,
        ports=[
            {"name": name, "direction": direction.value, "width": len(signal)}
            for name, (signal, direction) in top.ports.items()
        ],
        memories=[
            {"module": m.module, "width": m.width, "depth": m.depth}
            | {"ports": PORTS, "instances": m.instances}
            for m in memories
        ],
        latencies=top.latencies,
    )
