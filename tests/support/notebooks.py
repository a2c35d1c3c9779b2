"""Executes the notebooks of the documents, and compares new outputs with the stored outputs."""

import os
import tempfile
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import nbformat
from matplotlib import font_manager
from nbclient import NotebookClient
from nbformat import NotebookNode
from traitlets.config import Config

from support.sources import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "tutorials").glob("*.ipynb"))
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"file_extension": ".py", "name": "python", "pygments_lexer": "python"},
}
"""Metadata of every stored notebook. A kernel adds its version, which is left out."""
START_SECONDS = 600
CELL_SECONDS = 600
LONGEST_FOLDER = 90
"""Characters. Systems refuse names of sockets above about 100 characters; ports replace them."""


def read(path: Path) -> NotebookNode:
    """Return the notebook of a file. ValidationError if the file is no notebook."""
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return notebook


def write(path: Path, notebook: NotebookNode) -> None:
    """Store a notebook with the metadata of all notebooks."""
    notebook.metadata = nbformat.from_dict(METADATA)
    nbformat.write(notebook, path)


def executed(notebook: NotebookNode) -> NotebookNode:
    """Return a notebook with the outputs of a new kernel of this Python.

    CellExecutionError if a cell raises an error. The kernel works in an empty folder, without the
    settings of the user. Sockets are files of another folder, so kernels side by side share no
    ports.
    """
    fresh = deepcopy(notebook)
    assert font_manager.fontManager.ttflist  # else the first kernel tells that it makes this list
    with (
        tempfile.TemporaryDirectory(prefix="nb", ignore_cleanup_errors=True) as own,
        tempfile.TemporaryDirectory() as work,
    ):
        folders = {
            "IPYTHONDIR": own,
            "JUPYTER_CONFIG_DIR": own,
            "JUPYTER_DATA_DIR": own,
            "JUPYTER_RUNTIME_DIR": own,
            "JUPYTER_PREFER_ENV_PATH": "1",
        }
        removed = ("MPLBACKEND", "PYTHONWARNINGS", "JUPYTER_PATH", "IPYTHON_PATH")
        kept = {name: text for name, text in os.environ.items() if name not in removed}
        sockets = {"transport": "ipc", "ip": f"{own}/k"} if len(own) < LONGEST_FOLDER else {}
        NotebookClient(
            fresh,
            kernel_name="python3",
            startup_timeout=START_SECONDS,
            timeout=CELL_SECONDS,
            record_timing=False,
            coalesce_streams=True,  # a kernel may send a text in pieces
            resources={"metadata": {"path": work}},
            config=Config(KernelManager=sockets),
        ).execute(env=kept | folders)
    return fresh


def texts(cell: NotebookNode) -> list[str]:
    """Return the texts that a cell shows; for a picture its kinds and the text that stands for the
    picture."""
    return [
        f"{output.name}: {output.text}"
        if output.output_type == "stream"
        else f"{', '.join(sorted(output.data))}: {output.data.get('text/plain', '')}"
        for output in cell.get("outputs", ())
    ]


def differences(stored: NotebookNode, fresh: NotebookNode) -> Iterator[str]:
    """Yield a text for every cell whose stored output is not the output of ``fresh``."""
    for old, new in zip(stored.cells, fresh.cells, strict=True):
        if texts(old) != texts(new):
            yield f"cell {old.id}\nstored:\n{_joined(old)}\nprinted now:\n{_joined(new)}"


def _joined(cell: NotebookNode) -> str:
    return "\n".join(texts(cell)) or "nothing"
