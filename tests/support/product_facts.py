# amaranth: UnusedElaboratable=no
"""What the texts of a product are made from, without the time that its Verilog takes."""

from functools import cache

from diastole.config.file import from_document
from diastole.config.keys import Config
from diastole.product.facts import ProductFacts
from diastole.product.generate import memory_ports
from diastole_hw.emit.verilog import Emitted, MemoryModule
from diastole_hw.memory.distributed_ram import DistributedRam
from diastole_hw.memory.ram import Ram
from diastole_hw.top import Top

MEMORIES = (DistributedRam(width=8, depth=16), Ram(width=20, depth=1024))


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
    """Of a machine whose Verilog is a comment, and whose memories are ``MEMORIES``."""
    top = Top(config.plan, config_hash=config.identification)
    named = {f"{config.name}_mem_{ram.depth}x{ram.width}": ram for ram in MEMORIES}
    memories = [
        MemoryModule(
            read_latency_cycles=ram.read_latency_cycles,
            module=module,
            width=ram.width,
            depth=ram.depth,
            instances=ram.depth // 16,
            verilog=ram.template(module),
        )
        for module, ram in named.items()
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
            | {"ports": memory_ports(m.read_latency_cycles), "instances": m.instances}
            for m in memories
        ],
        latencies=top.latencies,
    )
