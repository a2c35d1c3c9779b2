"""Random faults that nothing notices, and why: ``survivors.txt`` has each fault with its reason.

``SAME``: the machine behaves as without the fault, but Yosys does not see why. Such a fault is not
live. ``UNREACHED``: live, but no test of minutes gets there. Each heading names a table and a
machine, or ``every machine``; below it stand faults, and below each fault the reason.
"""

import hashlib
from pathlib import Path

LONGEST = 96
"""Characters of a fault's name in the file."""
EVERY = "every machine"
SAID_EQUAL, NOT_ARGUED = "argued to be equal", "NOT ARGUED"

Table = dict[str, dict[str, str]]
"""By machine and shortened name, the reason."""


def shortened(name: str) -> str:
    """Return the beginning and the end of a long name, and a number that no other name has."""
    if len(name) <= LONGEST:
        return name
    number = hashlib.sha256(name.encode()).hexdigest()[:6]
    return f"{name[:50]} ... {name[-33:]} #{number}"


def read_tables(text: str) -> dict[str, Table]:
    """Return the tables of a file by their names."""
    tables: dict[str, Table] = {}
    reasons, fault = {}, ""
    for line in text.splitlines():
        words, depth = line.strip(), len(line) - len(line.lstrip())
        if depth == 0:
            table, _, machine = words.partition(" ")
            reasons = tables.setdefault(table, {}).setdefault(machine, {})
        elif depth == 2:
            assert words not in reasons, f"two reasons for {words}"
            fault = words
            reasons[fault] = ""
        else:
            reasons[fault] = f"{reasons[fault]} {words}".lstrip()
    return tables


_TABLES = read_tables(Path(__file__).with_suffix(".txt").read_text())
SAME, UNREACHED = _TABLES["SAME"], _TABLES["UNREACHED"]


def argument(table: Table, machine: str, fault: str) -> str:
    """Return why this fault of a machine is in the table; nothing if it is not."""
    name = shortened(fault)
    return table.get(machine, {}).get(name) or table.get(EVERY, {}).get(name) or ""


def said_equal(machine: str, fault: str) -> bool:
    """Return whether an argument says that this fault changes nothing."""
    return bool(argument(SAME, machine, fault))


def argued(machine: str, fault: str) -> str:
    """Return why nothing notices this fault of a machine; NOT_ARGUED if nobody said."""
    return argument(SAME, machine, fault) or argument(UNREACHED, machine, fault) or NOT_ARGUED
