# amaranth: UnusedElaboratable=no
"""The units that have a bench: small, with three formats of different widths and odd sizes."""

from amaranth.lib import wiring

from diastole.config.keys import ArrayConfig, BusConfig, Config, FormatConfig
from diastole_hw.array.array import Array
from diastole_hw.cell.cell import Cell
from diastole_hw.convert.converter import Converter
from diastole_hw.emit.sharing import convert_ports
from diastole_hw.emit.verilog import emit
from diastole_hw.engine.product_engine import ProductEngine
from diastole_hw.top import Top
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes
from rtl.wrapper import wrapped
from support.cells import shape_of
from support.classes import make_numerics

MACHINE = Config(
    name="machine",
    array=ArrayConfig(rows=2, cols=1, block=2),
    format=FormatConfig(x="bfp4", w="bfp3", dy="bfp5"),
    bus=BusConfig(data_width=32),
)
"""The configuration of the top's bench."""
ENGINE = MACHINE.model_copy(
    update={"array": ArrayConfig(rows=2, cols=2, block=2), "bus": BusConfig(data_width=64)}
)
"""The configuration of the controller's bench."""


def make_cell() -> Cell:
    """With everything that a cell can have."""
    shape = shape_of("everything", rows=4, block=4, fraction=6)
    return Cell(shape=shape, psum_bits=shape.sum_bits + 6 + 3)


def make_array() -> Array:
    return Array(shape=shape_of("E4M3 and E5M2", rows=3, block=2, fraction=6), cols=2)


def make_converter() -> Converter:
    """Blocks and vectors that fold, of fixed-point numbers and minifloats, and a tensor scale."""
    numerics = make_numerics(
        *("mxfp8_e4m3", "bfp3", "fp8_e5m2"),
        grouping=("1x4", "2x2", "tensor"),
        rounding=("nearest", "stochastic-c", "stochastic-b"),
        random_bits=8,
    )
    return Converter(ConverterSizes(numerics=numerics, data_width=64), max_col_blocks=40)


def make_engine() -> ProductEngine:
    return ProductEngine(ENGINE.plan)


UNITS = {
    "cell": make_cell,
    "array": make_array,
    "converter": make_converter,
    "controller": make_engine,
}
"""Name to a function that makes the unit; the bench of ``cell`` is ``cell_bench.py``."""


def unit_verilog(unit: wiring.Component, name: str) -> str:
    """Verilog of a unit, as a module of this name, and of all below it."""
    return joined(emit(unit, name=name, ports=convert_ports(unit)))


def machine_verilog() -> tuple[str, str]:
    """Name and Verilog of the whole machine of ``MACHINE``, wrapped for the models of its buses."""
    top = Top(MACHINE.plan, config_hash=MACHINE.identification)
    name, wrapper = wrapped(MACHINE.name, top.ports)
    return name, joined(emit(top, name=MACHINE.name, ports=top.ports)) + "\n" + wrapper


def joined(emitted) -> str:
    return "\n".join([emitted.verilog, *map(powered_up, emitted.memories)])


def powered_up(memory) -> str:
    """A memory's Verilog, with anything in it at the start, as in silicon.

    Without this a simulator with four states carries X from words that are not yet written through
    arithmetic whose result does not depend on them. The names are not those that the memory has.
    """
    text, end, rest = memory.verilog.rpartition("endmodule")
    anything = f"{{{-(-memory.width // 32)}{{$random(seed)}}}}"
    shown = [f"    read_data = {anything};"] if memory.read_latency_cycles else []
    lines = [
        "  integer seed, filled;",
        "  initial begin",
        f"    seed = {memory.width};",
        *shown,
        f"    for (filled = 0; filled < {memory.depth}; filled = filled + 1)",
        f"      ram_words[filled] = {anything};",
        "  end",
    ]
    return text + "\n".join([*lines, end]) + rest
