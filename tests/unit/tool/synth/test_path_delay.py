"""The longest path: worked out on paper, for cells whose tables are constant or linear."""

from dataclasses import replace

import pytest

from diastole.synth.delay_tables import Arc, Pin, Table
from diastole.synth.path_delay import FASTEST_SLEW, Buffer, Timing


def constant(value):
    return Table((0.0,), (0.0,), ((value,),))


def by_load(fixed):
    """``fixed`` and one for every unit of load."""
    return Table((0.0,), (0.0, 1.0), ((fixed, fixed + 1),))


def delays(rise, fall):
    slew = constant(0.1)
    return {"cell_rise": rise, "cell_fall": fall, "rise_transition": slew, "fall_transition": slew}


SETUP = {"rise_constraint": constant(0.5), "fall_constraint": constant(0.25)}
INVERTS, CLOCKED = delays(by_load(1), by_load(4)), delays(by_load(7), by_load(7))
LIBRARY = {
    "inv": {
        "A": Pin(2.0, False, ()),
        "Y": Pin(
            0.0,
            True,
            (Arc("A", "negative_unate", "combinational", delays(by_load(1), by_load(4))),),
        ),
    },
    "xor": {
        "A": Pin(1.0, False, ()),
        "B": Pin(1.0, False, ()),
        "Y": Pin(
            0.0,
            True,
            tuple(
                Arc(pin, "non_unate", "combinational", delays(by_load(k), by_load(k)))
                for pin, k in (("A", 10), ("B", 20))
            ),
        ),
    },
    "dff": {
        "C": Pin(1.0, False, ()),
        "D": Pin(3.0, False, (Arc("C", "", "setup_rising", SETUP),)),
        "Q": Pin(0.0, True, (Arc("C", "non_unate", "rising_edge", CLOCKED),)),
    },
}


def module(cells, inputs=(), outputs=()):
    """From tuples of a type and its nets by pin."""
    ports = {f"i{bit}": {"direction": "input", "bits": [bit]} for bit in inputs}
    ports |= {f"o{bit}": {"direction": "output", "bits": [bit]} for bit in outputs}
    return {
        "ports": ports,
        "cells": {
            name: {"type": kind, "connections": {pin: [bit] for pin, bit in nets.items()}}
            for name, (kind, nets) in cells.items()
        },
    }


def test_from_a_register_to_a_register():
    """Two inverters: a rise of 1 and the load of 2 behind a fall of 4 and that of 2; or the other
    way, which falls at the end: 1 + 2 + 4 + 3 = 10, against 4 + 2 + 1 + 3 = 10, with set-up 0.5."""
    cells = {
        "from": ("dff", {"C": 0, "D": 1, "Q": 2}),
        "one": ("inv", {"A": 2, "Y": 3}),
        "two": ("inv", {"A": 3, "Y": 4}),
        "to": ("dff", {"C": 0, "D": 4, "Q": 5}),
    }
    found = Timing(LIBRARY, module(cells, inputs=(0, 1))).longest()
    assert found.logic == 10
    assert found.whole == 7 + 2 + 10 + 0.5
    assert found.path == ("from", "one", "two", "to")


def test_the_later_input_decides_and_constants_are_there_at_once():
    cells = {
        "first": ("inv", {"A": 1, "Y": 2}),
        "last": ("xor", {"A": 2, "B": "0", "Y": 3}),
    }
    found = Timing(LIBRARY, module(cells, inputs=(1,), outputs=(3,))).longest()
    assert found.logic == 20
    cells["last"] = ("xor", {"A": "1", "B": 2, "Y": 3})
    assert Timing(LIBRARY, module(cells, inputs=(1,), outputs=(3,))).longest().logic == 4 + 1 + 20


def test_memories_begin_and_end_paths():
    cells = {
        "one": ("inv", {"A": 2, "Y": 3}),
        "two": ("inv", {"A": 3, "Y": 4}),
        "words": ("ram", {"A": 4, "Q": 2}),
    }
    flat = module(cells)
    flat["cells"]["words"]["port_directions"] = {"A": "input", "Q": "output"}
    ends = list(Timing(LIBRARY, flat, black_boxes=["ram"]).ends(registers=True))
    assert {end.cell for end in ends} == {"words"}
    latest = max(ends, key=lambda end: end.time)
    assert latest.time == 4 + 2 + 1  # nothing of the memory, no load either
    assert latest.path == ("one", "two", "words")
    assert [name for name, _ in latest.came.path] == ["one", "two"]
    assert sum(delay for _, delay in latest.came.path) == latest.time


def test_more_load_than_a_cell_may_have_is_behind_buffers():
    """Seven inverters are a load of 14: two buffers with 8 or less; the driver has two of them."""
    most = replace(LIBRARY["inv"]["Y"], max_load=4.0)
    (arc,) = most.arcs
    passes = replace(arc, sense="positive_unate", tables=delays(by_load(100), by_load(100)))
    library = LIBRARY | {
        "inv": {"A": LIBRARY["inv"]["A"], "Y": most},
        "buf": {"A": Pin(1.0, False, ()), "Y": Pin(0.0, True, (passes,), 16.0)},
    }
    buffer = Buffer(cell="buf", source="A", output="Y", load=8.0)

    def whole(count):
        cells = {"one": ("inv", {"A": 1, "Y": 2})}
        cells |= {f"to_{k}": ("inv", {"A": 2, "Y": 10 + k}) for k in range(count)}
        flat = module(cells, inputs=(1,), outputs=(10,))
        return Timing(library, flat, buffer=buffer).longest().whole

    assert whole(2) == 1 + 4 + 4  # rises, then falls
    assert whole(7) == 1 + 14 / 8 + 100 + 8 + 4


def test_what_is_no_netlist_of_these_cells():
    with pytest.raises(ValueError, match="odd must be of the library, not latch"):
        Timing(LIBRARY, module({"odd": ("latch", {})}))
    loop = {"a": ("inv", {"A": 1, "Y": 2}), "b": ("inv", {"A": 2, "Y": 1})}
    with pytest.raises(ValueError, match="without loops"):
        Timing(LIBRARY, module(loop)).longest()
    assert FASTEST_SLEW > 0
