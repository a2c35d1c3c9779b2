"""Write the folder of a board: the product, and the files with which a flow builds the board."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import diastole
from diastole.boards.describe import BOARDS, BoardKind, SerialSettings
from diastole.boards.fit import Fit
from diastole.errors import BadInput
from diastole.files.outputs import check_folder
from diastole.product.generate import replace_directory
from diastole_sim.host.product import MANIFEST, Product
from diastole_sim.reading import read_manifest

RECORD = "board.json"


def write_board(
    kind: BoardKind,
    product: Product,
    directory: Path,
    *,
    settings: SerialSettings,
    ask: Callable[[Mapping[str, str]], Fit | None] | None = None,
) -> dict[str, Any]:
    """Write the folder in one step, and return the content of ``board.json``.

    ``settings``: for boards without a serial line, only the clock counts. ``ask`` is called with
    the board's files by path before anything is written, and returns the resources that the files
    take of the chip. An error in ``ask`` leaves no files.

    BadInput if ``directory`` exists and is no folder of a board, for settings that do not fit, and
    for a machine that the board has no place for.
    """
    check_folder(directory)
    refuse_what_is_no_board(directory)
    files = board_files(kind, product, settings)
    fit = None if ask is None else ask(files)
    listed = [file["path"] for file in product.manifest["files"]]
    for path in (*listed, MANIFEST):
        files[f"product/{path}"] = (product.directory / path).read_text(encoding="utf-8")
    record: dict[str, Any] = {
        "board": kind.name,
        "part": kind.part,
        "name": product.name,
        "version": diastole.__version__,
        "config_sha256": product.manifest["config_sha256"],
        "clock_hz": settings.clock_hz,
        "baud": settings.baud if kind.serial else None,
        "memory_bytes": settings.memory_bytes if kind.serial else None,
        "fit": None if fit is None else asdict(fit),
        "files": [
            {"path": path, "sha256": hashlib.sha256(text.encode()).hexdigest()}
            for path, text in sorted(files.items())
        ],
    }
    files[RECORD] = json.dumps(record, indent=2) + "\n"
    replace_directory(directory, files)
    return record


def board_files(kind: BoardKind, product: Product, settings: SerialSettings) -> dict[str, str]:
    """Return the files of a board by path, without the files of the product."""
    if kind.name == "ulx3s":
        from diastole.boards.ulx3s import ulx3s_files  # imports Amaranth

        return ulx3s_files(product, settings)
    if kind.name == "litex":
        from diastole.boards.litex import litex_files

        return litex_files(product)
    from diastole.boards.zynq import zynq_files

    return zynq_files(kind.name, product, clock_mhz=settings.clock_hz // 1_000_000)


def refuse_what_is_no_board(directory: Path) -> None:
    """Raise BadInput if something exists at ``directory`` that :func:`write_board` did not
    write."""
    if not directory.exists():
        return
    if not directory.is_dir():
        raise BadInput(f"{directory}: is a file, not the folder of a board; choose another folder")
    try:
        board = read_manifest(directory / RECORD)["board"]
    except (OSError, ValueError, LookupError, TypeError):
        board = None
    if board not in BOARDS:
        raise BadInput(
            f"{directory} exists and is not the folder of a board (no {RECORD}): the folder "
            "stays unchanged; choose another folder"
        )
