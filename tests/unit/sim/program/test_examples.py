"""The examples of the page on programs run, and its tables name what there is."""

import re
from pathlib import Path

import pytest

from diastole_sim.program.assembly import AssemblyError, assemble
from diastole_sim.spec.micro import MicroOp
from diastole_sim.spec.stream_table import Kind
from support.numerics import make_numerics
from support.small_programs import make_limits

PAGE = Path(__file__).parents[4] / "docs" / "programs.md"


def test_the_examples_run():
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(code) == 4
    found = {}
    exec("\n".join(code), found)
    numerics = make_numerics(block=8)
    limits = make_limits(numerics, data_width=128, panel_vectors=2048)
    assert found["learn_digits"](numerics, limits, steps=25) > 0.8


def test_the_tables_are_complete():
    text = PAGE.read_text()
    operations = text[text.index("| operation |") : text.index("| operand |")]
    named = set(re.findall(r"`(\w+)`", operations)) - {"log", "a"}
    assert {op.name.lower() for op in MicroOp} <= named
    kinds = set(re.findall(r"`([A-Z0-9_]+)`", text[text.index("| kind |") :]))
    assert {kind.name for kind in Kind} - {"NONE"} <= kinds


def test_the_error_is_the_one_that_is_shown():
    with pytest.raises(AssemblyError) as caught:
        assemble("nop\nnop\nr1 = exp s0", block=4)
    assert f"\n    {caught.value}\n" in PAGE.read_text()
