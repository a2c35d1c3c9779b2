"""An exported program, run by the host in C against the Verilog: the memory at the end is that of
the golden machine, at another place in memory."""

import subprocess

import numpy as np
import pytest

from diastole.backend import cached_product, program_limits
from diastole.product.exported_program import exported
from diastole.product.host_view import HostView
from diastole_sim.host.product import Product
from diastole_sim.machines.verilator.build import build
from diastole_sim.program.addresses import relocate
from diastole_sim.program.recipe import Adam
from diastole_sim.program.relocation import address_places
from diastole_sim.program.run import ProgramRun, golden_machine
from diastole_sim.train.loss_scaling import LossScaling
from product.test_graphs import STEPS, programs, several_paths
from product.test_hosts import BOARD, run_host
from product.test_whole_steps import MACHINES
from support.c_library import COMPILERS, STRICT
from support.products import SEED
from support.sweep import sweep

ADDRESS = 0x40_0000_0000
"""First address of the memory of :data:`BOARD`."""
OPTIONS = {"clip": 0.7, "loss_scaling": LossScaling(exponent=3)}


def compiled(folder, config, compiler, *flags):
    """The program of ``train.c`` with a board that is the simulated machine."""
    product = cached_product(config)
    library, name = build(Product.load(product)), config.name
    names = {"DRIVER": f'"{name}_driver.h"', "PORT": f"{name}_port", "BOARD": f"{name}_board"}
    objects = []
    for source, more in (
        (folder / "train.c", flags),
        (BOARD, [f"-D{key}={value}" for key, value in names.items()]),
    ):
        objects.append(folder / f"{source.stem}.o")
        command = [*compiler, *STRICT, f"-I{product / 'sw'}", *more, "-c", source]
        subprocess.run([*command, "-o", objects[-1]], check=True)
    link = [compiler[0], *objects, library, f"-Wl,-rpath,{library.parent}", "-lm"]
    subprocess.run([*link, "-o", folder / "train"], check=True)
    return folder / "train"


@pytest.mark.parametrize(
    "machine, compiler, flags",
    [
        ("1x1", COMPILERS[0], ()),
        sweep("1x1", COMPILERS[1], ("-DSTEPS_OF_A_START=2",)),
        sweep("2x2", COMPILERS[0], ("-DSTEPS_OF_A_START=100",)),
        sweep("delayed", COMPILERS[0], ()),
    ],
)
def test_a_host_in_c_trains(machine, compiler, flags, tmp_path, np_rng):
    config = MACHINES[machine]
    optimiser = Adam(rate=lambda step: 0.01)
    program = programs(machine, several_paths(), np_rng, optimiser, **OPTIONS)
    golden = golden_machine(program, config.numerics, program_limits(config), seed=SEED)
    run = ProgramRun(program=program, machine=golden)
    run.train(STEPS)
    result = run.evaluate()
    expected = golden.read_rows(0, 1, 0, program.memory_bytes)[0].copy()
    relocate(expected, address_places(program), ADDRESS)

    for name, data in exported(HostView.of(config), program, seed=SEED).items():
        (tmp_path / name).write_bytes(data)
    host = compiled(tmp_path, config, compiler, *flags)
    files = {"IMAGE": str(tmp_path / "program.bin"), "RESULT": str(tmp_path / "memory.bin")}
    for environment in ({}, {"POLL": "1"}, {"STALLS": "1"}):
        status, said = run_host(host, **files, **environment)
        assert status == 0, said
        found = np.fromfile(tmp_path / "memory.bin", np.uint8)
        different = np.flatnonzero(found != expected)
        assert not len(different), f"{len(different)} bytes, the first at {different[0]}"
    losses = [line.split()[-1] for line in said.splitlines() if line.startswith("step ")]
    assert losses[-1] == f"{run.losses()[-1]:.6g}"
    words = said.splitlines()[-1].split(": ")
    assert words[0] == "first held-out sample"
    np.testing.assert_allclose(np.array(words[1].split(), float), result[0], rtol=1e-5)


def test_mistakes_of_the_host(tmp_path, np_rng):
    config = MACHINES["1x1"]
    program = programs("1x1", several_paths(), np_rng, Adam(rate=lambda step: 0.01))
    contents = exported(HostView.of(config), program, seed=SEED)
    for name, data in contents.items():
        (tmp_path / name).write_bytes(data)
    host = compiled(tmp_path, config, COMPILERS[0])
    short = tmp_path / "short.bin"
    short.write_bytes(contents["program.bin"][:-1])
    for name, said in (
        ("no.bin", "the memory image no.bin cannot be opened\n"),
        (str(short), f"the memory image {short} has fewer than {program.memory_bytes} bytes\n"),
    ):
        assert run_host(host, IMAGE=name) == (1, said)
    header = contents["program.h"].decode()
    other = header.replace("PROGRAM_CONFIG_HASH 0x", "PROGRAM_CONFIG_HASH 0x1")
    (tmp_path / "program.h").write_text(other)
    folder = cached_product(config) / "sw"
    done = subprocess.run(
        ["gcc", f"-I{folder}", "-c", tmp_path / "train.c", "-o", tmp_path / "t.o"],
        capture_output=True,
        text=True,
    )
    assert done.returncode
    assert "the program was built for a machine of another configuration" in done.stderr
