# amaranth: UnusedElaboratable=no
"""The whole of a board around a machine: which it takes, and what it connects."""

import re

import pytest

from diastole_hw.emit.verilog import emit
from diastole_hw.serial.serial_board import SerialBoard, odd_ports
from support.board_products import write_stub
from support.texts import exactly

SIZES = {"divisor": 5, "memory_bytes": 4096, "clock_hz": 1_000_000}


def test_every_port_of_the_machine_is_connected(tmp_path):
    product = write_stub(tmp_path / "product", data_width=128)
    board = SerialBoard(top="mine", product_ports=product.ports, data_width=128, **SIZES)
    text = emit(board, name="the_board", ports=board.ports).verilog
    (machine,) = re.findall(r"^  mine machine \((.*?)\);", text, re.M | re.S)
    wired = dict(re.findall(r"\.(\w+)\(([^)]*)\)", machine))
    assert set(wired) == {name for name, _, _ in product.ports}
    assert wired["s_axil_wdata"] == "bridge_axil__wdata"
    assert wired["m_axi_rdata"] == "memory_axi__rdata"
    assert len(set(wired.values())) == len(wired)


def test_machines_that_it_has_no_place_for(tmp_path):
    ports = write_stub(tmp_path / "product").ports
    assert odd_ports(ports, 64) == []
    assert odd_ports([*ports, ("jtag", "input", 1)], 64) == ["jtag"]
    assert odd_ports([port for port in ports if port[0] != "irq"], 64) == ["irq"]
    wide = odd_ports(ports, 128)
    assert wide == ["m_axi_rdata", "m_axi_wdata", "m_axi_wstrb"]
    text = f"a board cannot use a product with these ports: {', '.join(wide)}"
    with pytest.raises(ValueError, match=exactly(text)):
        SerialBoard(top="mine", product_ports=ports, data_width=128, **SIZES)
