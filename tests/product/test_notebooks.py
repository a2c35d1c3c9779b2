"""The notebooks of docs/tutorials, executed from beginning to end: every stored output is true."""

import json
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest
from nbformat import v4

from support import notebooks
from support.sources import ROOT

SCRIPT = ROOT / "scripts" / "notebooks.py"
VOLATILE = re.compile(r"0x[0-9a-f]{6,}|/tmp/|/home/|/root/|\d\d:\d\d:\d\d|warning", re.IGNORECASE)


def check(path, cwd):
    """Compare a notebook with what it prints, in a process of its own: event loops and sockets of
    a kernel must not meet the warnings that are errors here."""
    command = [sys.executable, SCRIPT, "--check", path]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True)


def shown(notebook):
    return {cell.id: notebooks.texts(cell) for cell in notebook.cells if cell.cell_type == "code"}


@pytest.mark.parametrize("path", notebooks.NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_outputs_are_what_a_kernel_prints(path, tmp_path):
    done = check(path, tmp_path)
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", notebooks.NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_as_executed_once(path):
    notebook = notebooks.read(path)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert notebook.metadata == notebooks.METADATA
    assert all(cell.metadata == {} for cell in notebook.cells)
    for cell, texts in shown(notebook).items():
        assert texts, f"{cell} shows nothing"
        assert not VOLATILE.search("".join(texts)), cell


def test_the_notebooks_are_these():
    assert [path.stem for path in notebooks.NOTEBOOKS] == ["array", "formats"]


def test_an_untrue_output_is_noticed_and_renewed(tmp_path):
    path = tmp_path / "a.ipynb"
    pieces = "for piece in (a, 7):\n    print(piece, flush=True)"
    cells = [v4.new_code_cell("a = 6", id="first"), v4.new_code_cell(pieces, id="second")]
    cells[1].outputs = [v4.new_output("stream", name="stdout", text="6\n8\n")]
    notebooks.write(path, v4.new_notebook(cells=cells))
    done = check(path, tmp_path)
    assert done.returncode == 1
    expected = "a.ipynb, cell second\nstored:\nstdout: 6\n8\n\nprinted now:\nstdout: 6\n7\n"
    assert expected in done.stderr
    assert "python scripts/notebooks.py renews the stored outputs" in done.stderr
    subprocess.run([sys.executable, SCRIPT, path], check=True, capture_output=True)
    assert shown(notebooks.read(path)) == {"first": [], "second": ["stdout: 6\n7\n"]}


def test_an_error_in_a_cell_is_reported(tmp_path):
    path = tmp_path / "a.ipynb"
    notebooks.write(path, v4.new_notebook(cells=[v4.new_code_cell("1 / 0", id="only")]))
    done = check(path, tmp_path)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr


def test_texts_name_streams_and_kinds_of_pictures():
    stream = v4.new_output("stream", name="stderr", text="a")
    picture = v4.new_output("display_data", data={"text/plain": "<Figure>", "image/png": "AA=="})
    cell = v4.new_code_cell("", outputs=[stream, picture])
    assert notebooks.texts(cell) == ["stderr: a", "image/png, text/plain: <Figure>"]


@pytest.mark.sweep
def test_explain_shows_the_product_of_the_notebook(tmp_path):
    """The command at the end of the notebook draws the same tensors and computes the same Y."""
    outputs = shown(notebooks.read(ROOT / "docs" / "tutorials" / "array.ipynb"))
    program, *words = shlex.split(outputs["explain-code"][0].removeprefix("stdout: "))
    assert program == "diastole"
    subprocess.run([sys.executable, "-m", "diastole", *words], cwd=tmp_path, check=True)
    text = (tmp_path / "page.html").read_text()
    data, _ = json.JSONDecoder().raw_decode(text, text.index('{"machine"'))
    random = np.random.default_rng(0)
    for name in ("X", "W", "dY"):
        given = random.standard_normal((4, 4)).astype(np.float32)
        assert np.array_equal(np.float32(data["inputs"][name]), given), name
    printed = re.findall(r"-?\d+\.\d*", outputs["whole-code"][0])
    assert np.array_equal(np.ravel(data["tensors"]["Y"]["values"]), np.array(printed, float))
