"""The folder of a board: whole, and never instead of something else."""

import hashlib
import json

import pytest

from diastole.boards.describe import BOARDS, SerialSettings
from diastole.boards.write import board_files, write_board
from diastole.errors import BadInput
from support.board_products import HASH, write_stub
from support.texts import exactly

SETTINGS = SerialSettings(clock_hz=25_000_000, baud=1_000_000, memory_bytes=4096)


@pytest.fixture
def product(tmp_path):
    return write_stub(tmp_path / "product")


@pytest.mark.parametrize("name", BOARDS)
def test_all_of_a_board(name, product, tmp_path):
    record = write_board(BOARDS[name], product, tmp_path / "out", settings=SETTINGS)
    assert json.loads((tmp_path / "out" / "board.json").read_text()) == record
    assert (record["board"], record["name"], record["config_sha256"]) == (name, "mine", HASH)
    assert (record["baud"] is None) == (name != "ulx3s")
    written = {str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*.*")}
    listed = {file["path"] for file in record["files"]}
    assert written - {"board.json"} <= listed
    for file in record["files"]:
        text = (tmp_path / "out" / file["path"]).read_bytes()
        assert hashlib.sha256(text).hexdigest() == file["sha256"]
    assert {"README.md", "product/manifest.json", "product/rtl/mine.v"} <= listed


def test_another_board_instead(product, tmp_path):
    out = tmp_path / "out"
    write_board(BOARDS["ulx3s"], product, out, settings=SETTINGS)
    write_board(BOARDS["kv260"], product, out, settings=SETTINGS)
    assert not (out / "ulx3s.lpf").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "product"]


def test_something_else_stays(product, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("years of work")
    text = (
        f"{out} exists and is not the folder of a board (no board.json): the folder stays "
        "unchanged; choose another folder"
    )
    for record in (None, "{}", '{"board": "breakfast"}', "[]"):
        if record is not None:
            (out / "board.json").write_text(record)
        with pytest.raises(BadInput, match=exactly(text)):
            write_board(BOARDS["litex"], product, out, settings=SETTINGS)
    assert (out / "thesis.tex").read_text() == "years of work"


def test_the_same_product_gives_the_same_bytes(product):
    for kind in BOARDS.values():
        assert board_files(kind, product, SETTINGS) == board_files(kind, product, SETTINGS)
