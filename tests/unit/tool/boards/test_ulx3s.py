# amaranth: UnusedElaboratable=no
"""The ULX3S: its clock, its pins, and that everything is connected."""

import os
import re
import subprocess
from dataclasses import replace

import pyslang
import pytest

from diastole.boards.describe import SerialSettings
from diastole.boards.ulx3s import pll_divisors, ulx3s_files
from diastole.errors import BadInput
from support.board_products import write_stub
from support.texts import exactly

SETTINGS = SerialSettings(clock_hz=50_000_000, baud=1_000_000, memory_bytes=8192)


@pytest.fixture(scope="module")
def product(tmp_path_factory):
    return write_stub(tmp_path_factory.mktemp("ulx3s") / "product")


@pytest.fixture(scope="module")
def files(product):
    return ulx3s_files(product, SETTINGS)


@pytest.mark.parametrize("mhz", [25, 50, 75, 100, 125])
def test_clocks(mhz):
    clki, clkfb, clkop = pll_divisors(mhz)
    assert 25 * clkfb == mhz * clki
    assert 25 / clki >= 10
    assert 400 <= mhz * clkop <= 800


@pytest.mark.parametrize("mhz", [1, 26, 33, 900])
def test_clocks_that_it_cannot_make(mhz):
    text = (
        "--clock of ulx3s must be a frequency that the PLL makes from 25 MHz, such as 25, "
        f"50 or 75, not {mhz}"
    )
    with pytest.raises(BadInput, match=exactly(text)):
        pll_divisors(mhz)


def connections(text, module, instance):
    """Ports of an instance."""
    body = re.search(rf"{module}\s*(?:#\(.*?\) )?{instance} \((.*?)\);", text, re.DOTALL)[1]
    return re.findall(r"\.(\w+)\(", body)


def test_the_machine_is_connected(product, files):
    wired = connections(files["rtl/mine_board.v"], "mine", "machine")
    assert sorted(wired) == sorted(name for name, _, _ in product.ports)


def test_the_board_is_connected(files):
    wired = connections(files["rtl/ulx3s.v"], "mine_board", "board")
    declared = re.search(r"module mine_board\(?\s*(.*?)\);", files["rtl/mine_board.v"], re.DOTALL)
    assert sorted(wired) == sorted(re.findall(r"\b(aclk|aresetn|rx|tx|irq)\b", declared[1]))
    assert ".CLKOP_DIV(12)" in files["rtl/ulx3s.v"]
    assert ".CLKFB_DIV(2)" in files["rtl/ulx3s.v"]


def test_the_verilog_is_verilog(files):
    for path, text in files.items():
        if path.endswith(".v"):
            assert not list(pyslang.syntax.SyntaxTree.fromText(text).diagnostics), path


def test_every_pin_has_its_place(files):
    ports = re.findall(r"^  (?:input|output) (?:\[(\d):0\] )?(\w+)", files["rtl/ulx3s.v"], re.M)
    bits = {
        f"{name}[{bit}]" if high else name
        for high, name in ports
        for bit in range(int(high or 0) + 1)
    }
    located = re.findall(r'LOCATE COMP "(\S+)" SITE "(\w+)"', files["ulx3s.lpf"])
    assert {port for port, _ in located} == bits
    assert len({site for _, site in located}) == len(located) == len(bits)
    assert set(re.findall(r'IOBUF PORT "(\S+)"', files["ulx3s.lpf"])) == bits


def test_sources_are_there(product, files):
    named = re.findall(r"\S+\.v\b", files["Makefile"].partition("all:")[0])
    there = {path for path in files if path.endswith(".v")}
    there |= {f"product/rtl/{path.name}" for path in product.sources}
    assert set(named) == there
    assert len(named) == len(there)


ROUTER = """\
#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in --textcfg) touch "$2";; --timing-allow-fail) MISSED=0;; esac
  shift
done
echo "ERROR: Max frequency for clock 'aclk': 41.07 MHz (FAIL at 50.00 MHz)"
exit $MISSED
"""


@pytest.mark.parametrize("missed", [0, 1])
def test_a_clock_that_is_missed_gives_no_bitstream(files, tmp_path, missed):
    """Programs that do nothing, and a router that writes its layout, as nextpnr does, but fails."""
    for name, text in {
        "yosys": "#!/bin/sh\ntouch ulx3s.json.new\n",
        "nextpnr": ROUTER,
        "ecppack": '#!/bin/sh\ntouch "$3"\n',
    }.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "Makefile").write_text(files["Makefile"])
    (tmp_path / "ulx3s.lpf").touch()
    words = ["make", *(f"{name.upper()}={tmp_path / name}" for name in ("yosys", "nextpnr"))]
    done = subprocess.run(
        [*words, f"ECPPACK={tmp_path / 'ecppack'}", "SOURCES="],
        cwd=tmp_path,
        env=os.environ | {"MISSED": str(missed)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode != 0) == bool(missed), done.stderr
    assert (tmp_path / "ulx3s.bit").exists() == (not missed)
    assert (tmp_path / "ulx3s.config").exists() == (not missed)
    assert "41.07 MHz (FAIL at 50.00 MHz)" in done.stdout


def test_what_has_no_place(tmp_path):
    product = write_stub(tmp_path / "two", memory_ports=2)
    text = (
        "mine has 2 ports to memory, but ulx3s has a single port: give --set bus.ports=1, "
        "or a machine that fits: boards/ulx3s/machine.toml (--preset ulx3s)"
    )
    with pytest.raises(BadInput, match=exactly(text)):
        ulx3s_files(product, SETTINGS)
    product = write_stub(tmp_path / "odd")
    odd = replace(product, ports=(*product.ports, ("more", "output", 1)))
    text = "mine cannot go on a board, because these ports do not belong to a machine: more"
    with pytest.raises(BadInput, match=exactly(text)):
        ulx3s_files(odd, SETTINGS)
