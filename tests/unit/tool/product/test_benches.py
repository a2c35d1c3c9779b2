"""The texts of the benches; that they judge is shown on products, in ``tests/product``."""

import ast
import re

from diastole.product.benches import (
    cocotb_bench,
    cocotb_makefile,
    cocotb_wrapper,
    verilog_bench,
)
from diastole.product.vectors import make_vectors
from support.host_machines import VIEWS

VIEW = VIEWS["squares"]
PORTS = [
    {"name": "aclk", "direction": "input", "width": 1},
    {"name": "m_axi_araddr", "direction": "output", "width": 40},
    {"name": "m_axi_rdata", "direction": "input", "width": 32},
]


def test_verilog_bench_connects_every_port():
    vectors = make_vectors(VIEW)
    text = verilog_bench(VIEW, vectors, PORTS)
    assert "  reg aclk = 0;\n" in text
    assert "  wire [39:0] m_axi_araddr;\n" in text
    assert "  reg [31:0] m_axi_rdata = 0;\n" in text
    assert re.findall(r"\.(\w+)\((\w+)\)", text) == [(port["name"],) * 2 for port in PORTS]
    assert f"BEATS = {len(vectors.inputs) // 4}, BYTES = 4," in text
    assert "PORT" not in text


def test_verilog_bench_of_two_ports():
    from dataclasses import replace

    view = replace(VIEW, ports=2)
    text = verilog_bench(view, make_vectors(VIEW), PORTS)
    for prefix, bits in (("m_axi", range(5)), ("m_axi1", range(5, 10))):
        assert f"  reg {prefix}_writing = 0" in text
        assert f"{prefix}_arready <= aresetn && !hold[{bits[0]}]" in text
        assert f"{prefix}_answer && !{prefix}_bvalid && !hold[{bits[4]}]" in text


def test_wrapper_has_identifiers_and_turns_outputs():
    text = cocotb_wrapper(VIEW, PORTS)
    for line in (
        "  input aclk,",
        "  output reg [39:0] m_axi_araddr,",
        "  output [0:0] m_axi_awid,",
        "  input [0:0] m_axi_rid",
        "  assign m_axi_arid = 1'b0;",
        "    m_axi_araddr <= from_m_axi_araddr;",
        "    .m_axi_araddr(from_m_axi_araddr),",
        "    .m_axi_rdata(m_axi_rdata)",
    ):
        assert line in text.splitlines(), line


def test_cocotb_bench_needs_nothing_of_ours():
    tree = ast.parse(cocotb_bench(VIEW))
    names = [
        name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names
    ]
    names += [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert not [name for name in names if name.startswith("diastole")]
    assert "BASE, BEAT_BYTES, PORTS = 0x9234500000, 4, 1\n" in cocotb_bench(VIEW)


def test_makefile_names_the_machine():
    text = cocotb_makefile(VIEW)
    assert "COCOTB_TOPLEVEL = squares_wrapper\n" in text
    assert "shell cat ../squares.f" in text
