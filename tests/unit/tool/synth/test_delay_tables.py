"""Liberty files: tables of one index and of two, read and between their points."""

import re
from math import isfinite

import pytest

from diastole.synth.delay_tables import (
    LibertyError,
    cells_of,
    read_delays,
    read_groups,
    read_library,
    time_unit_ns,
)

TEXT = """
/* a comment { */
library (small) {
  time_unit : "1ns";
  cell (inv) {
    area : 2.5;
    pin (A) { direction : "input"; capacitance : 0.002; }
    pin (Y) {
      direction : "output"; function : "!A"; max_capacitance : 0.5;
      timing () {
        related_pin : "A"; timing_sense : negative_unate; timing_type : combinational;
        cell_rise (shape) {
          index_1 ("0, 1"); index_2 ("0, 2, 4");
          values ( \\
            "0, 2, 4", \\
            "10, 12, 14" \\
          );
        }
        cell_fall (shape) { index_1 ("0, 4"); values ("1, 3"); }
      }
    }
  }
}
"""


def test_what_a_library_says(tmp_path):
    path = tmp_path / "small.lib"
    path.write_text(TEXT)
    library = read_library(path)
    assert list(library) == ["inv"]
    pin_a, pin_y = library["inv"]["A"], library["inv"]["Y"]
    assert (pin_a.capacitance, pin_a.output, pin_a.arcs) == (0.002, False, ())
    assert pin_y.output
    assert (pin_a.max_load, pin_y.max_load) == (None, 0.5)
    (arc,) = pin_y.arcs
    assert (arc.source, arc.sense, arc.kind) == ("A", "negative_unate", "combinational")
    rise, fall = arc.tables["cell_rise"], arc.tables["cell_fall"]
    found = [rise.at(*at) for at in ((0, 0), (1, 4), (0.5, 3), (2, 2), (0, 5))]
    assert found == [0, 14, 8, 22, 5]
    assert [fall.at(9, col) for col in (0, 2, 8)] == [1, 2, 5]


@pytest.mark.parametrize(
    "text, ns", [("1ns", 1), ("10 ps", 0.01), ("1fs", 1e-6), ("1us", 1000), ("", 1)]
)
def test_units_of_time(tmp_path, text, ns):
    path = tmp_path / "small.lib"
    path.write_text(f'library (small) {{ time_unit : "{text}"; }}')
    assert time_unit_ns(read_groups(path)) == ns
    path.write_text('library (small) { time_unit : "a day"; }')
    with pytest.raises(ValueError, match="line 1: time_unit must be a time, such as 1ns, not a d"):
        time_unit_ns(read_groups(path))


def test_another_file(tmp_path):
    path = tmp_path / "other.lib"
    path.write_text("module (x) { a : b; }")
    with pytest.raises(ValueError, match=r"^line 1: there must be a library$"):
        read_library(path)


CAPACITANCE = "capacitance : 0.002;"
BROKEN = {
    # what is there, what stands there instead, the line, what is said
    (CAPACITANCE, "capacitance : lots;"): (7, "capacitance must be a number from 0, not lots"),
    (CAPACITANCE, "capacitance : nan;"): (7, "capacitance must be a number from 0, not nan"),
    (CAPACITANCE, "capacitance : -1;"): (7, "capacitance must be a number from 0, not -1"),
    (CAPACITANCE, 'capacitance : "";'): (7, "capacitance must be a number from 0, not nothing"),
    (CAPACITANCE, "capacitance 0.002;"): (7, 'after capacitance there must be ":" or "("'),
    ("max_capacitance : 0.5;", "max_capacitance : 1e999;"): (
        9, "max_capacitance must be a number from 0, not 1e999",
    ),
    ('"1ns"', '"0ns"'): (4, "time_unit must be a time, such as 1ns, not 0ns"),
    ('"1ns"', '"1.2.3ns"'): (4, "time_unit must be a time, such as 1ns, not 1.2.3ns"),
    ('"0, 2, 4");', '"0, 4, 2");'): (13, "index_2 must rise from point to point, not 0, 4, 2"),
    ('"0, 1"', '"1, 1"'): (13, "index_1 must rise from point to point, not 1, 1"),
    ('"0, 1"', '"0, x"'): (13, "index_1 must be numbers, not x"),
    ('"0, 1"', '"0, \u0661"'): (13, "index_1 must be numbers, not \u0661"),
    ('"10, 12, 14"', '"10, 12"'): (
        14, "values of cell_rise must be as many as the 2 x 3 points of index_1 and index_2, not 5",
    ),
    ('"10, 12, 14"', '"10, 12, inf"'): (14, "values must be numbers, not inf"),
    ('index_1 ("0, 4"); values ("1, 3");', 'values ("1, 3");'): (
        19, "values of cell_fall must be as many as the 1 x 1 points of index_1 and index_2, not 2",
    ),
    ('values ("1, 3");', ""): (
        19, "values of cell_fall must be as many as the 1 x 2 points of index_1 and index_2, not 0",
    ),
    ('values ("1, 3"); }', 'values ("1, 3") }'): (
        19, 'after values(...) there must be ";" before "}"',
    ),
    ('("1, 3"); }', '("1, 3"); '): (24, "the file ends within library of line 3"),
    ('("1, 3"); }', '("1, 3" }'): (24, "the file ends within values of line 19"),
}  # fmt: skip


@pytest.mark.parametrize("change", BROKEN, ids=lambda pair: pair[1] or "nothing")
def test_what_is_wrong_and_in_which_line(tmp_path, change):
    """The first line of the text is empty; a list that goes on in other lines is of its first."""
    before, after = change
    assert TEXT.count(before) == 1
    path = tmp_path / "small.lib"
    path.write_text(TEXT.replace(before, after))
    line, text = BROKEN[change]
    with pytest.raises(LibertyError) as caught:
        read_delays(path)
    assert str(caught.value) == f"line {line}: {text}"


def test_broken_in_any_place(tmp_path):
    """Cut anywhere, and with any character gone or another one: read, or refused with a line."""
    path = tmp_path / "small.lib"
    texts = [TEXT[:place] for place in range(len(TEXT))]
    texts += [
        TEXT[:place] + new + TEXT[place + 1 :]
        for place in range(len(TEXT))
        for new in ("", *'{}();:"x')
    ]
    texts += [
        "\0",
        "library",
        "library (",
        "library (x) {",
        "}",
        '"',
        "library (x) {" + "a (b) {" * 5000,
    ]
    for text in texts:
        path.write_text(text)
        said = refusal_or_tables(path)
        assert re.match(r"line \d+: |$", said), text


def refusal_or_tables(path):
    """What is wrong; empty where every table gives numbers."""
    try:
        cells = cells_of(read_groups(path))
    except LibertyError as error:
        return str(error)
    arcs = [arc for pins in cells.values() for pin in pins.values() for arc in pin.arcs]
    tables = [table for arc in arcs for table in arc.tables.values()]
    return "" if all(isfinite(table.at(0.3, 0.7)) for table in tables) else "no number"


def test_single_values_and_other_groups(tmp_path):
    """A table without an index has one value; tables of other models are not read."""
    fall = 'cell_fall (shape) { index_1 ("0, 4"); values ("1, 3"); }'
    scalar = 'cell_fall (scalar) { values ("7"); } vector (x) { index_1 ("z"); values ("y"); }'
    path = tmp_path / "small.lib"
    path.write_text(TEXT.replace(fall, scalar))
    (arc,) = read_delays(path)[0]["inv"]["Y"].arcs
    assert set(arc.tables) == {"cell_rise", "cell_fall"}
    assert arc.table("cell_fall").at(3, 5) == 7
    with pytest.raises(LibertyError, match=r"^line 10: timing of A must have rise_transition$"):
        arc.table("rise_transition")
