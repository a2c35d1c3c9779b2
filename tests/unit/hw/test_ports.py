"""Members that units have for each port to memory."""

from types import SimpleNamespace

import pytest

from diastole_hw.ports import any_port, bus_of, of_ports, per_port, port_name


def test_names():
    assert [port_name("read", port) for port in range(2)] == ["read", "read_1"]
    assert per_port("read", 7, 1) == {"read": 7}
    assert per_port("read", 7, 2) == {"read": 7, "read_1": 7}


def test_members():
    unit = SimpleNamespace(read="a", read_1="b")
    assert of_ports(unit, "read", 1) == ["a"]
    assert of_ports(unit, "read", 2) == ["a", "b"]


def test_any():
    assert [any_port(said) for said in ([0], [1], [0, 0], [0, 1])] == [0, 1, 0, 1]


@pytest.mark.parametrize(
    "port, bus",
    [
        ("aclk", "clock"),
        ("irq", "interrupt, a level"),
        ("s_axil_awaddr", "AXI4-Lite: registers"),
        ("m_axi_rdata", "AXI4: memory"),
        ("m_axi1_rdata", "AXI4: memory, second port"),
        ("other", ""),
    ],
)
def test_bus_of_a_port(port, bus):
    assert bus_of(port) == bus
