"""The machine of the playground in WebAssembly: products against the numpy golden model, ten steps
and the host against the same host on this computer, and the page as the site has it.

The first run installs the compiler and compiles the module.
"""

import json
import re
import shutil

import numpy as np
import pytest

from diastole.backend import cached_product
from diastole.config.presets import PRESETS
from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.host.product import Product
from diastole_sim.machines.verilator.build import build
from diastole_sim.spec.operations import OPERATIONS
from diastole_sim.system import children
from support.c_library import COMPILERS
from support.pages import CHROMIUM, left_in
from support.playground import PAGE, bits, in_node, page_text, script

SEED = 5
SIZES = ({"m": 5, "k": 9, "n": 7}, {"m": 1, "k": 1, "n": 1}, {"m": 16, "k": 16, "n": 16})
AXES = {"X": "mk", "W": "kn", "dY": "mn"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of pico.js, and its content."""
    playground = script("playground")
    folder = tmp_path_factory.mktemp("site") / "playground"
    playground.write(folder)
    pico = json.loads(re.search(r"const PICO = (.*);", (folder / playground.SCRIPT).read_text())[1])
    if "missing" in pico:
        pytest.skip(f"no compiler for WebAssembly: pip does not install {pico['missing']}")
    return folder, pico


def test_products(tmp_path, made, rng):
    cases, wanted = [], []
    for number, sizes in enumerate(SIZES):
        device = NumpyDevice(PRESETS["pico"].numerics, seed=SEED + number)
        random = np.random.default_rng(rng.getrandbits(32))
        floats = {
            name: random.standard_normal([sizes[axis] for axis in axes]).astype("f4")
            for name, axes in AXES.items()
        }
        for name, operation in OPERATIONS.items():
            stored = [
                device.convert(floats[each], each.lower(), tag=list(AXES).index(each), step=number)
                for each in operation.operand_names
            ]
            values = getattr(device, name)(*stored).values
            wanted.append({each: bits(result) for each, result in values.items()})
            operands = {each: bits(floats[each]) for each in operation.operand_names}
            key = {"seed": SEED + number, "step": number}
            cases.append({"operation": name, "operands": operands, "key": key})
    found = in_node("products", tmp_path, {"pico": made[1], "cases": cases})
    for case, each, want in zip(cases, found, wanted, strict=True):
        assert each["results"] == want, case
        assert each["strays"] == [0, 0]
        # Samples are what the machine counts itself.
        assert each["registers"] == [each["running"], each["busy"]]
        assert 0 < each["busy"] < each["running"] < each["cycles"]
        for name, rows in case["operands"].items():
            assert each["read"][name] == len(rows) * len(rows[0])
        for name, rows in want.items():
            assert each["written"][name] == len(rows) * len(rows[0])


def test_training_and_the_host(tmp_path, made):
    """Host and machine print the same on this computer, cycles too."""
    _, pico = made
    found = in_node("training", tmp_path, pico)
    assert [step["loss"] for step in found["steps"]] == pico["facts"]["losses"]
    assert found["steps"][-1]["end"] == found["cycles"]
    assert [step["loss"] for step in found["again"]] == pico["facts"]["losses"]
    folder = shutil.copytree(cached_product(PRESETS["pico"]) / "sw", tmp_path / "sw")
    library = build(Product.load(cached_product(PRESETS["pico"])))
    program = native_host(folder, library)
    done = children.run([program], text=True)
    assert (done.returncode, done.stdout) == (0, found["host"]["words"])
    assert found["host"]["status"] == 0
    assert done.stdout.startswith("PASS: Y of 5 x 9 in ")


def native_host(folder, library):
    """The program of host.c with the simulated machine of this computer as the board."""
    board = PAGE.parents[1] / "tests" / "support" / "board.c"
    names = {"DRIVER": '"diastole_pico_driver.h"', "PORT": "diastole_pico_port"}
    names["BOARD"] = "diastole_pico_board"
    defines = [f"-D{name}={value}" for name, value in names.items()]
    command = [*COMPILERS[0], f"-I{folder}", *defines, folder / "host.c", board, "-x", "none"]
    command += [library, f"-Wl,-rpath,{library.parent}", "-lm", "-o", folder / "host"]
    done = children.run(command, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "host"


@pytest.mark.parametrize("browser", CHROMIUM[:1])
def test_the_page_in_a_browser(tmp_path, made, browser):
    shutil.copytree(made[0], tmp_path / "playground")
    for path in PAGE.glob("*.js"):
        shutil.copy(path, tmp_path / "playground")
    page = tmp_path / "page.html"
    page.write_text(page_text(), encoding="utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=60000"]
    done = children.run([browser, *flags, "--dump-dom", page.as_uri()], seconds=300)
    found = left_in(done.stdout.decode())
    assert (found["errors"], found["missing"]) == ([], "")
    assert list(found["runs"]) == ["forward", "dx", "dw", "backward", "train"]
    for run in found["runs"].values():
        assert run["good"] == "good", run
        assert (run["error"], run["hidden"], run["wrong"]) == ("", 0, 0)
        assert run["empty"] == run["right"] > 0
