"""`diastole board litex` in a SoC that LiteX of the package index builds, without a CPU.

LiteX gets a folder of its own in build/, once. Without the index these tests are skipped. The first
run of the product's README is done over the SoC's bus, in Verilator.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from diastole.backend import cached_product
from diastole.boards.describe import BOARDS, SerialSettings
from diastole.boards.write import write_board
from diastole_sim.host.product import Product
from diastole_sim.system.cache import Cache
from support.litex_host import LitexSoc
from support.products import MACHINES
from support.readme_host import ReadmeHost

SUPPORT = Path(__file__).parents[1] / "support"
PINNED = ("litex==2024.12", "migen==0.10.0")
"""What the index has, and README.md of the board names."""
SETTINGS = SerialSettings(clock_hz=50_000_000, baud=1_000_000, memory_bytes=4096)
BUSY, DONE, ERROR = 1, 2, 4


@pytest.fixture(scope="session")
def litex():
    """The environment of programs that import LiteX."""

    def install(folder):
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "install"]
        done = subprocess.run(
            [*pip, "--no-compile", "--target", folder / "site", *PINNED],
            capture_output=True,
            text=True,
        )
        if done.returncode:
            said = (done.stderr.strip() or "nothing said").splitlines()[-1]
            pytest.skip(f"pip did not install {' '.join(PINNED)}: {said}")

    kept = Cache(Path(__file__).parents[2] / "build" / "litex")
    name = re.sub(r"\W", "-", f"{' '.join(PINNED)} {sys.version_info[:2]}")
    site = kept.get(name, install) / "site"
    return os.environ | {"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture
def board(tmp_path):
    """``board(name)``: the folder of a machine of MACHINES."""

    def made(name):
        product = Product.load(cached_product(MACHINES[name]))
        write_board(BOARDS["litex"], product, tmp_path / name, settings=SETTINGS)
        return tmp_path / name

    return made


# Each bus at the machine's width; the bus that LiteX has unless told otherwise, which is narrower
# than nano's; and wider ones.
@pytest.mark.parametrize(
    "name, standard, width",
    [
        *(("pico", standard, 32) for standard in ("wishbone", "axi-lite", "axi")),
        *(("nano", standard, 128) for standard in ("wishbone", "axi-lite", "axi")),
        ("nano", "wishbone", 32),
        ("nano", "axi", 32),
        ("pico", "wishbone", 64),
        ("pico", "axi-lite", 128),
        ("pico", "axi", 512),
        ("ports", "axi", 128),
    ],
)
def test_first_run_of_the_readme(name, standard, width, litex, board, tmp_path):
    folder = board(name)
    host = ReadmeHost((folder / "product" / "README.md").read_text())
    memory = host.memory()
    where = {"base": min(memory), "size": 1 << 16, "folder": tmp_path}
    soc = LitexSoc(litex, folder, standard=standard, width=width, **where)
    at = {register: soc.registers + offset for register, offset in host.registers.items()}
    for register in ("MAGIC", "VERSION", "CONFIG_HASH"):
        assert soc.read(at[register]) == host.number(rf"{register}\s+\((0x[0-9A-F]+)\)")
    assert soc.about["hash"] == soc.read(at["CONFIG_HASH"])
    for address, content in memory.items():
        soc.write_bytes(address, content)
    for offset, value in host.writes:
        soc.write(soc.registers + offset, value)
    finish(soc, at)
    assert soc.read(at["STATUS"]) == DONE
    for what in (each for each in host.places if each.startswith("image")):
        assert soc.read_bytes(*host.places[what]) == host.dumped(what), what
    found = host.result(soc.read_bytes)
    assert np.isfinite(found).all()
    assert " ".join(f"{value:g}" for value in found[0].tolist()) in host.text
    if "Y is exactly X W." in host.text:
        assert (found == host.operand("X") @ host.operand("W")).all()
    assert soc.read(soc.about["csrs"]["diastole"]) == 1, "the event follows the interrupt"
    soc.write(at["STATUS"], DONE)
    assert soc.read(soc.about["csrs"]["diastole"]) == 0
    refuses_what_is_beyond(soc, at, host)
    failed, _ = soc.access(at["MAGIC"], 0)
    assert failed == (standard != "axi"), "read only; LiteX answers for slaves of an AXI bus itself"


def finish(soc, at):
    for _ in range(5000):
        if not soc.read(at["STATUS"]) & BUSY:
            return
        soc.wait(20)
    pytest.fail("the machine is busy for ever")


def refuses_what_is_beyond(soc, at, host):
    """Commands at an address of 33 bits are not those at its lower 32 bits."""
    for register in ("READ_LIMIT", "WRITE_LIMIT"):
        soc.write(at[register] + 4, 0xFF)
    soc.write(at["COMMAND_ADDRESS"] + 4, 1)
    soc.write(at["CONTROL"], 1)
    finish(soc, at)
    assert soc.read(at["STATUS"]) == ERROR
    codes = {row[1]: int(row[0]) for row in host.tables["code", "name", "meaning"]}
    assert soc.read(at["ERROR_CODE"]) == codes["READ_RESPONSE"]


@pytest.mark.parametrize("seed", range(3))
def test_adapters_of_every_width(seed, litex, board):
    words = [sys.executable, SUPPORT / "litex_units.py", board("pico"), seed]
    done = subprocess.run(list(map(str, words)), env=litex, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "24 cases\n"), done.stderr[-2000:]
