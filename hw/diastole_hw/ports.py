"""What units have once for each port to memory: how such members are called."""

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import Any


def port_name(name: str, port: int) -> str:
    """Port 0's has the plain name, that of another one its number behind it."""
    return f"{name}_{port}" if port else name


def per_port(name: str, member: Any, ports: int) -> dict[str, Any]:
    """A member of a signature for each of so many ports."""
    return {port_name(name, port): member for port in range(ports)}


def of_ports(owner: Any, name: str, ports: int) -> list[Any]:
    """Those members of an interface, in order."""
    return [getattr(owner, port_name(name, port)) for port in range(ports)]


def any_port(conditions: Iterable[Any]) -> Any:
    """Whether what is said of each port holds for one of them."""
    return reduce(or_, conditions)


BUSES = {
    "aclk": "clock",
    "aresetn": "reset, active low",
    "irq": "interrupt, a level",
    "s_axil": "AXI4-Lite: registers",
    "m_axi": "AXI4: memory",
    "m_axi1": "AXI4: memory, second port",
}
"""What the ports of a top are for, by their names or what these begin with."""


def bus_of(port: str) -> str:
    """What a port of a top is for; nothing where it is none of :data:`BUSES`."""
    return BUSES.get(port) or BUSES.get(port.rpartition("_")[0], "")
