"""The recipe of the tables gives what is in the repository, and what was once agreed on."""

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from diastole_sim.spec.function_tables import function_tables
from diastole_sim.spec.functions import FUNCTION_TABLES, TABLES

SCRIPT = Path(__file__).parents[4] / "scripts" / "tables.py"
AGREED = {
    "exp": ((3, 23257903, 126632), "b5f68cace6c00f48"),
    "rcp": ((268435452, -33553293, 259099), "14665389b9eae391"),
    "rsq": ((268435456, -16776860, 97351), "a184e3d4d12dd9e2"),
    "lgg": ((308896272, -12254061, 82132), "63e718a57626ad01"),
}
"""First row, and the first digits of SHA-256 of the rows as little-endian int32."""


@pytest.mark.parametrize("name", AGREED)
def test_tables_are_those_agreed_on(name):
    rows = FUNCTION_TABLES[name].rows
    digest = hashlib.sha256(np.array(rows, "<i4").tobytes()).hexdigest()
    assert (rows[0], digest[:16]) == AGREED[name]


def test_the_recipe_gives_these_tables():
    assert function_tables() == FUNCTION_TABLES


def test_the_script_writes_these_files(tmp_path):
    folder = tmp_path / "some" / "tables"
    done = subprocess.run(
        [sys.executable, SCRIPT, folder], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"wrote the tables to {folder}\n"
    written = {path.name: path.read_text() for path in folder.iterdir()}
    assert written == {path.name: path.read_text() for path in TABLES.iterdir()}
