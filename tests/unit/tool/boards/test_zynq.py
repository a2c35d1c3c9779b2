"""Block designs: every port of the machine, and addresses that are the same everywhere."""

import re
import subprocess

import pytest

from diastole.boards.zynq import PROCESSORS, zynq_files
from diastole_sim.rtl.programs import find_compiler
from diastole_sim.spec.registers import ADDRESS_SPACE_BITS, BY_NAME, MAGIC
from support.board_products import HASH, write_stub


@pytest.fixture(params=[(board, ports) for board in PROCESSORS for ports in (1, 2)], ids=str)
def made(request, tmp_path):
    board, ports = request.param
    product = write_stub(tmp_path / "product", memory_ports=ports)
    return board, product, zynq_files(board, product, clock_mhz=75)


def pins(text, kind):
    return re.findall(rf"get_bd_{kind} (\w+/\w+)", text)


def test_every_port_is_connected(made):
    """Those of buses by their bus."""
    _, product, files = made
    wired = pins(files["build.tcl"], "pins") + pins(files["build.tcl"], "intf_pins")
    own = [pin.partition("/")[2] for pin in wired if pin.startswith("machine/")]
    assert len(own) == len(set(own))
    buses = {name for name in own if name.startswith(("s_axil", "m_axi"))}
    ports = {name for name, _, _ in product.ports}
    assert {name.rpartition("_")[0] for name in ports if "_axi" in name} == buses
    assert {name for name in ports if "_axi" not in name} == set(own) - buses


def test_every_pin_of_the_fabric_has_one_net(made):
    board, product, files = made
    text = files["build.tcl"]
    wired = pins(text, "intf_pins")
    assert len(wired) == len(set(wired))
    slaves = [pin for pin in wired if re.match(r"memory/S\d", pin)]
    assert slaves == [f"memory/S{n:02}_AXI" for n in range(product.memory_ports)]
    assert f"CONFIG.NUM_SI {product.memory_ports} " in text
    processor = PROCESSORS[board]
    for pin in (processor.clock, processor.reset, processor.irq, *processor.slave_clocks):
        assert text.count(f"[get_bd_pins ps/{pin}]") == 1
    assert {f"ps/{processor.master}", f"ps/{processor.slave}"} < set(wired)
    assert text.count("{") == text.count("}")
    assert text.count("[") == text.count("]")
    assert not re.search(r"\\\s*\n\s*\n", text), "a line that goes on into nothing"
    assert " 75\n" in text


def test_addresses_are_the_same(made):
    board, _, files = made
    base = PROCESSORS[board].registers
    assert base % (1 << ADDRESS_SPACE_BITS) == 0
    assert f"-offset 0x{base:08X} -range 4K" in files["build.tcl"]
    assert f"diastole@{base:x} {{" in files["mine.dtsi"]
    cells = re.search(r"reg = <(.*)>;", files["mine.dtsi"])[1].split()
    values = [int(cell, 16) for cell in cells]
    assert [value for value in values if value] == [base, 1 << ADDRESS_SPACE_BITS]
    assert len(values) == 2 * PROCESSORS[board].address_cells
    assert f"0x{base:08X}" in files["README.md"]


def test_sources(made):
    _, product, files = made
    named = re.findall(r"^  (product/\S+)$", files["build.tcl"], re.M)
    assert named == [f"product/rtl/{path.name}" for path in product.sources]


def test_the_example_knows_the_registers(made):
    _, _, files = made
    found = dict(re.findall(r"^  (\w+) = ([^,\n]+),?$", files["host.c"], re.M))
    names = [name for name in found if name.islower()]
    assert len(names) > 5
    for name in names:
        assert int(found[name], 16) == BY_NAME[name].offset, name
    assert found["CONTROL_RESET"] == f"1 << {BY_NAME['control'].bit('reset')}"
    assert f"0x{HASH[:8]})" in files["host.c"]
    assert f"0x{MAGIC:08x})" in files["host.c"]


def test_the_example_compiles(made, tmp_path):
    _, _, files = made
    source = tmp_path / "host.c"
    source.write_text(files["host.c"])
    words = ["-x", "c", "-std=gnu11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
    subprocess.run([find_compiler().path, *words, source], check=True)
