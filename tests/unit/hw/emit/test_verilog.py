import os
import re
import subprocess
import sys

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.emit.module_names import module_names, rename_modules, snake_case, tidy
from diastole_hw.emit.sharing import EmitPlatform, convert_ports
from diastole_hw.emit.verilog import EmissionError, emit
from diastole_hw.memory.distributed_ram import DistributedRam
from diastole_hw.memory.ram import Ram


@pytest.fixture
def emitted(demo):
    return emit(demo, name="demo", ports=convert_ports(demo))


def test_one_module_per_distinct_component(emitted):
    assert emitted.modules == [
        "demo",
        "demo_add_width4_stages0",
        "demo_add_width8_stages0",
        "demo_add_width8_stages1",
        "demo_inner",
    ]
    assert re.findall(r"^module (\w+)", emitted.verilog, re.MULTILINE) == emitted.modules


def test_a_class_is_explained_once(emitted):
    above = "// More is said above demo_add_width4_stages0."
    assert [module for module in emitted.modules if above in comment_of(emitted, module)] == [
        "demo_add_width8_stages0",
        "demo_add_width8_stages1",
    ]
    for variant in emitted.modules[1:4]:
        assert (
            comment_of(emitted, variant)[0]
            == "// o = a + b + offset, after stages (0 or 1) cycles."
        )


def comment_of(emitted, module: str) -> list[str]:
    """The lines of the comment above a module."""
    before = emitted.verilog.split(f"module {module} (")[0].splitlines()
    lines = []
    while before and before[-1].startswith("//"):
        lines.insert(0, before.pop())
    return lines


def test_memories_are_apart_and_counted(emitted):
    (memory,) = emitted.memories
    assert (memory.module, memory.width, memory.depth) == ("demo_mem_16x8", 8, 16)
    assert memory.instances == 1
    assert "module demo_mem_16x8 (" in memory.verilog
    assert "module demo_mem" not in emitted.verilog


def test_instances_and_their_ports_have_readable_names(emitted):
    for instance in (
        "demo_add_width8_stages0 first",
        "demo_inner second",
        "demo_add_width8_stages1 late",
        "demo_mem_16x8 ram",
        "demo_add_width4_stages0 narrow",
        "demo_add_width8_stages0 wide",
    ):
        assert f"  {instance} (" in emitted.verilog
    assert "reg [3:0] ram_write_addr" in emitted.verilog
    assert "$" not in emitted.verilog
    assert "\\" not in emitted.verilog


def test_same_bytes_whatever_the_hash_seed():
    script = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "from diastole_hw.emit.sharing import convert_ports\n"
        "from diastole_hw.emit.verilog import emit\n"
        "from diastole_hw.stream.fifo import StreamFifo\n"
        "top = StreamFifo(8, 40)\n"
        "print(emit(top, name='queue', ports=convert_ports(top)).verilog)\n"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", script, *sys.path],
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1


class Named(wiring.Component):
    """A register, and a submodule, of chosen names."""

    o: Out(1)

    def __init__(self, register: str, submodule: str):
        super().__init__()
        self.register, self.submodule = register, submodule

    def elaborate(self, platform):
        m = Module()
        flip = Signal(name=self.register)
        m.d.sync += flip.eq(~flip)
        ram = Ram(width=1, depth=2)
        if self.submodule:
            m.submodules[self.submodule] = ram
        else:
            m.submodules += ram
        m.d.comb += [ram.read_en.eq(1), ram.write_en.eq(1), ram.write_data.eq(flip)]
        m.d.comb += self.o.eq(ram.read_data)
        return m


@pytest.mark.parametrize(
    "register, submodule, message",
    [
        ("flip", "", "module named: a submodule has no name"),
        ("flip-flop", "ram", "module named: signal flip-flop is no identifier"),
    ],
)
def test_bad_names_are_refused(register, submodule, message):
    top = Named(register, submodule)
    with pytest.raises(EmissionError) as caught:
        emit(top, name="named", ports=convert_ports(top))
    assert str(caught.value) == message


def test_port_named_like_a_keyword_is_refused():
    top = wiring.Component({"table": In(1), "o": Out(1)})
    top.elaborate = lambda platform: connected
    connected = Module()
    connected.d.comb += top.o.eq(top.table)
    with pytest.raises(EmissionError) as caught:
        emit(top, name="lookup", ports=convert_ports(top))
    assert str(caught.value) == "module lookup: port table is a Verilog keyword"


def test_other_keywords_get_an_underscore():
    top = Named("logic", "cell")
    verilog = emit(top, name="named", ports=convert_ports(top)).verilog
    assert "  reg logic_ = 1'h0;" in verilog
    assert "  named_mem_2x1 cell_ (" in verilog
    assert "    .write_data(logic_)" in verilog


class Bank(wiring.Component):
    """Two levels of placing, to count instances through."""

    a: In(8)
    o: Out(8)

    def elaborate(self, platform):
        m = Module()
        for n in range(3):
            m.submodules[f"ram{n}"] = Ram(width=8, depth=4)
        m.d.comb += self.o.eq(self.a)
        return m


class Banks(wiring.Component):
    a: In(8)
    o: Out(8)

    def elaborate(self, platform):
        m = Module()
        value = self.a
        for n in range(2):
            m.submodules[f"bank{n}"] = bank = Bank()
            m.d.comb += bank.a.eq(value)
            value = bank.o
        m.submodules.spare = Ram(width=8, depth=4)
        m.d.comb += self.o.eq(value)
        return m


def test_instances_are_counted_through_the_hierarchy():
    top = Banks()
    (memory,) = emit(top, name="banks", ports=convert_ports(top)).memories
    assert memory.instances == 7


class BothKinds(wiring.Component):
    """A memory of each kind, of the same size."""

    a: In(8)
    o: Out(8)

    def elaborate(self, platform):
        m = Module()
        value = self.a
        for name, kind in (("clocked", Ram), ("at_once", DistributedRam)):
            m.submodules[name] = memory = kind(width=8, depth=4)
            m.d.comb += [memory.write_en.eq(1), memory.write_data.eq(value)]
            value = memory.read_data
        m.d.comb += self.o.eq(value)
        return m


def test_memories_say_how_they_are_read():
    emitted = emit(top := BothKinds(), name="both", ports=convert_ports(top))
    assert {memory.module: memory.read_latency_cycles for memory in emitted.memories} == {
        "both_mem_4x8": 1,
        "both_mem_4x8_distributed": 0,
    }
    assert "  both_mem_4x8_distributed at_once (" in emitted.verilog
    assert emitted.verilog.count(".read_en(") == 1


def test_a_single_variant_has_no_suffix(add):
    platform = EmitPlatform()
    platform.instance(add(8))
    assert list(module_names(platform.modules, "p").values()) == ["p_add"]


def test_variants_that_differ_in_no_readable_way_are_numbered(add):
    platform = EmitPlatform()
    platform.instance(add(8, offset=-1))
    platform.instance(add(8, offset=-2))
    assert list(module_names(platform.modules, "p").values()) == ["p_add_0", "p_add_1"]


@pytest.mark.parametrize(
    "camel, snake",
    [("AxiReader", "axi_reader"), ("Ram", "ram"), ("AXIReader", "axi_reader"), ("Fifo2", "fifo2")],
)
def test_snake_case(camel, snake):
    assert snake_case(camel) == snake


def test_modules_that_are_not_placed_are_named_after_their_path():
    text = "module \\%1.queue.head\ncell \\%1.queue \\queue\nwire width 1 \\a\n"
    assert rename_modules(text, {"%1": "p_unit"}) == (
        "module \\p_unit_queue_head\ncell \\p_unit_queue \\queue\nwire width 1 \\a\n"
    )


def test_tidy_drops_fields_and_counts_ports_from_one():
    text = (
        '  attribute \\enum_base_type "Mode"\n'
        "  wire width 8 input 0  \\p\n"
        "  wire width 4 \\p.low\n"
        "  wire width 4 \\p[1]\n"
        "  connect \\p.low \\p [3:0]\n"
        "  connect \\p[1] \\p [7:4]\n"
        "  connect \\q \\p [7:4]\n"
        "  wire width 1 \\$signal$3\n"
    )
    assert tidy(text) == (
        "  wire width 8 input 1  \\p\n  connect \\q \\p [7:4]\n  wire width 1 $signal$3\n"
    )
