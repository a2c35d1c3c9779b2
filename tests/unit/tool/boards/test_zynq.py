"""Boards with a Zynq: ports, addresses and clocks that agree, a script that Tcl runs, and a device
tree that its compiler takes."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from diastole.boards.zynq import MEMORY_BYTES, PROCESSORS, zynq_files
from diastole_sim.spec.registers import ADDRESS_SPACE_BITS
from support.board_products import write_stub

STUBS = Path(__file__).parents[3] / "support" / "vivado.tcl"
CLOCKS = {"pynq-z2": "clkc 15", "kv260": "zynqmp_clk 71"}
"""FCLK_CLK0 and PL0 in the bindings of Linux: dt-bindings, xlnx-zynqmp-clk.h and zynq-7000.txt."""
needs_tcl = pytest.mark.skipif(not shutil.which("tclsh"), reason="tclsh is not on PATH")
needs_dtc = pytest.mark.skipif(
    not all(map(shutil.which, ("dtc", "fdtoverlay", "fdtget"))),
    reason="dtc, fdtoverlay and fdtget are not on PATH: apt-get install device-tree-compiler",
)


@pytest.fixture(params=[(board, ports) for board in PROCESSORS for ports in (1, 2)], ids=str)
def made(request, tmp_path):
    board, ports = request.param
    product = write_stub(tmp_path / "product", memory_ports=ports)
    return board, product, zynq_files(board, product, clock_mhz=75)


@pytest.fixture(params=PROCESSORS)
def folder(request, tmp_path):
    """The files of a board, in a folder with a space in its name."""
    product = write_stub(tmp_path / "product")
    folder = tmp_path / "a board"
    folder.mkdir()
    for path, text in zynq_files(request.param, product, clock_mhz=75).items():
        (folder / path).write_text(text)
    return request.param, folder


def pins(text, kind):
    return re.findall(rf"get_bd_{kind} (\w+/\w+)", text)


def test_every_port_is_connected(made):
    """Those of buses by their bus."""
    _, product, files = made
    wired = pins(files["build.tcl"], "pins") + pins(files["build.tcl"], "intf_pins")
    own = [pin.partition("/")[2] for pin in wired if pin.startswith("machine/")]
    assert len(own) == len(set(own))
    buses = {name for name in own if name.startswith(("s_axil", "m_axi"))}
    ports = {name for name, _, _ in product.ports}
    assert {name.rpartition("_")[0] for name in ports if "_axi" in name} == buses
    assert {name for name in ports if "_axi" not in name} == set(own) - buses


def test_every_pin_of_the_fabric_has_one_net(made):
    board, product, files = made
    text = files["build.tcl"]
    wired = pins(text, "intf_pins")
    assert len(wired) == len(set(wired))
    slaves = [pin for pin in wired if re.match(r"memory/S\d", pin)]
    assert slaves == [f"memory/S{n:02}_AXI" for n in range(product.memory_ports)]
    assert f"CONFIG.NUM_SI {product.memory_ports} " in text
    processor = PROCESSORS[board]
    for pin in (processor.clock, processor.reset, processor.irq, *processor.slave_clocks):
        assert text.count(f"[get_bd_pins ps/{pin}]") == 1
    assert {f"ps/{processor.master}", f"ps/{processor.slave}"} < set(wired)


def test_addresses_and_clocks_are_the_same(made):
    board, _, files = made
    base = PROCESSORS[board].registers
    assert base % (1 << ADDRESS_SPACE_BITS) == 0
    tcl, tree = files["build.tcl"], files["mine.dtso"]
    assert f"-offset 0x{base:08X} -range 4K" in tcl
    assert f"diastole@{base:x} {{" in tree
    cells = re.search(r"generic-uio\";\n +reg = <(.*)>;", tree)[1].split()
    values = [int(cell, 16) for cell in cells]
    assert [value for value in values if value] == [base, 1 << ADDRESS_SPACE_BITS]
    assert len(values) == 2 * PROCESSORS[board].address_cells
    assert f"0x{base:08X}" in files["README.md"]
    (mhz,) = re.findall(r"CONFIG\.\w+_FREQ\w*MHZ (\d+)$", tcl, re.MULTILINE)
    rates = re.findall(r"assigned-clock-rates = <(\d+)>;", tree)
    assert (mhz, rates) == ("75", ["75000000"] * 2)
    assert set(re.findall(r"clocks = <&(.*)>;", tree)) == {CLOCKS[board]}


def test_sources(made):
    _, product, files = made
    named = re.findall(r"^  (product/\S+)$", files["build.tcl"], re.M)
    assert named == [f"product/rtl/{path.name}" for path in product.sources]


def test_names_go_together(made):
    """Of what the tree makes and what the host looks for; of what Vivado writes and Linux loads."""
    board, _, files = made
    tree, host = files["mine.dtso"], files["linux.c"]
    (buffer,) = re.findall(r'device-name = "(.*)";', tree)
    assert f'#define BUFFER "{buffer}"' in host
    (node,) = re.findall(r'(\S+)@\w+ \{\n +compatible = "generic-uio"', tree)
    assert f'#define REGISTERS "{node}"' in host
    assert "uio0" not in host
    assert f"size = <{MEMORY_BYTES:#x}>;" in tree
    assert 'firmware-name = "mine.bit.bin";' in tree
    assert re.search(r"^ +.*\bmine\.bit$", files["mine.bif"], re.MULTILINE)
    assert '#include "mine_driver.h"' in host
    assert ("shell.json" in files) == (board == "kv260")
    for label in re.findall(r"&(\w+)", tree):
        assert f"`{label}`" in files["README.md"]


def run_tcl(board, folder, *, slacks="max 0.1 min 0.05", state="Complete!", bootgen=True):
    """The script in Tcl with stubs: status, what it said on standard error, and the calls."""
    programs = folder.parent / "bin"
    programs.mkdir(exist_ok=True)
    (programs / "tclsh").symlink_to(shutil.which("tclsh"))
    if bootgen:
        script = f'#!/bin/sh\necho "$@" > said; {shutil.which("touch")} mine.bit.bin\n'
        (programs / "bootgen").write_text(script)
        (programs / "bootgen").chmod(0o755)
    calls = folder.parent / "calls"
    environment = {
        "PATH": str(programs), "CALLS": str(calls), "SLACKS": slacks, "STATUS": state,
        "NAME": "mine", "SCRIPT": str(folder / "build.tcl"),
    }  # fmt: skip
    done = subprocess.run(
        [programs / "tclsh", STUBS], env=environment, capture_output=True, text=True
    )
    return done.returncode, done.stderr.partition("\n    while")[0], calls.read_text().splitlines()


def steps(calls):
    return [call.split()[3] for call in calls if call.startswith("launch_runs")]


@needs_tcl
def test_a_bitstream(folder):
    board, folder = folder
    status, error, calls = run_tcl(board, folder)
    assert (status, error) == (0, "")
    assert steps(calls) == ["route_design", "write_bitstream"]
    for name in ("mine.bit", "mine.hwh", "mine.bit.bin"):
        assert (folder / name).is_file(), name
    architecture = {"pynq-z2": "zynq", "kv260": "zynqmp"}[board]
    words = f"-image mine.bif -arch {architecture} -process_bitstream bin -w\n"
    assert (folder / "said").read_text() == words
    assert any(call.startswith("write_hw_platform") and "mine.xsa" in call for call in calls)
    created = [call.split()[-1] for call in calls if call.startswith("create_bd_cell")]
    assert sorted(created) == ["control", "machine", "memory", "ps", "reset"]


@needs_tcl
@pytest.mark.parametrize(
    "slacks, text",
    [
        (
            "max -0.512 min 0.05",
            (
                "setup slack -0.512 ns: 75 MHz are asked for, 72.2 MHz are reached, so there is no "
                "bitstream; ask for less with: diastole board BOARD ... --clock MHZ; the paths are "
                "in timing.txt"
            ),
        ),
        (
            "max 0.3 min -0.021",
            "hold slack -0.021 ns, so there is no bitstream; the paths are in timing.txt",
        ),
        (
            "max {} min {}",
            "no path of delay type max has a clock: the clock of the processor is missing",
        ),
    ],
)
def test_negative_slack_stops_without_a_bitstream(folder, slacks, text):
    board, folder = folder
    failed = "Complete, Failed Timing!"
    status, error, calls = run_tcl(board, folder, slacks=slacks, state=failed)
    assert (status, error) == (1, text.replace("BOARD", board))
    assert steps(calls) == ["route_design"]
    assert not [path for path in folder.rglob("*") if ".bit" in path.name]
    assert any(call.startswith("report_timing_summary") for call in calls)


@needs_tcl
def test_a_run_that_fails(folder):
    board, folder = folder
    status, error, calls = run_tcl(board, folder, state="ERROR")
    assert status == 1
    assert error == "route_design failed: route_design ERROR; see impl_1/runme.log under vivado"
    assert steps(calls) == ["route_design"]


@needs_tcl
def test_without_bootgen(folder):
    board, folder = folder
    status, error, _ = run_tcl(board, folder, bootgen=False)
    assert status == 1
    assert error.startswith("mine.bit.bin is missing, since bootgen (of Vivado or Vitis) is not on")
    assert (folder / "mine.bit").is_file()


BASES = {
    "pynq-z2": (1, "clkc: clock { #clock-cells = <1>; }; intc: gic { #interrupt-cells = <3>; };"),
    "kv260": (
        2,
        (
            "zynqmp_clk: clock { #clock-cells = <1>; };"
            "zynqmp_reset: resets { #reset-cells = <1>; }; gic: gic { #interrupt-cells = <3>; };"
        ),
    ),
}


def test_the_host_is_the_products_own(folder):
    """HOST of the environment, which some shells set to the name of the computer, is no program."""
    _, folder = folder
    names = {**os.environ, "HOST": "a.computer"}
    words = ["make", "-n", "-o", "product/sw/host.c", "host"]
    done = subprocess.run(words, cwd=folder, env=names, capture_output=True, text=True)
    assert (done.returncode, "product/sw/host.c linux.c" in done.stdout) == (0, True), done


@needs_dtc
def test_the_overlay_is_one(folder):
    """It compiles without a warning, applies to a tree with the labels, and makes what is there to
    be found."""
    board, folder = folder
    cells, nodes = BASES[board]
    own = f"#address-cells = <{cells}>; #size-cells = <{cells}>;"
    base = f"/dts-v1/; / {{ {own} fpga_full: fpga {{ }}; amba: axi {{ {own} ranges; }}; {nodes} }};"
    (folder / "base.dts").write_text(base)
    compile_tree = ["dtc", "-@", "-I", "dts", "-O", "dtb", "-o"]
    subprocess.run([*compile_tree, "base.dtb", "base.dts"], cwd=folder, check=True)
    done = subprocess.run(
        ["make", "overlay"], cwd=folder, check=True, capture_output=True, text=True
    )
    assert "arning" not in done.stderr, done.stderr
    merge = ["fdtoverlay", "-i", "base.dtb", "-o", "all.dtb", "mine.dtbo"]
    subprocess.run(merge, cwd=folder, check=True)

    def get(node, name, kind="x"):
        words = ["fdtget", "-t", kind, "all.dtb", node, name]
        done = subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    phandle = get({"pynq-z2": "/clock", "kv260": "/clock"}[board], "phandle")
    number = {"pynq-z2": 15, "kv260": 71}[board]
    machine = f"/axi/diastole@{PROCESSORS[board].registers:x}"
    for node in ("/axi/diastole-clock", machine):
        assert get(node, "assigned-clocks") == f"{phandle} {number:x}"
        assert int(get(node, "assigned-clock-rates", "u")) == 75_000_000
    assert get("/axi/diastole-clock", "compatible", "s") == "xlnx,fclk"
    assert get(machine, "compatible", "s") == "generic-uio"
    assert get(machine, "interrupts", "u") == f"0 {PROCESSORS[board].interrupt} 4"
    assert get("/fpga", "firmware-name", "s") == "mine.bit.bin"
    assert get("/axi/diastole-memory", "compatible", "s") == "ikwzm,u-dma-buf"
    assert get("/axi/diastole-memory", "sync-mode") == "2"
    if board == "kv260":
        # AFIFM2 is of S_AXI_HP0_FPD, width code 0 is 128 bits; of both masters code 2 is.
        assert get("/axi/afi0", "config-afi", "u").split() == "4 0 5 0 14 2560".split()
        assert "CONFIG.PSU__SAXIGP2__DATA_WIDTH 128" in (folder / "build.tcl").read_text()
        assert "CONFIG.PSU__MAXIGP0__DATA_WIDTH 128" in (folder / "build.tcl").read_text()
    else:
        assert get("/axi/afi@f8008000", "compatible", "s") == "xlnx,zynq-afi-fpga"
        assert get("/axi/afi@f8008000", "xlnx,afi-width") == "0"
        assert "CONFIG.PCW_S_AXI_HP0_DATA_WIDTH 64" in (folder / "build.tcl").read_text()
