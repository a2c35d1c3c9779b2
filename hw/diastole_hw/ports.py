"""Name the members that units have once per port to memory."""

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import Any


def port_name(name: str, port: int) -> str:
    """Return the name of a member of a port: the plain name for port 0, else the name with the port
    number."""
    return f"{name}_{port}" if port else name


def per_port(name: str, member: Any, ports: int) -> dict[str, Any]:
    """Return a member of a signature for each of ``ports`` ports."""
    return {port_name(name, port): member for port in range(ports)}


def of_ports(owner: Any, name: str, ports: int) -> list[Any]:
    """Return the members ``name`` of an interface for all ports, in order."""
    return [getattr(owner, port_name(name, port)) for port in range(ports)]


def any_port(conditions: Iterable[Any]) -> Any:
    """Return whether a condition, given for every port, holds for any port."""
    return reduce(or_, conditions)


BUSES = {
    "aclk": "clock",
    "aresetn": "reset, active low",
    "irq": "interrupt, a level",
    "s_axil": "AXI4-Lite: registers",
    "m_axi": "AXI4: memory",
    "m_axi1": "AXI4: memory, second port",
}
"""Purposes of the ports of a top, by port name or by prefix."""


def bus_of(port: str) -> str:
    """Return the purpose of a port of a top; an empty string for a port outside :data:`BUSES`."""
    return BUSES.get(port) or BUSES.get(port.rpartition("_")[0], "")
