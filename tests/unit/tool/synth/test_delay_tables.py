"""Liberty files: tables of one index and of two, read and between their points."""

import pytest

from diastole.synth.delay_tables import read_groups, read_library, time_unit_ns

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
    assert (pin_a.most, pin_y.most) == (None, 0.5)
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
    with pytest.raises(ValueError, match="time_unit must be a time, not a day"):
        time_unit_ns(read_groups(path))


def test_another_file(tmp_path):
    path = tmp_path / "other.lib"
    path.write_text("module (x) { a : b; }")
    with pytest.raises(ValueError, match="must be a Liberty file"):
        read_library(path)
