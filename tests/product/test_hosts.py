"""The hosts of a product against the product: its program in C, and its driver in Python."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from diastole.backend import cached_product
from diastole_sim.host.product import Product
from diastole_sim.machines.verilator.build import build
from diastole_sim.machines.verilator.simulation import Simulation
from diastole_sim.machines.verilator.verilator_machine import VerilatorMachine
from support.c_library import COMPILERS, STRICT
from support.products import STEPS_1X1

BOARD = Path(__file__).parents[1] / "support" / "board.c"
BASE = 0x92_3450_0000
PASSED = (
    r"PASS: Y of \d+ x \d+ in [1-9]\d* cycles\n"
    r"PASS: 10 steps of training, loss \S+, then \S+\n"
)


@pytest.fixture(scope="module")
def library(product):
    return build(Product.load(product))


@pytest.fixture
def folder(product, tmp_path):
    """A copy of the product's ``sw``, to be changed."""
    return shutil.copytree(product / "sw", tmp_path / "sw")


def compile_host(folder, library, compiler=COMPILERS[0]):
    """The program of ``host.c`` with a board that is the simulated machine."""
    (driver,) = folder.glob("*_driver.h")
    name = driver.name.removesuffix("_driver.h")
    names = {"DRIVER": f'"{driver.name}"', "PORT": f"{name}_port", "BOARD": f"{name}_board"}
    defines = [f"-D{key}={value}" for key, value in names.items()]
    objects = []
    for source, flags in ((folder / "host.c", []), (BOARD, defines)):
        objects.append(folder / f"{source.stem}.o")
        command = [*compiler, *STRICT, f"-I{folder}", *flags, "-c", source, "-o", objects[-1]]
        subprocess.run(command, check=True)
    program = folder / "host"
    link = [compiler[0], *objects, library, f"-Wl,-rpath,{library.parent}", "-lm"]
    subprocess.run([*link, "-o", program], check=True)
    return program


def run_host(program, **environment):
    """Exit status, and what it printed."""
    given = {**os.environ, **environment}
    done = subprocess.run([program], env=given, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout


def edit(path, old, new):
    text = path.read_text()
    assert re.search(old, text)
    path.write_text(re.sub(old, new, text))


@pytest.mark.parametrize("compiler", COMPILERS, ids=["C", "CXX"])
def test_host_in_c(folder, library, compiler):
    program = compile_host(folder, library, compiler)
    for environment in ({}, {"POLL": "1"}, {"STALLS": "1"}):
        status, said = run_host(program, **environment)
        assert re.fullmatch(PASSED, said), said
        assert status == 0


def test_host_in_c_trains_by_chains(tmp_path):
    """On a machine with a vector unit, which does all of a step."""
    product = cached_product(STEPS_1X1)
    folder = shutil.copytree(product / "sw", tmp_path / "sw")
    program = compile_host(folder, build(Product.load(product)))
    for environment in ({}, {"STALLS": "1"}):
        status, said = run_host(program, **environment)
        assert re.fullmatch(PASSED, said), said
        assert status == 0


def test_host_in_c_sees_a_wrong_step(folder, library):
    edit(
        folder / "host.c", r"get_float\(w, N, row, col\) - rate", "get_float(w, N, row, col) + rate"
    )
    status, said = run_host(compile_host(folder, library))
    assert status == 1
    lines = said.splitlines()
    assert lines[0].startswith("PASS: Y of ")
    assert [line.partition(" is ")[0] for line in lines[1:10]] == [
        f"the loss of step {step}" for step in range(1, 10)
    ]
    assert lines[10].startswith("the loss does not fall: ")
    assert lines[11:] == ["FAIL"]


def test_host_in_c_sees_a_wrong_product(folder, library):
    edit(folder / "host.c", "args.tag = tensor_class", "args.tag = 5, args.m -= 1")
    status, said = run_host(compile_host(folder, library))
    assert status == 1
    assert said.endswith("FAIL\n")


def test_host_in_c_sees_another_configuration(folder, library):
    (driver,) = folder.glob("*_driver.h")
    edit(folder / driver.name.replace("_driver", ""), r"(RESET_CONFIG_HASH) \w+", r"\1 0x12345678u")
    text = "the machine was generated from another configuration\n"
    assert run_host(compile_host(folder, library)) == (1, text)


def test_host_in_c_says_why_the_machine_stopped(folder, library):
    edit(folder / "host.c", r"forward.m = M;", "forward.m = M; address += 1;")
    text = "an address is not a multiple of a beat\n"
    assert run_host(compile_host(folder, library)) == (1, text)


def load_driver(product):
    name = Product.load(product).name
    spec = importlib.util.spec_from_file_location(name, product / "sw" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    # dataclasses find the module by its name
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
    return module


def hexadecimal(product, name):
    return (product / "tb" / "vectors" / f"{name}.hex").read_text().split()


def test_driver_in_python(product):
    """The run of the benches, by registers and memory of the simulated machine; an error, and the
    same run after the reset."""
    driver = load_driver(product)
    given, wanted = (
        b"".join(bytes.fromhex(line)[::-1] for line in hexadecimal(product, name))
        for name in ("memory", "expected")
    )
    with VerilatorMachine(
        product, Simulation(memory_bytes=len(given), memory_base=BASE)
    ) as machine:
        memory = machine.bytes_at(BASE, len(given))
        memory[:] = bytearray(given)
        host = driver.Machine(machine, wait_irq=machine.run)
        host.identify()
        for line in hexadecimal(product, "writes")[:-2]:
            machine.write(int(line[:3], 16), int(line[3:], 16))
        count = host.read("command_count")
        with pytest.raises(driver.MachineError) as caught:
            host.run(BASE, 0)
        assert (caught.value.code, caught.value.index) == (4, 0)
        host.reset()
        assert host.status() == set()
        host.run(BASE, count)
        assert memory.tobytes() == wanted
        assert host.read("cycles_total") > host.read("read_beats") > count
        assert host.read("command_address") == BASE
