"""Count the sites that a netlist takes in addition to the sites of its cells, because place and
route adds cells.

A site is a place of the size of a LUT. A rule reads the cells of a single module, in the form of
``write_json`` of Yosys. For every addition the rule yields a cell of the module and the type of the
added cell.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Cells = Mapping[str, Mapping[str, Any]]
"""Cells by name, with ``type``, ``connections`` (port to bits: numbers of nets, or constants as
text) and ``port_directions``."""
Added = Callable[[Cells], Iterator[tuple[str, str]]]
"""Rule that yields the additions of a module: the cell beside the addition, and a type."""
SITE = "$site"
"""Type of an addition that takes a site and no resource."""


def ecp5_chains(cells: Cells) -> Iterator[tuple[str, str]]:
    """Yield the additional CCU2Cs of ECP5 carry chains. A carry enters and leaves a chain by a
    CCU2C of its own, and a carry that logic reads in the middle leaves by a CCU2C too. nextpnr adds
    CCU2Cs at every chain."""
    into = {_bit(cell, "CIN") for _, cell in _cells_of_types(cells, "CCU2C")}
    out_of = {_bit(cell, "COUT") for _, cell in _cells_of_types(cells, "CCU2C")}
    users = _users(cells)
    for name, cell in _cells_of_types(cells, "CCU2C"):
        carry = _bit(cell, "COUT")
        if _bit(cell, "CIN") not in out_of:
            yield name, "CCU2C"
        if carry not in into or users[carry] > 1:
            yield name, "CCU2C"


def ice40_alone(cells: Cells) -> Iterator[tuple[str, str]]:
    """Yield the additional cells of an iCE40. A cell holds a LUT, the register that the LUT drives
    alone, and the carry of the LUT's inputs. Remaining registers and carries take cells of their
    own, and a carry that logic reads takes a cell too."""
    users, luts = _users(cells), list(_cells_of_types(cells, "SB_LUT4"))
    drives = {_bit(cell, "O") for _, cell in luts}
    inputs: Counter[tuple[int | str | None, ...]] = Counter(
        (_bit(c, "I1"), _bit(c, "I2"), _bit(c, "I3")) for _, c in luts
    )
    carries = list(_cells_of_types(cells, "SB_CARRY"))
    out_of = {_bit(cell, "CO") for _, cell in carries}
    into = {_bit(cell, "CI") for _, cell in carries}
    thirds = Counter(_bit(c, "I3") for _, c in luts)
    for name, cell in cells.items():
        if cell["type"].startswith("SB_DFF"):
            word = _bit(cell, "D")
            if word not in drives or users[word] > 1:
                yield name, SITE
    for name, cell in carries:
        operands = _bit(cell, "I0"), _bit(cell, "I1"), _bit(cell, "CI")
        if inputs[operands]:
            inputs[operands] -= 1
        else:
            yield name, SITE
        carry = _bit(cell, "CO")
        others = users[carry] - thirds[carry] - (carry in into)
        if isinstance(_bit(cell, "CI"), int) and _bit(cell, "CI") not in out_of:
            yield name, SITE
        if others > 0 or (thirds[carry] and carry not in into):
            yield name, SITE


def gowin_chains(cells: Cells) -> Iterator[tuple[str, str]]:
    """Yield the additional ALUs of Gowin carry chains. A carry enters a chain by an ALU of its own.
    A carry that logic reads leaves the chain by another ALU."""
    users = _users(cells)
    alus = list(_cells_of_types(cells, "ALU"))
    out_of = {_bit(cell, "COUT") for _, cell in alus}
    into = {_bit(cell, "CIN") for _, cell in alus}
    for name, cell in alus:
        carry = _bit(cell, "COUT")
        if _bit(cell, "CIN") not in out_of:
            yield name, "ALU"
        if users[carry] > (carry in into):
            yield name, "ALU"


def xilinx_carries(cells: Cells) -> Iterator[tuple[str, str]]:
    """Yield a site for every LUT that feeds a Xilinx carry cell. A carry cell stands behind the
    LUTs of its place. If no LUT drives a bit of ``S``, a LUT passes the bit on."""
    drives = {_bit(c, "O") for _, c in _cells_of_types(cells, *(f"LUT{n}" for n in range(1, 7)))}
    for name, cell in _cells_of_types(cells, "CARRY4", "CARRY8"):
        for bit in cell["connections"]["S"]:
            if isinstance(bit, int) and bit not in drives:
                yield name, SITE


def _cells_of_types(cells: Cells, *types: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, cell in cells.items():
        if cell["type"] in types:
            yield name, cell


def _bit(cell: Mapping[str, Any], port: str) -> int | str | None:
    """Return the only bit of a port; None if the port is open."""
    bits = cell["connections"].get(port)
    return bits[0] if bits else None


def _users(cells: Cells) -> Counter[int | str | None]:
    """Return the number of cell inputs on every net."""
    users: Counter[int | str | None] = Counter()
    for cell in cells.values():
        directions = cell.get("port_directions", {})
        for port, bits in cell["connections"].items():
            if directions.get(port) == "input":
                users.update(bits)
    return users
