"""The page on training: its example runs, and its tables name what there is."""

import re
from pathlib import Path

from diastole_sim.program.chains.activations import ACTIVATIONS
from diastole_sim.program.optimizer_table import OPTIMIZERS
from diastole_sim.spec.registers import WAIT_CAUSES

PAGE = Path(__file__).parents[4] / "docs" / "training.md"


def test_the_example_runs():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names = {}
    exec(code, names)
    assert names["losses"].shape == (3,)
    assert names["logits"].shape == (360, 10)


def test_the_tables_are_complete():
    named = set(re.findall(r"`([\w-]+)`", PAGE.read_text()))
    assert {*ACTIVATIONS, *OPTIMIZERS, *WAIT_CAUSES} <= named
