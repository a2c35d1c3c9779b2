"""The host of a board with Linux, as its Makefile compiles it, on the simulated product.

Register by register it does what the same program does in simulation, with the same memory at each
write.
"""

import os
import platform
import re
import subprocess
from pathlib import Path

import pytest

from diastole.backend import cached_product
from diastole.boards.describe import BOARDS, SerialSettings
from diastole.boards.write import write_board
from diastole.boards.zynq import BUFFER_NAME, UIO_NAME
from diastole.product.training import STEPS
from diastole_sim.host.product import Product
from diastole_sim.machines.verilator.build import build
from product.test_hosts import PASSED, compile_host
from support.c_library import COMPILERS
from support.products import MACHINES

pytestmark = pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"),
    reason="accesses to registers are seen by the traps of Linux on x86-64",
)
SHIM = Path(__file__).parents[1] / "support" / "linux_shim.c"
SETTINGS = SerialSettings(clock_hz=50_000_000, baud=1_000_000, memory_bytes=4096)
ADDRESS = 0x40_0000_0000


@pytest.fixture(scope="module")
def product():
    return Product.load(cached_product(MACHINES["nvfp4"]))


@pytest.fixture(scope="module")
def shim(product, tmp_path_factory):
    """The library for LD_PRELOAD."""
    library = build(product)
    made = tmp_path_factory.mktemp("shim") / "shim.so"
    command = [COMPILERS[0][0], "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC"]
    command += ["-Wno-maybe-uninitialized"]  # glibc says of `poll` that it only writes there
    link = ["-shared", SHIM, library, f"-Wl,-rpath,{library.parent}", "-ldl", "-o", made]
    subprocess.run([*command, *link], check=True)
    return made


@pytest.fixture
def board(product, tmp_path):
    """A folder with a space in its name."""
    folder = tmp_path / "a board"
    write_board(BOARDS["kv260"], product, folder, settings=SETTINGS)
    return folder


@pytest.fixture
def root(tmp_path):
    """Files of Linux: three UIO devices, the second is the machine; and its buffer."""
    root = tmp_path / "root"
    devices = {"uio0": "axi-pmon", "uio4": UIO_NAME, "uio5": f"{UIO_NAME}-too"}
    for device, name in devices.items():
        put(root / "sys/class/uio" / device / "name", f"{name}\n")
        put(root / "sys/class/uio" / device / "maps/map0/size", "0x0000000000001000\n")
        put(root / "dev" / device, "")
    buffer = root / "sys/class/u-dma-buf" / BUFFER_NAME
    put(buffer / "phys_addr", f"{ADDRESS:#018x}\n")
    put(buffer / "size", f"{1 << 20}\n")
    put(root / "dev" / BUFFER_NAME, "")
    return root


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def compiled(board, *more):
    words = ["make", "-C", board, f"CC={COMPILERS[0][0]}", "CFLAGS=-O2 -Wall -Wextra -Werror"]
    subprocess.run([*words, *more], check=True, capture_output=True)
    return board / "host"


def run(program, root, shim, **more):
    """Status, output, and what was said on standard error."""
    given = {"LD_PRELOAD": str(shim), "SHIM_ROOT": str(root), "SHIM_BUFFER": BUFFER_NAME}
    environment = os.environ | given | more
    done = subprocess.run([program], env=environment, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def test_the_host_does_what_it_does_in_simulation(product, board, root, shim, tmp_path):
    lists = [tmp_path / "board", tmp_path / "simulation"]
    found = run(compiled(board), root, shim, ACCESSES=str(lists[0]))
    assert re.fullmatch(PASSED, found[1]), found
    simulated = compile_host(board / "product" / "sw", build(product))
    environment = os.environ | {"ACCESSES": str(lists[1])}
    done = subprocess.run([simulated], env=environment, capture_output=True, text=True)
    assert found == (0, done.stdout, "")
    accesses = [
        [line for line in path.read_text().splitlines() if not waits(line)] for path in lists
    ]
    assert accesses[0] == accesses[1]
    assert len(accesses[0]) > 20
    hashes = [line.split()[3] for line in accesses[0] if line.startswith("w")]
    runs = 1 + 2 * STEPS  # a product; in each step of training forward, and backward
    same = 1  # the first forward of the training makes what the product has made already
    assert len(set(hashes)) == 2 * runs - same, "as the host fills it, as the machine leaves it"


def waits(line):
    """Looks at STATUS while the machine is busy: the wait on a board has them."""
    return line == "r 010 00000001"


def test_a_program_of_ones_own_and_an_error_of_the_machine(board, root, shim):
    text = (board / "product" / "sw" / "host.c").read_text()
    put(board / "mine.c", text.replace("forward.m = M;", "forward.m = M; address += 1;"))
    status, said, _ = run(compiled(board, "HOST=mine.c"), root, shim)
    assert (status, said) == (1, "an address is not a multiple of a beat\n")


@pytest.mark.parametrize(
    "gone, text",
    [
        ("sys/class/uio/uio4/name", "no device in /sys/class/uio is called diastole: "),
        ("dev/uio4", "/dev/uio4: No such file or directory\n"),
        (
            f"sys/class/u-dma-buf/{BUFFER_NAME}/phys_addr",
            "there is no /sys/class/u-dma-buf/diastole-memory: ",
        ),
        (f"dev/{BUFFER_NAME}", "/dev/diastole-memory: No such file or directory\n"),
    ],
)
def test_what_is_missing_is_said(gone, text, board, root, shim):
    (root / gone).unlink()
    status, said, error = run(compiled(board), root, shim)
    assert (status, said) == (1, "no Diastole machine is at these registers\n")
    assert error.startswith(text)


def test_registers_that_are_too_few(board, root, shim):
    put(root / "sys/class/uio/uio4/maps/map0/size", "0x800\n")
    status, _, error = run(compiled(board), root, shim)
    assert (status, error) == (1, "/dev/uio4 has 2048 bytes of registers, not 4096\n")


def test_an_interrupt_that_does_not_come(board, root, shim):
    status, said, error = run(compiled(board), root, shim, DEAD="1")
    assert (status, said) == (1, "the machine is still busy\n")
    assert error == "the machine is at rest, but its interrupt did not come\n"


def test_another_machine(board, root, shim):
    (header,) = (board / "product" / "sw").glob("*_driver.h")
    header = header.with_name(header.name.replace("_driver", ""))
    text = header.read_text()
    header.write_text(re.sub(r"(RESET_CONFIG_HASH) \w+", r"\1 0x12345678u", text))
    status, said, _ = run(compiled(board), root, shim)
    assert (status, said) == (1, "the machine was generated from another configuration\n")
