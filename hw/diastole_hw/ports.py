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
