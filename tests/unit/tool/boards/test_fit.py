"""What a machine takes of a board's chip: counted by hand in small ones, and mapped once."""

import re

import pytest

from diastole.boards import fit as fit_module
from diastole.boards.describe import BOARDS, SerialSettings
from diastole.boards.fit import Fit, find_fit, whole_design
from diastole.boards.ulx3s import ulx3s_files
from diastole.synth.targets import BLOCK_RAMS, DSPS, REGISTERS, SITES
from support.board_products import write_stub

K26 = {SITES: 117_120, REGISTERS: 234_240, BLOCK_RAMS: 288, DSPS: 1_248}
"""AMD DS987, K26 SOM: 117 120 LUTs, 234 240 registers, 144 blocks of 36 kbit, 1 248 DSP slices."""
# An instance of 20 registers; 12 beside it.
BODY = """\
  reg [11:0] own;
  wire [19:0] out;
  mine_cell cell (.clk(aclk), .in(s_axil_wdata[19:0]), .out(out));
  always @(posedge aclk) own <= s_axil_wdata[31:20] ^ out[11:0];
  assign s_axil_rdata = {own, out};
endmodule
module mine_cell (input clk, input [19:0] in, output reg [19:0] out);
  always @(posedge clk) out <= in;
endmodule
"""


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    # not by XDG_CACHE_HOME, where Yosys as WebAssembly keeps what it was compiled to
    monkeypatch.setattr(fit_module, "user_folder", lambda: tmp_path / "cache")


def ask(product, board="kv260", files=None):
    said = []
    return find_fit(BOARDS[board], product, files or {}, said.append), said


def test_a_machine_is_counted_once(tmp_path, monkeypatch):
    product = write_stub(tmp_path / "product", body=BODY)
    fit, said = ask(product)
    assert (fit.device, fit.holds, fit.at_least) == ("k26", K26, False)
    assert (fit.needs[REGISTERS], fit.needs[BLOCK_RAMS], fit.needs[DSPS]) == (32, 0, 0)
    assert 12 <= fit.needs[SITES] <= 32
    assert fit.lacking == []
    assert said[0] == "Yosys counts the resources of mine on a k26, once; the count takes minutes"
    monkeypatch.setattr(fit_module, "synthesise", lambda *_: pytest.fail("asked again"))
    assert ask(product) == (fit, [])
    other = write_stub(tmp_path / "other", body=BODY.replace("[19:0]", "[18:0]"))
    with pytest.raises(pytest.fail.Exception, match="asked again"):
        ask(other)


def test_cells_alone_may_be_too_many(tmp_path):
    """120 x 120 cells of 20 registers, of which the chip has 234 240."""
    fit, _ = ask(write_stub(tmp_path / "product", body=BODY, side=120))
    assert fit.at_least
    assert fit.needs[REGISTERS] == 120 * 120 * 20
    assert fit.lacking == [REGISTERS]
    assert fit.text.startswith("its cells alone take sites ")
    assert "registers 288,000 of 234,240 (123%)" in fit.text


def test_cells_that_are_not_too_many_decide_nothing(tmp_path):
    fit, _ = ask(write_stub(tmp_path / "product", body=BODY, side=2))
    assert not fit.at_least
    assert fit.needs[REGISTERS] == 32


def test_the_memory_of_a_board_counts(tmp_path):
    """64 KiB in blocks of 2 KiB, 18 kbit of which 16 are bytes: 32, which the bridge may add to."""
    product = write_stub(tmp_path / "product", body=BODY)
    settings = SerialSettings(clock_hz=25_000_000, baud=1_000_000, memory_bytes=1 << 16)
    files = ulx3s_files(product, settings)
    design = whole_design(BOARDS["ulx3s"], product, files)
    assert design.top == "mine_board"
    assert re.search(r"^module mine_board\b", design.machine, re.MULTILINE)
    assert "EHXPLLL" not in design.machine + design.memories
    fit, _ = ask(product, "ulx3s", files)
    assert 32 <= fit.needs[BLOCK_RAMS] <= 34
    assert fit.needs[REGISTERS] > 32


def made(vector=None, at_least=False, **needs):
    return Fit(
        device="k26",
        needs={SITES: 0, REGISTERS: 0, BLOCK_RAMS: 0, DSPS: 0} | needs,
        holds=K26,
        vector=vector or {},
        at_least=at_least,
        mapper="yosys 0.70",
    )


def test_what_is_lacking():
    assert made(sites=117_120).lacking == []
    assert made(sites=117_121, dsps=2_000).lacking == [SITES, DSPS]
    assert made(sites=58_560, block_rams=216).fullest == ("block RAMs", 0.75)


def test_without_a_vector_unit():
    large = {"sites": 130_000, "block_rams": 200}
    assert made(**large).without_vector_unit is False
    assert made(vector={SITES: 20_000}, **large).without_vector_unit
    assert not made(vector={SITES: 10_000}, **large).without_vector_unit
    assert not made(vector={SITES: 20_000}, **large | {"block_rams": 300}).without_vector_unit
    assert not made(vector={SITES: 20_000}, at_least=True, **large).without_vector_unit
