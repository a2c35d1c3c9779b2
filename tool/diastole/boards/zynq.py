"""Write the files of boards with a Zynq: a block design for Vivado, a device tree and a host for
Linux, as text."""

from dataclasses import dataclass
from typing import Any

from diastole.boards.describe import BOARDS, board_text
from diastole_sim.host.product import Product
from diastole_sim.spec.registers import ADDRESS_SPACE_BITS

MEMORY_BYTES = 16 << 20
"""Size of the buffer that processor and machine share."""
UIO_NAME, BUFFER_NAME = "diastole", "diastole-memory"
"""Names of the registers and of the buffer, in the device tree and under ``/sys/class``."""
_SHELL = """\
{
  "shell_type": "XRT_FLAT",
  "num_slots": "1"
}
"""


@dataclass(frozen=True, kw_only=True)
class Processor:
    """A processor, with the names in Vivado's block design and in Linux's device tree.

    - ``registers``: address of the machine's registers.
    - ``master``, ``slave``: ports of the processor to registers and to memory.
    - ``slave_clocks``: clock pins of both ports.
    - ``interrupt``: number of the shared interrupt.
    - ``properties``: properties of the block, with ``{mhz}``.
    - ``clock_cells``: the clock in the device tree.
    - ``region``: further properties of the FPGA's region in the device tree.
    - ``afi``: device-tree nodes with the widths of the ports, equal to the widths in
      ``properties``.
    - ``labels``: labels that the base tree must have.
    - ``bootgen``: bootgen's name of the family.
    - ``destination``: attribute that bootgen needs before a bitstream.
    - ``load``: commands that apply an overlay.
    """

    ip: str
    board_part: str
    preset: str
    clock: str
    reset: str
    irq: str
    master: str
    slave: str
    slave_clocks: tuple[str, ...]
    registers: int
    interrupt: int
    gic: str
    address_cells: int
    clock_cells: str
    region: str
    afi: str
    labels: tuple[str, ...]
    bootgen: str
    destination: str
    load: str
    properties: tuple[tuple[str, str], ...]


ZYNQ_7000 = Processor(
    ip="processing_system7",
    board_part="*:pynq-z2:*",
    preset='make_external "FIXED_IO, DDR" apply_board_preset "1"',
    clock="FCLK_CLK0",
    reset="FCLK_RESET0_N",
    irq="IRQ_F2P",
    master="M_AXI_GP0",
    slave="S_AXI_HP0",
    slave_clocks=("M_AXI_GP0_ACLK", "S_AXI_HP0_ACLK"),
    registers=0x43C0_0000,
    interrupt=29,
    gic="intc",
    address_cells=1,
    clock_cells="&clkc 15",
    region="",
    afi="""\
  /* S_AXI_HP0, 0: 64 bits. Kernels differ in the name of the property. */
  afi@f8008000 {
    compatible = "xlnx,zynq-afi-fpga";
    reg = <0xf8008000 0x1000>;
    xlnx,afi-width = <0>;
    xlnx,afi-buswidth = <0>;
  };""",
    labels=("fpga_full", "amba", "clkc", "intc"),
    bootgen="zynq",
    destination="",
    load="    sudo fpgautil -b {name}.bit.bin -o {name}.dtbo",
    properties=(
        ("PCW_USE_M_AXI_GP0", "1"),
        ("PCW_USE_S_AXI_HP0", "1"),
        ("PCW_S_AXI_HP0_DATA_WIDTH", "64"),
        ("PCW_EN_CLK0_PORT", "1"),
        ("PCW_EN_RST0_PORT", "1"),
        ("PCW_FPGA0_PERIPHERAL_FREQMHZ", "{mhz}"),
        ("PCW_USE_FABRIC_INTERRUPT", "1"),
        ("PCW_IRQ_F2P_INTR", "1"),
    ),
)
ZYNQ_ULTRASCALE = Processor(
    ip="zynq_ultra_ps_e",
    board_part="*:kv260_som:*",
    preset='apply_board_preset "1"',
    clock="pl_clk0",
    reset="pl_resetn0",
    irq="pl_ps_irq0",
    master="M_AXI_HPM0_FPD",
    slave="S_AXI_HP0_FPD",
    slave_clocks=("maxihpm0_fpd_aclk", "saxihp0_fpd_aclk"),
    registers=0xA000_0000,
    interrupt=89,
    gic="gic",
    address_cells=2,
    clock_cells="&zynqmp_clk 71",
    region="  resets = <&zynqmp_reset 116>;\n",
    afi="""\
  /* Reads (4) and writes (5) of S_AXI_HP0_FPD, 0: 128 bits; M_AXI_HPM0_FPD and M_AXI_HPM1_FPD (14),
   * 0xa00: 128 bits each. */
  afi0 {
    compatible = "xlnx,afi-fpga";
    config-afi = <4 0>, <5 0>, <14 0xa00>;
  };""",
    labels=("fpga_full", "amba", "zynqmp_clk", "zynqmp_reset", "gic"),
    bootgen="zynqmp",
    destination="[destination_device = pl] ",
    load="    sudo mkdir -p /lib/firmware/xilinx/{name}\n"
    "    sudo cp {name}.bit.bin {name}.dtbo shell.json /lib/firmware/xilinx/{name}\n"
    "    sudo xmutil unloadapp; sudo xmutil loadapp {name}",
    properties=(
        ("PSU__USE__M_AXI_GP0", "1"),
        ("PSU__USE__M_AXI_GP1", "0"),
        ("PSU__USE__M_AXI_GP2", "0"),
        ("PSU__MAXIGP0__DATA_WIDTH", "128"),
        ("PSU__USE__S_AXI_GP2", "1"),
        ("PSU__SAXIGP2__DATA_WIDTH", "128"),
        ("PSU__FPGA_PL0_ENABLE", "1"),
        ("PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ", "{mhz}"),
        ("PSU__USE__IRQ0", "1"),
    ),
)
PROCESSORS = {"pynq-z2": ZYNQ_7000, "kv260": ZYNQ_ULTRASCALE}
"""Processors by the name of the board."""


def zynq_files(board: str, product: Product, *, clock_mhz: int) -> dict[str, str]:
    """Return the files by relative path, without the files of the product, which are in
    ``product``."""
    processor, name = PROCESSORS[board], product.name
    values = _values(board, product, clock_mhz)
    bif = f"all:\n{{\n  {processor.destination}{name}.bit\n}}\n"
    files = {
        "build.tcl": board_text("zynq.tcl", **values),
        f"{name}.bif": bif,
        f"{name}.dtso": board_text("zynq.dtso", **values),
        "linux.c": _named(board_text("linux.c", **values), name),
        "Makefile": board_text("linux.mk", **values),
        "README.md": board_text("zynq.md", **values),
    }
    if processor.bootgen == "zynqmp":
        files["shell.json"] = _SHELL
    return files


def _values(board: str, product: Product, clock_mhz: int) -> dict[str, Any]:
    """Return the values of the placeholders ``@NAME@`` of the texts."""
    processor, name = PROCESSORS[board], product.name
    range_bytes = 1 << ADDRESS_SPACE_BITS
    above = [0] * (processor.address_cells - 1)
    reg = (*above, processor.registers, *above, range_bytes)
    return {
        "name": name,
        "board": board,
        "part": BOARDS[board].part,
        "top": product.top,
        "ports": product.memory_ports,
        "sources": "\n".join(f"  product/{_relative(product, path)}" for path in product.sources),
        "registers": f"0x{processor.registers:08X}",
        "registers_range": f"{range_bytes // 1024}K",
        "register_bytes": range_bytes,
        "memory_nets": "\n".join(_memory_nets(product)),
        "memory_bytes": f"{MEMORY_BYTES:#x}",
        "memory_mib": MEMORY_BYTES >> 20,
        "board_part": processor.board_part,
        "ps_ip": processor.ip,
        "ps_preset": processor.preset,
        "ps_properties": "\n".join(
            f"  CONFIG.{key} {value.format(mhz=clock_mhz)}" for key, value in processor.properties
        ),
        "ps_clock": processor.clock,
        "ps_bus_clocks": " \\\n".join(
            f"  [get_bd_pins ps/{pin}]" for pin in processor.slave_clocks
        ),
        "ps_reset": processor.reset,
        "ps_master": processor.master,
        "ps_slave": processor.slave,
        "ps_irq": processor.irq,
        "clock_mhz": clock_mhz,
        "clock_hz": clock_mhz * 1_000_000,
        "period_ns": f"{1000 / clock_mhz:.6f}",
        "bootgen_arch": processor.bootgen,
        "uio_name": UIO_NAME,
        "buffer_name": BUFFER_NAME,
        "unit": f"{processor.registers:x}",
        "reg": " ".join(f"{each:#x}" for each in reg),
        "gic": processor.gic,
        "spi": processor.interrupt,
        "cells": processor.address_cells,
        "clock": processor.clock_cells,
        "region": processor.region,
        "afi": processor.afi,
        "labels": ", ".join(f"`{label}`" for label in processor.labels),
        "load": processor.load.format(name=name),
        "pynq": board_text("pynq.md", name=name, registers=f"0x{processor.registers:08X}"),
    }


def _named(text: str, name: str) -> str:
    """Return a text in C with the names of a machine."""
    return text.replace("machine_", f"{name}_").replace("MACHINE_", f"{name.upper()}_")


def _relative(product: Product, path: object) -> str:
    return str(path).removeprefix(f"{product.directory}/")


def _memory_nets(product: Product) -> list[str]:
    names = ["m_axi", *(f"m_axi{port}" for port in range(1, product.memory_ports))]
    return [
        f"connect_bd_intf_net [get_bd_intf_pins machine/{name}] "
        f"[get_bd_intf_pins memory/S{number:02}_AXI]"
        for number, name in enumerate(names)
    ]
