"""The wrapper for LiteX: Python, with every port of the machine in its instance."""

import ast
import re

import pytest

from diastole.boards.litex import litex_files, python_class, signal_of
from diastole.errors import BadInput
from support.board_products import HASH, write_stub

CHANNELS = {
    "aw": "valid ready addr len size burst cache prot",
    "w": "valid ready data strb last",
    "b": "valid ready resp",
    "ar": "valid ready addr len size burst cache prot",
    "r": "valid ready data resp last",
}
"""What LiteX's interfaces have of AXI, as far as machines use it."""


@pytest.fixture(params=[1, 2], ids=["one port", "two ports"])
def made(request, tmp_path):
    product = write_stub(tmp_path / "product", memory_ports=request.param, name="my_machine")
    return product, litex_files(product)


def test_every_port_is_in_the_instance(made):
    product, files = made
    tree = ast.parse(files["my_machine_litex.py"])
    compile(tree, "my_machine_litex.py", "exec")
    (instance,) = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Instance"
    )
    assert ast.literal_eval(instance.args[0]) == "my_machine"
    found = {word.arg: ast.unparse(word.value) for word in instance.keywords}
    assert set(found) == {f"{flow[0]}_{name}" for name, flow, _ in product.ports}
    buses = [value for value in found.values() if re.match(r"registers|memory", value)]
    assert len(buses) == len(set(buses)) == len(product.ports) - 3
    for value in buses:
        interface, channel, member = value.split(".")
        assert interface in ("registers", "memory", "memory1")
        assert member in CHANNELS[channel].split()


def test_signals_of_buses():
    assert signal_of("m_axi_awvalid") == "memory.aw.valid"
    assert signal_of("m_axi1_rdata") == "memory1.r.data"
    assert signal_of("s_axil_wstrb") == "registers.w.strb"
    assert signal_of("aresetn") == "running"


@pytest.mark.parametrize("port", ["xyz_awvalid", "refresh", "m_axi_valid"])
def test_a_port_without_a_signal_is_refused(port):
    message = (
        f"the wrapper for LiteX has no signal for the port {port}: it knows aclk, aresetn, irq"
    )
    with pytest.raises(BadInput, match=f"^{message} and the members of AXI4 and AXI4-Lite$"):
        signal_of(port)


def test_sources_and_sizes(made):
    product, files = made
    text = files["my_machine_litex.py"]
    assert re.findall(r'^    "(product/\S+)",$', text, re.M) == [
        f"product/rtl/{path.name}" for path in product.sources
    ]
    assert f"CONFIG_HASH = 0x{HASH[:8]}\n" in text
    assert "class MyMachine(" in text
    assert f"range({product.memory_ports})" in text
    assert "\nDATA_BITS = 64\nADDRESS_BITS = 40\n" in text
    assert "MyMachine.add_to(soc" in files["README.md"]


def test_names_of_classes():
    """One that the text uses, of its own or of Migen, is not the machine's."""
    assert python_class("ulx3s_pico") == "Ulx3sPico"
    assert python_class("signal") == "SignalMachine"
    assert python_class("word_converter") == "WordConverterMachine"
    assert python_class("none") == "NoneMachine"


def test_machines_of_any_name(tmp_path):
    for name in ("signal", "register_lanes", "true"):
        product = write_stub(tmp_path / name, name=name)
        text = litex_files(product)[f"{name}_litex.py"]
        tree = ast.parse(text)
        classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
        assert len(classes) == len(set(classes)) == 4
        assert classes[0] == python_class(name)
