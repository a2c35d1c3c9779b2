"""Areas and functions out of Liberty files, ours and small ones."""

import os
import re

import pytest

from diastole.errors import BadInput
from diastole.synth.liberty import Library, evaluated
from diastole.synth.targets import PDK

SMALL = """/* cell (commented) {{ area : 1; }} */
library (small) {{
  cell ("BIG") {{
    area : 6.0;
    pin (A) {{ direction : "input"; }}  pin (B) {{ direction : input; }}
    pin (Y) {{ direction : "output"; function : "(A B)'"; }}
  }}
  cell (NAND) {{
    area : 1.5;
    pin (A) {{ direction : "input"; timing () {{ when : "B"; }} }}
    pin (B) {{ direction : "input"; }}
    pin (Y) {{ direction : "output"; function : "{function}"; }}
  }}
  cell (FLOP) {{
    area : 9.0;
    ff (IQ, IQN) {{ clocked_on : "C"; next_state : "D"; }}
    pin (C) {{ direction : "input"; }}  pin (D) {{ direction : "input"; }}
    pin (Q) {{ direction : "output"; function : "IQ"; }}
  }}
}}
"""


def library(folder, function="!(A*B)"):
    path = folder / "small.lib"
    path.write_text(SMALL.format(function=function))
    return path


def test_ours_is_ihps():
    """The unit in which every area of this project is told."""
    text = PDK.read_text()
    (area_um2,) = re.findall(r'cell \("?sg13g2_nand2_1"?\) \{\s+area : ([\d.]+);', text)
    found = Library.read(PDK)
    assert found.nand2_area == float(area_um2) == 7.2576
    assert found.nand2("sg13g2_nand2_1") == 1
    assert found.cells["sg13g2_dfrbpq_1"].sequential
    assert not found.cells["sg13g2_xor2_1"].sequential
    assert {cell.name for cell in found.cells.values() if cell.is_nand2} == {
        "sg13g2_nand2_1",
        "sg13g2_nand2_2",
    }


def test_buffers(tmp_path):
    assert Library.read(PDK).buffers[:2] == ["sg13g2_buf_1", "sg13g2_buf_2"]
    assert Library.read(PDK).buffer == "sg13g2_buf_2"
    assert Library.read(library(tmp_path)).buffer is None


def test_a_small_one(tmp_path):
    found = Library.read(library(tmp_path))
    assert set(found.cells) == {"BIG", "NAND", "FLOP"}
    assert found.nand2_area == 1.5
    assert found.nand2("FLOP") == 6
    assert found.cells["NAND"].inputs == ("A", "B")
    assert found.cells["FLOP"].sequential
    assert not found.cells["FLOP"].is_nand2


@pytest.mark.parametrize("function", ["A*B", "!(A+B)", "A^B", "!A", "!(A*C)"])
def test_only_a_nand_is_the_unit(tmp_path, function):
    assert Library.read(library(tmp_path, function)).nand2_area == 6


def test_what_is_no_library(tmp_path):
    empty = tmp_path / "empty.lib"
    empty.write_text("library (none) { cell (INV) { area : 1; } }")
    with pytest.raises(BadInput, match=r"empty.lib: is not a library of cells with a NAND of two"):
        Library.read(empty)
    with pytest.raises(BadInput, match=r"absent.lib: there is no such file"):
        Library.read(tmp_path / "absent.lib")


@pytest.mark.parametrize(
    "function, true_for",
    [
        ("!(A*B)", {"00", "01", "10"}),
        ("(A B)'", {"00", "01", "10"}),
        ("!A + !B", {"00", "01", "10"}),
        ("A' | B'", {"00", "01", "10"}),
        ("!A&B", {"01"}),
        ("A ^ B", {"01", "10"}),
        ("A + B ^ B", {"10", "11"}),
        ("!(A^B)", {"00", "11"}),
        ("A*1+0", {"10", "11"}),
    ],
)
def test_functions(function, true_for):
    found = {
        f"{a}{b}"
        for a in range(2)
        for b in range(2)
        if evaluated(function, {"A": bool(a), "B": bool(b)})
    }
    assert found == true_for


@pytest.mark.parametrize("function", ["A+C", "A+", "(A", "A)", "A ? B", ""])
def test_what_is_no_function_of_the_pins(function):
    assert evaluated(function, {"A": True, "B": True}) is None


@pytest.mark.parametrize("area", ["lots", "nan", "-2", "1e999", "\u0661", ""])
def test_an_area_that_is_none(tmp_path, area):
    path = tmp_path / "small.lib"
    path.write_text(f"library (x) {{\n/* a\nb */ cell (INV) {{\n area : {area}; }} }}")
    with pytest.raises(BadInput) as caught:
        Library.read(path)
    said = f"line 3: cell INV: area must be a number from 0, not {area or 'nothing'}"
    assert caught.value.problems == (f"{path}: {said}",)


def test_a_pipe_is_no_library(tmp_path):
    """Yosys reads the file after us."""
    os.mkfifo(tmp_path / "pipe.lib")
    with pytest.raises(BadInput, match=r"pipe\.lib: is not a regular file"):
        Library.read(tmp_path / "pipe.lib")
