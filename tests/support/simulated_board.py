"""A whole board in Verilator: the machine, its memory and the bridge, behind the two wires of a
line; and a pseudo-terminal that stands for the cable."""

import ctypes
import os
import select
import threading
import tty
from contextlib import contextmanager, suppress
from pathlib import Path

from diastole_hw.emit.verilog import emit
from diastole_hw.serial.serial_board import SerialBoard
from diastole_sim.host.product import Product
from diastole_sim.machines.verilator.build import run_tool
from diastole_sim.machines.verilator.find import find_compiler, find_verilator, verilator_root
from diastole_sim.system.cache import Cache
from support.verilated import FLAGS, KEPT, LINK_FLAGS, RUNTIME, VERILATOR_FLAGS, key

DIVISOR, CLOCK_HZ = 4, 25_000_000
TOP_FLAGS = [flag for flag in VERILATOR_FLAGS if flag not in ("unit", "Vunit", "--top-module")]
SLICE_CYCLES = 600
QUIET_CYCLES = 400_000
"""After which nothing is simulated until something comes."""
DRIVER = r"""
#include "Vboard.h"
#include "verilated.h"
struct Board {
    VerilatedContext context;
    Vboard top{&context, "board"};
    unsigned sending = 0, left = 0, wait = 0;  // bits that go in
    unsigned heard = 0, place = 0, count = 0;  // bits that come out
    void cycle() {
        top.aclk = 0; top.eval();
        top.aclk = 1; top.eval();
    }
};
extern "C" {
Board* board_new() {
    Board* board = new Board;
    board->top.rx = 1;
    board->top.aresetn = 0;
    for (int n = 0; n < 8; ++n) board->cycle();
    board->top.aresetn = 1;
    return board;
}
void board_delete(Board* board) { board->top.final(); delete board; }
// Octets go in as soon as the line is free; gives how many came out, and how many are left to go.
size_t board_run(Board* b, size_t cycles, const uint8_t* in, size_t count, size_t* gone,
                 uint8_t* out) {
    size_t came = 0;
    *gone = 0;
    while (cycles--) {
        if (b->wait) --b->wait;
        else if (b->left || *gone < count) {
            if (!b->left) { b->sending = 0x100u | in[(*gone)++]; b->left = 10; b->sending <<= 1; }
            b->top.rx = b->sending & 1;
            b->sending >>= 1;
            --b->left;
            b->wait = DIVISOR - 1;
        }
        b->cycle();
        if (!b->place) {
            b->heard = 0;
            b->place = !b->top.tx;
            b->count = DIVISOR + DIVISOR / 2 - 1;
        } else if (b->count) {
            --b->count;
        } else if (b->place < 9) {
            b->heard |= (b->top.tx & 1) << (b->place++ - 1);
            b->count = DIVISOR - 1;
        } else {
            if (b->top.tx) out[came++] = b->heard;
            b->place = 0;
        }
    }
    return came;
}
}
"""


class SimulatedBoard:
    """The board of a product: octets in, octets out, while its clock runs."""

    def __init__(self, product: Product, memory_bytes: int):
        board = SerialBoard(
            top=product.top,
            product_ports=product.ports,
            data_width=product.data_width,
            divisor=DIVISOR,
            memory_bytes=memory_bytes,
            clock_hz=CLOCK_HZ,
        )
        emitted = emit(board, name="board", ports=board.ports)
        self.verilog = emitted.verilog + "".join(each.verilog for each in emitted.memories)
        self.library = ctypes.CDLL(str(_library(product, self.verilog) / "board.so"))
        self.library.board_new.restype = ctypes.c_void_p
        self.library.board_run.restype = ctypes.c_size_t
        self.handle = ctypes.c_void_p(self.library.board_new())
        self.cycles = 0

    def run(self, cycles: int, octets: bytes = b"") -> tuple[bytes, int]:
        """What came out, and how many of ``octets`` have gone in."""
        out, gone = (ctypes.c_uint8 * cycles)(), ctypes.c_size_t()
        came = self.library.board_run(
            self.handle,
            ctypes.c_size_t(cycles),
            octets,
            ctypes.c_size_t(len(octets)),
            ctypes.byref(gone),
            out,
        )
        self.cycles += cycles
        return bytes(out[:came]), gone.value

    def close(self):
        self.library.board_delete(self.handle)


def _library(product: Product, verilog: str) -> Path:
    """The folder of the library, made once for the same text."""
    verilator, compiler = find_verilator(), find_compiler()
    root = verilator_root(verilator)
    include = [f"-I{root / 'include'}", f"-I{root / 'include' / 'vltstd'}"]
    kept = Cache(KEPT)
    tools = f"{verilator.version} {compiler.version} {FLAGS}"
    sources = "".join(path.read_text() for path in product.sources)

    def runtime(folder: Path):
        for name in RUNTIME:
            source = root / "include" / name
            run_tool([compiler.path, *FLAGS, *include, "-c", source, "-o", folder / f"{name}.o"])

    def library(folder: Path):
        (folder / "board.v").write_text(verilog)
        (folder / "driver.cpp").write_text(f"#define DIVISOR {DIVISOR}\n{DRIVER}")
        flags = [*TOP_FLAGS[: TOP_FLAGS.index("--prefix")], "--top-module", "board"]
        command = [verilator.path, *flags, "--prefix", "Vboard", "-Mdir", folder]
        command += [folder / "board.v", *product.sources]
        run_tool(command, env={**os.environ, "VERILATOR_ROOT": str(root)})
        objects = [kept.get(f"runtime-{key(tools)}", runtime) / f"{n}.o" for n in RUNTIME]
        command = [compiler.path, *FLAGS, *include, f"-I{folder}", *LINK_FLAGS]
        cpp = sorted(folder.glob("*.cpp"))
        run_tool([*command, *cpp, *objects, "-o", folder / "board.so"])

    return kept.get(f"board-{key(tools, verilog, sources, DRIVER)}", library)


class Cable:
    """A pseudo-terminal with a board at its other end. ``name``: of the port. ``damage``: of what
    goes over, both ways. ``pull_when``: it ends; ``pull`` ends it."""

    def __init__(self, board: SimulatedBoard, damage=None):
        self.board = board
        self.damage = damage or (lambda octets: octets)
        self.damaged = 0
        self.pull_when = lambda: False
        self._master, slave = os.openpty()
        tty.setraw(slave)
        self.name = os.ttyname(slave)
        self._slave = slave
        self._pulled = threading.Event()
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._thread.start()

    def _through(self, octets: bytes) -> bytes:
        found = self.damage(octets)
        self.damaged += found != octets
        return found

    def _carry(self):
        going, quiet = b"", 0
        while not self._pulled.is_set():
            wait = 0.02 if quiet > QUIET_CYCLES else 0
            if select.select([self._master], [], [], wait)[0]:
                with suppress(OSError):  # of nobody who has the port open
                    going += self._through(os.read(self._master, 65536))
                quiet = 0
            if quiet > QUIET_CYCLES:
                continue
            came, gone = self.board.run(SLICE_CYCLES, going)
            going = going[gone:]
            quiet = 0 if came or gone else quiet + SLICE_CYCLES
            if came:
                os.write(self._master, self._through(came))
            if self.pull_when():
                break
        os.close(self._master)

    def pull(self):
        self._pulled.set()
        self._thread.join()

    def close(self):
        self.pull()
        os.close(self._slave)


@contextmanager
def plugged(board: SimulatedBoard, damage=None):
    cable = Cable(board, damage)
    try:
        yield cable
    finally:
        cable.close()
